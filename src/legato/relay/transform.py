"""Passes under the names that Relay's users know, and what makes, orders and watches passes.

Each takes an IRModule and gives a new one. They are Legato's passes (`legato.transform`), which want types: inference
is run before each. Of Relay's passes, what exists is here; asking for another name says that it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, Final

from legato.base.errors import CompileError, UnsupportedError
from legato.base.kinds import require_integer, require_sequence
from legato.infer.infer import infer_function
from legato.ir.expr import Expr, Function
from legato.ir.types import Type
from legato.ir.visit import free_vars
from legato.relay import mixed_precision
from legato.relay._changes import ChangeBatch, ChangeDatatype, recast
from legato.relay._continuations import ToCPS, UnCPS, to_cps, un_cps
from legato.relay._external_passes import (
    AnnotateTarget,
    InlineCompilerFunctionsBoundTo,
    MergeCompilerRegions,
    MergeComposite,
    OutlineCompilerFunctionsWithExistingGlobalSymbols,
    PartitionGraph,
)
from legato.relay._flexible import FlexibleShapeDispatch
from legato.relay._forms import (
    DeadCodeElimination,
    Defunctionalization,
    DefuseOps,
    DynamicToStatic,
    EtaExpand,
    FoldConstantExpr,
    Inline,
    InlinePrimitives,
    LambdaLift,
    PartialEvaluate,
    RemoveStandaloneReshapes,
    ToANormalFormExpr,
    ToBasicBlockNormalForm,
)
from legato.relay._gradients import FirstOrderGradient, LazyGradientInit, gradient
from legato.relay._layout_passes import AlterOpLayout, ConvertLayout, InferCorrectLayoutOutput, LayoutConfig
from legato.relay._op_attrs import LEGALIZE
from legato.relay._op_rules import legalized
from legato.relay._operator_passes import (
    BackwardFoldScaleAxis,
    CanonicalizeCast,
    CombineParallelBatchMatmul,
    CombineParallelConv2D,
    CombineParallelDense,
    CombineParallelOpBatch,
    DivToMul,
    FastMath,
    FlattenAtrousConv,
    FoldExplicitPadding,
    FoldScaleAxis,
    ForwardFoldScaleAxis,
    SimplifyFCTranspose,
    SplitArgs,
)
from legato.relay._passes import (
    FunctionPass,
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    PrintIR,
    build_config,
    function_pass,
    module_pass,
)
from legato.relay._spans import CapturePostDfsIndexInSpans, LabelOps
from legato.relay._sparse_passes import Conv2dToSparse, Conv2dToSparse2, DenseToSparse
from legato.relay._steps import of_steps
from legato.relay.devices import PlanDevices
from legato.relay.mixed_precision import ToMixedPrecision
from legato.relay.module import IRModule
from legato.transform.canonicalize import Canonicalize
from legato.transform.eliminate_common import EliminateCommon
from legato.transform.expand_norms import ExpandNorms
from legato.transform.fold_constant import FoldConstant as Fold
from legato.transform.fuse import Fuse
from legato.transform.reassociate import Reassociate
from legato.transform.simplify import Simplify
from legato.transform.to_a_normal import ToANormal
from legato.transform.to_graph import ToGraph

__all__ = ["AlterOpLayout", "AnnotateSpans", "AnnotateTarget", "BackwardFoldScaleAxis",
           "BatchingOps", "CanonicalizeCast", "CanonicalizeOps", "CapturePostDfsIndexInSpans",
           "ChangeBatch", "ChangeDatatype", "CombineParallelBatchMatmul", "CombineParallelConv2D",
           "CombineParallelDense", "CombineParallelOpBatch", "Conv2dToSparse", "Conv2dToSparse2",
           "ConvertLayout", "DeadCodeElimination", "Defunctionalization", "DefuseOps",
           "DenseToSparse", "DivToMul", "DynamicToStatic", "EliminateCommonSubexpr", "EtaExpand",
           "FastMath", "FirstOrderGradient", "FlattenAtrousConv", "FlexibleShapeDispatch", "FoldConstant",
           "FoldConstantExpr", "FoldExplicitPadding", "FoldScaleAxis", "ForwardFoldScaleAxis",
           "FunctionPass", "FuseOps", "InferCorrectLayoutOutput", "InferType", "InferTypeLocal",
           "Inline", "InlineCompilerFunctionsBoundTo", "InlinePrimitives", "LabelOps", "LambdaLift",
           "LayoutConfig", "LazyGradientInit", "Legalize", "MergeCompilerRegions", "MergeComposite",
           "ModulePass", "OutlineCompilerFunctionsWithExistingGlobalSymbols", "PartialEvaluate",
           "PartitionGraph", "Pass", "PassContext", "PassInfo", "PlanDevices", "PrintIR",
           "RemoveStandaloneReshapes", "RemoveUnusedFunctions", "Sequential", "SimplifyExpr",
           "SimplifyFCTranspose", "SimplifyInference", "SplitArgs", "ToANormalForm",
           "ToANormalFormExpr", "ToBasicBlockNormalForm", "ToCPS", "ToGraphNormalForm",
           "ToMixedPrecision", "UnCPS", "build_config", "function_pass", "gradient",
           "mixed_precision", "module_pass", "recast", "to_cps", "un_cps"]  # fmt: skip


def InferType() -> Pass:
    """Types for everything; TypeCheckError with every independent mistake."""
    return of_steps("InferType", 0, ())


def FoldConstant(fold_qnn: bool = False) -> Pass:
    """What depends on constants alone is computed; with `fold_qnn` quantised operators, too."""
    return of_steps("FoldConstant", 2, (Fold(quantised=fold_qnn),))


def EliminateCommonSubexpr(fskip: Callable[[Expr], bool] | None = None) -> Pass:
    """The same computation in several places is done once."""
    if fskip is not None:
        raise UnsupportedError("fskip is not supported", hint="mark operators as stateful in their records instead")
    return of_steps("EliminateCommonSubexpr", 3, (EliminateCommon(),))


def SimplifyExpr(rounds: bool = False) -> Pass:
    """Algebraic identities that hold bit for bit; if `rounds`, those of Relay's, too, that nearly hold: sums and
    products of floats with constants, and squares, are formed otherwise."""
    return of_steps("SimplifyExpr", 0, (Simplify(), Reassociate(), Simplify()) if rounds else (Simplify(),))


def SimplifyInference() -> Pass:
    """Norms as arithmetic, of whatever parameters; dropout is nothing. Here bias_add is an addition as well."""
    return of_steps("SimplifyInference", 0, (Canonicalize(computed=True), ExpandNorms()))


def CanonicalizeOps() -> Pass:
    """bias_add as an addition; here the same pass as SimplifyInference."""
    return of_steps("CanonicalizeOps", 3, (Canonicalize(),))


def ToANormalForm() -> Pass:
    """Every computation is bound by a let, in the innermost scope that holds its uses."""
    return of_steps("ToANormalForm", 1, (ToANormal(),))


def ToGraphNormalForm() -> Pass:
    """Let-bound values are written where they are used. (Those of functions that touch references stay.)"""
    return of_steps("ToGraphNormalForm", 1, (ToGraph(),))


def FuseOps(fuse_opt_level: int = -1) -> Pass:
    """Groups of operators become calls of primitive functions; level 0 leaves the program as it is.

    Groups are formed in A-normal form, and the result is in graph form again. How large they grow is the context's
    configuration "relay.FuseOps.max_depth".
    """

    def run(mod: IRModule, context: PassContext) -> IRModule:
        if fuse_opt_level == 0:
            return mod
        fuse = Fuse() if context.max_depth is None else Fuse(max_ops=context.max_depth)
        return of_steps("FuseOps", 0, (ToANormal(), fuse, ToGraph())).transform(mod, context)

    return ModulePass(run, PassInfo(0, "FuseOps"))


def Legalize(legalize_map_attr_name: str = LEGALIZE) -> Pass:
    """Calls become what the rules of `op.register_legalize` and `testing.temp_op_attr.TempOpAttr` make of them.

    CompileError for a name other than "FTVMLegalize".
    """
    if legalize_map_attr_name != LEGALIZE:
        raise CompileError(f"there are no rules called {legalize_map_attr_name}", hint=f"write {LEGALIZE}")
    return ModulePass(lambda mod, context: legalized(mod), PassInfo(1, "Legalize"))


def RemoveUnusedFunctions(entry_functions: Iterable[str] | None = None) -> Pass:
    """Functions that the entry functions (@main) do not reach are left out."""

    def run(mod: IRModule, context: PassContext) -> IRModule:
        from legato.lower.supported import reachable  # on use: nothing else here needs lowering

        module = mod.module
        return IRModule(reachable(module, *(name for name in entry_functions or ("main",) if name in module)))

    return ModulePass(run, PassInfo(1, "RemoveUnusedFunctions"))


def AnnotateSpans() -> Pass:
    """Every node gets its place in the program's text as its span: the module is printed and read back."""

    def run(mod: IRModule, context: PassContext) -> IRModule:
        from legato.relay.parser import parse

        return parse(mod.astext(), "GeneratedSource")

    return ModulePass(run, PassInfo(0, "AnnotateSpans"))


def InferTypeLocal(expr: Expr) -> Type:
    """The type of an expression whose variables are annotated; the globals that it names have to have types."""
    func = infer_function(Function(free_vars(expr), expr))
    return func.body.checked_type


class Sequential(Pass):
    """Passes in order, those that the current context enables, each after the passes that it requires."""

    def __init__(
        self,
        passes: Iterable[Any] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
    ) -> None:
        self.passes = require_sequence(passes or (), "the passes of a sequence", "a list of passes")
        before = require_sequence(required or (), "required", "a list of names of passes")
        self.info = PassInfo(require_integer(opt_level, "opt_level"), name, before)

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        for step in self.passes:
            info = getattr(step, "info", None)
            if info is not None and not context.enables(info):
                continue
            for name in info.required if info is not None else ():
                mod = self.named(name)(mod)
            mod = step(mod)
        return mod

    def named(self, name: str) -> Pass:
        """A pass that another one requires. CompileError where there is none of this name, or it takes arguments."""
        if name not in __all__:
            raise CompileError(_absence(name), hint="`required` has names of this module's passes")
        make = globals()[name]
        needed = [p.name for p in signature(make).parameters.values() if p.default is p.empty]
        if needed:
            hint = "put it into the sequence, in front"
            raise CompileError(f"{name} cannot be required by name: it needs {', '.join(needed)}", hint=hint)
        made: Pass = make()
        return made


def BatchingOps() -> Sequential:
    """Convolutions and products side by side become one each: the three passes CombineParallel… of these."""
    return Sequential(
        [CombineParallelConv2D(), CombineParallelDense(), CombineParallelBatchMatmul()], name="BatchingOps"
    )


_NOT_HERE: Final[Mapping[str, str]] = {
    "BindRelayExprName": "nodes are told by their spans, which importers give the names of the model's nodes",
    "ManifestAlloc": "memory is planned when the module is compiled; Executable.peak_memory says how much",
    "ManifestLifetimes": "memory is planned when the module is compiled; Executable.peak_memory says how much",
    "CollagePartition": "nothing is measured to cut a module: legato.generators.partition takes generators in order",
    "FakeQuantizationToInteger": "codes that become numbers, and codes again, are computed as the program says",
    "MarkCompilerFunctionsAsExtern": "nothing calls lowered functions; a function for a generator stays what it is",
    "QnnCanonicalize": "relay.qnn.transform.CanonicalizeOps is how it is called",
    "QnnLegalize": "relay.qnn.transform.Legalize is how it is called",
    "infer_layout_utils": "relay.transform.InferCorrectLayoutOutput is what it had",
}


def _absence(name: str) -> str:
    why = _NOT_HERE.get(name)
    return f"there is no pass {name}" + (f": {why}" if why else "")


def __getattr__(name: str) -> Any:
    raise AttributeError(_absence(name))

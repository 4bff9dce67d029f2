"""Passes under the names that Relax's users know; `docs/relax_python.md` has a table of what each is made of.

Each takes a module and gives a new one. Most work on graph form, and give A-normal form, with dataflow blocks again
where there were some. Of Relax's passes, what exists is here; a call of another one says why it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.base.errors import CompileError, UnsupportedError
from legato.base.node import post_order, transform
from legato.infer.infer import infer
from legato.ir.expr import Call, Dataflow, Expr, Function
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import Dim
from legato.ops import table
from legato.relax._passes import (
    FunctionPass,
    ModulePass,
    OfModules,
    Pass,
    PassContext,
    PassInfo,
    function_pass,
    module_pass,
)
from legato.relax.block_builder import BlockBuilder
from legato.relax.params import bound_params, graph_function
from legato.relax.ty import as_dim
from legato.relay import transform as relay
from legato.relay.module import IRModule
from legato.transform._call_graph import callees, reachable_from, with_open_calls
from legato.transform._inline import Inliner
from legato.transform.canonicalize import Canonicalize
from legato.transform.combine_matmul import CombineMatmul
from legato.transform.eliminate_common import EliminateCommon
from legato.transform.fold_constant import FoldConstant as Fold
from legato.transform.fold_scale import FoldScale
from legato.transform.fuse import Fuse
from legato.transform.infer_types import InferTypes
from legato.transform.lambda_lift import LambdaLift as Lift
from legato.transform.legalize import Legalize
from legato.transform.low_precision import LowPrecision
from legato.transform.narrow_dims import with_dims
from legato.transform.pass_ import Pass as Step
from legato.transform.read_programs import ReadPrograms
from legato.transform.remove_unused_parameters import RemoveUnusedParameters as RemoveParameters
from legato.transform.resolve_casts import ResolveCasts
from legato.transform.restore_reshapes import RestoreReshapes
from legato.transform.simplify import Simplify
from legato.transform.to_a_normal import ToANormal
from legato.transform.to_dataflow import ToDataflow
from legato.transform.to_graph import ToGraph

__all__ = ["AnnotateTIROpPattern", "AttachGlobalSymbol", "BindParams", "BindSymbolicVars",
           "CallTIRRewrite", "CanonicalizeBindings", "CombineParallelMatmul", "ConvertToDataflow",
           "DeadCodeElimination", "DecomposeOpsForInference", "EliminateCommonSubexpr",
           "FoldBatchnormToConv2D", "FoldConstant", "FunctionPass", "FuseOps", "FuseTIR",
           "InlinePrivateFunctions", "LambdaLift", "LegalizeOps", "ModulePass", "Normalize", "Pass",
           "PassContext", "PassInfo", "RemovePurityChecking", "RemoveRedundantReshape",
           "RemoveUnusedParameters", "RewriteDataflowReshape", "Sequential", "StaticPlanBlockMemory",
           "ToMixedPrecision", "ToNonDataflow", "function_pass", "module_pass"]  # fmt: skip

Run = Callable[[Module], Module]


def _pass(name: str, run: Run) -> Pass:
    """A pass that does `run` to a module with types."""
    return ModulePass(lambda mod, context: IRModule(run(InferTypes()(mod.module))), PassInfo(0, name))


def _steps(*steps: Step) -> Run:
    def run(mod: Module) -> Module:
        for step in steps:
            mod = step(mod)
        return mod

    return run


def _graph_pass(name: str, *steps: Step, keeps_blocks: bool = True) -> Pass:
    """A pass that does `steps` to a module in graph form."""
    made = _steps(ToGraph(), *steps, ToANormal())

    def run(mod: Module) -> Module:
        has_blocks = keeps_blocks and any(_has_block(f) for _, f in mod.graph_functions())
        return ToDataflow(1)(made(mod)) if has_blocks else made(mod)

    return _pass(name, run)


class Sequential(OfModules, relay.Sequential):
    """Passes in order, those that the current context enables, each after the passes that it requires."""

    def named(self, name: str) -> Pass:
        """A pass that another one requires. CompileError where there is none of this name."""
        if name not in __all__:
            raise CompileError(_absence(name), hint="`required` has names of this module's passes")
        made: Pass = globals()[name]()
        return made


def _has_block(func: Function) -> bool:
    return any(isinstance(n, Dataflow) for n in post_order([func.body]))


# ---------------------------------------------------------------------- forms


def Normalize() -> Pass:
    """Every computation is bound to a variable, in the innermost scope that holds its uses."""
    return _pass("Normalize", ToANormal())


def CanonicalizeBindings() -> Pass:
    """A variable bound to another one is that one, a field of a tuple that is known is what it holds, casts that hold
    are gone, and so is what nothing uses."""
    return _graph_pass("CanonicalizeBindings", Canonicalize(), ResolveCasts())


def ToNonDataflow() -> Pass:
    """Bindings of dataflow blocks become bindings of the functions; what nothing uses is gone."""
    return _graph_pass("ToNonDataflow", keeps_blocks=False)


def ConvertToDataflow(min_size: int = 2) -> Pass:
    """Pure bindings that follow each other, at least `min_size`, become a dataflow block."""
    return _pass("ConvertToDataflow", _steps(ToGraph(), ToANormal(), ToDataflow(min_size)))


# ---------------------------------------------------------------------- simplification


def FoldConstant() -> Pass:
    """What depends on constants alone is computed."""
    return _graph_pass("FoldConstant", Fold())


def EliminateCommonSubexpr(call_only: bool = False) -> Pass:
    """The same computation in several places is done once. (call_only: tuples are no computations in any case.)"""
    return _graph_pass("EliminateCommonSubexpr", EliminateCommon())


def DeadCodeElimination(entry_functions: Iterable[str] | None = None) -> Pass:
    """What nothing uses is gone: bindings without effects, and functions that the entry functions do not reach.

    These are @main, and what is not private, where they are not given.
    """
    given = None if entry_functions is None else list(entry_functions)
    clean = _graph_pass("DeadCodeElimination")

    def run(mod: Module) -> Module:
        found = clean(mod)
        public = [gv.name for gv, f in found.graph_functions() if not f.attrs.get("private") or gv.name == "main"]
        return found if given is None and not public else _reached(found, public if given is None else given)

    return _pass("DeadCodeElimination", run)


def _reached(mod: Module, names: Sequence[str]) -> Module:
    """`mod` with the functions and tensor programs that those of these names reach."""
    from legato.lower.supported import reachable  # on use: nothing else here needs lowering

    return reachable(mod, *names)


def RemoveRedundantReshape() -> Pass:
    """Algebraic identities that hold bit for bit, of reshapes among others."""
    return _graph_pass("RemoveRedundantReshape", Simplify())


def DecomposeOpsForInference(func_name: str | None = None) -> Pass:
    """batch_norm and dropout as they act in inference. CompileError for one function alone: it is done to all."""
    if func_name is not None:
        raise CompileError("operators are decomposed in all functions", hint="leave out func_name")
    return _graph_pass("DecomposeOpsForInference", Canonicalize(computed=True))


def FoldBatchnormToConv2D() -> Pass:
    """Scales of channels, those of batch norms among them, move into the constant weights before them."""
    return _graph_pass("FoldBatchnormToConv2D", Canonicalize(), Fold(), FoldScale(), Fold())


def ToMixedPrecision(out_dtype: str = "float32", fp16_input_names: Sequence[str] | None = None) -> Pass:
    """Matrix products and convolutions of bfloat16, with sums of float32. (Relax's had float16.)

    UnsupportedError for another dtype of results, and for inputs to be narrowed.
    """
    if dt.dtype(out_dtype) != dt.float32 or fp16_input_names:
        hint = "results are float32, of inputs as they are"
        raise UnsupportedError(f"mixed precision with results of {out_dtype}", hint=hint)
    return _graph_pass("ToMixedPrecision", LowPrecision())


def CombineParallelMatmul(check: object = None) -> Pass:
    """Products with the same left side, two at least, become one of all their columns; so do equal elementwise
    operators behind them. UnsupportedError for a `check` of which."""
    if check is not None:
        raise UnsupportedError("a check of which products are combined is not supported", hint="leave it out")
    return _graph_pass("CombineParallelMatmul", CombineMatmul(2))


# ---------------------------------------------------------------------- functions


def LambdaLift() -> Pass:
    """Local functions become functions of the module."""
    return _pass("LambdaLift", Lift())


def InlinePrivateFunctions() -> Pass:
    """Private functions that do not call themselves are written in place of their calls, and gone where nothing else
    calls them. Those with constraints stay: these are checked where a call enters."""

    def run(mod: Module) -> Module:
        calls = callees(mod)
        inlined = {
            gv: f
            for gv, f in mod.graph_functions()
            if set(f.attrs) == {"private"} and gv not in reachable_from(calls[gv], calls)
        }
        inline = Inliner(inlined)
        mod = mod.with_functions(
            {gv: inline(f, len(inlined) + 1) if isinstance(f, Function) else f for gv, f in mod.functions.items()}
        )
        kept = [gv.name for gv in mod.functions if gv not in inlined]
        return _reached(mod, kept)

    return _pass("InlinePrivateFunctions", run)


def RemoveUnusedParameters() -> Pass:
    """Parameters that a private function does not use disappear, with what is passed for them."""
    return _pass("RemoveUnusedParameters", RemoveParameters())


def BindParams(func_name: str, params: Mapping[Any, Any]) -> Pass:
    """Parameters of a function, by name or as variables, become constants, and dims that these tell numbers.

    CompileError where there is no such parameter, TypeCheckError where a value does not fit.
    """

    def run(mod: Module) -> Module:
        return bound_params(mod, func_name, params)

    return _pass("BindParams", run)


def BindSymbolicVars(binding_map: Mapping[Any, Any], func_name: str | None = None) -> Pass:
    """Dims of a function, or of all functions, by name or as variables, become numbers or other dims.

    CompileError where no function has such a dim.
    """

    def run(mod: Module) -> Module:
        names = [func_name] if func_name is not None else [gv.name for gv, _ in mod.graph_functions()]
        missing, before = set(binding_map), mod
        for name in names:
            func = graph_function(mod, name)
            own = {v for v in func.type_params if isinstance(v, DimVar)}
            values: dict[DimVar, Dim] = {v: as_dim(d) for k, d in binding_map.items() for v in own if k in (v, v.name)}
            missing -= {k for k in missing for v in values if k in (v, v.name)}
            mod = mod.with_function(mod.var(name), with_dims(func, values)) if values else mod
        if missing:
            odd = ", ".join(str(getattr(k, "name", k)) for k in missing)
            raise CompileError(f"no parameter of {' or '.join(map(str, names))} has the dim {odd}")
        changed = {gv for gv, f in mod.functions.items() if f is not before.functions[gv]}
        return infer(with_open_calls(mod, changed))

    return _pass("BindSymbolicVars", run)


# ---------------------------------------------------------------------- tensor programs


def LegalizeOps(
    customize_legalize_map: Mapping[str, Callable[[BlockBuilder, Call], Expr]] | None = None,
    skip_ops: Iterable[str] | None = None,
    enable_warning: bool = False,
) -> Pass:
    """Every operator becomes a call of a tensor program, which computes it in plain loops.

    An operator of the map becomes what its function (builder, call) -> expression gives, often `builder.call_te(…)`,
    and stays where that has it; those of `skip_ops` stay. Both have operators by the language's names, "nn.relu", or as
    "relax.nn.relu".
    CompileError for one that there is not. (enable_warning: what has no loops stays, and nothing is said.)
    """
    own = {_operator(name): rule for name, rule in (customize_legalize_map or {}).items()}
    legalize = Legalize(frozenset((*map(_operator, skip_ops or ()), *own)))

    def run(mod: Module) -> Module:
        return legalize(_customized(mod, own) if own else mod)

    return _pass("LegalizeOps", run)


def _operator(name: str) -> str:
    found = name.removeprefix("relax.")
    if found not in table():
        raise CompileError(f"there is no operator {found!r}", hint="legato.ops.table() has their names")
    return found


def _customized(mod: Module, own: Mapping[str, Callable[[BlockBuilder, Call], Expr]]) -> Module:
    builder = BlockBuilder(mod)

    def step(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.name not in own:
            return None
        return own[node.op.name](builder, node)

    for gv, func in mod.graph_functions():
        body = transform(func.body, step)
        if body is not func.body:
            builder.update_func(gv, replace(func, body=body, ty=None))
    return builder.get()


def FuseOps(fuse_opt_level: int = -1) -> Pass:
    """Groups of operators become calls of primitive functions; level 0 leaves the program as it is.

    Calls of tensor programs that are tensor expressions are operators, too. How large groups grow is the context's
    configuration "relax.FuseOps.max_depth".
    """

    def run(mod: Module) -> Module:
        if fuse_opt_level == 0:
            return mod
        limit = PassContext.current().max_depth
        fuse = Fuse() if limit is None else Fuse(max_ops=limit)
        return _steps(ToGraph(), ToANormal(), ReadPrograms(), fuse)(mod)

    return _pass("FuseOps", run)


def FuseTIR() -> Pass:
    """Every group that FuseOps made becomes a call of one tensor program."""
    return _pass("FuseTIR", Legalize(groups=True))


def RewriteDataflowReshape() -> Pass:
    """Calls of tensor programs that only give the elements another shape become reshapes, which move nothing."""
    return _pass("RewriteDataflowReshape", RestoreReshapes())


def get_pipeline(name: str = "zero", **options: object) -> Pass:
    """The passes of Relax's pipeline "zero": a tensor program for each group of operators. CompileError for others.

    Compiling needs none of them: it has passes of its own.
    """
    if name != "zero" or options:
        raise CompileError(
            f"there is no pipeline {name!r}", hint='"zero"; relax.build and legato.compile have their own'
        )
    steps = [LegalizeOps(), AnnotateTIROpPattern(), FoldConstant(), FuseOps(), FuseTIR()]
    return Sequential(steps, name="zero_pipeline")


# ---------------------------------------------------------------------- what compiling does


def _settled(name: str) -> Callable[[], Pass]:
    def make() -> Pass:
        return _pass(name, lambda mod: mod)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"The module as it is: {_WHEN_COMPILED[name]}."
    return make


_WHEN_COMPILED: Final[Mapping[str, str]] = {
    "AnnotateTIROpPattern": "what fusion asks of operators is in their records",
    "AttachGlobalSymbol": "a function is known by its name in the module",
    "CallTIRRewrite": "results of tensor programs are allocated when the module is compiled",
    "RemovePurityChecking": "purity is inferred, and stated nowhere",
    "StaticPlanBlockMemory": "memory is planned when the module is compiled; exe.peak_memory says how much",
}
AnnotateTIROpPattern, AttachGlobalSymbol, CallTIRRewrite, RemovePurityChecking, StaticPlanBlockMemory = map(
    _settled, _WHEN_COMPILED
)

_LEAVE_OUT: Final = "leave it out: compiling does what a program needs (docs/from_tvm_relax.md)"
_NOT_HERE: Final[Mapping[str, str]] = {
    "FuseOpsByPattern": "a pattern of relax.dpl cuts regions out by itself: pattern.partition(func, attrs)",
    "MergeCompositeFunctions": "there are no patterns yet",
    "Gradient": "legato.grad, value_and_grad and vjp make the program that computes gradients",
    "DecomposeOpsForTraining": "operators have gradients as they are",
    "ConvertLayout": "layout is a fact of buffers, which lowering decides; types stay logical",
    "OptimizeLayoutTransform": "layout is a fact of buffers, which lowering decides",
    "AlterOpImpl": "schedules and layouts are derived",
    "FastMathTransform": "transcendental functions are vector polynomials with a stated error in any case",
    "RunCodegen": "there are no other code generators",
    "RealizeVDevice": "a program runs on one device",
    "UpdateVDevice": "a program runs on one device",
    "RewriteCUDAGraph": "programs run on the CPU",
    "MetaScheduleTuneIRMod": "schedules are derived, not searched for",
    "MetaScheduleTuneTIR": "schedules are derived, not searched for",
    "MetaScheduleApplyDatabase": "schedules are derived, not searched for",
    "DataflowUseInplaceCalls": "values are overwritten where no use is left, when the module is compiled",
    "VMBuiltinLower": "there is no virtual machine: host functions are native code",
    "VMShapeLower": "there is no virtual machine: host functions are native code",
    "LowerAllocTensor": "memory is planned when the module is compiled",
    "LowerRuntimeBuiltin": "there is no virtual machine: host functions are native code",
    "KillAfterLastUse": "memory is planned when the module is compiled",
    **dict.fromkeys(
        ("AdjustMatmulOrder", "AllocateWorkspace", "AttachAttrLayoutFreeBuffers", "BundleModelParams",
         "ComputePrimValue", "ExpandMatmulOfSum", "ExpandTupleArguments",
         "FuseTransposeMatmul", "LazyGetInput", "LazySetOutput", "LazyTransformParams", "LiftTransformParams",
         "NormalizeGlobalVar", "RemoveUnusedOutputs", "ReorderPermuteDimsAfterConcat", "ReorderTakeAfterMatmul",
         "SpecializePrimFuncBasedOnCallSite", "SplitCallTIRByPattern", "SplitLayoutRewritePreproc", "TopologicalSort",
         "UpdateParamType", "dataflowblock_pass"),
        "not yet",
    ),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    why = _NOT_HERE.get(name)
    if why is None:
        raise AttributeError(_absence(name))

    def refuse(*_: object, **__: object) -> NoReturn:
        raise UnsupportedError(_absence(name), hint=_LEAVE_OUT)

    return refuse


def _absence(name: str) -> str:
    why = _NOT_HERE.get(name)
    return f"there is no pass {name}" + (f": {why}" if why else "")

"""Passes for code generators of others: patterns, annotation, merging of regions, partitioning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from legato.base.errors import CompileError
from legato.base.kinds import require, require_sequence
from legato.generators import Composite
from legato.generators import MergeComposite as Merge
from legato.generators.annotate_target import AnnotateTarget as Annotate
from legato.generators.generator import supports_of
from legato.ir.expr import Function, GlobalVar
from legato.relay._external import generator
from legato.relay._passes import ModulePass, Pass, PassContext, PassInfo
from legato.relay._steps import of_steps
from legato.relay.module import IRModule
from legato.transform._call_graph import callees, reachable_from, values
from legato.transform._external import is_external
from legato.transform._inline import Inliner
from legato.transform.infer_types import InferTypes
from legato.transform.merge_compiler_regions import MergeCompilerRegions as MergeRegions
from legato.transform.outline_external import OutlineExternal
from legato.transform.partition_graph import PartitionGraph as Cut

__all__ = ["AnnotateTarget", "InlineCompilerFunctionsBoundTo", "MergeCompilerRegions", "MergeComposite",
           "OutlineCompilerFunctionsWithExistingGlobalSymbols", "PartitionGraph"]  # fmt: skip


def MergeComposite(pattern_table: Iterable[Composite]) -> Pass:
    """What patterns match becomes functions with the attribute Composite; the first entry that matches counts.

    Entries are (name, pattern) or (name, pattern, check).
    """
    entries = require_sequence(pattern_table, "pattern_table", "entries (name, pattern, check)")
    return of_steps("MergeComposite", 0, (Merge(entries), InferTypes()))


def AnnotateTarget(targets: Any, include_non_call_ops: bool = True) -> Pass:
    """Calls that generators take are put between compiler_begin and compiler_end; the first that takes one gets it.

    targets: a name or several, of generators that are registered (`register_op_attr(op, "target.NAME")`,
    `legato.relay._external`), or generators. A composite function is for the generator that its name begins with.
    """
    given: Sequence[Any] = targets if isinstance(targets, list | tuple) else [targets]
    found = [generator(g) if isinstance(g, str) else g for g in given]
    for g in found:
        require(isinstance(getattr(g, "name", None), str), g, "targets", "names of generators, or generators")
    pairs = tuple((g.name, supports_of(g)) for g in found)
    return of_steps("AnnotateTargetFunc", 0, (Annotate(pairs, include_non_call_ops),))


def MergeCompilerRegions() -> Pass:
    """Neighbouring regions of one generator become one, where nothing has to be computed between them."""
    return of_steps("MergeCompilerRegions", 0, (MergeRegions(),))


def PartitionGraph(mod_name: str = "default", bind_constants: bool = True) -> Pass:
    """Regions become functions of the module, called tvmgen_MODNAME_COMPILER_FUNCTION_NUMBER."""
    return of_steps("PartitionGraph", 0, (Cut(f"tvmgen_{mod_name}_", bind_constants),))


def OutlineCompilerFunctionsWithExistingGlobalSymbols(compiler_filter: str = "") -> Pass:
    """Local functions for generators (for one, where it is named) that have a global_symbol become the module's."""
    name = "OutlineCompilerFunctionsWithExistingGlobalSymbols"
    return of_steps(name, 0, (OutlineExternal(True, compiler_filter),))


def InlineCompilerFunctionsBoundTo(global_vars: Iterable[GlobalVar]) -> Pass:
    """Functions of the module that are for generators are written in place of their calls, and gone: those named."""
    wanted = require_sequence(global_vars, "global_vars", "global variables")
    for gv in wanted:
        require(isinstance(gv, GlobalVar), gv, "global_vars", "global variables: mod.get_global_var(name)")

    def run(mod: IRModule, context: PassContext) -> IRModule:
        module = InferTypes()(mod.module)
        chosen: dict[GlobalVar, Function] = {}
        for gv in wanted:
            func = module.functions.get(gv)
            if not is_external(func):
                raise CompileError(f"@{gv.name} is no function for a generator")
            chosen[gv] = func
        inliner = Inliner(chosen)
        new = module.with_functions(
            {gv: inliner(f) if isinstance(f, Function) else f for gv, f in module.functions.items()}
        )
        live = reachable_from([gv for gv in callees(new) if gv not in chosen], callees(new)) | values(new)
        return IRModule(
            new.with_functions({gv: f for gv, f in new.functions.items() if gv not in chosen or gv in live})
        )

    return ModulePass(run, PassInfo(0, "InlineCompilerFunctionsBoundTo"))

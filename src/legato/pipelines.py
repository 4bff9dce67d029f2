"""The pass lists, as data. Order is a decision: each comment says what holds from there on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from legato.base.errors import CompileError
from legato.base.precision import Precision
from legato.transform.canonicalize import Canonicalize
from legato.transform.canonicalize_qnn import CanonicalizeQnn
from legato.transform.cut_padded import CutPadded
from legato.transform.defunctionalize import Defunctionalize
from legato.transform.dissolve_layouts import DissolveLayouts
from legato.transform.eliminate_common import EliminateCommon
from legato.transform.expand_calls import ExpandCalls
from legato.transform.flatten_match import FlattenMatch
from legato.transform.fold_constant import FoldConstant
from legato.transform.fold_scale import FoldScale
from legato.transform.fuse import Fuse
from legato.transform.infer_types import InferTypes
from legato.transform.inline import Inline
from legato.transform.lambda_lift import LambdaLift
from legato.transform.loops_to_scans import LoopsToScans
from legato.transform.low_precision import LowPrecision
from legato.transform.narrow_dims import NarrowDims
from legato.transform.nest_concats import NestConcats
from legato.transform.outline_branches import OutlineBranches
from legato.transform.pass_ import Pass
from legato.transform.place_shared import PlaceShared
from legato.transform.plan_devices import PlanDevices
from legato.transform.read_programs import ReadPrograms
from legato.transform.resolve_casts import ResolveCasts
from legato.transform.separate_dims import SeparateDims
from legato.transform.simplify import Simplify
from legato.transform.solve_dims import SolveDims
from legato.transform.specialize import Specialize
from legato.transform.to_a_normal import ToANormal
from legato.transform.to_graph import ToGraph
from legato.transform.update_in_place import UpdateInPlace

__all__ = [
    "BY_PRECISION",
    "DEFAULT",
    "OPTIONAL",
    "as_passes",
    "completed",
    "for_bodies",
    "for_precision",
    "without",
]

DEFAULT: tuple[Pass, ...] = (
    InferTypes(),
    # Every expression is typed from here on; passes type what they make.
    CanonicalizeQnn(),
    PlanDevices(),
    # Every tensor lies on one device, where all that read it do: device_copy makes others.
    ExpandCalls(),
    CutPadded(),
    PlaceShared(),
    # Every node that does more than give a value is computed in one place.
    NarrowDims(),
    SolveDims(),
    FlattenMatch(),
    OutlineBranches(),
    LambdaLift(),
    Specialize(),
    Defunctionalize(),
    # No function is a value or has type variables, and matches are flat: first-order form.
    PlanDevices(calls=True),
    # Closures of several devices may have become one function.
    Inline(),
    ResolveCasts(),
    # Every dim is one of the function's own, or brought by a call, a branch, a pattern.
    ToGraph(),
    DissolveLayouts(),
    FoldConstant(),
    Canonicalize(),
    FoldScale(),
    Simplify(),
    FoldConstant(),
    EliminateCommon(),
    ResolveCasts(),
    NestConcats(),
    LoopsToScans(),
    # Loops that are left are calls of functions that call themselves.
    UpdateInPlace(),
    ToANormal(),
    # Every computation is bound once, in the innermost scope that holds its uses.
    SeparateDims(),
    # So is every dim.
    ReadPrograms(),
    Fuse(),
)

# What code can do without: it is slower then, and means the same. Without Fuse every operator is a kernel of its own.
OPTIONAL: Final[tuple[type[Pass], ...]] = (
    NarrowDims,
    FoldConstant,
    Canonicalize,
    FoldScale,
    Simplify,
    EliminateCommon,
    NestConcats,
    LoopsToScans,
    UpdateInPlace,
    ReadPrograms,
    Fuse,
)


def without(passes: Iterable[Pass], left_out: Collection[type[Pass]]) -> tuple[Pass, ...]:
    """`passes` but for those of the classes `left_out`; CompileError for one that code cannot do without."""
    for needed in left_out:
        if needed not in OPTIONAL:
            names = ", ".join(p.name for p in OPTIONAL)
            raise CompileError(f"pass {needed.name} cannot be left out", hint=f"code is made without {names} as well")
    return tuple(p for p in passes if type(p) not in left_out)


def completed(passes: Iterable[Pass]) -> tuple[Pass, ...]:
    """`passes`, and behind them what makes an operator that is in no group a group of its own: they become kernels."""
    found = tuple(passes)
    return found if found and isinstance(found[-1], Fuse) else (*found, Fuse(max_ops=1))


def as_passes(given: object) -> tuple[Pass, ...]:
    """Passes as `legato.compile` takes them: passes, what has one as its `step` (those of `relay.transform`), and texts
    that name them, in which "default" stands for `DEFAULT`. CompileError for anything else."""
    if given is None:
        return DEFAULT
    items = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    return tuple(step for item in items for step in _as_passes(item))


def _as_passes(item: object) -> tuple[Pass, ...]:
    if isinstance(item, str):
        from legato.transform._text import read_passes  # on use: few name passes by text

        return read_passes(item, {"default": DEFAULT})
    step = getattr(item, "step", item)
    if isinstance(step, Pass):
        return (step,)
    hint = "legato.transform has decorators that make passes of functions: @function_pass, @module_pass"
    raise CompileError(f"passes: got {item!r:.80}, wanted passes or their names", hint=hint)


def for_bodies(passes: Iterable[Pass]) -> tuple[tuple[Pass, ...], tuple[Pass, ...]]:
    """`passes` up to where functions are made for sizes of their dims, and those behind: first what sizes that are
    known make simpler. Constants have been folded by then, so that all these functions have the same."""
    found = tuple(passes)
    at = next((n for n, p in enumerate(found) if isinstance(p, LowPrecision | ToANormal | Fuse)), len(found))
    fold = next((p for p in found if isinstance(p, FoldConstant)), FoldConstant())
    return found[:at], (fold, Simplify(), fold, EliminateCommon(), *found[at:])


def for_precision(passes: Iterable[Pass], precision: Precision) -> tuple[Pass, ...]:
    """`passes` as the precision has them: exact, without those that round; else constants are folded as kernels
    compute, which count subnormal numbers as 0. For bfloat16 also the one that narrows: after what simplifies the
    graph, before its casts would be shared between the groups that are to hold them. CompileError for passes without
    it, A-normal form and fusion."""
    if precision is Precision.EXACT:
        return tuple(p for p in passes if not p.rounds)
    found = tuple(replace(p, flush=True) if isinstance(p, FoldConstant) else p for p in passes)
    if precision is not Precision.BFLOAT16:
        return found
    at = next((n for n, p in enumerate(found) if isinstance(p, ToANormal | Fuse)), None)
    if any(isinstance(p, LowPrecision) for p in found):
        return found
    if at is None:
        hint = "it comes before ToANormal and Fuse; put LowPrecision where it belongs"
        raise CompileError("precision bfloat16 needs a pass that these passes have no place for", hint=hint)
    return (*found[:at], LowPrecision(), *found[at:])


BY_PRECISION: Final[Mapping[str, tuple[Pass, ...]]] = {p.value: for_precision(DEFAULT, p) for p in Precision}

"""scan: a step, written in Relay, that is repeated along the first dimension of tensors.

    scan(h, xs, w, states=1, slices=1, steps=n, step="def @main(%t: int32, %h: …, %x: …, %w: …) { … }")

The step's function takes the number of the step, the states before it, the part of each slice for the step, and all
other operands as they are. It gives the states after it, and behind them what is kept of it. Loops become calls of this
operator where they fit (`transform.loops_to_scans`), so that all their steps are one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import legato.te.math as te
import legato.te.scan as scans
from legato.arith.expr import Const, const, min_
from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, TypeCheckError
from legato.base.node import post_order
from legato.infer.infer import infer
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call, Constant, Expr, Function, Let, Tuple, TupleGetItem, Var
from legato.ir.module import Module
from legato.ir.op import Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, TupleType, Type, scalar_type
from legato.ops._rules import at_least, same_dtype, same_shape, tensors
from legato.ops._table import table
from legato.ops._tensors import Array, as_int
from legato.te.graph import computed
from legato.te.scan import Kept
from legato.te.tensor import Tensor, compute

__all__ = ["SequenceAttrs", "is_step", "scan"]


@dataclass(frozen=True, slots=True)
class SequenceAttrs(Attrs):
    """`step`: a module's text; `steps`: how often it runs; `states` and `slices`: how many of the operands are such."""

    step: str
    steps: int | Dim
    states: int = 1
    slices: int = 1


@lru_cache(maxsize=256)
def _module(text: str) -> Module:
    from legato.ir.parser import parse  # hardly any program has a scan

    return infer(parse(text, source="<step>", ops=table()))


@dataclass(frozen=True, slots=True)
class _Step:
    """A step's typed function, what it takes behind its number, and what it gives."""

    func: Function
    params: tuple[TensorType, ...]
    results: tuple[TensorType, ...]


@lru_cache(maxsize=256)
def _step(text: str) -> _Step:
    """The step that a text is; CompileError where it is none."""
    func = _module(text)["main"]
    if not isinstance(func, Function):
        raise TypeCheckError("@main is a loop-level function")
    foreign = next((c for c in post_order([func.body]) if not is_step(c)), None)
    if foreign is not None:
        raise TypeCheckError(f"{foreign!r} is not made of stages")
    number, *params = [p.ty for p in func.params] or [None]
    results = func.ret_type.fields if isinstance(func.ret_type, TupleType) else ()
    known = [ty for ty in (*params, *results) if isinstance(ty, TensorType) and ty.is_static]
    if number != scalar_type(dt.int32) or not results or len(known) < len(params) + len(results):
        raise TypeCheckError("@main takes an int32 and tensors of known extents, and gives a tuple of such tensors")
    return _Step(func, tuple(known[: len(params)]), tuple(known[len(params) :]))


def is_step(node: Expr) -> bool:
    """True for what a step may be made of: calls of operators that are stages, and what these need."""
    match node:
        case Call(op=Op(compute=rule, stateful=False) as op):
            return rule is not None and op.fuses(node.attrs) <= Fusion.CONTRACTION
        case Constant() | Op() | Tuple() | TupleGetItem() | Var() | Let():
            return True
        case _:
            return False


def _relation(rel: Relation, operands: Type, a: SequenceAttrs) -> Type:
    given = tensors(rel, operands, "operands")
    try:
        step = _step(a.step)
    except CompileError as error:
        raise rel.fail(f"the step: {error.message}") from error
    wanted, results = step.params, step.results
    if len(given) != len(wanted):
        raise rel.fail(f"got {len(given)} operands, the step takes {len(wanted)}")
    if not 0 < a.states <= min(len(given), len(results)) or not 0 <= a.slices <= len(given) - a.states:
        raise rel.fail(f"the step has no {a.states} states and {a.slices} slices")
    steps = a.steps if isinstance(a.steps, Dim) else const(a.steps)
    if isinstance(steps, Const) and steps.value < 0:
        raise rel.fail(f"got {steps} steps")
    at_least(rel, steps, 0, "steps")
    for n, (got, want) in enumerate(zip(given, wanted, strict=True)):
        shape = got.shape
        if a.states <= n < a.states + a.slices:
            if not shape:
                raise rel.fail(f"operand {n + 1} is a scalar: it has no slices")
            rel.same(min_(steps, shape[0]), steps, f"steps of operand {n + 1}")
            shape = shape[1:]
        same_shape(rel, shape, want.shape, f"operand {n + 1}")
        same_dtype(rel, got, want)
    for before, after in zip(wanted, results[: a.states], strict=False):
        same_shape(rel, after.shape, before.shape, "a state")
        same_dtype(rel, after, before)
    kept = [TensorType((steps, *t.shape), t.dtype) for t in results[a.states :]]
    return TupleType((*kept, *results[: a.states]))


def _reference(operands: Sequence[Array], a: SequenceAttrs) -> tuple[Array, ...]:
    from legato.interp import evaluate  # only references need it

    step, steps, end = _step(a.step), as_int(a.steps), a.states + a.slices
    values, slices, others = operands[: a.states], operands[a.states : end], operands[end:]
    is_wide = any(v.dtype != t.dtype.numpy for v, t in zip(operands, step.params, strict=True))
    kept: list[list[Array]] = [[] for _ in step.results[a.states :]]
    for t in range(steps):
        arguments = [np.int32(t), *values, *(x[t] for x in slices), *others]
        after = evaluate(_module(a.step), arguments, float64=is_wide)
        values = after[: a.states]
        for parts, value in zip(kept, after[a.states :], strict=True):
            parts.append(value)
    empty = [np.zeros((0, *t.static_shape()), t.dtype.numpy) for t in step.results[a.states :]]
    return (*(np.stack(k) if k else e for k, e in zip(kept, empty, strict=True)), *values)


def _compute(operands: tuple[Tensor, ...], a: SequenceAttrs, out: TupleType) -> tuple[Tensor, ...]:
    func, end = _step(a.step).func, a.states + a.slices
    slices, others = operands[a.states : end], operands[end:]

    def step(t: DimVar, *before: Tensor) -> tuple[Sequence[Tensor], Sequence[Kept]]:
        number = compute((), lambda: te.cast(t, dt.int32), "t")
        parts = [_part(x, t) for x in slices]
        values = dict(zip(func.params, (number, *before, *parts, *others), strict=True))
        after: Any = computed(func.body, values)
        kept = after[a.states :]
        return after[: a.states], [(value, (a.steps, *value.shape), lambda *i: (t, *i)) for value in kept]

    return scans.scan(a.steps, operands[: a.states], (*slices, *others), step)


def _part(x: Tensor, t: DimVar) -> Tensor:
    return compute(x.shape[1:], lambda *i: x[(t, *i)], f"{x.name}_t")


_STEP = """#[version = "0.0.5"]
def @main(%t: int32, %h: Tensor[(2, 3), float32], %x: Tensor[(2, 3), float32], %w: Tensor[(3, 3), float32]) {
  let %y = tanh(nn.dense(%h, %w) + %x);
  (%y, exp(%y))
}
"""
_OPERANDS = (((2, 3), "float32"), ((5, 2, 3), "float32"), ((3, 3), "float32"))

scan = Op(
    name="scan",
    args=("*operands",),
    attrs=SequenceAttrs,
    type_rel=_relation,
    reference=_reference,
    compute=_compute,
    fusion=Fusion.OPAQUE,
    samples=(
        Sample(_OPERANDS, {"step": _STEP, "steps": 5}),
        Sample(_OPERANDS, {"step": _STEP, "steps": 0}),
    ),
    doc="""What a function yields over the steps along the first dimension of slices, then the states behind them.

`step` is the text of a module whose @main takes the number of the step, the states, a part of each slice, and the
other operands, and gives the states after the step and what is kept of it: part `t` of a result is what step `t`
gives.""",
)

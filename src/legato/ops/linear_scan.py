"""linear_scan: a recurrence that is linear in its states, step by step with coefficients of its own.

It is what differentiation makes of recurrent layers: their cotangents run through one, from the last step to the first,
and so do tangents. The transposed of a linear scan is one that runs the other way: derivatives of all orders stay here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import legato.te.math as te
from legato.arith.expr import Const, Expr, Var, const, max_, min_
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._families import Array, quiet
from legato.ops._gradients import Contribution, extents, in_shape, narrowed, shape_of, widened
from legato.ops._indexing import guarded
from legato.ops._rules import FLOAT, require_dtype, require_rank, same_dtype, same_shape, tensor
from legato.ops._tensors import accumulator, product, tensor_bytes, wide
from legato.te.scan import Kept, scan
from legato.te.tensor import Tensor, compute, reduce

__all__ = ["LinearScanAttrs", "after_last", "before_steps", "linear_scan"]


@dataclass(frozen=True, slots=True)
class LinearScanAttrs(Attrs):
    """`reverse`: steps run from the last to the first."""

    reverse: bool = False


def _relation(
    rel: Relation, initial: Type, inputs: Type, pre: Type, weight: Type, post: Type, carry: Type, a: LinearScanAttrs
) -> Type:
    given = [tensor(rel, t, n) for t, n in zip((initial, inputs, pre, weight, post, carry), _NAMES, strict=True)]
    for t, n, rank in zip(given, _NAMES, (3, 4, 5, 4, 5, 5), strict=True):
        require_rank(rel, t, rank, what=n)
        require_dtype(rel, t, FLOAT, n)
    first, x, before, w, after, kept = given
    steps, states, batch, units = x.shape
    sums, terms = w.shape[0], w.shape[2]
    if not all(isinstance(d, Const) and d.value > 0 for d in (states, sums, terms)):
        raise rel.fail(f"got {states} states, {terms} terms and {sums} sums, wanted known numbers of them, above 0")
    wanted = (
        (states, batch, units), x.shape, (steps, terms, states, batch, units), (sums, units, terms, units),
        (steps, states, sums, batch, units), (steps, states, states, batch, units),
    )  # fmt: skip
    for t, shape, n in zip((first, x, before, w, after, kept), wanted, _NAMES, strict=True):
        same_shape(rel, t.shape, shape, n)
    same_dtype(rel, *given)
    return x


_NAMES = ("initial", "inputs", "pre", "weight", "post", "carry")


def _reference(
    initial: Array, inputs: Array, pre: Array, weight: Array, post: Array, carry: Array, a: LinearScanAttrs
) -> Array:
    steps = range(len(inputs))
    out, state = np.zeros_like(inputs), wide(initial)
    w = wide(weight)
    for t in reversed(steps) if a.reverse else steps:
        v = state + wide(inputs[t])
        terms = np.einsum("gkbu,kbu->gbu", wide(pre[t]), v)
        sums = np.einsum("mugv,gbv->mbu", w, terms)
        state = np.einsum("kmbu,mbu->kbu", wide(post[t]), sums) + np.einsum("ikbu,kbu->ibu", wide(carry[t]), v)
        out[t] = state
    return out


class _Plan:
    """The tensors of a linear scan, and what a step computes of them."""

    def __init__(self, args: Sequence[Tensor], a: LinearScanAttrs) -> None:
        self.initial, self.inputs, self.pre, self.weight, self.post, self.carry = args
        self.steps, _, self.batch, self.units = self.inputs.shape
        self.states, self.terms = range(_int(self.inputs.shape[1])), range(_int(self.weight.shape[2]))
        self.sums = range(_int(self.weight.shape[0]))
        self.dtype, self.total, self.reverse = self.inputs.dtype, accumulator(self.inputs.dtype), a.reverse

    def place(self, t: Expr) -> Expr:
        """Where step `t` stands; the last one stands for those behind it."""
        t = min_(t, self.steps - 1)
        return max_(self.steps - 1 - t, const(0)) if self.reverse else max_(t, const(0))

    def wide(self, x: Tensor, *index: Expr | int) -> Expr:
        """An element in the dtype in which a step computes."""
        return te.cast(x[index], self.total)

    def stored(self, f: Callable[[Expr, Expr], Expr], name: str) -> Tensor:
        """A state, in the dtype in which a step computes."""
        return compute((self.batch, self.units), f, name)

    def term(self, t: Expr, g: int, values: Sequence[Tensor]) -> Tensor:
        """Term `g` of step `t` of the states `values`, the step's inputs included."""
        at = self.place(t)

        def element(b: Expr, u: Expr) -> Expr:
            parts = [self.wide(self.pre, at, g, k, b, u) * self.wide(values[k], b, u) for k in self.states]
            return guarded([self.steps], _sum(parts))

        return self.stored(element, "term")

    def with_inputs(self, t: Expr, k: int, state: Callable[[Expr, Expr], Expr]) -> Tensor:
        """State `k` when step `t` begins, its inputs added."""
        at = self.place(t)
        return self.stored(
            lambda b, u: state(b, u) + guarded([self.steps], self.wide(self.inputs, at, k, b, u)), "begun"
        )

    def total_of(self, m: int, g: int, term: Tensor) -> Tensor:
        """What term `g` adds to sum `m`."""

        def product_(b: Expr, u: Expr, v: Expr) -> Expr:
            return self.wide(term, b, v) * self.wide(self.weight, m, u, g, v)

        return reduce("sum", (self.batch, self.units), (self.units,), product_, "sum")

    def after(self, t: Expr, k: int, sums: Sequence[Sequence[Tensor]], values: Sequence[Tensor]) -> Tensor:
        """State `k` after step `t`."""
        at = self.place(t)

        def element(b: Expr, u: Expr) -> Expr:
            parts = [self.wide(self.post, at, k, m, b, u) * _sum([p[b, u] for p in sums[m]]) for m in self.sums]
            parts += [self.wide(self.carry, at, k, j, b, u) * self.wide(values[j], b, u) for j in self.states]
            return _sum(parts)

        return self.stored(element, "after")

    def run(self) -> Tensor:
        """The scan. What its steps hand on are terms and begun states: terms are what the sums of a step read."""

        def step(t: Var, *handed: Tensor) -> tuple[Sequence[Tensor], Sequence[Kept]]:
            terms, values = handed[: len(self.terms)], handed[len(self.terms) :]
            sums = [[self.total_of(m, g, terms[g]) for g in self.terms] for m in self.sums]
            after = [self.after(t, k, sums, values) for k in self.states]
            shape, at = (self.steps, self.batch, self.units), self.place(t)
            kept = [(s, shape, lambda b, u: (at, b, u)) for s in after]
            return self.handed(t + 1, [partial(self.wide, s) for s in after]), kept

        first = self.handed(const(0), [partial(self.wide, self.initial, const(k)) for k in self.states])
        inputs = (self.inputs, self.pre, self.weight, self.post, self.carry)
        kept = scan(self.steps, first, inputs, step, "linear_scan")
        return compute(
            self.inputs.shape,
            lambda t, k, b, u: te.cast(_chosen(k, [kept[n][t, b, u] for n in self.states]), self.dtype),
            "states",
        )

    def handed(self, t: Expr, states: Sequence[Callable[[Expr, Expr], Expr]]) -> list[Tensor]:
        """What step `t` needs of the states before it."""
        values = [self.with_inputs(t, k, s) for k, s in enumerate(states)]
        return [*(self.term(t, g, values) for g in self.terms), *values]


def _int(d: Expr) -> int:
    assert isinstance(d, Const)
    return int(d.value)


def _sum(parts: Sequence[Expr]) -> Expr:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _chosen(k: Expr, values: Sequence[Expr]) -> Expr:
    """values[k]."""
    found = values[-1]
    for n in reversed(range(len(values) - 1)):
        found = te.select(te.eq(k, const(n)), values[n], found)
    return found


def _compute(*args: Any) -> Tensor:
    *tensors, attrs, _ = args
    return _Plan(tensors, attrs).run()


# ------------------------------------------------------------------------------- gradient


def before_steps(b: Builder, initial: Node, states: Node, *, reverse: bool) -> Node:
    """What each step begins with, of a first state and those after the steps."""
    steps = shape_of(states)[0]
    one = b.expand_dims(initial, axis=0)
    joined = b.concatenate(states, one, axis=0) if reverse else b.concatenate(one, states, axis=0)
    (count,) = extents([steps])
    end = count + 1
    return b.strided_slice(joined, begin=(1 if reverse else 0,), end=(end if reverse else count,), axes=(0,))


def after_last(b: Builder, initial: Node, states: Node, *, reverse: bool) -> Node:
    """The state after the last step; the first one where there are no steps."""
    one = b.expand_dims(initial, axis=0)
    joined = b.concatenate(states, one, axis=0) if reverse else b.concatenate(one, states, axis=0)
    (count,) = extents([shape_of(states)[0]])
    place = (0, 1) if reverse else (count, count + 1)
    return b.squeeze(b.strided_slice(joined, begin=place[:1], end=place[1:], axes=(0,)), axis=(0,))


def _swapped(b: Builder, x: Node) -> Node:
    """The coefficients of the transposed step."""
    return b.transpose(x, axes=(0, 2, 1, 3, 4))


def _gradient(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """The transposed scan gives the inputs' cotangents; the others are products of what both begin their steps with."""
    initial, inputs, pre, weight, post, carry = (widened(b, arg) for arg in call.args)
    reverse = call.attrs.reverse
    dy, y = widened(b, dy), widened(b, call)
    turned = b.transpose(weight, axes=(2, 3, 0, 1))
    none = b.zeros_like(initial)
    found = b.nn.linear_scan(
        none, dy, _swapped(b, post), turned, _swapped(b, pre), _swapped(b, carry), reverse=not reverse
    )
    dv = b.add(dy, before_steps(b, none, found, reverse=not reverse))
    v = b.add(inputs, before_steps(b, initial, y, reverse=reverse))
    terms, dsums = _applied(b, pre, v), _applied(b, _swapped(b, post), dv)
    sums, dterms = _weighted(b, terms, weight), _weighted(b, dsums, turned)
    first = after_last(b, none, found, reverse=not reverse)
    given = (
        first, found, _outer(b, dterms, v), _products(b, dsums, terms), _outer(b, dv, sums), _outer(b, dv, v),
    )  # fmt: skip
    return [narrowed(b, g, arg) for g, arg in zip(given, call.args, strict=True)]


def _applied(b: Builder, coefficients: Node, v: Node) -> Node:
    """Σ over k of coefficients [steps, n, k, batch, units] · v [steps, k, batch, units]."""
    return b.sum(b.multiply(coefficients, b.expand_dims(v, axis=1)), axis=(2,))


def _outer(b: Builder, left: Node, right: Node) -> Node:
    """[steps, n, k, batch, units] of the products of [steps, n, …] and [steps, k, …]."""
    return b.multiply(b.expand_dims(left, axis=2), b.expand_dims(right, axis=1))


def _rows(b: Builder, x: Node) -> Node:
    """[steps, n, batch, units] as [steps · batch, n · units]."""
    steps, count, batch, units = shape_of(x)
    return in_shape(b, b.transpose(x, axes=(0, 2, 1, 3)), (steps * batch, count * units))


def _weighted(b: Builder, terms: Node, weight: Node) -> Node:
    """The sums [steps, m, batch, units] of terms [steps, g, batch, units] by weight [m, units, g, units]."""
    (steps, _, batch, units), (sums, _, terms_, _) = shape_of(terms), shape_of(weight)
    matrix = in_shape(b, weight, (sums * units, terms_ * units))
    rows = b.nn.dense(_rows(b, terms), matrix)
    return b.transpose(in_shape(b, rows, (steps, batch, sums, units)), axes=(0, 2, 1, 3))


def _products(b: Builder, dsums: Node, terms: Node) -> Node:
    """The cotangent of the weight: products of rows, summed over steps and batch."""
    (_, sums, _, units), count = shape_of(dsums), shape_of(terms)[1]
    found = b.nn.matmul(_rows(b, dsums), _rows(b, terms), transpose_a=True)
    return in_shape(b, found, (sums, units, count, units))


def _cost(args: Sequence[Type], out: Type, attrs: Any) -> Cost:
    """Multiply-adds of the sums and of the coefficients."""
    x, w = args[1], args[3]
    assert isinstance(x, TensorType)
    assert isinstance(w, TensorType)
    steps, states, batch, units = x.shape
    each = w.shape[0] * w.shape[2] * units + states * (w.shape[0] + w.shape[2] + states)
    return Cost(product((steps, batch, units, each)) * 2, tensor_bytes([*args, out]))


def _sample(sizes: tuple[int, int, int], k: int, g: int, m: int, dtype: str = "float32", **rest: Any) -> Sample:
    steps, batch, units = sizes
    shapes = (
        (k, batch, units), (steps, k, batch, units), (steps, g, k, batch, units), (m, units, g, units),
        (steps, k, m, batch, units), (steps, k, k, batch, units),
    )  # fmt: skip
    rtol = rest.pop("rtol", 1e-5)
    return Sample(tuple((s, dtype) for s in shapes), rest, rtol=rtol)


linear_scan = Op(
    name="nn.linear_scan",
    args=_NAMES,
    attrs=LinearScanAttrs,
    type_rel=_relation,
    reference=quiet(_reference),
    compute=_compute,
    grad=_gradient,
    fusion=Fusion.OPAQUE,
    cost=_cost,
    samples=(
        _sample((3, 2, 5), 2, 4, 1),
        _sample((3, 2, 4), 1, 1, 2, reverse=True),
        _sample((0, 2, 3), 2, 1, 1, reverse=True),
        _sample((2, 0, 3), 1, 2, 1),
        _sample((1, 1, 17), 1, 1, 1),
        _sample((2, 2, 4), 1, 2, 1, dtype="float16", rtol=4e-3),
    ),
    doc="""A linear recurrence: the states after every step, each of which is linear in those before it.

With v = state before + inputs[t], a step gives Σ post[t, :, m]·(Σ weight[m, :, g]·(pre[t, g]·v)) + carry[t]·v: products
with coefficients per element, summed over states; then by one matrix for all steps; then by coefficients again.

initial [states, batch, units]; inputs and the result [steps, states, batch, units]; weight [sums, units, terms, units];
coefficients [steps, …, batch, units], where … is terms, states of pre, states, sums of post, and states, states of
carry. States, terms and sums are few, and known.""",
)

"""Branches and loops of PyTorch (its higher-order operators) as If and functions that call themselves last.

    let %loop = fn (%i: int64, %state…, %rows…) {
      if (go) { %loop(%i + 1, next state…, rows with row %i set…) } else { (%state…, %rows…) } };

A rule gets the walk, the values of the node's arguments, bodies as graph modules, and gives the tuple of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from legato.base.dtype import int64
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.torch.emitter import Emitter
from legato.ir.expr import Expr, Var
from legato.ir.let import lets
from legato.ir.types import Dim, FuncType, TensorType, TupleType

if TYPE_CHECKING:
    from legato.frontend.torch.walk import Walk

__all__ = ["CONTROL", "fields", "loop"]

Values = Sequence[Any]
_Round = Callable[[Expr, Values], tuple[Values, Values]]  # from its number and the state: the next state, and its rows


def _cond(walk: Walk, pred: Any, true_graph: Any, false_graph: Any, operands: Values = ()) -> Any:
    b = walk.b
    if isinstance(pred, bool):
        return walk.graph(true_graph if pred else false_graph, operands)
    held = _held(b, operands)
    both = [lambda g=g: b.tuple_(_tensors(walk.graph(g, held))) for g in (true_graph, false_graph)]
    branch = b.if_(b.truth(pred), *both)
    return fields(b, branch)


def _while(walk: Walk, cond_graph: Any, body_graph: Any, carried: Values, more: Values = ()) -> Any:
    b = walk.b
    held = _held(b, more)
    start = _tensors(carried)

    def go(i: Expr, state: Values) -> Expr:
        return b.truth(walk.graph(cond_graph, [*state, *held]))

    def step(i: Expr, state: Values) -> tuple[Values, Values]:
        return walk.graph(body_graph, [*state, *held]), ()

    return loop(b, go, step, start, None)


def _scan(walk: Walk, graph: Any, init: Values, xs: Values, more: Values = ()) -> Any:
    b, count = walk.b, len(init)
    held, rows = _held(b, more), _held(b, _tensors(xs))

    def step(i: Expr, state: Values) -> tuple[Values, Values]:
        found = walk.graph(graph, [*state, *(b.take(x, i, axis=0) for x in rows), *held])
        return found[:count], found[count:]

    return _over_rows(b, step, _tensors(init), rows)


def _map(walk: Walk, graph: Any, xs: Values, more: Values = ()) -> Any:
    b = walk.b
    held, rows = _held(b, more), _held(b, _tensors(xs))

    def step(i: Expr, state: Values) -> tuple[Values, Values]:
        return (), walk.graph(graph, [*(b.take(x, i, axis=0) for x in rows), *held])

    return _over_rows(b, step, (), rows)


def _associative(walk: Walk, graph: Any, xs: Values, more: Values = ()) -> Any:
    """From the first row on: row by row, as combinations of any order give the same."""
    b = walk.b
    held, rows = _held(b, more), _held(b, _tensors(xs))
    if any(b.is_zero(b.dims_of(x)[0]) for x in rows):
        return tuple(rows)
    zero = b.constant(0, int64)

    def step(i: Expr, state: Values) -> tuple[Values, Values]:
        now = [b.take(x, i, axis=0) for x in rows]
        made = walk.graph(graph, [*state, *now, *held])
        is_first = b.equal(i, zero)
        found = [b.where(is_first, x, y) for x, y in zip(now, made, strict=True)]
        return found, found

    first = [b.zeros_of(b.dims_of(x)[1:], b.dtype(x)) for x in rows]
    return _over_rows(b, step, first, rows)[len(rows) :]


def _over_rows(b: Emitter, step: _Round, start: Values, rows: Values) -> tuple[Expr, ...]:
    """A round for each row of tensors, which have as many."""
    if not rows:
        raise UnsupportedError("a loop over no tensor")
    size = b.dims_of(rows[0])[0]
    for other in rows[1:]:
        b.require(b.dims_of(other)[0], size, "the number of rows")

    def go(i: Expr, state: Values) -> Expr:
        return b.less(i, b.extent(size, int64))

    return loop(b, go, step, start, size)


def loop(
    b: Emitter, go: Callable[[Expr, Values], Expr], step: _Round, start: Values, size: Dim | None
) -> tuple[Expr, ...]:
    """The last state of a loop, and for what each round gives a tensor of `size` rows."""
    i = b.var("i", TensorType((), int64))
    state = [b.var(f"s{n}", b.type_of(x)) for n, x in enumerate(start)]
    with b.bindings() as bound:
        after, parts = step(i, state)
    with b.bindings() as bound_test:
        test = go(i, state)
    if [b.type_of(x) for x in after] != [b.type_of(x) for x in start]:
        raise ImportModelError("a round of a loop changes the type of what it carries")
    held = [b.var(f"ys{n}", TensorType((_size(size), *b.dims_of(p)), b.dtype(p))) for n, p in enumerate(parts)]
    params = [i, *state, *held]
    results = [*state, *held]
    ty = FuncType(tuple(b.type_of(p) for p in params), TupleType(tuple(b.type_of(r) for r in results)))
    again_of = Var("loop", ty=ty)
    at = b.reshape(i, newshape=(1, 1))
    rows = [b.scatter_nd(ys, at, b.expand_dims(p, axis=0)) for ys, p in zip(held, parts, strict=True)]
    again = b.apply(again_of, [b.add(i, b.constant(1, int64)), *after, *rows])
    body = b.if_(lets(bound_test, test), lets(bound, again), b.tuple_(results))
    made = b.closed(params, body, ty, ())
    first = [b.zeros_of(b.dims_of(ys), b.dtype(ys)) for ys in held]
    whole = lets([(again_of, made)], b.apply(again_of, [b.constant(0, int64), *start, *first]))
    return fields(b, b.let("looped", whole))


def _size(size: Dim | None) -> Dim:
    assert size is not None  # of loops whose rounds give rows
    return size


def _held(b: Emitter, values: Values) -> list[Any]:
    """Values that bodies use, computed before them."""
    return [b.let("held", v) if isinstance(v, Expr) and not isinstance(v, Var) else v for v in values]


def _tensors(values: Any) -> list[Expr]:
    """The values of a body, or what a loop carries: tensors."""
    found = list(values) if isinstance(values, tuple | list) else [values]
    for value in found:
        if not isinstance(value, Expr):
            raise UnsupportedError(f"a branch or a loop of the value {value}", hint="make it a tensor")
    return found


def fields(b: Emitter, value: Expr) -> tuple[Expr, ...]:
    assert isinstance(value.ty, TupleType)
    return tuple(b.get(value, n) for n in range(len(value.ty.fields)))


_RULES: Final[Mapping[str, Callable[..., Any]]] = {
    "cond": _cond,
    "while_loop": _while,
    "scan": _scan,
    "map_impl": _map,
    "associative_scan": _associative,
}
CONTROL: Final[Mapping[Any, Callable[..., Any]]] = {
    getattr(torch.ops.higher_order, name): rule for name, rule in _RULES.items()
}

"""Functions that are loops: they call themselves last, a counter goes up by 1 until it reaches a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Tuple, Var
from legato.ir.types import Dim, TensorType
from legato.ir.updates import is_one
from legato.ops.binary import add
from legato.ops.compare import less
from legato.ops.reshape import expand_dims, reshape
from legato.ops.scatter import scatter_nd

__all__ = ["Loop", "bare", "loop_of", "number", "row_put"]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop function: its parameters by what becomes of them, by their numbers.

    `bound`: what the counter stays below; `fixed`: parameters that are passed on; `states`: with their values after a
    step; `kept`: with what a step puts into them; `result`: what the loop gives, made of states and what is kept.
    """

    params: Sequence[Var]
    counter: int
    bound: Expr
    fixed: frozenset[Var]
    states: Mapping[Var, Expr]
    kept: Mapping[Var, Expr]
    result: Expr


def loop_of(gv: GlobalVar, func: Function) -> Loop | None:
    """`func` as a loop; None if it is not one."""
    body = func.body
    if not isinstance(body, If) or not isinstance(body.cond, Call) or body.cond.op is not less:
        return None
    counter, bound = body.cond.args
    again = body.then
    if not isinstance(again, Call) or again.op != gv or counter not in func.params:
        return None
    if sum(node == gv for node in post_order([func.body])) != 1:
        return None
    fixed = frozenset(p for p, a in zip(func.params, again.args, strict=True) if p is a)
    if not (isinstance(bound, Constant) or bound in fixed):
        return None
    states: dict[Var, Expr] = {}
    kept: dict[Var, Expr] = {}
    for param, after in zip(func.params, again.args, strict=True):
        if param is counter:
            if not _is_next(after, param):
                return None
        elif param not in fixed:
            part = _part_put(after, param, counter)
            kept.update({param: part}) if part is not None else states.update({param: after})
    read = {node for node in post_order([*states.values(), *kept.values()]) if isinstance(node, Var)}
    if not states or read & kept.keys() or not _is_made_of(body.orelse, {*states, *kept}):
        return None
    return Loop(func.params, func.params.index(counter), bound, fixed, states, kept, body.orelse)


def _is_next(e: Expr, counter: Var) -> bool:
    return isinstance(e, Call) and e.op is add and e.args[0] is counter and number(e.args[1]) == 1


def number(e: Expr) -> object:
    """The value of a constant of rank 0; None of what is none."""
    return e.data.item() if isinstance(e, Constant) and not e.data.ndim else None


def _part_put(e: Expr, param: Var, counter: Expr) -> Expr | None:
    """What `e` puts into `param` as part number `counter` of its first dimension; None if it is not of this form."""
    put = row_put(e)
    return None if put is None or put[0] is not param or put[1] is not counter else put[2]


def row_put(e: Expr) -> tuple[Expr, Expr, Expr] | None:
    """The tensor, the index and the row, where `e` is a scatter_nd that puts one row into a tensor; else None."""
    if not isinstance(e, Call) or e.op is not scatter_nd or e.attrs != type(e.attrs)():
        return None
    data, index, update = e.args
    assert isinstance(data.ty, TensorType)
    assert isinstance(index.ty, TensorType)
    at, row = bare(index, ()), bare(update, data.ty.shape[1:])
    return None if row is None or not all(map(is_one, index.ty.shape)) else (data, index if at is None else at, row)


def bare(e: Expr, shape: Sequence[Dim]) -> Expr | None:
    """What has this shape and holds the elements of `e`, which may have more extents of 1; None if there is none."""
    while True:
        assert isinstance(e.ty, TensorType)
        if e.ty.shape == tuple(shape):
            return e
        if not isinstance(e, Call) or e.op not in (reshape, expand_dims):
            return None
        (e,) = e.args


def _is_made_of(e: Expr, params: set[Var]) -> bool:
    """True if `e` is one of `params`, or tuples of them."""
    return all(node in params if isinstance(node, Var) else isinstance(node, Tuple) for node in post_order([e]))

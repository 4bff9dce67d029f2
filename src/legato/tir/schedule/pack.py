"""Re-laying out a constant: the indices of a new array as functions of the old ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from legato.arith.bounds import Bounds
from legato.arith.expr import Binary, Const, Expr, Op, Var, const
from legato.arith.interval import Interval
from legato.arith.simplify import Simplifier
from legato.arith.substitute import nodes, rewrite, substitute
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import InternalError, ScheduleError
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.schedule._dependence import Agreement
from legato.tir.schedule._edit import limits, ranges
from legato.tir.stmt import For, Func, Stmt
from legato.tir.walk import buffers_used, buffers_written, statements, transform

__all__ = ["IndexMap", "apply_index_map", "index_map", "pack"]


@dataclass(frozen=True, slots=True)
class IndexMap:
    """The element at `old` (one variable per dimension) goes to `new` in an array of `shape`; gaps hold 0.

    Weights for blocks of 64 channels: old (oc, ic), new (oc // 64, ic, oc % 64), shape (⌈OC/64⌉, IC, 64).
    """

    old: tuple[Var, ...]
    new: tuple[Expr, ...]
    shape: tuple[Expr, ...]


def index_map(shape: Sequence[Expr | int], rank: int, forward: Callable[..., Sequence[Expr]]) -> IndexMap:
    """The map of `rank` old indices to `forward(i0, i1, …)`, for a new array of `shape`."""
    old = tuple(Var(f"i{d}", dt.index, 0) for d in range(rank))
    new = tuple(forward(*old))
    sizes = tuple(const(d) if isinstance(d, int) else d for d in shape)
    if len(new) != len(sizes):
        raise ScheduleError(f"index_map: {len(new)} indices for {len(sizes)} dimensions")
    return IndexMap(old, new, sizes)


def pack(func: Func, buffer: Buffer, map: IndexMap) -> tuple[Func, Buffer]:
    """Reads a parameter in another shape: the caller hands over the array that `apply_index_map` makes.

        y[o] = w[o, i] * …   ->   y[o] = w'[o // 64, i, o % 64] * …

    The function must not store to the parameter, and `map` must send different elements to different places. Returns
    (func, w').
    """
    if buffer not in func.params:
        raise ScheduleError(f"pack: {buffer.name} is not a parameter of {func.name}")
    if buffer in buffers_written(func) or not buffer.layout.is_dense:
        raise ScheduleError(f"pack: {buffer.name} is stored to or has a halo")
    if len(map.old) != buffer.rank:
        raise ScheduleError(f"pack: a map of {len(map.old)} indices for {buffer.name} of rank {buffer.rank}")
    _check_injective(buffer, map)
    new = Buffer(buffer.name, map.shape, buffer.dtype, scope=buffer.scope)
    params = tuple(new if p is buffer else p for p in func.params)
    return Func(func.name, params, _packed(func.body, buffer, new, map), func.kind, func.constants, func.span), new


def _packed(body: Stmt, old: Buffer, new: Buffer, map: IndexMap) -> Stmt:
    loops = [s for s in statements(body) if isinstance(s, For)]
    simplify = Simplifier(ranges(loops), limits(loops))
    if old not in buffers_used(body):
        return body

    def load(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or node.buffer is not old:
            return None
        at = dict(zip(map.old, node.indices, strict=True))
        return Load(new, tuple(simplify(substitute(e, at)) for e in map.new))

    return transform(body, lambda s: _with(s, load))


def _with(s: Stmt, load: Callable[[Expr], Expr | None]) -> Stmt | None:
    old = s.exprs()
    new = tuple([rewrite(e, load) for e in old])
    return None if new == old else s.with_exprs(new)


def _check_injective(buffer: Buffer, map: IndexMap) -> None:
    limits = {v: Interval(0, Bounds().of(e - 1)[1]) for v, e in zip(map.old, buffer.shape, strict=True)}
    known = Agreement(set(map.old), set(), Bounds(limits), set()).solve(map.new, map.new)
    lost = [v.name for v, e in zip(map.old, buffer.shape, strict=True) if v not in known and e is not const(1)]
    if lost:
        raise ScheduleError(
            f"pack: elements of {buffer.name} may collide at [{', '.join(str(e) for e in map.new)}]",
            details=[f"not determined: {', '.join(lost)}"],
        )


def apply_index_map(array: np.ndarray[Any, Any], map: IndexMap) -> np.ndarray[Any, Any]:
    """The array that a packed parameter expects: zeros of the map's (literal) shape with every element in its place."""
    shape = tuple(_literal(d) for d in map.shape)
    if array.ndim != len(map.old):
        raise InternalError(f"a map of {len(map.old)} indices for an array of rank {array.ndim}")
    grids = np.meshgrid(*(np.arange(n) for n in array.shape), indexing="ij", sparse=True)
    values: dict[Expr, Any] = dict(zip(map.old, grids, strict=True))
    for node in nodes(*map.new):
        if node not in values:
            values[node] = _value(node, values)
    out = np.zeros(shape, array.dtype)
    out[tuple(values[e] for e in map.new)] = array
    return out


def _literal(e: Expr) -> int:
    if not isinstance(e, Const):
        raise InternalError(f"the shape of an index map must be literal, got {e}")
    return int(e.value)


_NUMPY = {Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.FLOORDIV: np.floor_divide,
          Op.FLOORMOD: np.remainder, Op.MIN: np.minimum, Op.MAX: np.maximum}  # fmt: skip


def _value(e: Expr, values: dict[Expr, Any]) -> Any:
    if isinstance(e, Const):
        return np.int64(int(e.value))
    if isinstance(e, Binary) and e.op in _NUMPY:
        return _NUMPY[e.op](values[e.a], values[e.b])
    raise InternalError(f"{e} cannot be part of an index map")

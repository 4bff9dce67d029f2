"""Tensor programs that give their input's elements in the same order, in another shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul

from legato.arith.expr import Const, Expr, Var, const
from legato.arith.interval import Interval
from legato.arith.simplify import simplify
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.prove_access import prove_accesses
from legato.tir.stmt import For, Func, FuncKind, Store

__all__ = ["is_reshape"]


def is_reshape(func: Func) -> bool:
    """True if `func`, a kernel of one input and one output, is shown to be one nest that copies element by element."""
    buffers = [p for p in func.params if isinstance(p, Buffer)]
    if func.kind is not FuncKind.KERNEL or len(buffers) != 2 or buffers[0].dtype != buffers[1].dtype:
        return False
    given, made = buffers
    loops: dict[Var, Expr] = {}
    body = func.body
    while isinstance(body, For):
        loops[body.var] = body.extent
        body = body.body
    if not isinstance(body, Store) or body.buffer is not made or not isinstance(body.value, Load):
        return False
    if body.value.buffer is not given or list(body.indices) != list(loops) or list(loops.values()) != list(made.shape):
        return False
    ranges = {v: Interval(0, int(e.value) - 1 if isinstance(e, Const) else None) for v, e in loops.items()}
    read, stored = _flat(body.value.indices, given.shape), _flat(body.indices, made.shape)
    is_whole = simplify(_size(given.shape) - _size(made.shape)) is const(0)
    in_order = simplify(read - stored, ranges, loops) is const(0)
    return is_whole and in_order and not any(fact.reason for fact in prove_accesses(func))


def _size(shape: Sequence[Expr]) -> Expr:
    return reduce(mul, shape, const(1))


def _flat(indices: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    """The number of the element at `indices`, counted in rows."""
    total: Expr = const(0)
    for i, extent in zip(indices, shape, strict=True):
        total = total * extent + i
    return total

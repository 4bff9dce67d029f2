"""Parameters that a lifted function only passes on to itself are taken away, here and in all calls of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from legato.base.node import post_order, transform
from legato.infer.holes import dim_vars
from legato.ir.expr import Call, Expr, Function, GlobalVar, Var
from legato.ir.types import FuncType

__all__ = ["pruned"]

Functions = Mapping[GlobalVar, Function]


def pruned(functions: Functions, lifted: frozenset[GlobalVar]) -> dict[GlobalVar, Function]:
    """`functions` where those of `lifted`, which are only called, have no parameters that nothing is computed from."""
    kept = {gv: _binders(functions[gv]) for gv in lifted}
    while True:
        more = {gv: kept[gv] | _read(functions[gv], kept) for gv in lifted}
        if more == kept:
            break
        kept = more
    unused = {gv: kept[gv] for gv in lifted if len(kept[gv]) < len(functions[gv].params)}
    return {gv: _without(f, unused.get(gv), unused) for gv, f in functions.items()} if unused else dict(functions)


def _binders(func: Function) -> frozenset[int]:
    """The positions of parameters whose types may bind dims."""
    return frozenset(n for n, p in enumerate(func.params) if p.ty is None or dim_vars(p.ty))


def _read(func: Function, kept: Mapping[GlobalVar, frozenset[int]]) -> frozenset[int]:
    """The positions of parameters that the body reads, an argument that the callee does not need left out."""
    read: set[Expr] = {func.body}
    for node in post_order([func.body]):
        needed = kept.get(node.op) if isinstance(node, Call) and isinstance(node.op, GlobalVar) else None
        if needed is None or not isinstance(node, Call):
            read.update(k for k in node.children() if isinstance(k, Var))
        else:
            read.update(a for n, a in enumerate(node.args) if n in needed)
    return frozenset(n for n, p in enumerate(func.params) if p in read)


def _without(func: Function, own: frozenset[int] | None, unused: Mapping[GlobalVar, frozenset[int]]) -> Function:
    """`func` with fewer arguments in its calls and, if it has unused ones, fewer parameters."""

    def step(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not isinstance(node.op, GlobalVar) or node.op not in unused:
            return None
        kept = unused[node.op]
        return replace(node, op=_fewer(node.op, kept), args=tuple(a for n, a in enumerate(node.args) if n in kept))

    body = transform(func.body, step)
    params = func.params if own is None else tuple(p for n, p in enumerate(func.params) if n in own)
    return replace(func, params=params, body=body)


def _fewer(gv: GlobalVar, kept: frozenset[int]) -> GlobalVar:
    ty = gv.ty
    if not isinstance(ty, FuncType):
        return gv
    return gv.with_type(replace(ty, params=tuple(p for n, p in enumerate(ty.params) if n in kept)))

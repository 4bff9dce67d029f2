"""Dims that a call may leave open: only tensors inside its values have them, and without such a tensor nothing is
computed with them.

`fn (%xs: List[Tensor[(n,), float32]]) { @map(exp, %xs) }` says nothing of n for an empty list, and needs nothing;
`zeros(shape=[n])` would. What is computed from a tensor that has the dim, or where a pattern or a parameter is one, is
computed in calls that know it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import fields, is_dataclass

from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base.node import post_order
from legato.ir.attrs import dims_of
from legato.ir.clauses import Clause
from legato.ir.expr import Call, Expr, Function, GlobalVar, Match, MatchCast, Shape
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import pattern_vars
from legato.ir.types import Type
from legato.lower.hosts.cells import extents
from legato.lower.hosts.values import function_dims

__all__ = ["open_dims"]


def open_dims(mod: Module, func: Function) -> set[DimVar]:
    """The dims of `func`, a function of `mod`, that no tensor or shape among its parameters has and that it does not
    need."""
    own = [d for d in function_dims(func) if not any(_tells(p.ty, d) for p in func.params)]
    return {d for d in own if not _mentions(func.body.ty, d) and not _needs(mod, func, d)}


def _needs(mod: Module, func: Function, dim: DimVar) -> bool:
    """Whether anything begins with `dim` in `func` or in what it calls."""
    todo, met = [(func, dim)], {(id(func), dim)}
    while todo:
        at, d = todo.pop()
        for node in _reached(at, d):
            callee = mod[node.op] if isinstance(node, Call) and isinstance(node.op, GlobalVar) else None
            if isinstance(node, Call) and isinstance(callee, Function):
                inner = [(callee, p) for p in _given(callee, node, d)]
                todo += [pair for pair in inner if (id(pair[0]), pair[1]) not in met]
                met.update((id(f), p) for f, p in inner)
            elif _begins(node, d):
                return True
    return False


def _reached(func: Function, dim: DimVar) -> Iterator[Expr]:
    """The nodes of `func` that a call reaches which has no tensor with `dim`."""
    skipped = {id(c.body) for c in _clauses(func) if any(_tells(v.ty, dim) for v in pattern_vars(c.pattern))}

    def enter(node: Expr) -> bool:
        return id(node) not in skipped and not (isinstance(node, Function) and _is_told(node, dim))

    if not _is_told(func, dim):
        yield from (node for node in post_order([func.body], enter) if enter(node))


def _clauses(func: Function) -> Iterator[Clause]:
    return (c for node in post_order([func.body]) if isinstance(node, Match) for c in node.clauses)


def _is_told(func: Function, dim: DimVar) -> bool:
    return any(_tells(p.ty, dim) for p in func.params)


def _given(callee: Function, call: Call, dim: DimVar) -> Iterator[DimVar]:
    """The dims of `callee` that are made of `dim` in a call: all, where inference has not noted them."""
    if len(call.type_args) != len(callee.type_params):
        yield from function_dims(callee)
        return
    for own, value in zip(callee.type_params, call.type_args, strict=True):
        if isinstance(own, DimVar) and isinstance(value, Dim) and dim in variables(value):
            yield own


def _begins(node: Expr, dim: DimVar) -> bool:
    """Whether `node` needs the value of `dim`, and none of its operands is a tensor that has it."""
    if isinstance(node, Shape):
        return dim in variables(*node.dims)
    if isinstance(node, MatchCast):
        return _mentions(node.target, dim) and not _tells(node.value.ty, dim)
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return False
    return not any(_tells(a.ty, dim) for a in node.args) and (_mentions(node.ty, dim) or dim in _in_attrs(node))


def _in_attrs(call: Call) -> Collection[DimVar]:
    attrs = call.attrs
    values = [getattr(attrs, f.name) for f in fields(attrs)] if is_dataclass(attrs) else []
    return variables(*dims_of(tuple(values)))


def _tells(ty: Type | None, dim: DimVar) -> bool:
    """Whether a value of the type consists of tensors and shapes of which one has `dim` as an extent."""
    return ty is not None and dim in extents(ty)


def _mentions(ty: Type | None, dim: DimVar) -> bool:
    """Whether a value of the type consists of tensors and shapes of which one depends on `dim`."""
    return ty is not None and dim in variables(*extents(ty))

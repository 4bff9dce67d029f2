"""Calls replaced by what they call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Final

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.ir._dims import free_dims
from legato.ir.expr import Call, Expr, Function, GlobalVar
from legato.ir.let import lets
from legato.ir.module import Module
from legato.ir.scope import binders, operands, post_order
from legato.ir.types import Dim, Type, TypeVar
from legato.transform._closures import closure_call
from legato.transform._copy import Copy
from legato.transform._types import type_arguments
from legato.transform._values import with_operands

__all__ = ["Inliner"]

MAX_ROUNDS: Final = 8  # functions that are inlined into functions that are inlined


class Inliner:
    """Inlines `wanted` calls of the functions of a module that are short and call themselves on no way."""

    def __init__(self, mod: Module, size: int, wanted: Callable[[Call], bool]) -> None:
        self._wanted = wanted
        short = {
            gv: func for gv, func in mod.graph_functions() if "Primitive" not in func.attrs and _is_short(func, size)
        }
        self._inlined = {gv: func for gv, func in short.items() if not _is_recursive(gv, mod)}

    def __call__(self, func: Function) -> Function:
        """`func` with calls of these functions replaced by their bodies; the same object where there are none.

        What closures call stays: they would be none otherwise.
        """
        if not self._inlined:
            return func
        for _ in range(MAX_ROUNDS):
            kept = {id(closure_call(n)) for n in post_order(func.body) if isinstance(n, Function)}
            new: dict[int, Expr] = {}
            for node in post_order(func.body):
                made = with_operands(node, [new[id(kid)] for kid in operands(node)])
                new[id(node)] = self._call(made) if isinstance(made, Call) and id(node) not in kept else made
            body = new[id(func.body)]
            if body is func.body:
                break
            func = replace(func, body=body)
        return func

    def _call(self, call: Call) -> Expr:
        callee = self._inlined.get(call.op) if isinstance(call.op, GlobalVar) else None
        return call if callee is None or not self._wanted(call) else _body(call, callee)


def _is_short(func: Function, size: int) -> bool:
    return len(list(islice(post_order(func.body), size + 1))) <= size


def _is_recursive(start: GlobalVar, mod: Module) -> bool:
    """True if a call of `start` may lead to another."""
    todo, seen = [start], set[GlobalVar]()
    while todo:
        func = mod.functions.get(todo.pop())
        if not isinstance(func, Function):
            continue
        for node in post_order(func.body):
            if isinstance(node, GlobalVar) and node not in seen:
                if node == start:
                    return True
                seen.add(node)
                todo.append(node)
    return False


def _body(call: Call, func: Function) -> Expr:
    """What `call` computes: the body of `func` with the arguments bound."""
    args = dict(zip(func.type_params, type_arguments(call, func), strict=False))
    types = {p: a for p, a in args.items() if isinstance(p, TypeVar) and isinstance(a, Type)}
    dims: dict[DimVar, Dim] = {p: a for p, a in args.items() if isinstance(p, DimVar) and isinstance(a, Dim)}
    for node in post_order(func.body):  # dims that the body makes are new in every copy of it
        for ty in (node.ty, *(v.ty for scope in binders(node) for v in scope)):
            for d in () if ty is None else free_dims(ty):
                if d not in dims and d not in func.type_params:
                    dims[d] = fresh(d.name, d.lo, d.hi)
    copy = Copy(types, dims)
    bound = [(copy.bind(p), a) for p, a in zip(func.params, call.args, strict=True)]
    return lets(bound, copy.expr(func.body))

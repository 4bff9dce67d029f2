"""Calls replaced by what they call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.arith.substitute import variables
from legato.base.node import rebuild
from legato.ir._dims import free_dims
from legato.ir.devices import PARAMS, RESULT
from legato.ir.dim_values import dim_values
from legato.ir.expr import Call, Expr, Function, GlobalVar
from legato.ir.let import lets
from legato.ir.module import Module
from legato.ir.scope import binders, post_order
from legato.ir.types import Dim
from legato.transform._closures import closure_call
from legato.transform._copy import Copy
from legato.transform._types import split
from legato.transform._values import of_type

__all__ = ["Inliner", "may_inline", "short_functions"]

MAX_ROUNDS: Final = 8  # functions that are inlined into functions that are inlined


class Inliner:
    """Replaces `wanted` calls of functions, which do not call themselves by way of each other, by their bodies."""

    def __init__(self, functions: Mapping[GlobalVar, Function], wanted: Callable[[Call], bool] | None = None) -> None:
        self._inlined: dict[GlobalVar, Function] = {}
        self._wanted = wanted
        for gv, func in functions.items():
            self.add(gv, func)

    def add(self, gv: GlobalVar, func: Function) -> None:
        """Calls of `gv` are replaced by the body of `func`, too."""
        self._inlined[gv] = func

    def __call__(self, func: Function, rounds: int = MAX_ROUNDS) -> Function:
        """`func` with calls of these functions replaced by their bodies; the same object where there are none.

        What is put in place is looked at in the next of the `rounds`. What closures call stays: they would be none
        otherwise.
        """
        for _ in range(rounds if self._inlined else 0):
            kept = {id(closure_call(n)) for n in post_order(func.body) if isinstance(n, Function)}
            new: dict[int, Expr] = {}
            for node in post_order(func.body):
                made = rebuild(node, new)
                new[id(node)] = self._call(made, func) if isinstance(made, Call) and id(node) not in kept else made
            body = new[id(func.body)]
            if body is func.body:
                break
            func = replace(func, body=body)
        return func

    def _call(self, call: Call, caller: Function) -> Expr:
        callee = self._inlined.get(call.op) if isinstance(call.op, GlobalVar) else None
        if (
            not isinstance(call.op, GlobalVar)
            or callee is None
            or (self._wanted is not None and not self._wanted(call))
            or not _are_known(call, caller)
        ):
            return call
        return _body(call, callee)


def _are_known(call: Call, caller: Function) -> bool:
    """True if the parameters of `caller` give the dims of `call` their values.

    Others are those of data, which are known where a function takes it.
    """
    known = {d for d in caller.type_params if isinstance(d, DimVar)}
    dims = {d for a in call.type_args if isinstance(a, Dim) for d in variables(a)}
    dims.update(d for a in call.args if a.ty is not None for d in free_dims(a.ty))
    return dims <= known


def short_functions(mod: Module, size: int) -> dict[GlobalVar, Function]:
    """The functions that may be inlined, of at most `size` nodes, and that call themselves on no way."""
    short = {gv: func for gv, func in mod.graph_functions() if may_inline(func, size)}
    return {gv: func for gv, func in short.items() if not _is_recursive(gv, mod)}


def may_inline(func: Function, size: int) -> bool:
    """True if the body has at most `size` nodes and stands for a call: constraints are checked where one enters."""
    return func.attrs.keys() <= {PARAMS, RESULT} and len(list(islice(post_order(func.body), size + 1))) <= size


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
    types, dims = split(func.type_params, call.type_args)
    if func.body.ty is not None and call.ty is not None:  # dims that the result brings
        dims = {**dim_values(call.ty, func.body.ty, free_dims(func.body.ty)), **dims}
    for node in post_order(func.body):  # others that the body makes are new in every copy of it
        for ty in (node.ty, *(v.ty for scope in binders(node) for v in scope)):
            for d in () if ty is None else free_dims(ty):
                if d not in dims and d not in func.type_params:
                    dims[d] = fresh(d.name, d.lo, d.hi)
    copy = Copy(types, dims)
    bound = [(copy.bind(p), a) for p, a in zip(func.params, call.args, strict=True)]
    return lets(bound, of_type(copy.expr(func.body), call.ty))

"""Functions in continuation-passing style: how they are told, and called from others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from legato.base.node import transform
from legato.infer.replace import replace_vars
from legato.ir.expr import Call, Expr, Function, GlobalVar, Var
from legato.ir.module import Module
from legato.ir.types import FuncType, TypeVar, walk
from legato.transform._closures import Names

__all__ = ["answer_of", "direct", "gives_answer", "is_direct", "made_direct"]


def answer_of(func: object) -> TypeVar | None:
    """The type of what the continuation of a function gives, its last type parameter; None if it has none."""
    ty = func.ty if isinstance(func, Function) else None
    if not isinstance(ty, FuncType) or not ty.params or not ty.type_params:
        return None
    answer, last = ty.type_params[-1], ty.params[-1]
    is_last = isinstance(last, FuncType) and not last.type_params and len(last.params) == 1 and last.ret is answer
    return answer if is_last and ty.ret is answer and isinstance(answer, TypeVar) else None


def gives_answer(func: Function) -> bool:
    """Whether a function takes a continuation, whose answer may be the result."""
    answer, ty = answer_of(func), func.ty
    if answer is None or not isinstance(ty, FuncType):
        return False
    result = ty.params[-1].children()[0]
    return all(part is not answer for part in walk(result))


def is_direct(func: Function) -> bool:
    """Whether a function is what `direct` makes for a function of the module."""
    call = func.body
    if not isinstance(call, Call) or not isinstance(call.op, GlobalVar) or call.args[:-1] != func.params:
        return False
    last = call.args[-1] if call.args else None
    return isinstance(last, Function) and last.params == (last.body,)


def direct(func: Function, callee: Expr) -> Function:
    """The function that calls `callee`, which is `func` or stands for it, with a continuation that gives what it takes.

    `func` has an answer that may be the result (`gives_answer`).
    """
    answer, ty = answer_of(func), func.ty
    assert answer is not None
    assert isinstance(ty, FuncType)
    result = ty.params[-1].children()[0]
    params = tuple(Var(p.name, ty=replace_vars(t, {answer: result}, {}), span=p.span)
                   for p, t in zip(func.params[:-1], ty.params[:-1], strict=True))  # fmt: skip
    value = Var("y", ty=result)
    identity = Function((value,), value, result, ty=FuncType((result,), result))
    call = Call(callee, (*params, identity), None, (*ty.type_params[:-1], result), ty=result, span=func.span)
    own = FuncType(tuple(p.ty for p in params if p.ty is not None), result, ty.type_params[:-1])
    return Function(params, call, result, own.type_params, func.attrs, ty=own, span=func.span)


def made_direct(mod: Module, which: Iterable[GlobalVar]) -> Module:
    """`mod` with functions that give their results in place of these, which have other names then; the same module
    where they have such functions already."""
    done = {f.body.op for _, f in mod.graph_functions() if is_direct(f) and isinstance(f.body, Call)}
    names = Names(mod)
    inner: dict[Expr, GlobalVar] = {gv: GlobalVar(names.new(f"{gv.name}_cps")) for gv in which if gv not in done}
    if not inner:
        return mod
    functions = dict(mod.functions)
    for gv, func in mod.graph_functions():
        new = transform(func, inner.get)  # type: ignore[type-var, arg-type]  # the root is no function of the module
        functions[inner.get(gv, gv)] = new
        if gv in inner:
            functions[gv] = direct(func, inner[gv].with_type(func.ty))
    return replace(mod, functions=functions)

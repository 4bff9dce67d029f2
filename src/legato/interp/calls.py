"""Applying what can be called: operators, constructors, functions and loop programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.base.errors import RunError
from legato.interp.activation import Activation
from legato.interp.constraints import require
from legato.interp.context import Context
from legato.interp.dims import dim_value, fit
from legato.interp.operators import apply_operator
from legato.interp.values import Closure, Data, Value
from legato.ir.attrs import default_attrs
from legato.ir.call_tir import CALL_TIR, CallTirAttrs
from legato.ir.expr import Call, Constructor, Expr, callee_name
from legato.ir.op import Op
from legato.tir import interp as tir_interp
from legato.tir.stmt import Func

__all__ = ["Tail", "apply", "enter"]

_NONE: Final[Mapping[DimVar, int]] = MappingProxyType({})


@dataclass(eq=False, slots=True)
class Tail:
    """`The value is that of this expression`: what comes last in a let, a branch or a function."""

    expr: Expr
    env: Activation


def apply(context: Context, env: Activation, node: Call, callee: Value, args: Sequence[Value]) -> Value | Tail:
    """The value of `callee(args)`, the call `node`; for a function, its body in a new activation."""
    match callee:
        case Op():
            attrs = context.attrs(env, node) if isinstance(node.op, Op) else default_attrs(callee)
            if callee is CALL_TIR:
                return _call_tir(context, env, args, attrs)
            result = apply_operator(context.asked, id(node), callee, args, attrs, node.ty, env.dims)
            return context.widen(result)
        case Constructor():
            return Data(callee, tuple(args))
        case Closure():
            return enter(context, callee, args, callee_name(node.op), _stated_dims(env, callee, node))
        case _:
            raise RunError(f"{callee_name(node.op)} is called but is no function")


def enter(
    context: Context, callee: Closure, args: Sequence[Value], what: str, stated: Mapping[DimVar, int] = _NONE
) -> Tail:
    """The body of a function in a new activation. RunError, naming `what`, for arguments that do not fit.

    `stated` are the values that a call gives dims of the function: the arguments need not tell those.
    """
    func, around = callee.func, callee.env
    if len(args) != len(func.params):
        raise RunError(f"{what}: got {len(args)} arguments, wanted {len(func.params)}")
    env = Activation(around, context.uses(func), {} if around is None else dict(around.dims))
    for n, (param, arg) in enumerate(zip(func.params, args, strict=True)):
        if param.ty is not None:
            fit(env.dims, param.ty, arg, f"{what}, argument {n + 1} (%{param.name})", float64=context.float64)
        env.vars[param] = arg
    for dim, value in stated.items():
        env.dims.setdefault(dim, value)
    require(env, func.attrs.get("constraints", ()))
    return Tail(func.body, env)


def _stated_dims(env: Activation, callee: Closure, node: Call) -> Mapping[DimVar, int]:
    """The dims of a function that a call's type arguments state, as far as they have a value where it is called."""
    params = callee.func.type_params
    if len(params) != len(node.type_args):
        return _NONE
    return {
        param: dim_value(arg, env.dims)
        for param, arg in zip(params, node.type_args, strict=True)
        if isinstance(param, DimVar) and isinstance(arg, Dim) and all(v in env.dims for v in variables(arg))
    }


def _call_tir(context: Context, env: Activation, args: Sequence[Value], attrs: CallTirAttrs) -> Value:
    """Runs a loop program on inputs, fresh outputs and dims, in its own dtypes (in float64 mode too)."""
    func, inputs = args
    if not isinstance(func, Func):
        raise RunError("call_tir needs a loop program of the module")
    outs = [np.zeros([dim_value(d, env.dims) for d in t.shape], t.dtype.numpy) for t in attrs.out]
    buffers = [np.ascontiguousarray(a, p.dtype.numpy) for a, p in zip(inputs, func.params, strict=False)]
    status = tir_interp.run(func, [*buffers, *outs, *(dim_value(d, env.dims) for d in attrs.dims)])
    if status:
        raise RunError(f"{func.name} ended with status {status}")
    results = tuple(context.widen(o) for o in outs)
    return results[0] if len(results) == 1 else results

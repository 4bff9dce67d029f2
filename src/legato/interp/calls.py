"""Applying what can be called: operators, constructors, functions and loop programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from legato.arith.evaluate import evaluate as evaluate_dim
from legato.arith.substitute import variables
from legato.base.errors import RunError
from legato.interp.activation import Activation
from legato.interp.context import Context
from legato.interp.dims import dim_value, fit
from legato.interp.values import Closure, Data, Value, evaluate_op
from legato.ir.attrs import default_attrs
from legato.ir.call_tir import CALL_TIR, CallTirAttrs
from legato.ir.expr import Call, Constructor, Expr, Function, GlobalVar, Var
from legato.ir.op import Op
from legato.tir import interp as tir_interp
from legato.tir.stmt import Func

__all__ = ["Tail", "apply", "enter"]


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
            return _operator(context, callee, args, attrs, env)
        case Constructor():
            return Data(callee, tuple(args))
        case Closure():
            return enter(context, callee, args, _name(node.op))
        case _:
            raise RunError(f"{_name(node.op)} is called but is no function")


def enter(context: Context, callee: Closure, args: Sequence[Value], what: str) -> Tail:
    """The body of a function in a new activation. RunError, naming `what`, for arguments that do not fit."""
    func, around = callee.func, callee.env
    if len(args) != len(func.params):
        raise RunError(f"{what}: got {len(args)} arguments, wanted {len(func.params)}")
    env = Activation(around, context.uses(func), {} if around is None else dict(around.dims))
    for n, (param, arg) in enumerate(zip(func.params, args, strict=True)):
        if param.ty is not None:
            fit(env.dims, param.ty, arg, f"{what}, argument {n + 1} (%{param.name})", float64=context.float64)
        env.vars[param] = arg
    _require_constraints(env, func)
    return Tail(func.body, env)


def _require_constraints(env: Activation, func: Function) -> None:
    """The equalities of dims that inference left to run time, as far as they are about the arguments."""
    for c in func.attrs.get("constraints", ()):
        if all(v in env.dims for v in variables(c.a, c.b)):
            a, b = evaluate_dim(c.a, env.dims), evaluate_dim(c.b, env.dims)
            if a != b:
                raise RunError(f"{c.what}: {c.a} = {a} and {c.b} = {b} must be equal")


def _operator(context: Context, op: Op, args: Sequence[Value], attrs: Any, env: Activation) -> Value:
    """The value of an operator, by its reference; call_tir runs a loop program."""
    return _call_tir(context, env, args, attrs) if op is CALL_TIR else context.widen(evaluate_op(op, args, attrs))


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


def _name(callee: Expr) -> str:
    match callee:
        case GlobalVar():
            return f"@{callee.name}"
        case Var():
            return f"%{callee.name}"
        case _:
            return "a function"

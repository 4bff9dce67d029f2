"""Applying what can be called: operators, constructors, functions and loop programs."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import lru_cache, partial
from itertools import count
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from legato.arith.evaluate import evaluate
from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.arith.expr import const
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import RunError
from legato.interp.activation import Activation
from legato.interp.constraints import require
from legato.interp.context import Context
from legato.interp.dims import dim_value, fit
from legato.interp.operators import apply_operator, require_dtypes
from legato.interp.packed import call_outside
from legato.interp.values import Closure, Data, Value, narrowed
from legato.ir.attrs import default_attrs
from legato.ir.call_tir import CALL_TIR, CallTirAttrs, program_dims, program_fault
from legato.ir.devices import ON_DEVICE
from legato.ir.expr import Call, Constructor, Expr, callee_name
from legato.ir.op import Op
from legato.ir.packed import OUTSIDE
from legato.runtime.strings import Strings
from legato.runtime.violation import AccessInfo, violation
from legato.tir import interp as tir_interp
from legato.tir.accesses import Access
from legato.tir.bounds import WORDS, AccessTests, checked
from legato.tir.buffer import Buffer
from legato.tir.prove_access import prove_accesses
from legato.tir.sealed import sealed
from legato.tir.stmt import FIRST_CHECK, Check, Func
from legato.tir.walk import statements

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
            if callee is ON_DEVICE:
                return args[0]  # of any type, a function too
            if callee in OUTSIDE:
                return call_outside(context, env, node, callee, args)
            return context.widen(_apply_op(context, env, node, callee, args, attrs))
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


def _apply_op(context: Context, env: Activation, node: Call, op: Op, args: Sequence[Value], attrs: Any) -> Value:
    """The value of an operator. In float64 mode one that refuses that dtype, as those that loops give do, is computed
    in the program's own dtypes."""
    try:
        result = apply_operator(context.asked, id(node), op, args, attrs, node.ty, env.dims)
    except RunError:
        own = tuple(narrowed(a, e.ty) for a, e in zip(args, node.args, strict=True)) if context.float64 else args
        if all(a is b for a, b in zip(args, own, strict=True)):
            raise
        result = apply_operator(context.asked, id(node), op, own, attrs, node.ty, env.dims)
    if not context.float64:
        require_dtypes(op, result, node.ty)
    return result


def _call_tir(context: Context, env: Activation, args: Sequence[Value], attrs: CallTirAttrs) -> Value:
    """Runs a loop program on inputs (copies, of those that it stores to), outputs of zeros and dims, in its own dtypes
    (in float64 mode too)."""
    func, inputs = args
    if not isinstance(func, Func):
        raise RunError("call_tir needs a loop program of the module")
    fault = program_fault(func, len(inputs), attrs)
    if fault is not None:
        raise RunError(f"call_tir: {fault}")
    strings = Strings(("",), {"": 0})
    buffers = [_stored(a, p.dtype, strings) for a, p in zip(inputs, func.params, strict=False)]
    for arg in attrs.begins:
        buffers[arg] = buffers[arg].copy()
    own = [np.zeros([dim_value(d, env.dims) for d in t.shape], t.dtype.stored) for t in attrs.own]
    fresh = count(len(buffers))
    outs = [arg if arg >= 0 else next(fresh) for arg in attrs.inplace] or [next(fresh) for _ in own]
    dims = _program_dims(func, [dim_value(d, env.dims) for d in attrs.dims], [a.shape for a in (*buffers, *own)])
    tested, tests = _tested(func)
    report = np.full(WORDS, -1)
    status = tir_interp.run(tested, [*buffers, *own, *dims, report])
    code = status - FIRST_CHECK
    if code >= tests.first:
        found = [AccessInfo(t.message, t.is_ours) for t in tests.found]
        raise violation(found, code - tests.first, report.tolist())
    if status:
        raise RunError(_failed_check(func, code))
    arrays = [*buffers, *own]
    results = tuple(
        strings.texts(arrays[n]) if func.params[n].dtype.is_string else context.widen(arrays[n]) for n in outs
    )
    return results[0] if len(results) == 1 else results


def _stored(array: np.ndarray, dtype: DType, strings: Strings) -> np.ndarray:
    """An input as loop programs have it: numbers in place of strings."""
    return strings.numbers(array) if dtype.is_string else np.asarray(array, dtype.numpy, order="C")


def _program_dims(func: Func, stated: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """The index parameters of a loop program; RunError where nothing tells them, or an extent does not fit."""
    extents = [[const(n) for n in shape] for shape in shapes]
    found = program_dims(func, [const(d) for d in stated], extents)
    if isinstance(found, str):
        raise RunError(f"call_tir: {found}")
    values = {v: int(evaluate(d, {})) for v, d in found.items()}
    for p, shape in zip(func.params, shapes, strict=False):
        assert isinstance(p, Buffer)
        wanted = tuple(int(evaluate(d, values)) for d in p.shape)
        if wanted != shape:
            raise RunError(f"call_tir: {p.name} of @{func.name} has the shape {wanted}, got {shape}")
    return [values[p] for p in func.params if isinstance(p, DimVar)]


@lru_cache(maxsize=64)
def _tested(func: Func) -> tuple[Func, AccessTests]:
    """A loop program that is safe to run, and fails where it would leave a buffer."""
    func = sealed(func)
    codes = [s.code for s in statements(func) if isinstance(s, Check)]
    tests = AccessTests(max(codes, default=-1) + 1)
    unproven = {f.key for f in prove_accesses(func) if f.reason is not None}
    wanted = partial(_is_among, unproven)
    return checked(func, tests, {}, wanted=wanted, is_ours=False), tests


def _is_among(places: Container[object], access: Access) -> bool:
    return (access.buffer, access.indices, access.is_store) in places


def _failed_check(func: Func, code: int) -> str:
    """What the check of a loop program that has failed says."""
    messages = (s.message for s in statements(func) if isinstance(s, Check) and s.code == code)
    return next(filter(None, messages), f"{func.name}: check {code} failed")

"""Identities of tensors that hold one number, such as the ones that gradients start with; they hold bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np

from legato.arith.expr import Const
from legato.arith.prove import prove_equal
from legato.infer.builder import Builder
from legato.ir.expr import Call, Constant, Expr, constant
from legato.ir.op import Fusion, Op
from legato.ir.types import Dim, TensorType
from legato.ops._gradients import extents
from legato.ops.binary import add, divide, multiply, subtract
from legato.ops.create import full, full_like, ones, ones_like, zeros, zeros_like
from legato.ops.reduce import axes_of
from legato.ops.reshape import reshape
from legato.ops.transpose import broadcast_to
from legato.transform._identities import neutral

__all__ = ["broadcast_number", "concrete", "of_broadcast", "of_numbers", "of_one_number", "reshaped_number", "scalar",
           "sum_of_number"]  # fmt: skip

_ARITHMETIC: Final = (add, subtract, multiply, divide)
_WHOLE: Final = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}  # floats count exactly up to 2 ** that


def _type(e: Expr) -> TensorType | None:
    return e.ty if isinstance(e.ty, TensorType) else None


def _filled(x: Expr, like: Call) -> Expr:
    """A tensor of the type of `like` that holds the scalar `x`."""
    ty, b = _type(like), Builder(span=like.span)
    assert ty is not None
    if not ty.rank:
        return x
    for op, number in ((zeros, 0), (ones, 1)):
        if isinstance(x, Constant) and x.data == number and not _is_negative(x):
            return b.call(op, shape=extents(ty.shape), dtype=ty.dtype.name)
    return b.call(full, x, shape=extents(ty.shape))


def _is_negative(x: Constant) -> bool:
    """Whether a number has a sign, as -0.0 has."""
    return bool(np.signbit(x.data.astype(np.float64)))


def _held(e: Expr) -> Expr | None:
    """What full, zeros and ones put into each place."""
    ty = _type(e)
    if not isinstance(e, Call) or ty is None or e.op not in (full, zeros, ones):
        return None
    return e.args[0] if e.op is full else constant(np.full((), int(e.op is ones)), ty.dtype)


def _number(e: Expr) -> Expr | None:
    """What a tensor of a rank holds in each place, as a scalar."""
    ty = _type(e)
    return _held(e) if ty is not None and ty.rank else None


# ------------------------------------------------------------------ how they are made


def concrete(call: Call) -> Expr | None:
    """zeros_like(x) = zeros(shape) and its kin, for a literal shape; x is not evaluated then."""
    if not isinstance(call.ty, TensorType) or not call.ty.is_static:
        return None
    shape, b = call.ty.static_shape(), Builder(span=call.span)
    if call.op is full_like:
        return b.call(full, call.args[1], shape=shape)
    if call.op is zeros_like or call.op is ones_like:
        return b.call(zeros if call.op is zeros_like else ones, shape=shape, dtype=call.ty.dtype.name)
    return None


def scalar(call: Call) -> Expr | None:
    """full(x), zeros() and ones() without dims are numbers."""
    ty = _type(call)
    return _held(call) if ty is not None and not ty.rank else None


def reshaped_number(call: Call) -> Expr | None:
    """reshape(full(x)) = full(x), in the new shape."""
    x = _number(call.args[0])
    return None if x is None or call.ty is None else _filled(x, call)


def broadcast_number(call: Call) -> Expr | None:
    """broadcast_to(x) = full(x) for a scalar, and for one as a tensor of one element."""
    x = call.args[0]
    while isinstance(x, Call) and x.op is reshape:
        x = x.args[0]
    number = _number(x)
    if isinstance(x, Constant) and x.data.size == 1:
        number = constant(x.data.reshape(()), _dtype_name(x))
    elif (ty := _type(x)) is not None and not ty.rank:
        number = x
    return None if number is None or call.ty is None else _filled(number, call)


def _dtype_name(e: Expr) -> str:
    ty = _type(e)
    assert ty is not None
    return ty.dtype.name


# ------------------------------------------------------------------ how they are used


def of_one_number(call: Call) -> Expr | None:
    """An operand of an elementwise operator that holds one number is that number, where the type stays."""
    for n, arg in enumerate(call.args if _is_elementwise(call) else ()):
        number = _number(arg)
        if number is not None:
            new = _with(call, n, number)
            if new.ty == call.ty:
                return new
    return None


def of_numbers(call: Call) -> Expr | None:
    """full(x) + full(y) = full(x + y), and so for a number beside it; arithmetic alone is the same everywhere."""
    if call.op not in _ARITHMETIC or _type(call) is None:
        return None
    numbers = [x if (x := _number(arg)) is not None else arg for arg in call.args]
    if all(same is arg for same, arg in zip(numbers, call.args, strict=True)):
        return None
    if any((ty := _type(x)) is None or ty.rank for x in numbers):
        return None
    both = Builder(span=call.span).call_op(call.op, numbers, call.attrs)
    return _filled(neutral(both) or both, call)


def of_broadcast(call: Call) -> Expr | None:
    """x + broadcast_to(y) = x + y, where x has the result's shape: elementwise operators broadcast by themselves.

    So with reshape(y) in place of it, where that adds dims in front.
    """
    for n, arg in enumerate(call.args if _is_elementwise(call) else ()):
        if isinstance(arg, Call) and _broadcasts(arg) and _same_shape(_shape(call.args[1 - n]), _shape(call)):
            return _with(call, n, arg.args[0])
    return None


def _broadcasts(call: Call) -> bool:
    """Whether what a call does is done by an elementwise operator beside a tensor of its shape."""
    given, wanted = _shape(call.args[0]) if call.args else None, _shape(call)
    if call.op not in (broadcast_to, reshape) or given is None or wanted is None or len(given) > len(wanted):
        return False
    extra = len(wanted) - len(given)
    if call.op is reshape:
        return all(map(_is_one, wanted[:extra])) and _same_shape(given, wanted[extra:])
    return all(_is_one(d) or prove_equal(d, n) for d, n in zip(given, wanted[extra:], strict=True))


def _is_one(d: Dim) -> bool:
    return isinstance(d, Const) and d.value == 1


def _is_elementwise(call: Call) -> bool:
    return isinstance(call.op, Op) and call.op.fusion is Fusion.BROADCAST and len(call.args) == 2


def _with(call: Call, n: int, arg: Expr) -> Call:
    assert isinstance(call.op, Op)
    args = (*call.args[:n], arg, *call.args[n + 1 :])
    return Builder(span=call.span).call_op(call.op, args, call.attrs)


def _shape(e: Expr) -> tuple[Dim, ...] | None:
    ty = _type(e)
    return None if ty is None else ty.shape


def _same_shape(a: Sequence[Dim] | None, b: Sequence[Dim] | None) -> bool:
    return a is not None and b is not None and len(a) == len(b) and all(map(prove_equal, a, b))


def sum_of_number(call: Call) -> Expr | None:
    """sum(full(x)) = full(n·x) for a whole number of which floats hold every partial sum."""
    data, ty = call.args[0], _type(call.args[0])
    number = _number(data)
    if ty is None or not isinstance(number, Constant) or ty.dtype.name not in _WHOLE:
        return None
    dims = [ty.shape[axis] for axis in axes_of(call.attrs, ty.rank)]
    x, count = number.data.item(), prod(int(d.value) if isinstance(d, Const) else 0 for d in dims)
    if not all(isinstance(d, Const) for d in dims) or not np.isfinite(x) or x != int(x):
        return None
    if max(abs(x), abs(x) * count) > 1 << _WHOLE[ty.dtype.name] or (x == 0 and _is_negative(number)):
        return None
    return _filled(constant(np.full((), int(x) * count), ty.dtype), call)

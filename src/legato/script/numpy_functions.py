"""NumPy's functions of tensors: those that an operator computes. Dtypes are the operators', which never widen.

A call whose arguments are all known is NumPy's own, made when the program is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any, Final

import numpy as np

from legato.script.frame import Frame
from legato.script.operators import binary, compare, unary
from legato.script.subscript import fields
from legato.script.values import Native, Value, is_dynamic, is_foreign, is_number

__all__ = ["numpy_function"]

Rule = Callable[..., Value]
Axis = int | Sequence[int] | None

_DISPATCHED: Final = type(np.sum)  # what NumPy's functions in Python are


def numpy_function(function: Value) -> Native | None:
    """What a function of NumPy's means here; None for one that means nothing."""
    if not isinstance(function, np.ufunc) and type(function) is not _DISPATCHED:
        return None
    rule = _RULES.get(function)
    return None if rule is None else Native(f"numpy.{function.__name__}", partial(_run, rule, function))


def _run(rule: Rule, function: Any, frame: Frame, *args: Value, **keywords: Value) -> Value:
    given = (*args, *keywords.values())
    if is_dynamic(given):
        try:
            signature(rule).bind(frame, *args, **keywords)
        except TypeError as error:
            raise frame.wrong(f"numpy.{function.__name__}: {error}", "the rest of NumPy's has no operator") from error
        return rule(frame, *args, **keywords)
    if is_foreign(given):
        raise frame.unsupported(f"numpy.{function.__name__} of an object of Python's")
    result = function(*args, **keywords)
    return result.item() if isinstance(result, np.generic) and all(map(is_number, args)) else result


# ------------------------------------------------------------------ elementwise


def _symbol(op: type[ast.operator]) -> Rule:
    return lambda frame, a, b: binary(frame, op(), a, b)


def _comparison(op: type[ast.cmpop]) -> Rule:
    return lambda frame, a, b: compare(frame, op(), a, b)


def _prefix(op: type[ast.unaryop]) -> Rule:
    return lambda frame, a: unary(frame, op(), a)


def _elementwise(name: str, count: int) -> Rule:
    def run(frame: Frame, *args: Value) -> Value:
        if len(args) != count:
            raise TypeError(f"takes {count} arguments, got {len(args)}")
        return frame.call(name, *args)

    return run


def _square(frame: Frame, x: Value) -> Value:
    return frame.call("multiply", x, x)


def _reciprocal(frame: Frame, x: Value) -> Value:
    return binary(frame, ast.Div(), 1, x)


def _clip(frame: Frame, a: Value, a_min: float, a_max: float) -> Value:
    return frame.call("clip", a, a_min=a_min, a_max=a_max)


# ------------------------------------------------------------------ along axes


def _reduction(name: str) -> Rule:
    def run(frame: Frame, a: Value, axis: Axis = None, *, keepdims: bool = False) -> Value:
        return frame.call(name, a, axis=axis, keepdims=keepdims)

    return run


def _var(frame: Frame, a: Value, axis: Axis = None, *, ddof: int = 0, keepdims: bool = False) -> Value:
    if ddof not in (0, 1):
        raise ValueError(f"ddof is {ddof!r}, wanted 0 or 1")
    mean = frame.call("mean", a, axis=axis, keepdims=True)
    return frame.call("variance", a, mean, axis=axis, keepdims=keepdims, unbiased=ddof == 1)


def _std(frame: Frame, a: Value, axis: Axis = None, *, ddof: int = 0, keepdims: bool = False) -> Value:
    return frame.call("sqrt", _var(frame, a, axis, ddof=ddof, keepdims=keepdims))


def _cumsum(frame: Frame, a: Value, axis: int) -> Value:
    return frame.call("cumsum", a, axis=axis)


# ------------------------------------------------------------------ shapes


def _reshape(frame: Frame, a: Value, shape: Any) -> Value:
    listed = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    if any(is_number(d) and d < -1 for d in listed):
        raise ValueError(f"{shape!r} has a dim below -1")
    return frame.call("reshape", a, newshape=listed, allowzero=True)


def _transpose(frame: Frame, a: Value, axes: Sequence[int] | None = None) -> Value:
    return frame.call("transpose", a, axes=axes)


def _joined(name: str) -> Rule:
    def run(frame: Frame, arrays: Value, axis: int = 0) -> Value:
        return frame.call(name, *fields(frame, arrays), axis=axis)

    return run


def _with_axis(name: str) -> Rule:
    return lambda frame, a, axis: frame.call(name, a, axis=axis)


def _flip(frame: Frame, a: Value, axis: int) -> Value:
    return frame.call("reverse", a, axis=axis)


def _squeeze(frame: Frame, a: Value, axis: int | tuple[int, ...] | None = None) -> Value:
    return frame.call("squeeze", a, axis=(axis,) if isinstance(axis, int) else axis)


def _broadcast_to(frame: Frame, array: Value, shape: Any) -> Value:
    return frame.call("broadcast_to", array, shape=tuple(shape) if isinstance(shape, tuple | list) else (shape,))


_SAME: Final[Mapping[int, Mapping[str, Any]]] = {  # by the name of the operator: functions that it computes as it is
    1: {
        "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
        "atan": np.arctan, "atanh": np.arctanh, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh, "exp": np.exp,
        "floor": np.floor, "isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan, "log": np.log,
        "log10": np.log10, "log2": np.log2, "logical_not": np.logical_not, "ones_like": np.ones_like,
        "round": np.rint, "sign": np.sign, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan,
        "tanh": np.tanh, "trunc": np.trunc, "zeros_like": np.zeros_like,
    },
    2: {
        "full_like": np.full_like, "logical_and": np.logical_and, "logical_or": np.logical_or,
        "logical_xor": np.logical_xor, "maximum": np.maximum, "minimum": np.minimum, "trunc_mod": np.fmod,
    },
    3: {"where": np.where},
}  # fmt: skip
_RULES: Final[Mapping[Any, Rule]] = {
    **{f: _elementwise(name, count) for count, named in _SAME.items() for name, f in named.items()},
    np.add: _symbol(ast.Add), np.subtract: _symbol(ast.Sub), np.multiply: _symbol(ast.Mult),
    np.divide: _symbol(ast.Div), np.floor_divide: _symbol(ast.FloorDiv), np.mod: _symbol(ast.Mod),
    np.power: _symbol(ast.Pow), np.matmul: _symbol(ast.MatMult), np.left_shift: _symbol(ast.LShift),
    np.right_shift: _symbol(ast.RShift), np.bitwise_and: _symbol(ast.BitAnd), np.bitwise_or: _symbol(ast.BitOr),
    np.bitwise_xor: _symbol(ast.BitXor),
    np.less: _comparison(ast.Lt), np.less_equal: _comparison(ast.LtE), np.greater: _comparison(ast.Gt),
    np.greater_equal: _comparison(ast.GtE), np.equal: _comparison(ast.Eq), np.not_equal: _comparison(ast.NotEq),
    np.negative: _prefix(ast.USub), np.invert: _prefix(ast.Invert),
    np.square: _square, np.reciprocal: _reciprocal, np.clip: _clip,
    np.sum: _reduction("sum"), np.prod: _reduction("prod"), np.mean: _reduction("mean"), np.max: _reduction("max"),
    np.min: _reduction("min"), np.all: _reduction("all"), np.any: _reduction("any"),
    np.argmax: _reduction("argmax"), np.argmin: _reduction("argmin"), np.var: _var, np.std: _std, np.cumsum: _cumsum,
    np.reshape: _reshape, np.transpose: _transpose, np.concatenate: _joined("concatenate"), np.stack: _joined("stack"),
    np.expand_dims: _with_axis("expand_dims"), np.flip: _flip, np.squeeze: _squeeze, np.broadcast_to: _broadcast_to,
}  # fmt: skip

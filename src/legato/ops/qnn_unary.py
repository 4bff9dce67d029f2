"""Functions of codes, one by one: qnn.exp, sqrt, … and qnn.leaky_relu.

    codes of f(number of the code)          computed in float32

Codes of 8 bits are looked up in a table of all 256 results, others are computed each by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Constant, Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Type
from legato.ops._families import quiet
from legato.ops._gradients import dtype_of
from legato.ops._qnn import CODES, along, check_parameters, codes, codes_array, is_constant, numbers, numbers_array
from legato.ops._rules import require_dtype, tensor
from legato.ops._tensors import Array
from legato.ops.unary import abs_, erf, exp, log, rsqrt, sigmoid, sqrt, tanh

__all__ = ["QnnLeakyReluAttrs", "looked_up", "qnn_abs", "qnn_erf", "qnn_exp", "qnn_hardswish", "qnn_leaky_relu",
           "qnn_log", "qnn_rsqrt", "qnn_sigmoid", "qnn_sqrt", "qnn_tanh"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class QnnLeakyReluAttrs(Attrs):
    """`alpha`: the slope below 0."""

    alpha: float


def _relation(
    rel: Relation, data: Type, scale: Type, zero: Type, out_scale: Type, out_zero: Type, a: Any = None
) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, CODES, "data")
    check_parameters(rel, ty, scale, zero, None, "input")
    check_parameters(rel, ty, out_scale, out_zero, None, "output")
    return ty


def _all_codes(dtype: DType) -> Array:
    return np.arange(dtype.min, dtype.max + 1).astype(dtype.numpy)


def looked_up(b: Builder, x: Expr, table: Expr) -> Expr:
    """The element of `table`, which has one for every value of the 8-bit dtype of `x`."""
    least = dtype_of(x).min
    place = b.cast(x, dtype=dt.int32)
    return b.take(table, b.subtract(place, least) if least else place, axis=0, mode="clip")


def _function(
    name: str,
    on_array: Callable[..., Array],
    on_expr: Callable[..., Expr],
    doc: str,
    attrs: type | None = None,
    given: dict[str, Any] | None = None,
) -> Op:
    """The record of a function of float32; `attrs` follow its argument."""

    def reference(x: Array, scale: Array, zero: Array, out_scale: Array, out_zero: Array, *a: Any) -> Array:
        s, z, so, zo = (p.reshape(()) for p in (scale, zero, out_scale, out_zero))
        found = on_array(numbers_array(x, s, z, dt.float32), *a)
        return codes_array(found, so, zo, dt.dtype(x.dtype))

    def elements(b: Builder, x: Expr, parameters: list[Expr], a: tuple[Any, ...]) -> Expr:
        scale, zero, out_scale, out_zero = parameters
        return codes(b, on_expr(b, numbers(b, x, scale, zero, dt.float32), *a), out_scale, out_zero, dtype_of(x))

    def expand(b: Builder, x: Expr, *rest: Any) -> Expr:
        own = [along(b, p, 0, 0) for p in rest[:4]]
        dtype = dtype_of(x)
        if dtype.bits > 8:
            return elements(b, x, own, rest[4:])
        every = _all_codes(dtype)
        if not is_constant(*rest[:4]):
            return looked_up(b, x, elements(b, b.constant(every), own, rest[4:]))
        known = [p.data for p in rest[:4] if isinstance(p, Constant)]
        return looked_up(b, x, b.constant(quiet(reference)(every, *known, *rest[4:])))

    return Op(
        name=name,
        args=("x", "scale", "zero_point", "output_scale", "output_zero_point"),
        attrs=attrs,
        type_rel=_relation,
        reference=quiet(reference),
        expand=expand,
        samples=tuple(Sample(s, given or {}) for s in _SAMPLES),
        doc=doc,
    )


def _scale(scale: float, zero: int) -> tuple[Array, Array]:
    return np.array(scale, np.float32), np.array(zero, np.int32)


_SAMPLES: tuple[tuple[Any, ...], ...] = (
    (_all_codes(dt.int8), *_scale(0.05, -3), *_scale(0.02, 5)),
    (_all_codes(dt.uint8), *_scale(0.03, 100), *_scale(0.01, 20)),
    (((2, 3), "int8"), *_scale(1.0, 0), *_scale(0.5, 0)),
    (((0,), "uint8"), *_scale(1.0, 0), *_scale(0.5, 0)),
)

_DOC = "The codes of {} of the numbers that x stands for, in float32."


def _named(name: str, of: Op, what: str) -> Op:
    return _function(f"qnn.{name}", of.reference, lambda b, x: b.call(of, x), _DOC.format(what))


qnn_abs = _named("abs", abs_, "the absolute value")
qnn_erf = _named("erf", erf, "the error function")
qnn_exp = _named("exp", exp, "e to the power")
qnn_log = _named("log", log, "the natural logarithm")
qnn_rsqrt = _named("rsqrt", rsqrt, "1 / the square root")
qnn_sigmoid = _named("sigmoid", sigmoid, "1 / (1 + exp(-x))")
qnn_sqrt = _named("sqrt", sqrt, "the square root")
qnn_tanh = _named("tanh", tanh, "the hyperbolic tangent")


def _hard_swish_array(x: Array) -> Array:
    one, three, six = (x.dtype.type(v) for v in (1, 3, 6))
    return np.asarray(x * (np.clip(x + three, 0 * one, six) / six))


qnn_hardswish = _function(
    "qnn.hardswish",
    _hard_swish_array,
    lambda b, x: b.multiply(x, b.divide(b.clip(b.add(x, 3.0), a_min=0.0, a_max=6.0), 6.0)),
    _DOC.format("x · clip(x + 3, 0, 6) / 6"),
)
qnn_leaky_relu = _function(
    "qnn.leaky_relu",
    lambda x, a: np.where(x < 0, x * x.dtype.type(a.alpha), x),
    lambda b, x, a: b.where(b.less(x, 0.0), b.multiply(x, a.alpha), x),
    "The codes of x, or of alpha · x where x is below 0, of the numbers that x stands for.",
    QnnLeakyReluAttrs,
    {"alpha": 0.1},
)

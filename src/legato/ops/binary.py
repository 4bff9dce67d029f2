"""Elementwise functions of two tensors, broadcast.

Both operands have one dtype. Integers wrap; integer division and remainder by zero give 0; shift counts are taken
modulo the width. `divide` and `mod` of integers round towards zero (Relay's truncation), `floor_divide` and
`floor_mod` towards minus infinity. On floats division is IEEE 754's, and a remainder is exact, as C's fmod and NumPy's
remainder are: NaN for b = 0 and infinite a; for infinite b, a itself, or b where `floor_mod` changes the sign.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import legato.te.math as te
from legato.arith import expr as arith
from legato.arith.expr import Expr, Var, const
from legato.arith.prove import prove
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.expr import Constant
from legato.ir.expr import Expr as Node
from legato.ir.op import Sample
from legato.ir.types import Dim, TensorType
from legato.ops._families import INT_A, INT_B, Array, Scalar, binary, broadcast_index, in_float32
from legato.ops._gradients import BinaryGradient
from legato.ops._rules import INT
from legato.ops._tensors import wide
from legato.te.tensor import Tensor, compute, loops
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.intrinsics import INTRINSICS
from legato.tir.stmt import Alloc, For, Stmt, Store, block


def _bits(d: DType) -> bool:
    return not d.is_float


def _bool(d: DType) -> bool:
    return d.is_bool


_bits.__name__, _bool.__name__ = "an integer dtype or bool", "bool"


def _by_kind(
    ints: Callable[[Array, Array], Any], floats: Callable[[Array, Array], Any]
) -> Callable[[Array, Array], Any]:
    """A reference that differs between integers and floats."""
    return lambda a, b: ints(a, b) if a.dtype.kind in "iu" else floats(a, b)


def _scalar_by_kind(ints: Scalar, floats: Scalar) -> Scalar:
    return lambda a, b: floats(a, b) if a.dtype.is_float else ints(a, b)


def _floor_divide(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b))).astype(a.dtype)


def _floor_mod(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, np.mod(a, np.where(b == 0, 1, b))).astype(a.dtype)


def _trunc_divide(a: Array, b: Array) -> Array:
    quotient = _floor_divide(a, b)
    inexact = (b != 0) & (quotient * b != a) & (quotient < 0)
    return np.asarray(quotient + inexact.astype(a.dtype), a.dtype)


def _trunc_mod(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b))).astype(a.dtype)


def _rounded(f: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """f(a / b), the quotient in float32 for 16-bit floats."""
    return lambda a, b: np.asarray(f(wide(a) / wide(b)))


def _te_trunc_mod(a: Expr, b: Expr) -> Expr:
    """The remainder of |a| / |b| with the sign of a, which zeros have too."""
    zero, rest = te.literal(0, a), arith.floormod(te.abs_(a), te.abs_(b))
    signed = te.select(te.lt(a, zero), te.neg(rest), rest)
    return te.select(te.land(te.eq(a, zero), te.eq(rest, zero)), a, signed)


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.asarray(INTRINSICS["pow"].reference(a, b))
    return _integer_power(a, b)


def _integer_power(a: Array, b: Array) -> Array:
    """a^b by repeated squaring, wrapping; a negative exponent gives the truncated reciprocal, 0 unless a is ±1."""
    base, exponent = np.broadcast_arrays(a, b)
    base = base.copy()
    result = np.ones_like(base)
    left = np.where(exponent < 0, 0, exponent).astype(np.uint64)
    while left.any():
        result = np.where(left & 1, result * base, result)
        base = base * base
        left = left >> np.uint64(1)
    one, odd = np.asarray(1, a.dtype), (exponent & 1).astype(bool)
    reciprocal = (
        np.where(a == 1, one, np.where(a == -1, np.where(odd, -one, one), 0)) if a.dtype.kind == "i" else result
    )
    return np.where(exponent < 0, reciprocal, result).astype(a.dtype)


def _power_compute(a: Tensor, b: Tensor, out_type: TensorType) -> Tensor:
    if out_type.dtype.is_float:

        def body(*i: Expr) -> Expr:
            x, y = (t[broadcast_index(i, t.shape, out_type.shape)] for t in (a, b))
            return te.power(x, y)

        return compute(out_type.shape, body, "power")
    (out,) = loops([(out_type.shape, out_type.dtype)], [a, b], lambda out: _power_nest(a, b, out), "power")
    return out


def _power_nest(a: Tensor, b: Tensor, out: Tensor) -> Stmt:
    """For every element, repeated squaring: one step per bit of the exponent."""
    index = tuple(Var(f"i{n}", dt.index, 0) for n in range(len(out.shape)))
    x, y = a[broadcast_index(index, a.shape, out.shape)], b[broadcast_index(index, b.shape, out.shape)]
    state = Buffer(
        "state", (const(3),), out.dtype, scope=Scope.LOCAL
    )  # the result, the base squared, exponent bits left
    result, base, left = (Load(state, (const(n),)) for n in range(3))
    one, zero = te.literal(1, x), te.literal(0, x)
    odd = te.ne(arith.bitand(left, one), zero)
    step = block(
        Store(state, (const(0),), te.select(odd, result * base, result)),
        Store(state, (const(1),), base * base),
        Store(state, (const(2),), arith.shr(left, one)),
    )
    starts = [Store(state, (const(n),), v) for n, v in enumerate((one, x, y))]
    bits = For(Var("bit", dt.index, 0), const(x.dtype.bits), step)
    body: Stmt = Alloc(state, block(*starts, bits, Store(out, index, _with_sign(x, y, result))))
    for var, extent in reversed(list(zip(index, out.shape, strict=True))):
        body = For(var, extent, body)
    return body


def _with_sign(x: Expr, y: Expr, result: Expr) -> Expr:
    """`result`, or the truncated reciprocal where exponent y is negative."""
    if not x.dtype.is_signed:
        return result
    one, zero, minus = te.literal(1, x), te.literal(0, x), te.literal(-1, x)
    odd = te.ne(arith.bitand(y, one), zero)
    reciprocal = te.select(te.eq(x, one), one, te.select(te.eq(x, minus), te.select(odd, minus, one), zero))
    return te.select(te.lt(y, zero), reciprocal, result)


def _shift(f: Callable[[Any, Any], Any]) -> Callable[[Array, Array], Any]:
    def run(a: Array, b: Array) -> Array:
        return np.asarray(f(a, (b & (a.dtype.itemsize * 8 - 1)).astype(a.dtype)))

    return run


def _dim_div(a: Dim, b: Dim) -> Dim:
    """Division of dims, rounded towards zero; 0 where `b` is 0."""
    return simplify(arith.select(arith.ge(b, 0), _quotient(a, b), _quotient(-a, -b)))


def _quotient(a: Dim, b: Dim) -> Dim:
    """As `_dim_div`, for b >= 0."""
    above, below = (simplify(arith.max_(x, const(0))) for x in (a, -a))
    return above // b if below is const(0) else above // b - below // b


def _dim_mod(a: Dim, b: Dim) -> Dim:
    """The remainder of `_dim_div`; 0 where `b` is 0."""
    rest = a - _dim_div(a, b) * b
    return rest if prove(arith.ne(b, 0)) else arith.select(arith.eq(b, 0), const(0), rest)


def _bool_dims(rule: Callable[[Dim, Dim], Dim]) -> Callable[[Dim, Dim], Dim]:
    """A function of truth values on dims that are 0 or 1."""
    return lambda a, b: simplify(arith.select(rule(arith.ne(a, 0), arith.ne(b, 0)), const(1), const(0)))


_INTS = [
    Sample((INT_A, INT_B), exact=True),
    Sample((((2, 3), "int64"), ((3,), "int64")), exact=True),
    Sample((np.array([0, 1, 200, 255], np.uint8), np.array([3, 255, 9, 0], np.uint8)), exact=True),
]
_POWERS = [
    Sample((((3, 4), "float32"), ((3, 4), "float32")), rtol=1e-4),
    Sample((np.array([0.0, -0.0, 2.0, -2.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 4.0], np.float32)[:, None],
            np.array([0.0, 1.0, -1.0, 2.0, 3.0, 0.5, -0.5, np.inf, -np.inf, np.nan], np.float32)), rtol=1e-4),
    Sample((np.array([2, -3, 0, 1, -1, 5, 7], np.int32), np.array([10, 3, 0, -5, -3, -1, 40], np.int32)), exact=True),
]  # fmt: skip


def _first(b: Builder, x: Node, z: Node, y: Node, dy: Node) -> Node:
    """The gradient of a sum's operand."""
    return dy


def _none(b: Builder, x: Node, z: Node, y: Node, dy: Node) -> None:
    """The gradient of what is constant almost everywhere."""


def _times_quotient(b: Builder, x: Node, z: Node, y: Node, dy: Node) -> Node:
    """The remainder y = x - q·z by z, with the whole number q: x / z itself may be rounded to another."""
    return b.negative(b.multiply(dy, b.round(b.divide(b.subtract(x, y), z))))


def _is_never(x: Node, value: float) -> bool:
    """Whether `x` is known, and no element of it is `value`."""
    return isinstance(x, Constant) and not (x.data == value).any()


def _is_always(x: Node, value: float) -> bool:
    """Whether `x` is known, and all its elements are `value`."""
    return isinstance(x, Constant) and bool((x.data == value).all())


def _of_base(b: Builder, x: Node, z: Node, y: Node, dy: Node) -> Node:
    """z·x^(z - 1), and 0 for z = 0 where x is 0, or so small that 1/x is infinite, or NaN: x⁰ is 1 there too."""
    if _is_always(z, 2):
        return b.multiply(dy, b.multiply(z, x))
    if not _is_never(z, 0):
        is_pole = b.logical_not(b.isfinite(b.divide(1, x)))
        x = b.where(b.logical_and(b.equal(z, 0), is_pole), 1, x)
    return b.multiply(dy, b.multiply(z, b.power(x, b.subtract(z, 1))))


def _of_exponent(b: Builder, x: Node, z: Node, y: Node, dy: Node) -> Node:
    """y·log(x), and 0 for x = 0 where z is not below 0; NaN for x below 0."""
    if _is_never(x, 0):
        return b.multiply(dy, b.multiply(y, b.log(x)))
    is_flat = b.logical_and(b.equal(x, 0), b.greater_equal(z, 0))
    return b.multiply(dy, b.multiply(y, b.log(b.where(is_flat, 1, x))))


def _of_the_one(loses: str) -> tuple[BinaryGradient, BinaryGradient]:
    """All for the operand that is the result, half of it for equal ones."""

    def share(b: Builder, x: Node, z: Node, dy: Node) -> Node:
        return b.where(b.equal(x, z), b.multiply(dy, 0.5), b.where(b.op(loses)(x, z), 0, dy))

    return lambda b, x, z, y, dy: share(b, x, z, dy), lambda b, x, z, y, dy: share(b, z, x, dy)


add = binary("add", np.add, lambda a, b: a + b, value=lambda a, b: a + b, grad=(_first, _first), doc="a + b.")
subtract = binary(
    "subtract",
    np.subtract,
    lambda a, b: a - b,
    value=lambda a, b: a - b,
    grad=(_first, lambda b, x, z, y, dy: b.negative(dy)),
    doc="a - b.",
)
multiply = binary(
    "multiply",
    np.multiply,
    lambda a, b: a * b,
    value=lambda a, b: a * b,
    grad=(lambda b, x, z, y, dy: b.multiply(dy, z), lambda b, x, z, y, dy: b.multiply(dy, x)),
    doc="a * b.",
)
divide = binary(
    "divide", _by_kind(_trunc_divide, np.true_divide), _scalar_by_kind(te.truncdiv, arith.truediv), value=_dim_div,
    grad=(lambda b, x, z, y, dy: b.divide(dy, z), lambda b, x, z, y, dy: b.negative(b.multiply(dy, b.divide(y, z)))),
    doc="a / b; integers are rounded towards zero, and division by zero gives 0.",
)  # fmt: skip
floor_divide = binary(
    "floor_divide", _by_kind(_floor_divide, _rounded(np.floor)),
    _scalar_by_kind(arith.floordiv, in_float32(lambda a, b: te.floor(a / b))), value=lambda a, b: a // b,
    grad=(_none, _none), doc="a / b rounded down; integer division by zero gives 0.",
)  # fmt: skip
trunc_divide = binary(
    "trunc_divide", _by_kind(_trunc_divide, _rounded(np.trunc)),
    _scalar_by_kind(te.truncdiv, in_float32(lambda a, b: te.trunc(a / b))), value=_dim_div,
    grad=(_none, _none), doc="a / b rounded towards zero; integer division by zero gives 0.",
)  # fmt: skip
mod = binary(
    "mod", _by_kind(_trunc_mod, np.fmod),
    _scalar_by_kind(te.truncmod, _te_trunc_mod), value=_dim_mod, exact=True, grad=(_first, _times_quotient),
    doc="The remainder of a / b with the sign of a, exact on floats; 0 for integer division by zero.",
)  # fmt: skip
trunc_mod = binary(
    "trunc_mod", _by_kind(_trunc_mod, np.fmod),
    _scalar_by_kind(te.truncmod, _te_trunc_mod), value=_dim_mod, exact=True, grad=(_first, _times_quotient),
    doc="The remainder of a / b with the sign of a, exact on floats; 0 for integer division by zero.",
)  # fmt: skip
floor_mod = binary(
    "floor_mod", _by_kind(_floor_mod, np.remainder),
    arith.floormod, value=lambda a, b: a % b, exact=True, grad=(_first, _times_quotient),
    doc="The remainder of a / b with the sign of b, exact on floats; 0 for integer division by zero.",
)  # fmt: skip
power = replace(
    binary(
        "power", _power, te.power, samples=_POWERS, grad=(_of_base, _of_exponent),
        doc="a to the power b. Integers wrap; a negative integer exponent gives 0 unless a is 1 or -1.",
    ),
    compute=_power_compute,
)  # fmt: skip
maximum = binary(
    "maximum", np.maximum, te.max_, value=te.max_, exact=True, grad=_of_the_one("less"),
    doc="The larger of a and b; NaN if either is NaN.",
)  # fmt: skip
minimum = binary(
    "minimum", np.minimum, te.min_, value=te.min_, exact=True, grad=_of_the_one("greater"),
    doc="The smaller of a and b; NaN if either is NaN.",
)  # fmt: skip
left_shift = binary(
    "left_shift",
    _shift(np.left_shift),
    arith.shl,
    dtypes=INT,
    samples=_INTS,
    doc="a << b, b modulo the width of the dtype.",
)
right_shift = binary(
    "right_shift", _shift(np.right_shift), arith.shr, dtypes=INT, samples=_INTS,
    doc="a >> b, b modulo the width of the dtype; the sign is kept.",
)  # fmt: skip
bitwise_and = binary("bitwise_and", np.bitwise_and, arith.bitand, dtypes=_bits, doc="Bitwise and.")
bitwise_or = binary("bitwise_or", np.bitwise_or, arith.bitor, dtypes=_bits, doc="Bitwise or.")
bitwise_xor = binary("bitwise_xor", np.bitwise_xor, arith.bitxor, dtypes=_bits, doc="Bitwise exclusive or.")
logical_and = binary(
    "logical_and",
    np.logical_and,
    te.land,
    dtypes=_bool,
    value=_bool_dims(arith.land),
    doc="a and b, of bools.",
)
logical_or = binary(
    "logical_or", np.logical_or, te.lor, dtypes=_bool, value=_bool_dims(arith.lor), doc="a or b, of bools."
)
logical_xor = binary(
    "logical_xor",
    np.logical_xor,
    te.ne,
    dtypes=_bool,
    value=_bool_dims(arith.ne),
    doc="Either a or b, of bools.",
)

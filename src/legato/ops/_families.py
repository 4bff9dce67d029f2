"""Constructors of operator families: one line per operator, the family's rules written once.

exp = unary("exp", np.exp, te.exp, doc="e^x.")
add = binary("add", np.add, lambda a, b: a + b, doc="Sum.")
less = compare("less", np.less, te.lt, doc="a < b.")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from legato.arith.assume import Assumptions, facts_of
from legato.arith.expr import Const, Expr, const, eq, select
from legato.arith.prove import provably_different
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.storage import carrier, decoded
from legato.ir.op import Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._gradients import BinaryGradient, UnaryGradient, of_binary, of_unary
from legato.ops._rules import (
    FLOAT,
    NUMBER,
    DTypeTest,
    at_most_one,
    broadcast_shapes,
    common_dtype,
    require_dtype,
    tensor,
)
from legato.ops._tensors import accumulator, wide
from legato.te.tensor import Tensor, compute
from legato.tir.expr import cast

__all__ = ["EDGES", "Array", "DimRule", "Scalar", "binary", "broadcast_index", "broadcast_value", "compare",
           "elementwise", "in_float32", "number", "quiet", "unary"]  # fmt: skip

Array = np.ndarray[Any, Any]
Scalar = Callable[..., Expr]
DimRule = Callable[..., "Dim | None"]

# Values at which elementwise functions misbehave, if anywhere.
EDGES = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-30, 1e30, 88.0, -88.0, 104.0, -104.0],
    np.float32,
)


def quiet(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` without NumPy's warnings about NaN, overflow and division by zero: their results are what we define."""

    def run(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return f(*args)

    run.__name__ = getattr(f, "__name__", "reference")
    return run


def in_float32(f: Scalar) -> Scalar:
    """`f`, computed in float32 on 16-bit floats, and rounded once."""

    def wide_f(*xs: Expr) -> Expr:
        dtype = xs[0].dtype
        return cast(f(*(cast(x, accumulator(dtype)) for x in xs)), dtype)

    return wide_f


def elementwise(x: Tensor, f: Scalar, name: str = "t") -> Tensor:
    """The tensor of `f(x[i])`."""
    return compute(x.shape, lambda *i: f(x[i]), name=name)


def unary(
    name: str,
    reference: Callable[[Any], Any],
    scalar: Scalar,
    *,
    doc: str,
    dtypes: DTypeTest = FLOAT,
    result: DType | None = None,
    value: DimRule | None = None,
    storage: bool = False,
    grad: UnaryGradient | None = None,
    samples: Sequence[Sample] | None = None,
    exact: bool = False,
    rtol: float = 1e-5,
) -> Op:
    """An elementwise function of one tensor; `result` is the dtype of the result if it is not the argument's.

    `grad` is `(b, x, y, dy) -> dx`, where y is the result (`_gradients.of_unary`).

    Functions of floats alone are computed in float32 for 16-bit floats, and rounded once. `value` is the function on
    dims, for shape arithmetic. The default samples hold random data, edge values, rank 0,
    an empty tensor, and narrow and wide floats.
    """

    is_wide = dtypes is FLOAT

    def type_rel(relation: Relation, x: Type) -> Type:
        ty = tensor(relation, x, "data")
        require_dtype(relation, ty, dtypes, "data")
        return ty if result is None else TensorType(ty.shape, result)

    def run(x: Array) -> Array:
        return np.asarray(reference(wide(x) if is_wide else x)).astype(x.dtype if result is None else result.numpy)

    def build(x: Tensor, out_type: TensorType) -> Tensor:
        return elementwise(x, in_float32(scalar) if is_wide else scalar, name)

    def value_rule(x: Sequence[Dim] | None, ty: Type) -> tuple[Dim, ...] | None:
        return None if x is None or value is None else _all_known([value(d) for d in x])

    return Op(
        name=name,
        args=("data",),
        type_rel=type_rel,
        reference=quiet(run),
        compute=build,
        value=None if value is None else value_rule,
        grad=None if grad is None else of_unary(grad),
        fusion=Fusion.ELEMWISE,
        storage=storage,
        samples=tuple(_unary_samples(exact, rtol) if samples is None else samples),
        doc=doc,
    )


def _unary_samples(exact: bool, rtol: float) -> list[Sample]:
    arguments = [((3, 5), "float32"), EDGES, ((), "float32"), ((0, 4), "float32"), ((7,), "float64"), ((7,), "float16")]
    return [Sample((a,), rtol=rtol, exact=exact) for a in arguments]


def binary(
    name: str,
    reference: Callable[[Any, Any], Any],
    scalar: Scalar,
    *,
    doc: str,
    dtypes: DTypeTest = NUMBER,
    result: DType | None = None,
    value: DimRule | None = None,
    storage: bool = False,
    grad: tuple[BinaryGradient, BinaryGradient] | None = None,
    samples: Sequence[Sample] | None = None,
    exact: bool = False,
    rtol: float = 1e-5,
) -> Op:
    """An elementwise function of two tensors of one dtype, broadcast by NumPy's rule; see `unary` for the rest.

    `grad` are two functions `(b, x1, x2, y, dy) -> dx` of the result's shape, one for each operand.
    """

    def type_rel(relation: Relation, a: Type, b: Type) -> Type:
        left, right = tensor(relation, a, "lhs"), tensor(relation, b, "rhs")
        dtype = common_dtype(relation, left, right)
        require_dtype(relation, left, dtypes, "lhs")
        if left.shape == right.shape:
            return left if result is None else TensorType(left.shape, result)
        return TensorType(broadcast_shapes(relation, left.shape, right.shape), result or dtype)

    def run(a: Array, b: Array) -> Array:
        return np.asarray(reference(a, b), a.dtype if result is None else result.numpy)

    def build(a: Tensor, b: Tensor, out_type: TensorType) -> Tensor:
        out = out_type.shape

        def body(*i: Expr) -> Expr:
            return scalar(a[broadcast_index(i, a.shape, out)], b[broadcast_index(i, b.shape, out)])

        return compute(out_type.shape, body, name=name)

    return Op(
        name=name,
        args=("lhs", "rhs"),
        type_rel=type_rel,
        reference=quiet(run),
        compute=build,
        value=None if value is None else broadcast_value(value),
        grad=None if grad is None else of_binary(*grad),
        fusion=Fusion.BROADCAST,
        storage=storage,
        samples=tuple(_binary_samples(dtypes, exact, rtol) if samples is None else samples),
        doc=doc,
    )


def compare(
    name: str,
    reference: Callable[[Any, Any], Any],
    scalar: Scalar,
    *,
    doc: str,
    value: DimRule,
    storage: bool = False,
) -> Op:
    """A comparison of two tensors of one dtype, broadcast, with a bool result; with NaN all but `!=` are False.

    storage: it compares the numbers that codes stand for, too.
    """

    def anything(d: DType) -> bool:
        return True

    def run(a: Array, b: Array) -> Any:
        return reference(decoded(a), decoded(b))

    def of_numbers(a: Expr, b: Expr) -> Expr:
        return scalar(number(a), number(b))

    flags = np.array([False, True, False, True]), np.array([False, False, True, True])
    samples = [*_binary_samples(NUMBER, True, 0.0), Sample(flags, exact=True)]
    return binary(
        name, run, of_numbers, doc=doc, dtypes=anything, result=dt.bool_, value=value, storage=storage, samples=samples
    )


def number(x: Expr) -> Expr:
    """The number that a code stands for; other scalars as they are."""
    return cast(x, carrier(x.dtype)) if x.dtype.is_storage else x


INT_A = np.array([7, -7, 7, -7, 0, 5, -(2**31), -(2**31), 2**31 - 1, 3, 1, -1], np.int32)
INT_B = np.array([2, 2, -2, -2, 3, 0, -1, 0, 2**31 - 1, 40, -3, 33], np.int32)


def _binary_samples(dtypes: DTypeTest, exact: bool, rtol: float) -> list[Sample]:
    found: list[Sample] = []
    if dtypes(dt.float32):
        grid = np.repeat(EDGES[:12], 12), np.tile(EDGES[:12], 12)
        found += [
            Sample((((3, 4), "float32"), ((3, 4), "float32")), rtol=rtol, exact=exact),
            Sample((((2, 1, 4), "float32"), ((3, 1), "float32")), rtol=rtol, exact=exact),
            Sample((((), "float64"), ((5,), "float64")), rtol=rtol, exact=exact),
            Sample((((4,), "float16"), ((4,), "float16")), rtol=rtol, exact=exact),
            Sample(grid, rtol=rtol, exact=exact),
        ]
    if dtypes(dt.int32):
        found += [
            Sample((INT_A, INT_B), exact=True),
            Sample((((2, 3), "int64"), ((3,), "int64")), exact=True),
            Sample((((0, 3), "int8"), ((1, 3), "int8")), exact=True),
            Sample((np.array([0, 1, 200, 255], np.uint8), np.array([3, 255, 100, 0], np.uint8)), exact=True),
        ]
    if dtypes(dt.bool_):
        found.append(Sample((np.array([False, True, False, True]), np.array([False, False, True, True])), exact=True))
    return found


def broadcast_index(index: Sequence[Expr], shape: Sequence[Dim], out: Sequence[Dim]) -> tuple[Expr, ...]:
    """The index into a tensor of `shape` for `index` of what it broadcasts to, whose shape is `out`."""
    skip = len(out) - len(shape)
    return tuple(_broadcast_subscript(i, d, n) for i, d, n in zip(index[skip:], shape, out[skip:], strict=True))


def _broadcast_subscript(i: Expr, d: Dim, out: Dim) -> Expr:
    if d is out:
        return i
    if at_most_one(d):
        return const(0)
    if provably_different(d, const(1)) or Assumptions({}, facts_of(eq(d, 1))).nonnegative(1 - out):
        return i  # where d is 1, so is i's extent
    return select(eq(d, 1), const(0), i)


def broadcast_value(rule: DimRule) -> Callable[..., tuple[Dim, ...] | None]:
    """The value rule of an elementwise operator whose meaning on dims is `rule` (None: not known)."""

    def value(*args: Any) -> tuple[Dim, ...] | None:
        half = len(args) // 2
        values, types = args[:half], args[half:]
        if any(v is None for v in values):
            return None
        shapes = [_static(t) for t in types]
        places = [np.arange(len(v)).reshape(s) for v, s in zip(values, shapes, strict=True)]
        columns = [p.ravel().tolist() for p in np.broadcast_arrays(*places)]
        rows = zip(*columns, strict=True)
        return _all_known([rule(*(v[i] for v, i in zip(values, row, strict=True))) for row in rows])

    return value


def _static(ty: Any) -> tuple[int, ...]:
    return tuple(int(d.value) for d in ty.shape if isinstance(d, Const))


def _all_known(found: Sequence[Dim | None]) -> tuple[Dim, ...] | None:
    known = tuple(d for d in found if d is not None)
    return known if len(known) == len(found) else None

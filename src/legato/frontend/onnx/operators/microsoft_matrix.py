"""Products of matrices of ONNX Runtime's own domain, what is fused with them, and what else matrices are asked for."""

from __future__ import annotations

from legato.arith.expr import Const, const
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.activated import activated
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators import nn
from legato.ir.expr import Expr

DOMAIN = "com.microsoft"

_LARGEST = 32  # rows of a matrix that is inverted: each is a step of the program


def fused_mat_mul(
    b: Emitter,
    x: Expr,
    y: Expr,
    *,
    alpha: float = 1.0,
    transA: bool = False,
    transB: bool = False,
    transBatchA: bool = False,
    transBatchB: bool = False,
) -> Expr:
    """alpha · x′ · y′: of an operand the first dim may be behind those of the batch, and the last two be swapped."""
    dtype = b.sum_dtype(x, alpha != 1.0)
    x, y = _arranged(b, x, transA, transBatchA), _arranged(b, y, transB, transBatchB)
    z = b.matmul(x, y, out_dtype=dtype)
    return z if alpha == 1.0 else b.to(b.multiply(z, b.like(alpha, z)), b.dtype(x))


def _arranged(b: Emitter, x: Expr, swapped: int, batch: int) -> Expr:
    """An operand as the product takes it: rows before columns, the batch before both."""
    rank = b.rank(x)
    axes = list(range(rank))
    if rank < 2:
        return x
    if batch:
        axes = [*axes[1:-1], 0, axes[-1]]
    if swapped:
        axes[-2:] = reversed(axes[-2:])
    return x if axes == list(range(rank)) else b.transpose(x, axes=tuple(axes))


def transpose_mat_mul(
    b: Emitter, x: Expr, y: Expr, *, alpha: float = 1.0, transA: bool = False, transB: bool = False
) -> Expr:
    return fused_mat_mul(b, x, y, alpha=alpha, transA=transA, transB=transB)


def fused_mat_mul_activation(
    b: Emitter,
    x: Expr,
    y: Expr,
    *,
    activation: str,
    activation_alpha: float | None = None,
    activation_axis: int | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    transA: bool = False,
    transB: bool = False,
    transBatchA: bool = False,
    transBatchB: bool = False,
) -> Expr:
    z = fused_mat_mul(b, b.wide(x), b.wide(y), alpha=alpha, transA=transA, transB=transB, transBatchA=transBatchA,
                      transBatchB=transBatchB)  # fmt: skip
    given = (activation_alpha, activation_beta, activation_gamma)
    return b.to(activated(b, z, activation, [p for p in given if p is not None], axis=activation_axis), b.dtype(x))


def fused_gemm(
    b: Emitter,
    x: Expr,
    y: Expr,
    c: Expr | None = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: bool = False,
    transB: bool = False,
) -> Expr:
    wide = None if c is None else b.wide(c)
    z = nn.gemm(b, b.wide(x), b.wide(y), wide, alpha=alpha, beta=beta, transA=transA, transB=transB)
    given = (activation_alpha, activation_beta, activation_gamma)
    return b.to(activated(b, z, activation, [p for p in given if p is not None]), b.dtype(x))


def gemm_fast_gelu(b: Emitter, x: Expr, y: Expr, bias: Expr | None = None) -> Expr:
    z = b.matmul(x, y, out_dtype=b.sum_dtype(x, goes_on=True))
    z = z if bias is None else b.add(z, b.to(bias, b.dtype(z)))
    return b.to(b.nn.gelu(z, approximate="tanh"), b.dtype(x))


def c_dist(b: Emitter, x: Expr, y: Expr, *, metric: str = "sqeuclidean") -> Expr:
    """The distances of the rows of `x` (down) from those of `y` (across): |x|² + |y|² - 2·x·y, at least 0."""
    if metric not in ("sqeuclidean", "euclidean"):
        raise UnsupportedError(
            f"metric {metric!r}: sqeuclidean and euclidean are possible",
            hint="export the distances by operators of ONNX",
        )
    if b.rank(x) != 2 or b.rank(y) != 2:
        raise ImportModelError(f"distances of {x.ty} and {y.ty}, wanted matrices")
    wide, other = b.wide(x), b.wide(y)
    squares = [b.sum(b.multiply(v, v), axis=(1,), keepdims=n == 0) for n, v in enumerate((wide, other))]
    twice = b.multiply(b.nn.dense(wide, other), b.like(2, wide))
    found = b.maximum(b.subtract(b.add(*squares), twice), b.like(0, wide))
    return b.to(found if metric == "sqeuclidean" else b.sqrt(found), b.dtype(x))


def complex_mul(b: Emitter, x: Expr, y: Expr) -> Expr:
    """Products of complex numbers, whose parts are a last dim of 2."""
    return _complex_product(b, x, y, conjugate=False)


def complex_mul_conj(b: Emitter, x: Expr, y: Expr) -> Expr:
    """x times the conjugate of y."""
    return _complex_product(b, x, y, conjugate=True)


def _complex_product(b: Emitter, x: Expr, y: Expr, *, conjugate: bool) -> Expr:
    for v in (x, y):
        if not b.rank(v):
            raise ImportModelError("a complex number has a last dim of 2, got a scalar")
        b.require(b.dims_of(v)[-1], const(2), "parts of a complex number")
    (p, q), (r, s) = ([b.columns(b.wide(v), n, n + 1) for n in range(2)] for v in (x, y))
    s = b.negative(s) if conjugate else s
    real = b.subtract(b.multiply(p, r), b.multiply(q, s))
    imaginary = b.add(b.multiply(p, s), b.multiply(q, r))
    return b.to(b.concatenate(real, imaginary, axis=b.rank(real) - 1), b.dtype(x))


def inverse(b: Emitter, x: Expr) -> Expr:
    """The inverses of square matrices, by elimination with the largest pivot of each column."""
    if b.rank(x) < 2 or not b.dtype(x).is_float:
        raise ImportModelError(f"inverses of {x.ty}, wanted matrices of floats")
    rows, columns = b.dims_of(x)[-2:]
    size = b.known(rows if isinstance(rows, Const) else columns, "the number of rows")
    if size > _LARGEST:
        raise UnsupportedError(f"inverses of matrices of {size} rows: {_LARGEST} are the most")
    x = b.agreed(x, (*[None] * (b.rank(x) - 2), size, size), "the matrices")
    batch = b.dims_of(x)[:-2]
    a = b.reshape(b.wide(x), newshape=(b.product(batch), size, size), allowzero=True)
    one = b.one_hot(b.arange(start=0, stop=size, step=1, dtype=dt.int64), b.like(1, a), b.like(0, a), depth=size,
                    dtype=b.dtype(a))  # fmt: skip
    both = b.concatenate(a, b.broadcast_to(b.expand_dims(one, axis=0), shape=b.dims_of(a)), axis=2)
    for n in range(size):
        both = _cleared(b, both, n, size)
    return b.to(b.reshape(b.columns(both, size, 2 * size), newshape=b.dims_of(x), allowzero=True), b.dtype(x))


def _cleared(b: Emitter, x: Expr, n: int, size: int) -> Expr:
    """Matrices whose column `n` becomes 1 in row `n`, else 0: the row of the largest pivot is put there."""
    order = b.arange(start=0, stop=size, step=1, dtype=dt.int64)
    column = b.squeeze(b.columns(x, n, n + 1), axis=(2,))
    left = b.where(b.less(order, b.constant(n, dt.int64)), b.like(-1, x), b.abs(column))
    best = b.expand_dims(b.cast(b.argmax(left, axis=(1,)), dtype=dt.int64), axis=1)
    here = b.constant(n, dt.int64)
    places = b.where(b.equal(order, here), best, b.where(b.equal(order, best), here, order))
    x = b.take(x, places, axis=1, batch_dims=1)
    row = b.strided_slice(x, begin=(n,), end=(n + 1,), strides=(1,), axes=(1,))
    row = b.divide(row, b.columns(row, n, n + 1))
    is_row = b.expand_dims(b.equal(order, here), axis=1)
    factors = b.columns(x, n, n + 1)
    return b.where(is_row, row, b.subtract(x, b.multiply(factors, row)))

"""What matrices are asked for."""

from __future__ import annotations

from legato.arith.expr import Const, const
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr

_LARGEST = 32  # rows of a matrix whose determinant is formed: each is a step of the program


def det(b: Emitter, x: Expr) -> Expr:
    """The determinants of square matrices, by elimination with the largest pivot of each column."""
    if b.rank(x) < 2 or not b.dtype(x).is_float:
        raise ImportModelError(f"determinants of {x.ty}, wanted matrices of floats")
    rows, columns = b.dims_of(x)[-2:]
    size = b.known(rows if isinstance(rows, Const) else columns, "the number of rows")
    if size > _LARGEST:
        raise UnsupportedError(f"determinants of matrices of {size} rows: {_LARGEST} are the most")
    x = b.agreed(x, (*[None] * (b.rank(x) - 2), size, size), "the matrices")
    batch = b.dims_of(x)[:-2]
    rest = b.reshape(b.wide(x), newshape=(b.product(batch), size, size), allowzero=True)
    found: Expr = b.full(b.like(1, rest), shape=(b.product(batch),))
    for _ in range(size):
        pivot, rest = _eliminated(b, rest)
        found = b.multiply(found, pivot)
    return b.to(b.reshape(found, newshape=batch, allowzero=True), b.dtype(x))


def _eliminated(b: Emitter, x: Expr) -> tuple[Expr, Expr]:
    """The pivots of the first columns, which have the sign of the exchange of rows, and what is left of matrices."""
    size = b.dims_of(x)[-1]
    first = b.squeeze(b.columns(x, 0, 1), axis=(2,))
    best = b.expand_dims(b.cast(b.argmax(b.abs(first), axis=(1,)), dtype=dt.int64), axis=1)
    others = b.arange(start=const(1), stop=size, step=1, dtype=dt.int64)
    others = b.where(b.equal(others, best), b.constant(0, dt.int64), others)
    chosen, rows = b.take(x, best, axis=1, batch_dims=1), b.take(x, others, axis=1, batch_dims=1)
    pivot = b.columns(chosen, 0, 1)
    divisor = b.where(b.equal(pivot, b.like(0, x)), b.like(1, x), pivot)  # of a column of zeros, which stay
    factors = b.divide(b.columns(rows, 0, 1), divisor)
    left = b.subtract(b.columns(rows, 1, size), b.multiply(factors, b.columns(chosen, 1, size)))
    pivot = b.reshape(pivot, newshape=(b.dims_of(x)[0],), allowzero=True)
    is_exchange = b.not_equal(b.squeeze(best, axis=(1,)), b.constant(0, dt.int64))
    return b.where(is_exchange, b.negative(pivot), pivot), left

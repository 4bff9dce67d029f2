"""Sums of products: matrices, vectors, equations. Sums of 16-bit floats are formed, and scaled, in float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter, Number
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@aten("mm", "bmm")
def mm(b: Emitter, self: Expr, mat2: Expr) -> Expr:
    return b.matmul(self, mat2)


@aten("mv")
def mv(b: Emitter, self: Expr, vec: Expr) -> Expr:
    return b.matmul(self, vec)


@aten("dot")
def dot(b: Emitter, self: Expr, tensor: Expr) -> Expr:
    return b.matmul(self, tensor)


@aten("matmul", "vdot")
def matmul(b: Emitter, self: Expr, other: Expr) -> Expr:
    return b.matmul(self, other)


@aten("linear")
def linear(b: Emitter, input: Expr, weight: Expr, bias: Expr | None = None) -> Expr:
    dtype = b.sum_dtype(input, bias is not None)
    product = b.matmul if b.rank(weight) == 1 else b.nn.dense
    y = product(input, weight, out_dtype=dtype)
    return y if bias is None else b.to(b.add(y, b.to(bias, b.dtype(y))), b.dtype(input))


# ------------------------------------------------------------------ products that are added to something


@aten("addmm")
def addmm(b: Emitter, self: Expr, mat1: Expr, mat2: Expr, *, beta: Number = 1, alpha: Number = 1) -> Expr:
    return _added(b, self, b.matmul(mat1, mat2, out_dtype=b.sum_dtype(mat1, True)), beta, alpha)


@aten("baddbmm")
def baddbmm(b: Emitter, self: Expr, batch1: Expr, batch2: Expr, *, beta: Number = 1, alpha: Number = 1) -> Expr:
    return _added(b, self, b.matmul(batch1, batch2, out_dtype=b.sum_dtype(batch1, True)), beta, alpha)


@aten("addbmm")
def addbmm(b: Emitter, self: Expr, batch1: Expr, batch2: Expr, *, beta: Number = 1, alpha: Number = 1) -> Expr:
    return _added(b, self, b.einsum(b.wide(batch1), b.wide(batch2), equation="bij,bjk->ik"), beta, alpha)


@aten("addmv")
def addmv(b: Emitter, self: Expr, mat: Expr, vec: Expr, *, beta: Number = 1, alpha: Number = 1) -> Expr:
    return _added(b, self, b.matmul(mat, vec, out_dtype=b.sum_dtype(mat, True)), beta, alpha)


def _added(b: Emitter, x: Expr, product: Expr, beta: Number, alpha: Number) -> Expr:
    """beta · x + alpha · product; with a beta of 0, x does not count, be it NaN."""
    wide = b.dtype(product)
    y = product if _is(alpha, 1) else b.multiply(product, b.operand(alpha, wide))
    if not _is(beta, 0):
        c = b.to(x, wide)
        y = b.add(b.broadcast(c if _is(beta, 1) else b.multiply(c, b.operand(beta, wide)), b.dims_of(y)), y)
    return b.to(y, b.dtype(x))


def _is(value: Number, wanted: int) -> bool:
    return isinstance(value, int | float) and value == wanted


# ------------------------------------------------------------------ equations


@aten("einsum.default")
def einsum(b: Emitter, equation: str, tensors: Sequence[Expr], *, path: Sequence[int] | None = None) -> Expr:
    equation = equation.replace(" ", "")
    operands, arrow, result = equation.partition("->")
    if "." in operands and arrow and "." not in result:
        raise UnsupportedError(f"the equation {equation!r}: the dims that ... stands for are summed",
                               hint="write ... behind the arrow, and a sum")  # fmt: skip
    return b.einsum(*tensors, equation=equation)


@aten("bilinear")
def bilinear(b: Emitter, input1: Expr, input2: Expr, weight: Expr, bias: Expr | None = None) -> Expr:
    x, y, w = b.wide(input1), b.wide(input2), b.wide(weight)
    z = b.einsum(b.einsum(x, w, equation="...i,oij->...oj"), y, equation="...oj,...j->...o")
    z = z if bias is None else b.add(z, b.to(bias, b.dtype(z)))
    return b.to(z, b.dtype(input1))


@aten("_trilinear")
def trilinear(
    b: Emitter, i1: Expr, i2: Expr, i3: Expr, expand1: Sequence[int], expand2: Sequence[int], expand3: Sequence[int],
    sumdim: Sequence[int], unroll_dim: int = 1,
) -> Expr:  # fmt: skip
    """Σ i1 · i2 · i3 over `sumdim`, of tensors with dims of 1 put in."""
    rank = b.rank(i1) + len(expand1)
    operands, terms = [], []
    for x, added in ((i1, expand1), (i2, expand2), (i3, expand3)):
        missing = b.axes_of(added, rank) if added else ()
        terms.append("".join(_LETTERS[n] for n in range(rank) if n not in missing))
        operands.append(b.wide(x))
    summed = b.axes_of(sumdim, rank) if sumdim else ()
    left = "".join(_LETTERS[n] for n in range(rank) if n not in summed)
    return b.to(b.einsum(*operands, equation=f"{','.join(terms)}->{left}"), b.dtype(i1))


# ------------------------------------------------------------------ distances


@aten("cdist")
def cdist(b: Emitter, x1: Expr, x2: Expr, p: float = 2.0, compute_mode: int | None = None) -> Expr:
    apart = b.subtract(b.expand_dims(b.wide(x1), axis=-2), b.expand_dims(b.wide(x2), axis=-3))
    return b.to(_norm(b, apart, p), b.dtype(x1))


@aten("_cdist_forward")
def cdist_forward(b: Emitter, x1: Expr, x2: Expr, p: float, compute_mode: int | None) -> Expr:
    return cdist(b, x1, x2, p)


@aten("_pdist_forward")
def pdist_forward(b: Emitter, self: Expr, p: float = 2.0) -> Expr:
    count = b.known(b.dim_of(self, 0), "the number of points of pdist")
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    wide = b.wide(self)
    apart = b.subtract(*(b.take(wide, b.constant(np.asarray(side, np.int64)), axis=0) for side in (first, second)))
    return b.to(_norm(b, apart, p), b.dtype(self))


def _norm(b: Emitter, x: Expr, p: float) -> Expr:
    """The p-norms of vectors along the last dim."""
    if p == 0:
        return b.sum(b.to(b.not_equal(x, b.like(0, x)), b.dtype(x)), axis=(-1,))
    size = b.abs(x)
    if p == 1:
        return b.sum(size, axis=(-1,))
    if p == 2:
        return b.sqrt(b.sum(b.multiply(x, x), axis=(-1,)))
    if p == float("inf"):
        none = b.zeros_of((*b.dims_of(x)[:-1], b.size(1)), b.dtype(x))
        return b.max(b.concatenate(size, none, axis=-1), axis=(-1,))
    return b.power(b.sum(b.power(size, b.like(p, x)), axis=(-1,)), b.like(1 / p, x))

"""The same elements in another shape or order: view, permute, expand, squeeze, unsqueeze, and copies that change
nothing.

Graphs are functional: a view and its copy are the same here.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from legato.arith.expr import Const, const, eq, select
from legato.arith.prove import provably_different, prove_equal
from legato.arith.simplify import simplify
from legato.base.dtype import DType, bool_
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr
from legato.ir.types import Dim


@aten("view", "view_copy", "_unsafe_view")
def view(b: Emitter, self: Expr, size: tuple[Size, ...]) -> Expr:
    """One size may be -1: what is left."""
    given = tuple(-1 if d == -1 and isinstance(d, int) else b.size(d) for d in size)
    if -1 in given:
        return b.reshape(self, newshape=given, allowzero=True)
    return b.in_shape(self, b.sizes_of(size))


@aten("view.dtype", "view_copy.dtype")
def view_dtype(b: Emitter, self: Expr, dtype: DType) -> Expr:
    own = b.dtype(self)
    if dtype == own:
        return self
    if dtype.bits != own.bits and bool_ not in (dtype, own):
        raise UnsupportedError(f"a view of {own} as {dtype}", hint="view it as a dtype of the same width")
    return b.reinterpret(self, dtype=dtype)


@aten("permute", "permute_copy")
def permute(b: Emitter, self: Expr, dims: tuple[int, ...]) -> Expr:
    return b.permuted(self, [b.axis_of(d, b.rank(self)) for d in dims])


@aten("transpose.int", "transpose_copy.int")
def transpose(b: Emitter, self: Expr, dim0: int, dim1: int) -> Expr:
    rank = b.rank(self)
    if not rank:
        return self
    order, first, second = list(range(rank)), b.axis_of(dim0, rank), b.axis_of(dim1, rank)
    order[first], order[second] = second, first
    return b.permuted(self, order)


@aten("t", "t_copy")
def t(b: Emitter, self: Expr) -> Expr:
    return b.permuted(self, range(b.rank(self))[::-1])


@aten("expand", "expand_copy")
def expand(b: Emitter, self: Expr, size: tuple[Size, ...], *, implicit: bool = False) -> Expr:
    """A size of -1 leaves what is there."""
    own = b.dims_of(self)
    new = len(size) - len(own)
    kept = [own[n - new] if isinstance(d, int) and d == -1 else b.size(d) for n, d in enumerate(size)]
    return b.broadcast(self, kept)


@aten("squeeze", "squeeze_copy")
def squeeze(b: Emitter, self: Expr) -> Expr:
    return _squeezed(b, self, range(b.rank(self)))


@aten("squeeze.dim", "squeeze_copy.dim")
def squeeze_dim(b: Emitter, self: Expr, dim: int) -> Expr:
    return _squeezed(b, self, b.axes_of(dim, b.rank(self)))


@aten("squeeze.dims", "squeeze_copy.dims")
def squeeze_dims(b: Emitter, self: Expr, dim: tuple[int, ...]) -> Expr:
    return _squeezed(b, self, b.axes_of(dim, b.rank(self)) if dim else ())


def _squeezed(b: Emitter, x: Expr, axes: Sequence[int]) -> Expr:
    """`x` without those of its `axes` that are 1. Of symbolic ones the trace says it by the rank of its result; calls
    check it."""
    one, dims = const(1), b.dims_of(x)
    dropped = [n for n in axes if prove_equal(dims[n], one)]
    unsure = [n for n in axes if n not in dropped and not provably_different(dims[n], one)]
    if unsure:
        traced = b.traced.dim() if isinstance(b.traced, torch.Tensor) else None
        if traced == len(dims) - len(dropped) - len(unsure):
            dropped = sorted(dropped + unsure)
        elif traced == len(dims) - len(dropped):
            for n in unsure:
                b.require(simplify(select(eq(dims[n], one), const(0), one)), one, f"whether dim {n} is not 1")
        else:
            raise UnsupportedError(
                f"which of the dims {', '.join(str(dims[n]) for n in unsure)} is 1 is not known",
                hint="give these dims as numbers, which shapes={…} states and dynamic_shapes leaves out",
            )
    return b.squeeze(x, axis=tuple(dropped)) if dropped else x


@aten("unsqueeze", "unsqueeze_copy")
def unsqueeze(b: Emitter, self: Expr, dim: int) -> Expr:
    return b.expand_dims(self, axis=b.axis(dim, b.rank(self) + 1))


# ------------------------------------------------------------------ copies


@aten("alias", "alias_copy", "detach", "detach_copy", "clone", "lift", "lift_fresh", "lift_fresh_copy")
def alias(b: Emitter, self: Expr) -> Expr:
    return self


@aten("copy")
def copy(b: Emitter, self: Expr, src: Expr) -> Expr:
    return b.broadcast(b.to(src, b.dtype(self)), b.dims_of(self))


@aten("as_strided", "as_strided_copy")
def as_strided(
    b: Emitter,
    self: Expr,
    size: tuple[Size, ...],
    stride: tuple[Size, ...],
    storage_offset: Size | None = None,
) -> Expr:
    if _is_whole(b, self, size, stride, storage_offset):
        return b.in_shape(self, b.sizes_of(size))
    at = _memory_places(b, self, size, stride, storage_offset)
    return b.take(b.flat(self), at, axis=0)


@aten("as_strided_scatter")
def as_strided_scatter(
    b: Emitter,
    self: Expr,
    src: Expr,
    size: tuple[Size, ...],
    stride: tuple[Size, ...],
    storage_offset: Size | None = None,
) -> Expr:
    at = _memory_places(b, self, size, stride, storage_offset)
    written = b.scatter_nd(b.flat(self), b.expand_dims(at, axis=0), b.to(src, b.dtype(self)))
    return b.in_shape(written, b.dims_of(self))


def _is_whole(b: Emitter, x: Expr, size: Sequence[Size], stride: Sequence[Size], offset: Size | None) -> bool:
    """Whether a size and strides name all elements of `x` in row-major order, be there symbols or not."""
    if not _is_row_major(b) or b.size(offset or 0) != const(0):
        return False
    expected: Dim = const(1)
    for d, s in zip(reversed(b.sizes_of(size)), reversed(stride), strict=True):
        if d != const(1):  # along one element no stride counts
            if not prove_equal(b.size(s), expected):
                return False
            expected = b.product((d, expected))
    return prove_equal(expected, b.product(b.dims_of(x)))


def _is_row_major(b: Emitter) -> bool:
    """Whether the elements of the operand begin where its memory does, and lie in row-major order there."""
    traced = b.traced_input(0)
    return isinstance(traced, torch.Tensor) and traced.is_contiguous() and traced.storage_offset() == 0


def _memory_places(b: Emitter, x: Expr, size: Sequence[Size], stride: Sequence[Size], offset: Size | None) -> Expr:
    """The places in the row-major elements of `x` that a size and strides of its memory name."""
    if not _is_row_major(b):
        raise UnsupportedError("strides over memory that is not known to be in row-major order", hint="use views")
    sizes, steps = b.sizes_of(size), [b.literal(s, "a stride") for s in stride]
    first = b.literal(offset or 0, "an offset")
    total, last = b.product(b.dims_of(x)), first
    if all(isinstance(d, Const) for d in (*sizes, total)) and all(b.known(d, "a size") for d in sizes):
        last += sum((b.known(d, "a size") - 1) * s for d, s in zip(sizes, steps, strict=True))
        if last >= b.known(total, "the size"):
            raise UnsupportedError(f"strides reach element {last} of {total}", hint="stay within the tensor")
    elif not all(isinstance(d, Const) for d in (*sizes, total)):
        raise UnsupportedError("strides over memory of a symbolic size", hint="use views, or make the sizes static")
    at: Expr = b.index(first)
    for n, (d, s) in enumerate(zip(sizes, steps, strict=True)):
        along = b.multiply(b.steps(0, d), b.index(s))
        at = b.add(at, b.in_shape(along, tuple(d if k == n else const(1) for k in range(len(sizes)))))
    return at

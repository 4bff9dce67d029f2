"""Windows put back into what they were taken from."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import const
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.types import Dim


def col2im(
    b: Emitter,
    x: Expr,
    image_shape: Expr,
    block_shape: Expr,
    *,
    dilations: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    """x [n, channels · elements of a block, blocks] as images [n, channels, …]: what blocks share is added."""
    image, block = b.dims(image_shape, "the extents of the image"), b.dims(block_shape, "the extents of a block")
    if b.rank(x) != 3 or len(image) != len(block) or not image:
        raise ImportModelError(f"{x.ty} as images of {len(image)} dims, of blocks of {len(block)} dims")
    windows = _Windows(b, image, block, *_per_dim(len(image), strides, dilations, pads))
    n, rows, columns = b.dims_of(x)
    each, size = b.product(block), b.product(image)
    b.require_least(each, const(1), "the elements of a block")
    channels = simplify(rows // each)
    b.require(simplify(channels * each), rows, "the elements of blocks")
    b.require(columns, b.product(windows.counts), "the number of blocks")
    parts = b.transpose(b.reshape(x, newshape=(n, channels, each, columns), allowzero=True), axes=(2, 3, 0, 1))
    parts = b.reshape(parts, newshape=(simplify(each * columns), n, channels), allowzero=True)
    places = b.reshape(windows.places(), newshape=(1, simplify(each * columns)), allowzero=True)
    added = b.scatter_nd(b.zeros(shape=(size, n, channels), dtype=b.dtype(x)), places, parts, mode="add")
    return b.reshape(b.transpose(added, axes=(1, 2, 0)), newshape=(n, channels, *image), allowzero=True)


def _per_dim(
    rank: int, strides: tuple[int, ...], dilations: tuple[int, ...], pads: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The attributes of windows along `rank` dims."""
    strides, dilations, pads = strides or (1,) * rank, dilations or (1,) * rank, pads or (0,) * (2 * rank)
    counts = (len(strides), len(dilations), len(pads))
    if counts != (rank, rank, 2 * rank) or not rank or min(*strides, *dilations) < 1:
        raise ImportModelError(f"strides {list(strides)}, dilations {list(dilations)} and pads {list(pads)} of windows "
                               f"of {rank} dims")  # fmt: skip
    return strides, dilations, pads


class _Windows:
    """Blocks of an image: `counts` says how many there are along each dim."""

    def __init__(self, b: Emitter, image: Sequence[Dim], block: Sequence[Dim], strides: Sequence[int],
                 dilations: Sequence[int], pads: Sequence[int]) -> None:  # fmt: skip
        self.b, self.image, self.block = b, image, block
        self.steps = tuple(zip(strides, dilations, pads, strict=False))
        self.counts: list[Dim] = []
        for n, (stride, dilation, before) in enumerate(self.steps):
            room = image[n] + before + pads[n + len(image)] - (block[n] - 1) * dilation - 1
            b.require_least(simplify(room), const(0), "the extent that blocks have beside their own")
            self.counts.append(simplify(room // stride + 1))

    def places(self) -> Expr:
        """Which element of the flat image each element of each block is, of the shape of a block and the counts; for
        what is padding a place behind the last."""
        b = self.b
        place: Expr = b.constant(0, dt.int64)
        inside: Expr = b.constant(True, dt.bool_)
        for n, extent in enumerate(self.image):
            at, size = self._along(n), b.extent(extent, dt.int64)
            found = b.logical_and(b.greater_equal(at, b.constant(0, dt.int64)), b.less(at, size))
            place, inside = b.add(b.multiply(place, size), at), b.logical_and(inside, found)
        behind = b.extent(b.product(self.image), dt.int64)
        return b.broadcast(b.where(inside, place, behind), (*self.block, *self.counts))

    def _along(self, n: int) -> Expr:
        """The positions along a dim."""
        stride, dilation, before = self.steps[n]
        own, first = self._steps(n, self.block[n], dilation), self._steps(n + len(self.image), self.counts[n], stride)
        return self.b.subtract(self.b.add(own, first), self.b.constant(before, dt.int64))

    def _steps(self, axis: int, count: Dim, by: int) -> Expr:
        """0, by, 2·by, … along an axis of the result."""
        steps = self.b.arange(start=const(0), stop=count, step=1, dtype=dt.int64)
        scaled = self.b.multiply(steps, self.b.constant(by, dt.int64))
        behind = 2 * len(self.image) - axis - 1
        return self.b.expand_dims(scaled, axis=1, num_newaxis=behind) if behind else scaled


def max_unpool(
    b: Emitter,
    x: Expr,
    indices: Expr,
    output_shape: Expr | None = None,
    *,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    """Zeros, with `x` at the places that MaxPool found in a tensor of the result's shape.

    One official case counts them in the shape that the attributes give though it asks for another; ONNX Runtime
    counts as MaxPool does, as here."""
    rank = len(kernel_shape)
    strides, _, pads = _per_dim(rank, strides, (), pads)
    if b.rank(x) != rank + 2 or b.rank(indices) != b.rank(x):
        raise ImportModelError(f"maxima {x.ty} at {indices.ty} of windows of {rank} dims")
    n, channels, *extents = b.dims_of(x)
    around = [first + last for first, last in zip(pads[:rank], pads[rank:], strict=True)]
    shape: Sequence[Dim] = (n, channels, *(simplify((d - 1) * stride + size - pad) for d, stride, size, pad in
                                           zip(extents, strides, kernel_shape, around, strict=True)))  # fmt: skip
    if output_shape is not None:
        shape = b.dims(b.counted(output_shape, const(rank + 2), "extents"), "the shape of the result")
    if len(shape) != rank + 2:
        raise ImportModelError(f"{len(shape)} extents of a result of rank {rank + 2}")
    for d in shape:
        b.require_least(d, const(0), "an extent of the result")
    zeros = b.zeros(shape=(simplify(b.product(shape)),), dtype=b.dtype(x))
    flat = [b.reshape(v, newshape=(b.product(b.dims_of(v)),), allowzero=True) for v in (indices, x)]
    return b.reshape(
        b.scatter_elements(zeros, *flat, axis=0, reduction="update"), newshape=tuple(shape), allowzero=True
    )

"""Images read between their elements: image.grid_sample, image.affine_grid and image.crop_and_resize.

All are made of takes and weights (`_sampling`). 16-bit floats are computed in float32, and rounded once.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from legato.arith.expr import const, ge
from legato.arith.prove import prove
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._computed import extent_scalar, steps
from legato.ops._families import quiet
from legato.ops._gradients import dtype_of, extents, in_shape, narrowed, shape_of, widened
from legato.ops._moving import as_dim, as_int
from legato.ops._rules import FLOAT, INT, NUMBER, at_least, require_dtype, require_rank, tensor
from legato.ops._rules import product as product_of
from legato.ops._sampling import CUBIC, METHODS, PADDINGS, Image, Line, Tap
from legato.ops._tensors import Array, DtypeName, converted, require_choice, result_dtype, wide

__all__ = ["AffineGridAttrs", "CropAndResizeAttrs", "GridSampleAttrs", "affine_grid", "crop_and_resize", "grid_sample"]

_MOST = 3  # spatial dims of grid_sample: a cubic one reads 64 elements then
_LAYOUTS = ("", "NCW", "NCHW", "NCDHW")


@dataclass(frozen=True, slots=True)
class GridSampleAttrs(Attrs):
    """`method`: bilinear (trilinear), nearest or bicubic; `layout`: of data and result; `padding_mode`: zeros, border
    or reflection. `align_corners`: -1 and 1 are the first and the last elements, else their outer edges.
    """

    method: str = "bilinear"
    layout: str = ""
    padding_mode: str = "zeros"
    align_corners: bool = True


def _sample_relation(rel: Relation, data: Type, grid: Type, a: GridSampleAttrs) -> Type:
    ty, places = tensor(rel, data, "data"), tensor(rel, grid, "grid")
    require_choice(rel, "method", a.method, METHODS)
    require_choice(rel, "padding_mode", a.padding_mode, PADDINGS)
    require_choice(rel, "layout", a.layout, _LAYOUTS)
    require_rank(rel, ty, *([len(a.layout)] if a.layout else range(3, 3 + _MOST)), what="data")
    require_rank(rel, places, ty.rank, what="grid")
    require_dtype(rel, places, FLOAT, "grid")
    require_dtype(rel, ty, NUMBER if METHODS[a.method] == "nearest" else FLOAT, "data")
    n = rel.same(ty.shape[0], places.shape[0], "batch of data and grid")
    rel.same(places.shape[1], const(ty.rank - 2), "coordinates of a place")
    return TensorType((n, ty.shape[1], *places.shape[2:]), ty.dtype)


def _sample_expand(b: Builder, data: Expr, grid: Expr, a: GridSampleAttrs) -> Expr:
    how, places, x = METHODS[a.method], widened(b, grid), widened(b, data)
    lines = [Line(b, d, a.align_corners, a.padding_mode, dtype_of(places)) for d in shape_of(data)[2:]]
    taps = []
    for n, line in enumerate(lines):
        own = b.take(places, b.constant(len(lines) - 1 - n, dt.int64), axis=1)
        taps.append(line.taps(line.position(own, how), how))
    return narrowed(b, Image(b, x, lines).sum_of(taps), data)


class _Places:
    """As `_sampling.Line`, of arrays."""

    def __init__(self, extent: int, a: GridSampleAttrs) -> None:
        self.n, self.a = extent, a
        self.begin, self.end = (0.0, extent - 1.0) if a.align_corners else (-0.5, extent - 0.5)

    def taps(self, place: Array) -> list[tuple[Array, Array]]:
        """The elements (as whole positions) and weights for coordinates from -1 to 1."""
        t, how = place.dtype.type, METHODS[self.a.method]
        one, half, n = t(1), t(0.5), t(self.n)
        at = (place + one) * half * (n - one) if self.a.align_corners else ((place + one) * n - one) * half
        at = np.rint(at) if how == "nearest" else at
        at = at if how == "cubic" and self.a.padding_mode == "border" else self.padded(at)
        if how == "nearest":
            return [(at, np.ones_like(at))]
        first = np.floor(at)
        s = at - first
        if how == "linear":
            return [(first, one - s), (first + one, s)]
        c = t(CUBIC)
        return [(first + t(k - 1), _far(d, c) if k in (0, 3) else _near(d, c))
                for k, d in enumerate((s + one, s, one - s, t(2) - s))]  # fmt: skip

    def padded(self, at: Array) -> Array:
        """Positions; for those outside what stands for them."""
        if self.a.padding_mode == "zeros":
            return at
        if self.a.padding_mode == "border":
            within = np.minimum(np.maximum(at, 0), at.dtype.type(self.n - 1))
        else:
            begin, end, twice = (at.dtype.type(v) for v in (self.begin, self.end, max(2 * (self.end - self.begin), 1)))
            passed = np.mod(at - begin, twice)
            within = np.minimum(np.maximum(begin + np.minimum(passed, twice - passed), begin), end)
        return np.where((at < self.begin) | (at > self.end), within, at).astype(at.dtype)

    def element(self, at: Array) -> tuple[Array, Array]:
        """Subscripts of whole positions, and whether there are such."""
        at = self.padded(at)
        inside = (at >= 0) & (at <= self.n - 1)
        return np.where(inside, at, 0).astype(np.int64), inside


def _near(s: Array, c: Array) -> Array:
    """The cubic weight at distance `s` up to 1."""
    return np.asarray(((c + 2) * s - (c + 3)) * s * s + 1, s.dtype)


def _far(s: Array, c: Array) -> Array:
    """The cubic weight at distance `s` from 1 to 2."""
    return np.asarray(((c * s - 5 * c) * s + 8 * c) * s - 4 * c, s.dtype)


def _sample_reference(data: Array, grid: Array, a: GridSampleAttrs) -> Array:
    x, places = wide(data), wide(grid)
    lines = [_Places(n, a) for n in data.shape[2:]]
    taps = [line.taps(places[:, len(lines) - 1 - n]) for n, line in enumerate(lines)]
    batch, every = np.arange(len(x)).reshape(-1, *(1,) * (len(lines) + 1)), np.arange(x.shape[1])
    every = every.reshape(-1, *(1,) * len(lines))
    found = np.zeros((*data.shape[:2], *grid.shape[2:]), x.dtype)
    if not x.size:
        return found.astype(data.dtype)
    for chosen in product(*taps):
        where = [line.element(at) for line, (at, _) in zip(lines, chosen, strict=True)]
        read = x[(batch, every, *(i[:, None] for i, _ in where))]
        weight, inside = np.ones_like(chosen[0][1]), np.ones(chosen[0][1].shape, bool)
        for (_, own), (_, there) in zip(chosen, where, strict=True):
            weight, inside = weight * own, inside & there
        read = np.where(inside[:, None], read, 0) if a.padding_mode == "zeros" else read
        is_one = METHODS[a.method] == "nearest"
        found = read if is_one else found + read * weight[:, None].astype(x.dtype)
    return np.ascontiguousarray(found).astype(data.dtype)


_GRID = np.random.default_rng(5).uniform(-1.6, 1.6, (2, 2, 3, 4)).astype(np.float32)
_PLACES = {"method": "bicubic", "align_corners": False}

grid_sample = Op(
    name="image.grid_sample",
    args=("data", "grid"),
    attrs=GridSampleAttrs,
    type_rel=_sample_relation,
    reference=quiet(_sample_reference),
    expand=_sample_expand,
    samples=(
        Sample((((2, 3, 5, 4), "float32"), _GRID), {"layout": "NCHW"}),
        Sample((((2, 3, 5, 4), "float32"), _GRID), {"padding_mode": "border", "align_corners": False}),
        Sample((((2, 3, 5, 4), "float32"), _GRID), {"padding_mode": "reflection"}),
        Sample((((2, 3, 5, 4), "int32"), _GRID), {"method": "nearest", "padding_mode": "reflection"}, exact=True),
        Sample((((2, 1, 5), "float32"), _GRID[:, :1, 0]), {**_PLACES, "padding_mode": "border"}, rtol=1e-4),
        Sample((((2, 1, 5), "float32"), _GRID[:, :1, 0]), {**_PLACES, "padding_mode": "reflection"}, rtol=1e-4),
        Sample((((1, 2, 6), "float32"), ((1, 1, 5), "float32")), _PLACES, rtol=1e-4),
        Sample((((1, 1, 3, 2, 4), "float64"), ((1, 3, 2, 2, 3), "float64")), {"method": "trilinear"}),
        Sample((((1, 1, 3, 4), "float16"), ((1, 2, 2, 2), "float16"))),
    ),
    doc="""data [n, channels, …] at places grid [n, dims, …] from -1 to 1, whose first coordinate is along the last dim.

method: bilinear, bicubic (Keys' kernel by -0.75) or nearest, halves to even.""",
)

# ------------------------------------------------------------------------------- affine_grid


@dataclass(frozen=True, slots=True)
class AffineGridAttrs(Attrs):
    """`target_shape`: extents of the grid; `align_corners`: as of grid_sample."""

    target_shape: tuple[int | Dim, ...]
    align_corners: bool = True


def _grid_relation(rel: Relation, data: Type, a: AffineGridAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_rank(rel, ty, 3, what="data")
    require_dtype(rel, ty, FLOAT, "data")
    shape = tuple(as_dim(n) for n in a.target_shape)
    if not shape:
        raise rel.fail("target_shape is empty, wanted an extent or more")
    rel.same(ty.shape[1], const(len(shape)), "rows of a transform")
    rel.same(ty.shape[2], const(len(shape) + 1), "columns of a transform")
    for d in shape:
        at_least(rel, d, 0, "target_shape")
    return TensorType((ty.shape[0], const(len(shape)), *shape), ty.dtype)


def _grid_reference(data: Array, a: AffineGridAttrs) -> Array:
    theta, shape = wide(data), [as_int(as_dim(n)) for n in a.target_shape]
    axes = [_spread_over(n, a.align_corners, theta.dtype) for n in shape]
    rows = [*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(shape, theta.dtype)]
    found: Array = np.einsum("nij,j...->ni...", theta, np.stack(rows))
    return found.astype(data.dtype)


def _spread_over(n: int, aligned: bool, dtype: np.dtype[np.generic]) -> Array:
    twice = (np.arange(n) * 2).astype(dtype)
    found = (twice - (n - 1)) / max(n - 1, 1) if aligned else (twice + 1) / max(n, 1) - 1
    return np.asarray(found, dtype)


def _grid_expand(b: Builder, data: Expr, a: AffineGridAttrs) -> Expr:
    theta, shape = widened(b, data), tuple(as_dim(n) for n in a.target_shape)
    dtype, new = dtype_of(theta), extents(shape)
    lines = [_coordinates(b, d, a.align_corners, dtype, len(shape) - 1 - n) for n, d in enumerate(shape)]
    columns = [b.broadcast_to(line, shape=new) for line in reversed(lines)]
    columns.append(b.full(b.constant(1, dtype), shape=new))
    rows = in_shape(b, b.stack(*columns, axis=0), (const(len(shape) + 1), simplify(product_of(shape))))
    found = in_shape(b, b.matmul(theta, rows), (shape_of(data)[0], const(len(shape)), *shape))
    return narrowed(b, found, data)


def _coordinates(b: Builder, d: Dim, aligned: bool, dtype: DType, behind: int) -> Expr:
    """Where the elements of a dim are between -1 and 1, with `behind` dims of 1 behind."""
    one = b.constant(1, dtype)
    twice = b.multiply(steps(b, d, dtype), b.constant(2, dtype))
    if aligned:
        last = b.subtract(extent_scalar(b, d, dtype), one)
        found = b.divide(b.subtract(twice, last), b.maximum(last, one))  # 0 where there is one element
    else:
        found = b.subtract(b.divide(b.add(twice, one), extent_scalar(b, d, dtype)), one)
    return b.expand_dims(found, axis=1, num_newaxis=behind) if behind else found


affine_grid = Op(
    name="image.affine_grid",
    args=("data",),
    attrs=AffineGridAttrs,
    type_rel=_grid_relation,
    reference=quiet(_grid_reference),
    expand=_grid_expand,
    samples=(
        Sample((((2, 2, 3), "float32"),), {"target_shape": (3, 4)}),
        Sample((((2, 2, 3), "float32"),), {"target_shape": (1, 5), "align_corners": False}),
        Sample((((1, 3, 4), "float64"),), {"target_shape": (2, 1, 3)}),
        Sample((((1, 2, 3), "float16"),), {"target_shape": (2, 3)}),
    ),
    doc="""[n, dims, …]: the places of an even grid of `target_shape` from -1 to 1, whose first coordinate is along its
last dim, transformed by matrices [n, dims, dims + 1]. Aligned, the only place along a dim of 1 is 0.""",
)

# ------------------------------------------------------------------------------- crop_and_resize


@dataclass(frozen=True, slots=True)
class CropAndResizeAttrs(Attrs):
    """`crop_size`: rows and columns of the result; `layout`: of data and result; `method`: bilinear or
    nearest_neighbor. `extrapolation_value`: what stands outside the image; `out_dtype`: that of the result ("": the
    data's).
    """

    crop_size: tuple[int | Dim, int | Dim]
    layout: str = "NCHW"
    method: str = "bilinear"
    extrapolation_value: float = 0.0
    out_dtype: DtypeName = ""


_CROPS = ("bilinear", "nearest_neighbor")


def _crop_relation(rel: Relation, data: Type, boxes: Type, indices: Type, a: CropAndResizeAttrs) -> Type:
    require_choice(rel, "layout", a.layout, ("NCHW", "NHWC"))
    require_choice(rel, "method", a.method, _CROPS)
    ty, box, which = tensor(rel, data, "data"), tensor(rel, boxes, "boxes"), tensor(rel, indices, "box_indices")
    for found, rank, what in ((ty, 4, "data"), (box, 2, "boxes"), (which, 1, "box_indices")):
        require_rank(rel, found, rank, what=what)
    require_dtype(rel, ty, NUMBER, "data")
    require_dtype(rel, box, FLOAT, "boxes")
    require_dtype(rel, which, INT, "box_indices")
    rel.same(box.shape[1], const(4), "numbers of a box")
    count = rel.same(box.shape[0], which.shape[0], "boxes and box_indices")
    if len(a.crop_size) != 2:
        raise rel.fail(f"crop_size has {len(a.crop_size)} numbers, wanted 2")
    size = tuple(as_dim(n) for n in a.crop_size)
    for d in size:
        at_least(rel, d, 0, "crop_size")
    is_last = a.layout == "NHWC"
    shape = (count, *size, ty.shape[3]) if is_last else (count, ty.shape[1], *size)
    return TensorType(shape, result_dtype(a.out_dtype, ty.dtype))


def _working(*dtypes: DType) -> DType:
    """The dtype of interpolated values and of positions."""
    return dt.float64 if dt.float64 in dtypes else dt.float32


def _crop_expand(b: Builder, data: Expr, boxes: Expr, indices: Expr, a: CropAndResizeAttrs) -> Expr:
    dtype = _working(dtype_of(data), dtype_of(boxes))
    x = b.transpose(data, axes=(0, 3, 1, 2)) if a.layout == "NHWC" else data
    x = b.take(x if dtype_of(x) == dtype else b.cast(x, dtype=dtype), indices, axis=0, mode="fast")
    corners = b.cast(boxes, dtype=dtype) if dtype_of(boxes) != dtype else boxes
    lines = [Line(b, d, True, "border", dtype) for d in shape_of(x)[2:]]
    taps: list[list[Tap]] = []
    inside: Expr | None = None
    for n, line in enumerate(lines):
        at = _crop_positions(b, corners, n, line, as_dim(a.crop_size[n]))
        at = b.expand_dims(at, axis=2 - n)
        there = line.holds(at)
        inside = there if inside is None else b.logical_and(inside, there)
        is_near = a.method == "nearest_neighbor"
        nearest = b.floor(b.add(at, line.number(0.5)))
        taps.append(line.taps(nearest if is_near else at, "nearest" if is_near else "linear"))
    assert inside is not None  # there are two dims
    if not prove(ge(images := shape_of(data)[0], const(1))):  # without an image, nothing is inside of one
        some = b.greater(extent_scalar(b, images, dtype), b.constant(0, dtype))
        inside = b.logical_and(inside, some)
    found = b.where(
        b.expand_dims(inside, axis=1), Image(b, x, lines).sum_of(taps), b.constant(a.extrapolation_value, dtype)
    )
    found = b.transpose(found, axes=(0, 2, 3, 1)) if a.layout == "NHWC" else found
    result = result_dtype(a.out_dtype, dtype_of(data))
    return found if result == dtype else b.cast(found, dtype=result)


def _crop_positions(b: Builder, boxes: Expr, n: int, line: Line, count: Dim) -> Expr:
    """[box, count]: the positions along a dim; of one the middle."""
    first, last = (b.take(boxes, b.constant(k, dt.int64), axis=1) for k in (n, n + 2))
    begin = b.expand_dims(b.multiply(first, line.last), axis=1)
    span = b.expand_dims(b.multiply(b.subtract(last, first), line.last), axis=1)
    whole = b.maximum(b.subtract(extent_scalar(b, count, line.dtype), line.number(1)), line.number(0))
    single = b.equal(whole, line.number(0))
    step = b.where(single, line.number(0.5), b.divide(steps(b, count, line.dtype), b.maximum(whole, line.number(1))))
    return b.add(begin, b.multiply(span, step))


def _crop_reference(data: Array, boxes: Array, indices: Array, a: CropAndResizeAttrs) -> Array:
    dtype = _working(dt.dtype(data.dtype), dt.dtype(boxes.dtype)).numpy
    x = (np.moveaxis(data, 3, 1) if a.layout == "NHWC" else data).astype(dtype)
    size = [as_int(as_dim(n)) for n in a.crop_size]
    found = np.full((len(boxes), x.shape[1], *size), a.extrapolation_value, dtype)
    for k, box in enumerate(boxes.astype(dtype)) if x.size else ():
        n = int(np.clip(indices[k] + len(x) if indices[k] < 0 else indices[k], 0, len(x) - 1))
        (y, rows), (z, columns) = (_crop_places(box[d], box[d + 2], x.shape[2 + d], size[d]) for d in range(2))
        if a.method == "nearest_neighbor":
            i, j = (np.floor(v + v.dtype.type(0.5)).astype(int) for v in (y, z))
            value = x[n][:, i[:, None], j]
        else:
            value = sum(
                x[n][:, i[:, None], j] * (p[:, None] * q)
                for i, p in _linear_taps(y, x.shape[2])
                for j, q in _linear_taps(z, x.shape[3])
            )
        found[k] = np.where(rows[:, None] & columns, value, found[k])
    found = np.moveaxis(found, 1, 3) if a.layout == "NHWC" else found
    return np.ascontiguousarray(converted(found, result_dtype(a.out_dtype, dt.dtype(data.dtype))))


def _linear_taps(at: Array, n: int) -> list[tuple[Array, Array]]:
    """The elements around positions, and their weights."""
    low = np.floor(at).astype(int)
    return [(low, 1 - at % 1), (np.minimum(low + 1, n - 1), at % 1)]


def _crop_places(first: Array, last: Array, n: int, count: int) -> tuple[Array, Array]:
    """Positions within a dim, and whether they are where they were meant to be."""
    t = first.dtype.type
    share = np.arange(count).astype(first.dtype) / t(max(count - 1, 1)) if count != 1 else np.array([0.5], first.dtype)
    at = first * t(n - 1) + (last - first) * t(n - 1) * share
    inside = (at >= 0) & (at <= n - 1)
    return np.where(inside, at, 0).astype(first.dtype), inside


_BOXES = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.9, 0.8], [-0.3, 0.5, 0.6, 1.4], [0.8, 1, 0.2, 0]], np.float32)
_WHICH = np.array([0, 1, 1, 0], np.int32)

crop_and_resize = Op(
    name="image.crop_and_resize",
    args=("data", "boxes", "box_indices"),
    attrs=CropAndResizeAttrs,
    type_rel=_crop_relation,
    reference=quiet(_crop_reference),
    expand=_crop_expand,
    samples=(
        Sample((((2, 3, 5, 4), "float32"), _BOXES, _WHICH), {"crop_size": (3, 4), "extrapolation_value": 9.0}),
        Sample((((2, 5, 4, 3), "float32"), _BOXES, _WHICH), {"crop_size": (1, 3), "layout": "NHWC"}),
        Sample((((2, 1, 5, 4), "float32"), _BOXES, _WHICH), {"crop_size": (3, 2), "method": "nearest_neighbor"}),
        Sample((((2, 1, 5, 4), "uint8"), _BOXES, _WHICH), {"crop_size": (2, 2), "out_dtype": "float32"}),
        Sample((((2, 1, 5, 4), "float16"), _BOXES.astype(np.float16), _WHICH), {"crop_size": (2, 2)}),
    ),
    doc="""Boxes (top, left, bottom, right), from 0 to 1, of the images that box_indices say, resized to `crop_size`.

The first and last elements of a result lie on the ends of its box; one alone in the middle. What lies outside of the
image is `extrapolation_value`. method: bilinear, or nearest_neighbor, halves up.""",
)

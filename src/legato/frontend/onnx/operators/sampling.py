"""Reading images between their elements, at places that a grid gives; and such grids."""

from __future__ import annotations

from legato.arith.expr import Const, const
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr
from legato.ops._sampling import METHODS, PADDINGS

_MODES = ("linear", "nearest", "cubic", "bilinear", "bicubic")
_MOST = 3  # spatial dims: a cubic polynomial reads 64 elements for each then


def grid_sample(
    b: Emitter,
    x: Expr,
    grid: Expr,
    *,
    align_corners: bool = False,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Expr:
    """x [n, channels, …] at the places grid [n, …, rank], from -1 to 1, of which the first is along the last dim."""
    if mode not in _MODES or padding_mode not in PADDINGS:
        raise ImportModelError(f"mode is {mode!r} and padding_mode {padding_mode!r}, wanted one of "
                               f"{', '.join(_MODES)}, and of {', '.join(PADDINGS)}")  # fmt: skip
    how, spatial = METHODS[mode], b.rank(x) - 2
    if spatial < 1 or b.rank(grid) != spatial + 2 or not b.dtype(grid).is_float:
        raise ImportModelError(f"places {grid.ty} in an image {x.ty}")
    if how != "nearest" and not b.dtype(x).is_float:
        raise UnsupportedError(f"{how} interpolation of {b.dtype(x)}", hint="Cast to float32 before")
    if spatial > _MOST:
        raise UnsupportedError(f"an image of {spatial} spatial dims: {_MOST} are the most")
    b.require(b.dims_of(grid)[-1], const(spatial), "coordinates of a place")
    places = b.transpose(grid, axes=(0, spatial + 1, *range(1, spatial + 1)))
    return b.image.grid_sample(x, places, method=mode, padding_mode=padding_mode, align_corners=align_corners)


def affine_grid(b: Emitter, theta: Expr, size: Expr, *, align_corners: bool = False) -> Expr:
    """[n, …, rank]: the places of an image of `size` [n, channels, …] from -1 to 1, transformed by theta [n, rank,
    rank + 1]. Aligned, the only place along a dim of 1 is 0: PyTorch's answer, as the standard has none."""
    if b.rank(size) != 1 or b.rank(theta) != 3:
        raise ImportModelError(f"transforms {theta.ty} of a grid of a size {size.ty}")
    rank = b.dims_of(theta)[1]
    spatial = b.known(rank if isinstance(rank, Const) else b.dims_of(size)[0] - 2, "the number of spatial dims")
    theta = b.agreed(theta, (None, spatial, spatial + 1), "the transforms")
    size = b.agreed(size, (spatial + 2,), "the size")
    batch, _, *extents = b.dims(size, "the size")
    b.require(b.dims_of(theta)[0], batch, "transforms")
    grid = b.image.affine_grid(theta, target_shape=tuple(extents), align_corners=align_corners)
    return b.transpose(grid, axes=(0, *range(2, spatial + 2), 1))

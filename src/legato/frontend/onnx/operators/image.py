"""Resizing. Operator sets differ in where the factors come from; from 11 on the sampling is spelt out by attributes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from legato.arith.expr import Const, const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.ratio import Ratio
from legato.ir.expr import Expr
from legato.ir.types import Dim

_ONE = Ratio.of(1.0)
_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}


@dataclass(frozen=True, slots=True)
class _Sampling:
    """How a resized tensor is read: the attributes that say so, by Relay's names."""

    method: str
    coordinates: str = "asymmetric"
    rounding: str = "floor"
    cubic_alpha: float = -0.75
    cubic_exclude: int = 0
    extrapolation: float = 0.0


@dataclass(frozen=True, slots=True)
class _Axis:
    """What becomes of one dim: its new extent, the factor if one was given, and the range of tf_crop_and_resize."""

    size: Dim
    scale: float | None = None
    roi: tuple[float, float] = (0.0, 1.0)


def upsample(b: Emitter, x: Expr, *, mode: str = "nearest", scales: tuple[float, ...]) -> Expr:
    return _scaled(b, x, [Ratio.of(s) for s in scales], _Sampling(_method(mode)))


def upsample_9(b: Emitter, x: Expr, scales: Expr, *, mode: str = "nearest") -> Expr:
    return _scaled(b, x, b.ratios(scales, "the scales"), _Sampling(_method(mode)))


def resize(b: Emitter, x: Expr, scales: Expr, *, mode: str = "nearest") -> Expr:
    """The nearest element is that before, or, along dims that get smaller, that behind."""
    ratios, sampling = b.ratios(scales, "the scales"), _Sampling(_method(mode))
    if mode != "nearest":
        return _scaled(b, x, ratios, sampling)
    behind, numbers = replace(sampling, rounding="ceil"), [r.number() for r in ratios]
    y = _scaled(b, x, [_ONE if n is None or n < 1 else r for n, r in zip(numbers, ratios, strict=True)], sampling)
    y = _scaled(b, y, [_ONE if n is None or n >= 1 else r for n, r in zip(numbers, ratios, strict=True)], behind)
    for axis in [axis for axis, n in enumerate(numbers) if n is None]:
        alone = [r if n == axis else _ONE for n, r in enumerate(ratios)]
        up, down, before = _scaled(b, y, alone, sampling), _scaled(b, y, alone, behind), b.dims_of(y)[axis]
        is_down = b.less(b.extent(b.dims_of(up)[axis], dt.int64), b.extent(before, dt.int64))
        y = b.where(is_down, down, up)
    return y


def resize_11(
    b: Emitter,
    x: Expr,
    roi: Expr | None = None,
    scales: Expr | None = None,
    sizes: Expr | None = None,
    *,
    antialias: int = 0,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Expr:
    rank = b.rank(x)
    along = tuple(range(rank)) if axes is None else tuple(b.axis(a, rank) for a in axes)
    sampling = _Sampling(_method(mode), coordinate_transformation_mode, nearest_mode if mode == "nearest" else "",
                         cubic_coeff_a, exclude_outside, extrapolation_value)  # fmt: skip
    changes = _changes(b, x, along, scales, sizes, keep_aspect_ratio_policy)
    if antialias and mode != "nearest" and not _enlarges(b.dims_of(x), changes):
        raise UnsupportedError("antialias with a factor below 1")
    if coordinate_transformation_mode == "tf_crop_and_resize":
        changes = _cropped(changes, along, () if roi is None else b.floats(roi, "the region of interest"))
    return _resized(b, x, changes, sampling)


def _method(mode: str) -> str:
    if mode not in _METHODS:
        raise ImportModelError(f"mode is {mode!r}, wanted one of {', '.join(_METHODS)}")
    return _METHODS[mode]


# ------------------------------------------------------------------ new extents


def _scaled(b: Emitter, x: Expr, scales: Sequence[Ratio], sampling: _Sampling) -> Expr:
    return _resized(b, x, _by_scales(b.dims_of(x), tuple(range(b.rank(x))), scales), sampling)


def _changes(
    b: Emitter, x: Expr, along: Sequence[int], scales: Expr | None, sizes: Expr | None, policy: str
) -> list[_Axis]:
    """What becomes of each dim; the factors win where both inputs have elements."""
    dims = b.dims_of(x)
    if scales is not None and not _is_empty(b, scales):
        return _by_scales(dims, along, b.ratios(scales, "the scales"))
    if sizes is None or _is_empty(b, sizes):
        raise ImportModelError("neither scales nor sizes are given")
    wanted = b.dims(sizes, "the sizes")
    if len(wanted) != len(along):
        raise ImportModelError(f"{len(wanted)} sizes for {len(along)} axes")
    if policy != "stretch":
        return _by_policy(b, x, along, wanted, policy)
    found = [_Axis(d) for d in dims]
    for axis, size in zip(along, wanted, strict=True):
        found[axis] = _Axis(size)
    return found


def _is_empty(b: Emitter, x: Expr) -> bool:
    return any(isinstance(d, Const) and d.value == 0 for d in b.dims_of(x))


def _by_scales(dims: Sequence[Dim], along: Sequence[int], scales: Sequence[Ratio]) -> list[_Axis]:
    """A factor that is known is kept; one with dims in it only says what the extent is."""
    if len(scales) != len(along):
        raise ImportModelError(f"{len(scales)} scales for {len(along)} axes")
    numbers = [s.number() for s in scales]
    if any(n is not None and n <= 0 for n in numbers):
        raise ImportModelError(f"scales are {numbers}, wanted positive numbers")
    found = [_Axis(d) for d in dims]
    for axis, scale, number in zip(along, scales, numbers, strict=True):
        if number != 1.0:
            found[axis] = _Axis(_times(dims[axis], scale), number)
    return found


def _times(d: Dim, scale: Ratio) -> Dim:
    """The extent that an extent becomes: the product as float32 has it, rounded down."""
    product = Ratio(d).times(scale) if not isinstance(d, Const) else Ratio.of(int(d.value)).times(scale)
    extent = None if product is None else product.floor()
    if extent is None:
        raise UnsupportedError(f"an extent {d} times a scale: how float32 rounds it is not known")
    return extent


def _by_policy(b: Emitter, x: Expr, along: Sequence[int], wanted: Sequence[Dim], policy: str) -> list[_Axis]:
    """One factor for all axes: the smallest or the largest of those that the sizes mean."""
    if policy not in ("not_larger", "not_smaller"):
        raise ImportModelError(f"keep_aspect_ratio_policy is {policy!r}, wanted stretch, not_larger or not_smaller")
    dims = b.dims_of(x)
    pairs = [(b.known(s, "a size"), b.known(dims[a], "a dimension")) for a, s in zip(along, wanted, strict=True)]
    choose = min if policy == "not_larger" else max
    ratio = choose(Fraction(size, extent) for size, extent in pairs)
    found = [_Axis(d) for d in dims]
    for axis, (_, extent) in zip(along, pairs, strict=True):
        found[axis] = _Axis(const(math.floor(extent * ratio + Fraction(1, 2))), float(ratio))
    return found


def _enlarges(dims: Sequence[Dim], changes: Sequence[_Axis]) -> bool:
    """True if no dim gets smaller, as far as is known."""
    for d, change in zip(dims, changes, strict=True):
        known = isinstance(d, Const) and isinstance(change.size, Const) and d.value <= change.size.value
        if not (d is change.size or known if change.scale is None else change.scale >= 1):
            return False
    return True


def _cropped(changes: Sequence[_Axis], along: Sequence[int], roi: Sequence[float]) -> list[_Axis]:
    if len(roi) != 2 * len(along):
        raise ImportModelError(f"{len(roi)} numbers in the region of interest, wanted {2 * len(along)}")
    found = list(changes)
    for n, axis in enumerate(along):
        found[axis] = _Axis(found[axis].size, found[axis].scale, (roi[n], roi[n + len(along)]))
    return found


# ------------------------------------------------------------------ the call


def _resized(b: Emitter, x: Expr, changes: Sequence[_Axis], sampling: _Sampling) -> Expr:
    """The resize of as many dims as there are beside two that keep their extent, of three at a time."""
    dims, changes = list(b.dims_of(x)), list(changes)
    moved = [n for n, c in enumerate(changes) if c.size is not dims[n] or c.roi != (0.0, 1.0) or c.scale is not None]
    if not moved:
        return x
    if len(moved) > 3:
        for some in (moved[:3], moved[3:]):
            each = enumerate(zip(changes, b.dims_of(x), strict=True))
            x = _resized(b, x, [c if n in some else _Axis(d) for n, (c, d) in each], sampling)
        return x
    added = max(3 - len(dims), 2 - (len(dims) - len(moved)), 0)
    for _ in range(added):
        x = b.expand_dims(x, axis=0, num_newaxis=1)
    changes, moved = [_Axis(const(1))] * added + changes, [n + added for n in moved]
    rank = len(changes) - 2
    if rank > 3:
        raise UnsupportedError(f"{rank} dimensions at once; 1 to 3 are possible")
    kept = [n for n in range(rank + 2) if n not in moved][:2]
    spatial = [n for n in range(rank + 2) if n not in kept]
    attrs = _attributes([changes[n] for n in spatial], sampling)
    y = b.call(f"image.resize{rank}d", x, layout=_layout(kept, rank), **attrs)
    return b.squeeze(y, axis=tuple(range(added))) if added else y


def _layout(kept: Sequence[int], rank: int) -> str:
    """The layout whose batch and channels are the dims `kept`."""
    letters = iter("DHW"[3 - rank :])
    return "".join("NC"[kept.index(n)] if n in kept else next(letters) for n in range(rank + 2))


def _attributes(axes: Sequence[_Axis], s: _Sampling) -> dict[str, object]:
    found: dict[str, object] = {
        "size": tuple(a.size for a in axes),
        "method": s.method,
        "coordinate_transformation_mode": s.coordinates,
        "rounding_method": s.rounding,
        "cubic_alpha": s.cubic_alpha,
        "cubic_exclude": s.cubic_exclude,
        "extrapolation_value": s.extrapolation,
    }
    if any(a.scale is not None for a in axes):
        found["scale"] = tuple(1.0 if a.scale is None else a.scale for a in axes)
    if s.coordinates == "tf_crop_and_resize":
        found["roi"] = (*(a.roi[0] for a in axes), *(a.roi[1] for a in axes))
    return found

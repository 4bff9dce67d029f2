"""Resizing. Operator sets differ in where the factors come from; from 11 on the sampling is spelt out by attributes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from legato.arith.expr import Const, const, eq, ge, le, max_, select
from legato.arith.fraction import simplest
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.antialias import Smoothing
from legato.frontend.onnx.computed import signed_dims
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.ratio import Ratio, reduced
from legato.frontend.onnx.tensors import MAX_RANK
from legato.ir.expr import Expr
from legato.ir.types import Dim
from legato.ops._computed import PARTS, fraction, quotient
from legato.ops._resize import COORDINATES, crop, line

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}


@dataclass(frozen=True, slots=True)
class _Sampling:
    """How a resized tensor is read: the attributes that say so, by Relay's names."""

    method: str
    coordinates: str = "asymmetric"
    rounding: str = "floor"
    cubic_alpha: float = -0.75
    cubic_exclude: bool = False
    extrapolation: float = 0.0


@dataclass(frozen=True, slots=True)
class _Axis:
    """What becomes of one dim: its new extent, the factor if one was given, as a number or else as a quotient, and the
    range of tf_crop_and_resize, as numbers or else as two numerators and their denominator."""

    size: Dim
    scale: float | None = None
    ratio: tuple[Dim, Dim] | None = None
    roi: tuple[float, float] | tuple[Dim, Dim, Dim] = (0.0, 1.0)

    @property
    def factor(self) -> tuple[Dim, Dim] | None:
        """The factor as a quotient."""
        if self.scale is None:
            return self.ratio
        exact = simplest(self.scale)
        return const(exact.numerator), const(exact.denominator)


def upsample_7(b: Emitter, x: Expr, *, mode: str = "nearest", scales: tuple[float, ...]) -> Expr:
    if not all(map(math.isfinite, scales)):
        raise ImportModelError(f"scales {list(scales)} are out of range")
    return _resized(b, x, _by_scales(b, x, range(b.rank(x)), [Ratio.of(s) for s in scales]), _Sampling(_method(mode)))


def upsample_9(b: Emitter, x: Expr, scales: Expr, *, mode: str = "nearest") -> Expr:
    return _resized(
        b, x, _by_scales(b, x, range(b.rank(x)), _scales(b, _counted(b, x, scales))), _Sampling(_method(mode))
    )


def resize(b: Emitter, x: Expr, scales: Expr, *, mode: str = "nearest") -> Expr:
    """The nearest element is that before, or, along dims that get smaller, that behind."""
    changes, sampling = _by_scales(b, x, range(b.rank(x)), _scales(b, _counted(b, x, scales))), _Sampling(_method(mode))
    if mode != "nearest":
        return _resized(b, x, changes, sampling)
    behind, dims = replace(sampling, rounding="ceil"), b.dims_of(x)
    is_down = [_is_below_one(c, d) for c, d in zip(changes, dims, strict=True)]
    y = _resized(b, x, _chosen(b, x, changes, [down is False for down in is_down]), sampling)
    y = _resized(b, y, _chosen(b, y, changes, [down is True for down in is_down]), behind)
    for axis in [axis for axis, down in enumerate(is_down) if down is None]:
        alone = _chosen(b, y, changes, [n == axis for n in range(len(dims))])
        over, under = changes[axis].factor or (changes[axis].size, dims[axis])
        less = b.less(b.extent(over, dt.int64), b.extent(under, dt.int64))
        y = b.where(less, _resized(b, y, alone, behind), _resized(b, y, alone, sampling))
    return y


def _is_below_one(change: _Axis, d: Dim) -> bool | None:
    """Whether the factor is; None where that is not known."""
    if change.scale is not None:
        return change.scale < 1
    return False if change.size is d and change.ratio is None else None


def _chosen(b: Emitter, x: Expr, changes: Sequence[_Axis], which: Sequence[bool]) -> list[_Axis]:
    """Some of the changes; other dims of `x` stay."""
    return [c if yes else _Axis(d) for c, d, yes in zip(changes, b.dims_of(x), which, strict=True)]


def resize_11(
    b: Emitter,
    x: Expr,
    roi: Expr | None = None,
    scales: Expr | None = None,
    sizes: Expr | None = None,
    *,
    antialias: bool = False,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Expr:
    if coordinate_transformation_mode not in COORDINATES:
        raise ImportModelError(f"coordinate_transformation_mode is {coordinate_transformation_mode!r}, wanted one of "
                               f"{', '.join(COORDINATES)}")  # fmt: skip
    rank = b.rank(x)
    along = tuple(range(rank)) if axes is None else tuple(b.axis(a, rank) for a in axes)
    sampling = _Sampling(_method(mode), coordinate_transformation_mode, nearest_mode if mode == "nearest" else "",
                         cubic_coeff_a, exclude_outside, extrapolation_value)  # fmt: skip
    changes = _changes(b, x, along, scales, sizes, keep_aspect_ratio_policy)
    if antialias and mode != "nearest" and not _enlarges(b.dims_of(x), changes):
        if coordinate_transformation_mode == "tf_crop_and_resize":
            raise UnsupportedError("antialias of a region, coordinate_transformation_mode='tf_crop_and_resize'",
                                   hint="cut the region out before it is resized")  # fmt: skip
        return _smoothed(b, x, changes, sampling)
    if coordinate_transformation_mode == "tf_crop_and_resize":
        if roi is None:
            raise ImportModelError("tf_crop_and_resize needs a region of interest")
        changes = _cropped(b, changes, along, b.counted(roi, const(2 * len(along)), "the region of interest"))
    return _resized(b, x, changes, sampling)


def _method(mode: str) -> str:
    if mode not in _METHODS:
        raise ImportModelError(f"mode is {mode!r}, wanted one of {', '.join(_METHODS)}")
    return _METHODS[mode]


# ------------------------------------------------------------------ new extents


def _counted(b: Emitter, x: Expr, scales: Expr) -> Expr:
    return b.counted(scales, const(b.rank(x)), "scales")


def _scales(b: Emitter, scales: Expr) -> list[Ratio | Expr]:
    """The factors, each as a quotient of dims or, where only the data decides it, as a tensor of rank 0."""
    b.dims_of_rank(scales, 1, "the scales")
    found: list[Ratio | Expr] = []
    for part in b.parts(scales):
        known = b.known_ratios(part)
        count = b.known(b.dims_of(part)[0], "the number of scales")
        if count > MAX_RANK:  # each is a step of the program
            raise ImportModelError(f"{count} scales, but a tensor has at most {MAX_RANK} dims")
        found += known or [b.take(part, b.constant(n, dt.int64), axis=0, mode="fast") for n in range(count)]
    return found


def _changes(
    b: Emitter, x: Expr, along: Sequence[int], scales: Expr | None, sizes: Expr | None, policy: str
) -> list[_Axis]:
    """What becomes of each dim; the factors win where both inputs have elements."""
    dims = b.dims_of(x)
    count = const(len(along))
    has_sizes = sizes is not None and not _is_empty(b, sizes)
    if scales is not None and not _is_empty(b, scales):
        if not has_sizes or b.type_of(scales).is_static:
            return _by_scales(b, x, along, _scales(b, b.counted(scales, count, "scales")))
        b.counted(scales, const(0), "scales beside sizes")
    if sizes is None or not has_sizes:
        raise ImportModelError("neither scales nor sizes are given")
    wanted = b.dims(b.counted(sizes, count, "sizes"), "the sizes")
    if len(wanted) != len(along):
        raise ImportModelError(f"{len(wanted)} sizes for {len(along)} axes")
    if policy != "stretch":
        return _by_policy(b, x, along, wanted, policy) if wanted else [_Axis(d) for d in dims]
    found = [_Axis(d) for d in dims]
    for axis, size in zip(along, wanted, strict=True):
        found[axis] = _Axis(size)
    return found


def _is_empty(b: Emitter, x: Expr) -> bool:
    return any(isinstance(d, Const) and d.value == 0 for d in b.dims_of(x))


def _by_scales(b: Emitter, x: Expr, along: Sequence[int], scales: Sequence[Ratio | Expr]) -> list[_Axis]:
    """What factors make of each dim. One that is new extent / extent is left to the operator."""
    dims = b.dims_of(x)
    if len(scales) != len(along):
        raise ImportModelError(f"{len(scales)} scales for {len(along)} axes")
    numbers = [s.number() if isinstance(s, Ratio) else None for s in scales]
    if any(n is not None and n <= 0 for n in numbers):
        raise ImportModelError(f"scales are {numbers}, wanted positive numbers")
    found = [_Axis(d) for d in dims]
    for axis, scale, number in zip(along, scales, numbers, strict=True):
        if not isinstance(scale, Ratio):
            found[axis] = _Axis(_times_at(b, dims[axis], scale), None, _quotient_at(b, scale))
        elif number is not None and number != 1.0:
            found[axis] = _Axis(_times(b, dims[axis], scale), number)
        elif number is None:
            is_ratio_of_extents = reduced(dims[axis] * scale.num, scale.den)[1] is const(1)
            found[axis] = _Axis(_times(b, dims[axis], scale), None,
                                None if is_ratio_of_extents else (scale.num, scale.den))  # fmt: skip
    return found


def _times(b: Emitter, d: Dim, scale: Ratio) -> Dim:
    """The extent that an extent becomes: the product as float32 has it, rounded down."""
    product = Ratio(d).times(scale) if not isinstance(d, Const) else Ratio.of(int(d.value)).times(scale)
    extent = None if product is None else product.floor()
    if extent is None:
        over, under = (b.extent(part, dt.float32) for part in (scale.num, scale.den))
        return _times_at(b, d, b.divide(over, under))
    return extent


def _times_at(b: Emitter, d: Dim, scale: Expr) -> Dim:
    """The same of a factor that the program computes."""
    product = b.multiply(b.extent(d, dt.float32), b.to(scale, dt.float32))
    return b.dim(b.cast(b.floor(product), dtype=dt.int64), "a size")


def _quotient_at(b: Emitter, scale: Expr) -> tuple[Dim, Dim]:
    """The quotient of integers that a float stands for."""
    over, under = (b.dim(v, "a scale") for v in quotient(b, b.to(scale, dt.float32)))
    return over, under


def _by_policy(b: Emitter, x: Expr, along: Sequence[int], wanted: Sequence[Dim], policy: str) -> list[_Axis]:
    """One factor for all axes: the smallest or the largest of those that the sizes mean, 1 of an empty axis (which
    the specification leaves open; ONNX Runtime's choice)."""
    if policy not in ("not_larger", "not_smaller"):
        raise ImportModelError(f"keep_aspect_ratio_policy is {policy!r}, wanted stretch, not_larger or not_smaller")
    dims, is_wanted = b.dims_of(x), le if policy == "not_larger" else ge
    factors = [
        (select(eq(dims[axis], const(0)), const(1), size), max_(dims[axis], const(1)))
        for axis, size in zip(along, wanted, strict=True)
    ]
    over, under = factors[0]
    for size, d in factors[1:]:
        is_better = is_wanted(size * under, over * d)
        over, under = select(is_better, size, over), select(is_better, d, under)
    over, under = simplify(over), simplify(under)
    found = [_Axis(d) for d in dims]
    for axis in along:
        size = simplify((dims[axis] * over * 2 + under) // (under * 2))
        if isinstance(over, Const) and isinstance(under, Const):
            found[axis] = _Axis(size, float(over.value / under.value))
        else:
            found[axis] = _Axis(size, None, (over, under))
    return found


def _enlarges(dims: Sequence[Dim], changes: Sequence[_Axis]) -> bool:
    """True if no dim gets smaller, as far as is known."""
    for d, change in zip(dims, changes, strict=True):
        if change.ratio is not None:
            return False
        known = isinstance(d, Const) and isinstance(change.size, Const) and d.value <= change.size.value
        if not (d is change.size or known if change.scale is None else change.scale >= 1):
            return False
    return True


def _smoothed(b: Emitter, x: Expr, changes: Sequence[_Axis], s: _Sampling) -> Expr:
    """The resize without what is too fine for fewer elements; of integers it is cut off, as of others."""
    dtype = b.dtype(x)
    y = b.wide(x) if dtype.is_float else b.cast(x, dtype=dt.float32)
    for axis, (d, change) in enumerate(zip(b.dims_of(x), changes, strict=True)):
        if change.size is d and change.factor is None:
            continue
        where = line(s.coordinates, d, change.size, change.factor)
        method = "linear" if s.method == "linear" else "cubic"
        smoothing = Smoothing(b, change.size, change.factor or (change.size, d), where, method, s.cubic_alpha,
                              s.cubic_exclude)  # fmt: skip
        y = smoothing.of(y, axis)
    return b.to(y, dtype)


def _cropped(b: Emitter, changes: Sequence[_Axis], along: Sequence[int], roi: Expr) -> list[_Axis]:
    count, found = 2 * len(along), list(changes)
    if b.dims_of(roi) != (const(count),):
        raise ImportModelError(f"the region of interest is {roi.ty}, wanted {count} numbers")
    known = b.array(roi)
    for n, axis in enumerate(along):
        places = n, n + len(along)
        if known is not None:
            start, end = (float(known[place]) for place in places)
            found[axis] = replace(found[axis], roi=(start, end))
        else:
            start_, end_ = (b.take(roi, b.constant(place, dt.int64), axis=0, mode="fast") for place in places)
            found[axis] = replace(found[axis], roi=_range_at(b, start_, end_))
    return found


def _range_at(b: Emitter, start: Expr, end: Expr) -> tuple[Dim, Dim, Dim]:
    """A range that the program computes: quotients of small integers, or else the first bits of both."""
    (p, q, is_exact), (r, s, is_exact_too) = (fraction(b, b.to(v, dt.float32)) for v in (start, end))
    both, bits = b.logical_and(is_exact, is_exact_too), b.constant(float(PARTS))
    parts = [(b.multiply(p, s), b.floor(b.multiply(b.to(start, dt.float32), bits))),
             (b.multiply(r, q), b.floor(b.multiply(b.to(end, dt.float32), bits)))]  # fmt: skip
    numerators = [b.reshape(b.where(both, *part), newshape=(1,)) for part in parts]
    first, last = signed_dims(b, b.cast(b.concatenate(*numerators, axis=0), dtype=dt.int64), "a range")
    return first, last, b.dim(b.cast(b.where(both, b.multiply(q, s), bits), dtype=dt.int64), "a range")


# ------------------------------------------------------------------ the call


def _resized(b: Emitter, x: Expr, changes: Sequence[_Axis], sampling: _Sampling) -> Expr:
    """The resize of as many dims as there are beside two that keep their extent, of three at a time."""
    dims, changes = list(b.dims_of(x)), list(changes)
    moved = [n for n, c in enumerate(changes) if c.size is not dims[n] or c.roi != (0.0, 1.0) or c.factor is not None]
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
    attrs = _attributes(_with_factors(b, x, changes, spatial), sampling)
    y = b.call(f"image.resize{rank}d", x, layout=_layout(kept, rank), **attrs)
    return b.squeeze(y, axis=tuple(range(added))) if added else y


def _with_factors(b: Emitter, x: Expr, changes: Sequence[_Axis], spatial: Sequence[int]) -> Sequence[_Axis]:
    """The spatial dims, all with a quotient unless none has a factor, or all that change have a number."""
    axes, dims = [changes[n] for n in spatial], [b.dims_of(x)[n] for n in spatial]
    own = [a.factor is None and a.size is not d for a, d in zip(axes, dims, strict=True)]  # new extent / extent
    if all(a.ratio is None for a in axes) and (not any(own) or all(a.scale is None for a in axes)):
        return axes
    return [replace(a, ratio=a.factor or (a.size, d)) for a, d in zip(axes, dims, strict=True)]


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
        "cubic_exclude": int(s.cubic_exclude),
        "extrapolation_value": s.extrapolation,
    }
    if all(a.ratio for a in axes):
        found["ratio"] = tuple(a.ratio[part] for part in (0, 1) for a in axes if a.ratio)
    elif any(a.scale is not None for a in axes):
        found["scale"] = tuple(1.0 if a.scale is None else a.scale for a in axes)
    if s.coordinates == "tf_crop_and_resize":
        if all(len(a.roi) == 2 for a in axes):
            found["roi"] = tuple(a.roi[part] for part in (0, 1) for a in axes)
        else:
            ranges = [a.roi if len(a.roi) == 3 else crop(*a.roi) for a in axes]
            found["crop"] = tuple(r[part] for part in (0, 1, 2) for r in ranges)
    return found

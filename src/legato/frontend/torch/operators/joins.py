"""Tensors put together, repeated and turned: cat, stack, repeat, flip, roll, tril, triu; and padded."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Const, const, max_
from legato.arith.simplify import simplify
from legato.base.dtype import int64
from legato.base.errors import ImportModelError
from legato.frontend.torch.emitter import Emitter, Number, Size
from legato.frontend.torch.signature import aten
from legato.frontend.torch.symbols import number
from legato.ir.expr import Expr
from legato.ir.types import Dim


@aten("cat")
def cat(b: Emitter, tensors: tuple[Expr, ...], dim: int = 0) -> Expr:
    """Vectors without elements are left out where the others have other ranks."""
    parts = b.promoted(*tensors)
    rank = max(b.rank(x) for x in parts)
    kept = [x for x in parts if b.rank(x) == rank or not _is_empty(b, x)] or list(parts[:1])
    return kept[0] if len(kept) == 1 else b.concatenate(*kept, axis=b.axis_of(dim, b.rank(kept[0])))


def _is_empty(b: Emitter, x: Expr) -> bool:
    return b.rank(x) == 1 and number(b.dims_of(x)[0]) == 0


@aten("stack")
def stack(b: Emitter, tensors: tuple[Expr, ...], dim: int = 0) -> Expr:
    parts = b.promoted(*tensors)
    return b.stack(*parts, axis=b.axis(dim, b.rank(parts[0]) + 1))


@aten("repeat")
def repeat(b: Emitter, self: Expr, repeats: tuple[Size, ...]) -> Expr:
    if not repeats:
        return self
    new = len(repeats) - b.rank(self)
    x = b.in_shape(self, (const(1),) * new + b.dims_of(self))
    return b.tile(x, reps=tuple(repeats))


@aten("flip")
def flip(b: Emitter, self: Expr, dims: tuple[int, ...]) -> Expr:
    for axis in b.axes_of(dims, b.rank(self)) if dims else ():
        self = b.reverse(self, axis=axis)
    return self


@aten("roll")
def roll(b: Emitter, self: Expr, shifts: tuple[Size, ...], dims: tuple[int, ...] = ()) -> Expr:
    """Without `dims`, along the row-major order."""
    if not dims:
        return b.in_shape(_rolled(b, b.flat(self), 0, shifts[0]), b.dims_of(self))
    for shift, dim in zip(shifts, dims, strict=True):
        self = _rolled(b, self, b.axis_of(dim, b.rank(self)), shift) if b.rank(self) else self
    return self


def _rolled(b: Emitter, x: Expr, axis: int, shift: Size) -> Expr:
    extent = b.dims_of(x)[axis]
    if isinstance(shift, int) and isinstance(extent, Const):
        by = shift % max(int(extent.value), 1)
        cut = int(extent.value) - by
        return x if not by else b.concatenate(*(_between(b, x, axis, *p) for p in ((cut, extent), (0, cut))), axis=axis)
    at = b.steps(simplify(const(0) - b.size(shift)), simplify(extent - b.size(shift)))
    return b.take(x, at, axis=axis, mode="wrap")


def _between(b: Emitter, x: Expr, axis: int, begin: Size, end: Size) -> Expr:
    return b.strided_slice(x, begin=(begin,), end=(end,), strides=(1,), axes=(axis,))


@aten("tril")
def tril(b: Emitter, self: Expr, diagonal: Size = 0) -> Expr:
    return b.trilu(self, b.operand(diagonal, int64), upper=False)


@aten("triu")
def triu(b: Emitter, self: Expr, diagonal: Size = 0) -> Expr:
    return b.trilu(self, b.operand(diagonal, int64), upper=True)


@aten("repeat_interleave.Tensor")
def repeat_interleave(b: Emitter, repeats: Expr, *, output_size: Size | None = None) -> Expr:
    """Each subscript as often as `repeats` says there."""
    ends = b.cumsum(b.to(repeats, int64), axis=0)
    if output_size is None:
        output_size = number(b.computed_dim(b.sum(b.to(repeats, int64), axis=(0,)), "repeated"))
    at = b.steps(0, output_size)
    return b.searchsorted(ends, at, right=True, dtype=int64)


# ------------------------------------------------------------------ padding


@aten("constant_pad_nd")
def constant_pad_nd(b: Emitter, self: Expr, pad: tuple[Size, ...], value: Number = 0) -> Expr:
    """Pads in pairs from the last axis on; below 0 they cut off."""
    fill = b.operand(value, b.dtype(self))
    widths = _widths(b, self, pad)
    for axis, (before, after) in enumerate(widths):
        self = _trimmed(b, self, axis, before, after)
    added = tuple((_added(p), _added(q)) for p, q in widths)
    return self if all(pair == (0, 0) for pair in added) else b.nn.pad(self, fill, pad_width=added)


def _added(pad: Dim) -> Size:
    return number(simplify(max_(pad, const(0))))


def _trimmed(b: Emitter, x: Expr, axis: int, before: Dim, after: Dim) -> Expr:
    """`x` without what pads below 0 cut off an axis."""
    first, less = (number(simplify(max_(const(0) - d, const(0)))) for d in (before, after))
    if first == 0 and less == 0:
        return x
    return _between(b, x, axis, first, number(simplify(b.dims_of(x)[axis] - less)))


def _widths(b: Emitter, x: Expr, pad: Sequence[Size]) -> list[tuple[Dim, Dim]]:
    """(before, after) of each axis."""
    rank, given = b.rank(x), b.sizes_of(pad)
    if len(given) % 2 or len(given) // 2 > rank:
        raise ImportModelError(f"{len(given)} pads for a tensor of rank {rank}")
    none: Dim = const(0)
    found = [(none, none)] * rank
    for n in range(len(given) // 2):
        found[rank - 1 - n] = (given[2 * n], given[2 * n + 1])
    return found


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(b: Emitter, self: Expr, padding: tuple[Size, ...]) -> Expr:
    return _padded(b, self, padding, "reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(b: Emitter, self: Expr, padding: tuple[Size, ...]) -> Expr:
    return _padded(b, self, padding, "edge")


def _padded(b: Emitter, x: Expr, padding: Sequence[Size], mode: str) -> Expr:
    """`x` with its edge around it. A pad below 0 takes from the places that would be padded."""
    widths = _widths(b, x, padding)
    if all(isinstance(p, Const) and p.value >= 0 for pair in widths for p in pair):
        return b.nn.pad(x, b.like(0, x), pad_width=tuple((number(p), number(q)) for p, q in widths), pad_mode=mode)
    for axis, (before, after) in enumerate(widths):
        added = _added(before), _added(after)
        width = tuple(added if n == axis else (0, 0) for n in range(b.rank(x)))
        grown = x if added == (0, 0) else b.nn.pad(x, b.like(0, x), pad_width=width, pad_mode=mode)
        x = _trimmed(b, grown, axis, before, after)
    return x

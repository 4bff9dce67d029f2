"""What sliding windows (convolution, pooling) share: dimension orders, padding forms, extents, the pad stage."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from legato.arith.expr import Expr, cdiv, const, floordiv, ge, land, lt, min_, select
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.ir.layout import Layout, layout
from legato.ir.op import Relation
from legato.ir.types import Dim
from legato.ops._rules import at_least, divides
from legato.ops._tensors import Array, Index, as_int, known_int
from legato.te.tensor import Tensor, compute

__all__ = ["DimOrder", "Window", "check_positive", "check_sliding", "data_order", "dim_order", "pad_stage", "pads",
           "spatial_letters", "spread", "taps", "window_rank"]  # fmt: skip

Ints = int | Sequence[int]


@dataclass(frozen=True, slots=True)
class DimOrder:
    """Where the axes of a canonical order (`letters`: NCHW, OIHW, …) lie in a tensor of a layout."""

    layout: Layout
    letters: str

    @property
    def rank(self) -> int:
        """How many dims the tensor has."""
        return len(self.layout.dims)

    @property
    def at(self) -> tuple[int, ...]:
        """The dim of each axis: of one in blocks, which block."""
        return tuple(self.layout.places(letter)[0] for letter in self.letters)

    def extents(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """The extents of the axes, in canonical order."""
        found = self.layout.extents(shape)
        return tuple(found[letter] for letter in self.letters)

    def shape(self, extents: Sequence[Dim]) -> tuple[Dim, ...]:
        """The tensor's shape; blocks divide the extents."""
        return self.layout.shape(dict(zip(self.letters, extents, strict=True)))

    def checked_extents(self, rel: Relation, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """`extents`; the relation's error where dims that are blocks are not as large as the layout says."""
        for n, (letter, size) in enumerate(self.layout.dims):
            if size:
                rel.same(shape[n], const(size), f"block {size}{letter.lower()} of {self.layout}")
        return self.extents(shape)

    def checked_shape(self, rel: Relation, extents: Sequence[Dim]) -> tuple[Dim, ...]:
        """`shape`; the relation's error where blocks do not divide the extents."""
        for letter, extent in zip(self.letters, extents, strict=True):
            size = self.layout.block(letter)
            if size > 1:
                divides(rel, extent, size, f"{letter} of {self.layout}, in blocks of {size}")
        return self.shape(extents)

    def canonical(self, index: Sequence[Expr]) -> tuple[Expr, ...]:
        """The axes' subscripts at subscripts of the tensor."""
        found = self.layout.values(index)
        return tuple(found[letter] for letter in self.letters)

    def actual(self, index: Sequence[Expr]) -> tuple[Expr, ...]:
        """The tensor's subscripts at those of the axes."""
        return self.layout.index(dict(zip(self.letters, index, strict=True)))

    def to_canonical(self, x: Array) -> Array:
        """The array with its axes in canonical order (a view, without blocks)."""
        return self.layout.axes_of(x, self.letters)

    def from_canonical(self, x: Array) -> Array:
        """A canonical array in the tensor's own order (a view, without blocks)."""
        return self.layout.of_axes(x, self.letters)


def spatial_letters(rank: int) -> str:
    """W, HW or DHW."""
    return "DHW"[3 - rank :]


def window_rank(text: str) -> int:
    """How many axes windows slide along in data of the layout `text`: all but N and C."""
    return sum(letter.isupper() for letter in text) - 2


def dim_order(text: str, canonical: str) -> DimOrder | None:
    """The order that the layout `text` names; None unless its axes are those of `canonical`, rows and columns whole."""
    try:
        found = layout(text)
    except TypeCheckError:
        return None
    blocks = {letter for letter, size in found.dims if size}
    if sorted(found.letters) != sorted(canonical) or blocks & set(canonical[2:]):
        return None
    return DimOrder(found, canonical)


def data_order(rel: Relation, layout: str, canonical: str, what: str) -> DimOrder:
    """`dim_order`, or the relation's error."""
    order = dim_order(layout, canonical)
    if order is None:
        raise rel.fail(f"{what} {layout!r} is not a permutation of {canonical!r}",
                       hint=f"blocks, such as {canonical}8{canonical[1].lower()}, are of {canonical[0]} and "
                            f"{canonical[1]} only")  # fmt: skip
    return order


def spread(value: Ints, rank: int) -> tuple[int, ...]:
    """One number per spatial dimension, from one for all or one for each."""
    given = (value,) if isinstance(value, int) else tuple(value)
    return given * rank if len(given) == 1 else given


def pads(padding: Ints, rank: int) -> tuple[tuple[int, int], ...]:
    """(before, after) of each spatial dimension.

    `padding` is one number for all sides, one for each dimension, or all befores and then all afters
    (top, left, bottom, right).
    """
    given = (padding,) if isinstance(padding, int) else tuple(padding)
    if len(given) == 2 * rank:
        return tuple(zip(given[:rank], given[rank:], strict=True))
    return tuple((p, p) for p in spread(given, rank))


def check_positive(rel: Relation, what: str, values: Sequence[int], count: int | None, least: int = 1) -> None:
    """Fails unless there are `count` values (None: any number), none smaller than `least`."""
    if len(values) != (len(values) if count is None else count) or any(v < least for v in values):
        number = "" if count is None else f"{count} "
        raise rel.fail(f"{what} must be {number}integers of at least {least}, got {list(values)}")


def check_sliding(
    rel: Relation,
    rank: int,
    strides: Ints,
    dilation: Ints,
    padding: Ints,
    groups: int = 1,
    kernel_size: Ints | None = None,
) -> None:
    """Fails unless these attributes of a sliding window fit `rank` spatial dimensions."""
    check_positive(rel, "strides", spread(strides, rank), rank)
    check_positive(rel, "dilation", spread(dilation, rank), rank)
    check_positive(rel, "padding", padding if isinstance(padding, Sequence) else (padding,), None, least=0)
    if len(pads(padding, rank)) != rank:
        raise rel.fail(f"padding must be 1, {rank} or {2 * rank} integers, got {padding}")
    check_positive(rel, "groups", (groups,), 1)
    if kernel_size is not None:
        check_positive(rel, "the kernel's size", spread(kernel_size, rank), rank)


@dataclass(frozen=True, slots=True)
class Window:
    """How windows slide along one dimension: position o, offset k reads `o·stride + k·dilation − before`."""

    extent: Dim
    kernel: Dim
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    ceil: bool = False

    @property
    def reach(self) -> Dim:
        """Elements from the first to the last that one window touches."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def is_padded(self) -> bool:
        """True if a window may touch elements outside the data."""
        return bool(self.before) or self.overhangs

    @property
    def overhangs(self) -> bool:
        """True if a window may reach beyond the end of the data."""
        if not self.ceil:
            return bool(self.after)
        beyond = known_int(self.padded_extent - self.extent - self.before)
        return beyond is None or beyond > 0

    @property
    def count(self) -> Dim:
        """Number of windows. With `ceil` the last may overhang, if it starts inside the data or the padding before."""
        room = self.extent + (self.before + self.after) - self.reach
        if not self.ceil:
            return floordiv(room, const(self.stride)) + 1
        count = cdiv(room, self.stride) + 1
        reach = known_int(self.reach)
        if reach is not None and self.after + self.stride <= reach:
            return count
        return min_(count, cdiv(self.extent + self.before, self.stride))

    @property
    def is_empty(self) -> bool:
        """True if it is known that no window fits."""
        count = known_int(self.count)
        return count is not None and count < 1

    @property
    def padded_extent(self) -> Dim:
        """Extent of the padded data that all windows together touch, or more."""
        if self.ceil:
            return (self.count - 1) * self.stride + self.reach
        return self.extent + (self.before + self.after)

    def without_idle(self) -> tuple[Window, int]:
        """The window without the offsets at its ends that read nothing but padding wherever it lies (of a dilation as
        large as the data, say), and how many of them are in front."""
        extent, kernel, count = known_int(self.extent), known_int(self.kernel), known_int(self.count)
        if extent is None or kernel is None or count is None or count < 1 or self.ceil:
            return self, 0
        starts = [k * self.dilation - self.before for k in range(kernel)]
        busy = [k for k, at in enumerate(starts) if at < extent and at + (count - 1) * self.stride >= 0]
        if not busy or len(busy) == kernel:
            return self, 0
        before = self.before - busy[0] * self.dilation
        after = self.after - (kernel - 1 - busy[-1]) * self.dilation
        if before < 0 or after < 0:
            return self, 0
        return replace(self, kernel=const(busy[-1] + 1 - busy[0]), before=before, after=after), busy[0]

    def index(self, o: Expr, k: Expr) -> Expr:
        """Subscript into the padded data."""
        return o * self.stride + k * self.dilation


def require_room(rel: Relation, along: Sequence[Window], letters: str, what: str) -> None:
    """Fails unless each window fits into its padded dimension once; where that is not known, the program checks it."""
    for w, letter in zip(along, letters, strict=True):
        if w.is_empty:
            raise rel.fail(f"the {what} reaches over {w.reach} elements of {letter}, "
                           f"which has {w.extent} and padding {w.before} + {w.after}")  # fmt: skip
        at_least(rel, w.count, 1, f"the {what} fits into {letter}")


def pad_stage(x: Tensor, dims: Sequence[int], along: Sequence[Window], value: Expr) -> Tensor:
    """`x` with `value` around dimensions `dims`, wide enough for the windows; `x` itself where nothing is padded."""
    padded = [(d, w) for d, w in zip(dims, along, strict=True) if w.is_padded]
    if not padded:
        return x
    shape = list(x.shape)
    for d, w in padded:
        shape[d] = w.padded_extent

    def element(*index: Expr) -> Expr:
        source = list(index)
        inside: Expr = const(True, dt.bool_)
        for d, w in padded:
            if w.before:
                inside = land(inside, ge(index[d], w.before))
            if w.overhangs:
                inside = land(inside, lt(index[d], w.extent + w.before))
            source[d] = index[d] - w.before
        return select(inside, x[tuple(source)], value)

    return compute(shape, element, "pad")


def taps(x: Array, along: Sequence[Window], fill: Any) -> Iterator[tuple[Index, Array]]:
    """For each offset inside the kernel, what all windows read there: (offset, view of shape N, C, outputs…).

    `x` is canonical (N, C, spatial…); outside it is `fill`. Extents of the windows must be literals.
    """
    if any(w.is_padded for w in along):
        ends = [max(as_int(w.padded_extent - w.extent) - w.before, 0) for w in along]
        sides = ((w.before, end) for w, end in zip(along, ends, strict=True))
        x = np.pad(x, [(0, 0), (0, 0), *sides], constant_values=fill)
    for offset in itertools.product(*(range(as_int(w.kernel)) for w in along)):
        cut = []
        for w, k in zip(along, offset, strict=True):
            first, count = k * w.dilation, as_int(w.count)
            cut.append(slice(first, first + max((count - 1) * w.stride + 1, 0), w.stride))
        yield offset, x[(slice(None), slice(None), *cut)]

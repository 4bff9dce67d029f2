"""Windows of pooling along one dimension, seen from both sides: the elements of a window, the windows of an element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from legato.arith.expr import Expr, cdiv, const, eq, floordiv, floormod, ge, land, lt, max_, min_
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.ir.types import Dim
from legato.ops._gradients import Rule, extents, shape_of
from legato.ops._tensors import Array, as_int, known_int
from legato.ops._window import Window

__all__ = ["Along", "Bins", "Sliding", "pool_gradient"]


def pool_gradient(name: str) -> Rule:
    """The rule of the pooling operator `name` ("max_pool2d"): by operators of `pool_gradient`, of its attributes."""
    if "max" in name:
        return lambda b, call, dy: [b.call(f"nn.{name}_grad", dy, call.args[0], **call.attrs)]
    return lambda b, call, dy: [
        b.call(f"nn.{name}_backward", dy, data_shape=extents(shape_of(call.args[0])), **call.attrs)
    ]


_ALWAYS = const(True, dt.bool_)


class Along(Protocol):
    """Windows along one dimension of the data."""

    @property
    def count(self) -> Dim:
        """How many windows there are."""

    @property
    def taps(self) -> Dim:
        """Elements of the largest window."""

    @property
    def holders(self) -> Dim:
        """The most windows that hold one element, or more."""

    def element(self, o: Expr, k: Expr) -> tuple[Expr, Expr]:
        """The subscript of tap `k` of window `o`, and whether it is in the data and the window."""

    def window(self, i: Expr, r: Expr) -> tuple[Expr, Expr, Expr]:
        """Number `r` of the windows that hold element `i`, the tap that `i` is there, and whether there are such."""

    def size(self, o: Expr) -> Expr:
        """How many elements of window `o` count for its average."""

    def sizes(self, count: int) -> Array:
        """`size` of each of `count` windows."""

    def table(self, count: int) -> Array:
        """The elements of each of `count` windows: a row of subscripts, -1 where there is none."""


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows that slide: tap k of window o is element `o·stride + k·dilation − before`.

    count: the number of windows; include_pad: elements of the padding count for averages.
    """

    by: Window
    count: Dim
    include_pad: bool = False

    @property
    def taps(self) -> Dim:
        """Elements of a window."""
        return self.by.kernel

    @property
    def holders(self) -> Dim:
        """Windows that begin so near before an element that they may hold it."""
        return cdiv(self.by.reach, const(self.by.stride))

    def element(self, o: Expr, k: Expr) -> tuple[Expr, Expr]:
        """See Along."""
        i = self.by.index(o, k) - self.by.before
        inside = ge(i, 0) if self.by.before else _ALWAYS
        return i, land(inside, lt(i, self.by.extent)) if self.by.overhangs else inside

    def window(self, i: Expr, r: Expr) -> tuple[Expr, Expr, Expr]:
        """See Along."""
        w = self.by
        o = floordiv(i + w.before, const(w.stride)) - r
        behind = i + w.before - o * w.stride  # elements behind the first of the window
        inside = land(ge(o, 0), lt(o, self.count))
        reach = known_int(w.reach)
        if reach is None or reach % w.stride:
            inside = land(inside, lt(behind, w.reach))
        if w.dilation == 1:
            return o, behind, inside
        return o, floordiv(behind, const(w.dilation)), land(inside, eq(floormod(behind, const(w.dilation)), 0))

    def size(self, o: Expr) -> Expr:
        """See Along."""
        w = self.by
        if not w.is_padded or (self.include_pad and not w.ceil):
            return w.kernel
        lo, hi = self._counted(w, o, min_)
        return max_(hi - lo, const(0))

    def sizes(self, count: int) -> Array:
        """See Along."""
        w = self.by
        plain = Window(as_int(w.extent), as_int(w.kernel), w.stride, w.dilation, w.before, w.after)  # type: ignore[arg-type]  # NumPy counts with ints, a kernel with dims
        lo, hi = self._counted(plain, np.arange(count), np.minimum)
        return np.asarray(np.maximum(hi - lo, 0))

    def _counted(self, w: Window, o: Any, smaller: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
        """The taps [lo, hi) of window `o` that count; works on expressions and on integer arrays."""
        start = o * w.stride - w.before
        end = w.extent + w.after if self.include_pad else w.extent
        first = -w.before if self.include_pad else 0
        above = -smaller(start * 0, start - first)  # how far the window begins before what counts
        lo = (above + (w.dilation - 1)) // w.dilation
        return lo, smaller((end - start + (w.dilation - 1)) // w.dilation, w.kernel)

    def table(self, count: int) -> Array:
        """See Along."""
        w = self.by
        at = np.arange(count)[:, None] * w.stride + np.arange(as_int(w.kernel)) * w.dilation - w.before
        return np.asarray(np.where((at >= 0) & (at < as_int(w.extent)), at, -1))


@dataclass(frozen=True, slots=True)
class Bins:
    """`extent` elements in `count` windows: window o is [⌊o·extent/count⌋, ⌈(o+1)·extent/count⌉).

    Element i is in the windows [⌊i·count/extent⌋, ⌈(i+1)·count/extent⌉): seen from it, windows are the elements.
    """

    extent: Dim
    count: Dim

    @property
    def fixed(self) -> Dim | None:
        """The size of every window, where it is the same for all."""
        extent, count = known_int(self.extent), known_int(self.count)
        if count == 1:
            return self.extent
        if self.extent is self.count:
            return const(1)
        return const(extent // count) if extent is not None and count and extent % count == 0 else None

    @property
    def turned(self) -> Bins:
        """The windows that hold each element."""
        return Bins(self.count, self.extent)

    @property
    def taps(self) -> Dim:
        """The size of the largest window, or more."""
        return self.fixed or cdiv(self.extent, self.count) + 1

    @property
    def holders(self) -> Dim:
        """The most windows that hold one element, or more."""
        return const(1) if self.fixed is not None else self.turned.taps

    def start(self, o: Any) -> Any:
        """The first element of window `o`."""
        return o * self.fixed if self.fixed is not None else floordiv(o * self.extent, self.count)

    def end(self, o: Expr) -> Expr:
        """The element behind the last of window `o`."""
        return self.start(o) + self.fixed if self.fixed is not None else cdiv((o + 1) * self.extent, self.count)

    def element(self, o: Expr, k: Expr) -> tuple[Expr, Expr]:
        """See Along."""
        i = self.start(o) + k
        return i, _ALWAYS if self.fixed is not None else lt(i, self.end(o))

    def window(self, i: Expr, r: Expr) -> tuple[Expr, Expr, Expr]:
        """See Along."""
        if self.fixed is not None:
            o: Expr = const(0) if known_int(self.count) == 1 else floordiv(i, self.fixed)
            return o, i - self.start(o), _ALWAYS
        o = self.turned.start(i) + r
        return o, i - self.start(o), lt(o, self.turned.end(i))

    def size(self, o: Expr) -> Expr:
        """See Along."""
        return self.fixed or self.end(o) - self.start(o)

    def sizes(self, count: int) -> Array:
        """See Along."""
        return np.asarray(np.count_nonzero(self.table(count) >= 0, axis=1))

    def table(self, count: int) -> Array:
        """See Along."""
        extent = as_int(self.extent)
        o = np.arange(count)[:, None]
        at = o * extent // max(count, 1) + np.arange(as_int(self.taps) if count else 0)
        return np.asarray(np.where(at < -(-(o + 1) * extent // max(count, 1)), at, -1))

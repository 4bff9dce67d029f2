"""Buffers: logical arrays and the physical layout that is a fact of each.

A buffer is indexed logically. `Layout` says how the elements lie in memory: the order of dimensions from outermost
to innermost, extra elements behind the rows of a dimension (stride padding: what belongs to others where the buffer is
part of a larger one), and a halo around the data that reads may touch (convolution padding without a copy).
"""

from __future__ import annotations

import enum
from functools import lru_cache

from legato.arith.expr import Expr, const, max_
from legato.base.dataclass import dataclass
from legato.base.dtype import DType

__all__ = ["Buffer", "Layout", "Scope"]


class Scope(enum.Enum):
    """Where a buffer lives."""

    GLOBAL = "global"  # memory behind a pointer: parameters, constants, the call's workspace
    LOCAL = "local"  # a thread's own array on its stack
    REGISTER = "register"  # vector registers: every index is a literal once loops are unrolled


@dataclass(frozen=True, slots=True)
class Layout:
    """How a buffer of `len(order)` logical dimensions lies in memory.

    order: logical dimensions from outermost to innermost (`(0, 2, 3, 1)` keeps an NCHW tensor as NHWC).
    halo:  (before, after) elements around the data, per logical dimension; they hold `halo_value`.
    pad:   extra elements behind each run of a dimension and its halo, per logical dimension; that of the outermost
           dimension does not matter. Nobody reads or writes them through this buffer.
    """

    order: tuple[int, ...]
    halo: tuple[tuple[int, int], ...] = ()
    halo_value: float = 0.0
    pad: tuple[int, ...] = ()

    @staticmethod
    def row_major(rank: int) -> Layout:
        """The last dimension innermost, dense."""
        return Layout(tuple(range(rank)))

    @property
    def is_row_major(self) -> bool:
        """True for dense row-major order without halo."""
        return self.order == tuple(range(len(self.order))) and self.is_dense

    @property
    def is_dense(self) -> bool:
        """True if the elements are contiguous: no halo and no stride padding."""
        return not any(self.pad) and not any(h != (0, 0) for h in self.halo)

    def is_dense_along(self, dim: int) -> bool:
        """True if nothing but its elements lies along logical dimension `dim`."""
        return self.halo_of(dim) == (0, 0) and not self.pad_of(dim)

    def halo_of(self, dim: int) -> tuple[int, int]:
        """(before, after) of logical dimension `dim`."""
        return self.halo[dim] if self.halo else (0, 0)

    def pad_of(self, dim: int) -> int:
        """Extra elements behind logical dimension `dim`."""
        return self.pad[dim] if self.pad else 0


class Buffer:
    """A typed array. Compared by identity; `name` is a hint for printing."""

    __slots__ = ("__weakref__", "dtype", "layout", "name", "scope", "shape")
    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    layout: Layout
    scope: Scope

    def __init__(
        self,
        name: str,
        shape: tuple[Expr, ...],
        dtype: DType,
        layout: Layout | None = None,
        scope: Scope = Scope.GLOBAL,
    ) -> None:
        self.name, self.shape, self.dtype, self.scope = name, shape, dtype, scope
        self.layout = layout or Layout.row_major(len(shape))

    @property
    def rank(self) -> int:
        """Number of logical dimensions."""
        return len(self.shape)

    def strides(self) -> tuple[Expr, ...]:
        """Distance in elements between neighbours along each logical dimension."""
        return _strides(self.shape, self.layout)

    def origin(self) -> Expr:
        """Elements between the start of memory and the element at index (0, …, 0): the halo in front."""
        return _origin(self.shape, self.layout)

    def elements(self) -> Expr:
        """Elements from the start of the buffer's memory to its last one, halo and the padding between included."""
        if not self.rank:
            return const(1)
        outer, *inner = self.layout.order
        strides = self.strides()
        total = strides[outer] * (self.shape[outer] + sum(self.layout.halo_of(outer)))
        if not any(self.layout.pad_of(dim) for dim in inner):
            return total
        for dim in inner:
            total = total - strides[dim] * self.layout.pad_of(dim)
        return max_(total, const(0))  # without elements there is nothing between them

    def offset(self, indices: tuple[Expr, ...]) -> Expr:
        """Element offset of `self[indices]` from the start of the buffer's memory."""
        total = self.origin()
        for i, stride in zip(indices, self.strides(), strict=True):
            total = total + i * stride
        return total

    def __repr__(self) -> str:
        dims = ", ".join(map(str, self.shape))
        return f"<buffer {self.name}: {self.dtype}[{dims}]>"


@lru_cache(maxsize=1 << 12)  # every access to a buffer asks
def _strides(shape: tuple[Expr, ...], layout: Layout) -> tuple[Expr, ...]:
    strides: list[Expr] = [const(0)] * len(shape)
    step: Expr = const(1)
    for dim in reversed(layout.order):
        strides[dim] = step
        before, after = layout.halo_of(dim)
        step = step * (shape[dim] + (before + after + layout.pad_of(dim)))
    return tuple(strides)


@lru_cache(maxsize=1 << 12)
def _origin(shape: tuple[Expr, ...], layout: Layout) -> Expr:
    total: Expr = const(0)
    for dim, stride in enumerate(_strides(shape, layout)):
        total = total + stride * layout.halo_of(dim)[0]
    return total

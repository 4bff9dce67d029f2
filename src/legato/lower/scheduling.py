"""What is known, and what is made, while a group is scheduled; its parts (reductions, rows, chains) work on this."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from legato.arith.expr import Expr, Var
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.base.precision import Precision
from legato.base.target import Target
from legato.lower.layout import aligned, choose_order
from legato.lower.packing import Copies, Packing
from legato.lower.rules.program import threaded
from legato.lower.traits import tensors_read
from legato.te.tensor import Axis, Stage, Tensor
from legato.tir.buffer import Buffer, Layout
from legato.tir.stmt import Func, Stmt
from legato.tir.walk import bound_buffers, bound_vars, buffers_read, expressions

__all__ = ["Kernel", "Schedule", "Scheduling"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel and the tensors it is called with, in the order of its buffer parameters."""

    func: Func
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    dims: tuple[Var, ...]


@dataclass(slots=True)
class Schedule:
    """The kernels of a group, in order, and the constants that they want packed."""

    kernels: list[Kernel] = field(default_factory=list)
    packings: list[Packing] = field(default_factory=list)


class Scheduling(ABC):
    """A group on its way to kernels. `stored` tensors are read from memory, all others are computed where they are
    read; `wanted` holds layouts that are asked for; has_chain: whether there is more than one contraction.
    assign_layouts: tensors lie in memory as suits their kernels, else in row-major order where nothing else is wanted.
    """

    def __init__(self, constants: set[Tensor], target: Target, precision: Precision, assign_layouts: bool) -> None:
        self.constants, self.target, self.precision = constants, target, precision
        self.assign_layouts = assign_layouts
        self.lanes = target.vector_bytes // 4
        self.has_chain = False
        self.wanted: dict[Tensor, Layout | None] = {}
        self.stored: set[Tensor] = set()
        self.result = Schedule()
        self.copies = Copies(
            constants, self.stored, self.result.packings, self._store_row_major, has_pairs=target.has_bf16
        )

    @abstractmethod
    def store(self, tensor: Tensor) -> None:
        """Appends the kernels that store `tensor`, and before them those of the temporaries it needs."""

    def _store_row_major(self, tensor: Tensor) -> None:
        self.wanted[tensor] = Layout.row_major(tensor.rank)
        self.store(tensor)

    def settle(self, body: Expr, but: Tensor | None = None) -> None:
        """Stores what `body` reads that is neither an input nor stored yet, `but` one tensor."""
        for t in tensors_read(body):
            if t is not but:
                self.store(t)

    def choose_layout(self, tensor: Tensor, body: Expr, reduced: bool) -> None:
        """Lays `tensor` out as is wanted, or as suits `body`, which computes it."""
        want = self.wanted.get(tensor)
        if want is not None and want.order:
            tensor.layout = want
            return
        assert isinstance(tensor.stage, Stage)
        self.lay_out(tensor, self.order(tensor.stage.axes, body, reduced))

    def order(self, axes: Sequence[Axis], body: Expr, reduced: bool) -> Sequence[int]:
        """The order in memory that suits `body` over `axes`."""
        if not self.assign_layouts:
            return range(len(axes))
        return choose_order(axes, body, self.constants, reduced, self.lanes).order

    def lay_out(self, tensor: Tensor, order: Iterable[int]) -> None:
        """Lays `tensor` out as is wanted, in `order` where that is free, its rows aligned."""
        layout = self.in_order(tensor, order)
        lanes = self.target.lanes(tensor.dtype)
        tensor.layout = aligned(layout, tensor.shape, lanes) if self.assign_layouts else layout

    def in_order(self, tensor: Tensor, order: Iterable[int]) -> Layout:
        """The layout that is wanted of `tensor`, in `order` where that is free."""
        want = self.wanted.get(tensor)
        if want is None:
            return Layout(tuple(order))
        return want if want.order else replace(want, order=tuple(order))

    def append(self, outputs: Sequence[Tensor], body: Stmt, *, given: bool = False) -> None:
        """Appends the kernel `body`, which stores `outputs`; `given`: an operator's own loops, not yet shared out."""
        own = set(bound_buffers(body))
        written: list[Buffer] = list(outputs)  # in full: an output without elements is stored by nobody
        read = [b for b in buffers_read(body) if b not in own and b not in written]
        bound = set(bound_vars(body))
        shapes = [d for b in (*read, *written) for d in b.shape]
        used = [e for e in expressions(body) if isinstance(e, Var)]
        dims = [v for v in dict.fromkeys((*used, *variables(*shapes))) if v not in bound]
        func = Func(outputs[0].name, (*read, *written, *dims), body)
        func = threaded(func) if given else func
        self.result.kernels.append(Kernel(func, tuple(read), tuple(written), tuple(dims)))

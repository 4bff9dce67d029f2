"""What the scheduler asks of bodies, orders and layouts before it chooses a rule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence
from typing import TYPE_CHECKING

from legato.arith.expr import Expr, Var
from legato.arith.prove import prove_equal
from legato.arith.substitute import rewrite, variables
from legato.lower.access import depends, extent_of, follows, is_unit, stride
from legato.lower.conditions import Pad
from legato.te.inline import inline, loads
from legato.te.tensor import Axis, Reduction, Stage, Tensor
from legato.tir.buffer import Buffer, Layout
from legato.tir.expr import Load

if TYPE_CHECKING:
    from legato.lower.rules.row import RowReduction

__all__ = [
    "choose_row",
    "covers",
    "element_of",
    "epilogue_of",
    "in_memory_order",
    "index_of",
    "is_epilogue",
    "is_reduction",
    "is_turned",
    "order_of_long",
    "run_along_memory",
    "tensors_read",
    "units_first",
]


def in_memory_order(red: Reduction, body: Expr, constants: Collection[Tensor]) -> Reduction:
    """`red` with its axes as they lie in the memory of the data that is reduced, outermost first."""
    for x in loads(body):
        along = follows(x, red.axes)
        if x.buffer not in constants and len(along) == len(red.axes):
            place = {n: x.buffer.layout.order.index(d) for n, d in along.items()}
            axes = tuple(red.axes[n] for n in sorted(place, key=lambda n: place[n]))
            return Reduction(red.combiner, axes, red.init)
    return red


def choose_row(body: Expr, order: Sequence[Axis]) -> Axis | None:
    """The axis that tiles run along beside the vector axis: one such that vectors are reused for all its rows."""
    axes = [a for a in order[:-1] if not is_unit(a.extent)]
    vector = order[-1].var
    reused = [a for a in axes if not any(depends(x, vector) and depends(x, a.var) for x in loads(body))]
    return reused[-1] if reused else axes[-1] if axes else None


def run_along_memory(order: Sequence[Tensor], found: dict[Tensor, RowReduction]) -> bool:
    """True if each reduction reads memory along its last axis, so that rows are worth vectors."""
    for t in order:
        r = found[t]
        strides = [stride(x, r.reduction.axes[-1].var) for x in loads(r.body) if x.buffer not in found]
        if strides and 1 not in strides:
            return False
    return True


def order_of_long(tensor: Tensor, order: Sequence[int]) -> list[int]:
    """`order` without dimensions of extent 1, whose place does not matter."""
    return [d for d in order if not is_unit(tensor.shape[d])]


def covers(layout: Layout, pad: Pad) -> bool:
    """True if the halo is as wide as the padding and holds its value."""
    widths = [layout.halo_of(d) for d in range(len(layout.order))]
    wide = all(h[0] >= b and h[1] >= a for h, b, a in zip(widths, pad.before, pad.after, strict=True))
    return wide and layout.halo_value == pad.value


def units_first(axes: Sequence[Axis]) -> list[Axis]:
    """The axes with those of extent 1 moved to the front: the last one is worth a vector loop."""
    return [*(a for a in axes if is_unit(a.extent)), *(a for a in axes if not is_unit(a.extent))]


def tensors_read(body: Expr) -> list[Tensor]:
    """The tensors that `body` reads, each once."""
    return list(dict.fromkeys(x.buffer for x in loads(body) if isinstance(x.buffer, Tensor)))


def index_of(tensor: Tensor) -> tuple[Var, ...]:
    """The variables over which the stage of `tensor` computes an element."""
    assert isinstance(tensor.stage, Stage)
    return tuple(a.var for a in tensor.stage.axes)


def element_of(tensor: Tensor, stored: Container[Tensor]) -> Expr:
    """An element of `tensor`, made of what is `stored` and of reductions: a Load of it if it is itself one."""
    assert isinstance(tensor.stage, Stage)
    is_one = tensor.stage.reduction is not None
    return Load(tensor, index_of(tensor)) if is_one else inline(tensor.stage.body, stored)


def epilogue_of(body: Expr, reduction: Tensor) -> Callable[[Expr], Expr]:
    """What `body` makes of the element of `reduction` that it reads."""
    return lambda total: rewrite(body, lambda e: total if isinstance(e, Load) and e.buffer is reduction else None)


def is_epilogue(tensor: Tensor, body: Expr, reduction: Tensor) -> bool:
    """True if each element of `tensor` = `body` reads just the same element of `reduction`, which has all of these:
    one that pads a sum has more."""
    assert isinstance(tensor.stage, Stage)
    axes = tensor.stage.axes
    if len(reduction.shape) != len(axes) or not all(map(_has, reduction.shape, (a.extent for a in axes))):
        return False

    def is_same(x: Load) -> bool:
        return len(axes) == len(x.indices) and all(
            i is a.var or (is_unit(a.extent) and extent_of(i) == 0) for i, a in zip(x.indices, axes, strict=True)
        )

    return all(is_same(x) for x in loads(body) if x.buffer is reduction)


def is_turned(tensor: Tensor, body: Expr, contraction: Tensor) -> bool:
    """True if `contraction` is one, of several tensors, and each element of `tensor` = `body` is made of just one of
    its elements, other than the same: its axes are permuted, say."""
    assert isinstance(tensor.stage, Stage)
    assert isinstance(contraction.stage, Stage)
    reads = [x for x in loads(body) if x.buffer is contraction]
    if len(reads) != 1 or len(tensors_read(contraction.stage.body)) < 2:
        return False
    return {a.var for a in tensor.stage.axes if not is_unit(a.extent)} <= set(variables(*reads[0].indices))


def _has(places: Expr, needed: Expr) -> bool:
    known, wanted = extent_of(places), extent_of(needed)
    return prove_equal(places, needed) or (known is not None and wanted is not None and wanted <= known)


def is_reduction(b: Buffer) -> bool:
    """True if a stage with a reduction computes `b`."""
    return isinstance(b, Tensor) and isinstance(b.stage, Stage) and b.stage.reduction is not None

"""Operands copied into the order in which a rule reads them: constants when the program is compiled, others by kernels.

A register tile reads `[other axes][channel block][reduction][channel in block]` from end to end, rows read memory along
their last axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from legato.arith.expr import Const, Expr, Var, cdiv, const, floordiv, lt, select
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, substitute
from legato.base.dataclass import dataclass
from legato.lower.access import depends, extent_of, static_bytes, stride
from legato.lower.algorithms.cook_toom import Matrix
from legato.lower.algorithms.pairs import is_narrow, word
from legato.lower.rules.chain import Blocked
from legato.lower.rules.tile_shape import TileShape
from legato.te.inline import loads, replaced
from legato.te.tensor import Axis, Reduction, Stage, Tensor
from legato.tir.buffer import Buffer
from legato.tir.expr import Load

__all__ = ["Copies", "Packing"]


@dataclass(frozen=True, slots=True)
class Packing:
    """A constant laid out for sequential reading: `packed` holds what its stage computes from `source`. With
    `matrices`, its stage multiplies dimensions of `source` by these; that is done in float64 and rounded once."""

    packed: Tensor
    source: Tensor
    matrices: tuple[tuple[int, Matrix], ...] = ()


class Copies:
    """Makes copies of operands: those of `constants` are described in `packings` and count as `stored`, others are
    stored, row-major, by `store`. has_pairs: whether the target multiplies pairs of bfloat16."""

    def __init__(
        self,
        constants: set[Tensor],
        stored: set[Tensor],
        packings: list[Packing],
        store: Callable[[Tensor], None],
        *,
        has_pairs: bool,
    ) -> None:
        self.constants, self.stored, self.packings = constants, stored, packings
        self.store, self.has_pairs = store, has_pairs

    def wants(self, x: Load, order: Sequence[Axis], row_axis: Axis | None, red: Reduction, is_certain: bool) -> bool:
        """Operands that follow the channel but no row are reused by every row: constants are packed at compile time,
        others where their order in memory does not fit."""
        if not depends(x, order[-1].var) or (row_axis is not None and depends(x, row_axis.var)):
            return False
        if not any(depends(x, a.var) for a in red.axes):
            return False
        if self.is_packable(x, [a for a in (*order, *red.axes) if depends(x, a.var)]):
            return True
        return is_certain and isinstance(x.buffer, Tensor) and stride(x, order[-1].var) != 1

    def in_blocks(
        self, x: Load, order: Sequence[Axis], red: Reduction, shape: TileShape, block_var: Var, within: Var
    ) -> Load:
        """`x` read from a copy laid out [other axes][channel block][reduction][channel in block], padded with zeros."""
        channel = order[-1]
        others = [a for a in order[:-1] if depends(x, a.var)]
        reduced = [a for a in red.axes if depends(x, a.var)]
        blocks = simplify(cdiv(channel.extent, shape.places))
        axes = [
            *(Axis(Var(a.var.name, lo=0), a.extent) for a in others),
            Axis(Var("ob", lo=0), blocks),
            *(Axis(Var(a.var.name, lo=0), a.extent) for a in reduced),
            Axis(Var("oi", lo=0), const(shape.places)),
        ]
        n = len(others)
        which = axes[n].var * shape.places + axes[-1].var
        env: dict[Var, Expr] = {channel.var: which}
        env |= {a.var: b.var for a, b in zip(others, axes[:n], strict=True)}
        env |= {a.var: b.var for a, b in zip(reduced, axes[n + 1 : -1], strict=True)}
        value = substitute(x, env)
        if not (isinstance(channel.extent, Const) and int(channel.extent.value) % shape.places == 0):
            value = select(lt(which, channel.extent), value, const(0, x.dtype))
        packed = Tensor(f"packed_{x.buffer.name}", [a.extent for a in axes], x.dtype, Stage(tuple(axes), value))
        if self.is_packable(x, [*others, channel, *reduced]):
            self.pack(packed, x.buffer)
        else:
            self.store(packed)
        return packed[(*(a.var for a in others), block_var, *(a.var for a in reduced), within)]

    def blocked(
        self, name: str, factors: tuple[Expr, Expr], shape: TileShape, order: Sequence[Axis], along: Axis
    ) -> Blocked:
        """The second of two factors, an operand of a register tile over `order` and `along`: read where it is if
        vectors lie along memory there, else from a copy; of words, where the target multiplies these."""
        block_var, within = Var("ob", lo=0), Var("oi", lo=0)
        e, step = factors[1], None
        if self.has_pairs and all(is_narrow(f, along) for f in factors):
            step = Axis(Var(along.var.name, lo=0), simplify(floordiv(along.extent, const(2))))
            e, along = word(e, along.var, step.var), step
        if isinstance(e, Load) and stride(e, order[-1].var) == 1 and isinstance(stride(e, along.var), int):
            return Blocked(e, block_var, within, shape, is_packed=False)
        used = [a for a in (*order, along) if depends(e, a.var)]
        axes = tuple(Axis(Var(a.var.name, lo=0), a.extent) for a in used)
        value = substitute(e, {a.var: b.var for a, b in zip(used, axes, strict=True)})
        operand = Tensor(name, [a.extent for a in used], e.dtype, Stage(axes, value))
        read = operand[tuple(a.var for a in used)]
        packed = self.in_blocks(read, order, Reduction("sum", (along,)), shape, block_var, within)
        return Blocked(packed, block_var, within, shape, is_packed=True, step=step)

    def in_rows(self, inner: Expr, axes: Sequence[Axis], red: Reduction) -> Expr:
        """`inner` with constant operands laid out so that memory runs along the last reduction axis."""
        packed: dict[Load, Expr] = {}
        for x in loads(inner):
            old = [a for a in (*axes, *red.axes) if depends(x, a.var)]
            if not self.is_packable(x, old) or stride(x, red.axes[-1].var) in (0, 1):
                continue
            new = tuple(Axis(Var(a.var.name, lo=0), a.extent) for a in old)
            value = substitute(x, {a.var: b.var for a, b in zip(old, new, strict=True)})
            copy = Tensor(f"packed_{x.buffer.name}", [a.extent for a in new], x.dtype, Stage(new, value))
            self.pack(copy, x.buffer)
            packed[x] = copy[tuple(a.var for a in old)]
        return replaced(inner, packed)

    def rearranged(self, packed: Tensor, source: Buffer) -> None:
        """Makes `packed` available, which has the elements of `source` in another order."""
        if source in self.constants and all(isinstance(d, Const) for d in packed.shape):
            self.pack(packed, source)
        else:
            self.store(packed)

    def constant(self, made: Buffer, source: Tensor) -> None:
        """Makes `made`, which its stage computes from a constant, at compile time."""
        assert isinstance(made, Tensor)
        self.pack(made, source)
        self.constants.add(made)

    def is_packable(self, x: Load, axes: Sequence[Axis]) -> bool:
        """True if `x`, a function of `axes`, can be laid out at compile time: a constant at known places, about as many
        as it has elements."""
        if x.buffer not in self.constants or any(isinstance(n, Load) for i in x.indices for n in nodes(i)):
            return False
        sizes = [extent_of(a.extent) for a in axes]
        known = [n for n in sizes if n is not None]
        return len(known) == len(sizes) and math.prod(known) * x.dtype.bytes <= 2 * static_bytes(x.buffer)

    def pack(self, packed: Tensor, source: Buffer) -> None:
        """Has `packed`, which its stage computes from constant `source`, made at compile time."""
        assert isinstance(source, Tensor)
        self.stored.add(packed)
        self.packings.append(Packing(packed, source))

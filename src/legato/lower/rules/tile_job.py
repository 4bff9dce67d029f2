"""What register tiles compute: one reduction, where its results lie, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable

from legato.arith.expr import Expr, Var
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.lower.rules.ahead import Ahead
from legato.te.tensor import Axis, Reduction
from legato.tir.buffer import Buffer

__all__ = ["TileJob"]


@dataclass(frozen=True, slots=True)
class TileJob:
    """What to compute: out[index] = epilogue(Σ body), where `epilogue` maps the sum to the stored value.

    `order` lists the axes, which `index` uses, as `out` lies in memory; the last is the vector axis, and
    tiles run along `row` beside it. Reads of packed operands are written with
    `block` (which channel block) and `within` (the channel's place in it) instead of the channel itself. `last` is
    what is summed at the end of the last reduction axis, just behind it, and how many times (0 or 1).
    """

    out: Buffer
    index: tuple[Expr, ...]
    order: tuple[Axis, ...]
    row: Axis | None
    reduction: Reduction
    body: Expr
    dtype: DType
    epilogue: Callable[[Expr], Expr]
    block: Var
    within: Var
    packed: frozenset[Buffer] = frozenset()
    last: tuple[Expr, Expr] | None = None
    term: Var | None = None  # which of the sums that the shape has for a channel a lane is of
    blocks_first: bool = False  # weights do not stay in cache: each block of them is used for all rows before the next
    ahead: Ahead | None = None  # while weights are used, the next ones are fetched
    unit: int = 1  # so many rows stay together in a tile
    in_tiles: bool = False  # threads share the tiles along the rows, whose extent is known
    is_part: bool = False  # the rows are some of many: a kernel around this goes through all of them

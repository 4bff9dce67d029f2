"""The shapes of register tiles: how many rows and vectors of channels are accumulated at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from legato.arith.expr import Expr
from legato.arith.linear import gather
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.target import Target
from legato.lower.access import depends
from legato.lower.rules.nest import extent_of, lanes_for
from legato.te.inline import loads
from legato.te.tensor import Axis, Reduction
from legato.tir.expr import Load

__all__ = ["FEW_ROWS", "MANY_ROWS", "TileShape", "interleaved_shapes", "narrow_shape", "pick_shape", "rows_for",
           "single_shape", "streamed_shape", "tallest"]  # fmt: skip

FEW_ROWS = 6  # so many rows are one tile with four vectors: then nothing is read twice
MANY_ROWS = 1 << 10  # what a symbolic extent counts as
NARROW_ROWS = 24  # of one vector each: more take code and registers, fewer take loads of weights
SINGLE = (4, 5, 6)  # vectors of one row: so many sums are under way that loads need not wait for additions
SIDE_BY_SIDE = (2, 4)  # sums of a channel that fill vectors which its channels alone would leave partly empty
FULLER = 0.9  # of the time: what that has to gain
MOST_LOADS = 0.75  # for each product, of such a tile
VECTORS = range(2, 8)  # of such a tile: one takes a load for each product, beside more there are no registers for rows
RUN = 16  # vectors side by side that are read in one go; more are no faster


@dataclass(frozen=True, slots=True)
class TileShape:
    """A register tile: `rows` × `vectors` of `lanes`, each channel having `terms` sums side by side."""

    rows: int
    vectors: int
    lanes: int
    terms: int = 1

    @property
    def places(self) -> int:
        """Weights of a block at each step: places along the last axis of what is packed."""
        return self.vectors * self.lanes

    @property
    def width(self) -> int:
        """Channels in a block."""
        return self.places // self.terms


def pick_shape(channel: Expr, row: Axis | None, exprs: Sequence[Expr], target: Target) -> TileShape:
    """The register tile: two vectors of channels and many rows, so that each weight read serves many products.

    Few rows take more vectors, and so do targets whose products replace an operand: there a weight is loaded for each
    product, and each row's data should serve many. Vectors divide the channels if three or fewer do.
    """
    channels = extent_of(channel)
    lanes = lanes_for(target, exprs)
    if channels is not None:
        lanes = min(lanes, 1 << max(0, (channels - 1).bit_length()))
    blocks = 4 if channels is None else -(-channels // lanes)
    is_wide = target.vector_registers >= 32
    few = row is None or (extent_of(row.extent) or MANY_ROWS) <= FEW_ROWS
    takes_turns = not target.has_three_operands
    order = (4, 3, 2, 1) if takes_turns or (is_wide and few) else (2, 3, 1) if is_wide else (2, 1)
    vectors = next(v for v in order if blocks % v == 0 or v == 1)
    if blocks > order[0] and vectors == 1:
        vectors = 2
    return _shape({4: FEW_ROWS, 3: 8, 2: 12, 1: 14}[vectors], vectors, lanes, exprs, target)


def narrow_shape(lanes: int, exprs: Sequence[Expr], target: Target) -> TileShape:
    """A register tile of one vector, where few channels at a time keep results near: a tall one, since more loads of
    weights would cost what that gains."""
    return _shape(NARROW_ROWS, 1, lanes, exprs, target)


def _shape(rows: int, vectors: int, lanes: int, exprs: Sequence[Expr], target: Target) -> TileShape:
    """`rows` rows, or as many as leave registers for weights and data beside the sums."""
    held = vectors + 2 if target.has_three_operands else 4
    if not target.has_bf16 and _takes_pairs(exprs):
        held = 2 * vectors + 4  # both halves of each pair
    return TileShape(max(1, min(rows, (target.vector_registers - held) // vectors)), vectors, lanes)


def rows_for(vectors: int, target: Target, beside: int = 2) -> int:
    """The most rows of so many vectors whose sums stay in registers, beside weights and `beside` vectors of data."""
    return (target.vector_registers - vectors - beside) // vectors


def tallest(shape: TileShape, body: Expr, target: Target) -> int:
    """The most rows that `shape` could have, were it for registers alone."""
    is_plain = shape.terms == 1 and target.has_three_operands and not _takes_pairs([body])
    return rows_for(shape.vectors, target) if is_plain else shape.rows


def _takes_pairs(exprs: Iterable[Expr]) -> bool:
    """True if factors on both sides are narrow, or what is read is."""
    reads = [x for e in exprs for x in loads(e)]
    return bool(reads) and all(x.dtype is dt.bfloat16 for x in reads)


def single_shape(channel: Expr, exprs: Sequence[Expr], target: Target) -> TileShape:
    """The register tile of one row: of SINGLE vectors, those that leave the fewest places of the last block unused."""
    many = pick_shape(channel, None, exprs, target)
    channels = extent_of(channel)
    blocks = min(SINGLE) if channels is None else -(-channels // many.lanes)
    if blocks < min(SINGLE) or _takes_pairs(exprs) or not target.has_three_operands:
        return many
    return TileShape(1, min(SINGLE, key=lambda v: -blocks % v), many.lanes)


def streamed_shape(
    channel: Expr, row: Axis | None, body: Expr, reduction: Reduction, target: Target
) -> TileShape | None:
    """The register tile where whatever is read serves one result: windows that do not overlap. Rows gain nothing, so
    it has many vectors of channels and memory is read in long runs. None where that is not known, or channels are few.
    """
    channels, reads = extent_of(channel), loads(body)
    if channels is None or row is None or _takes_pairs([body]):
        return None
    if not reads or not all(_is_apart(x, row, reduction) for x in reads):
        return None
    lanes, sums = lanes_for(target, [body]), target.vector_registers - 4
    blocks = channels // lanes
    if channels % lanes or blocks < 4:
        return None
    vectors = next(v for v in range(min(RUN, sums, blocks), 0, -1) if blocks % v == 0)
    return TileShape(max(1, sums // vectors), vectors, lanes) if vectors > 2 else None


def _is_apart(x: Load, row: Axis, reduction: Reduction) -> bool:
    """True if what `x` reads for a row, `x` reads for no other."""
    for index in x.indices:
        if depends(index, row.var):
            terms, _ = gather(index)
            step, reach = terms.get(row.var, 0), 0
            for axis in reduction.axes:
                reach += abs(terms.get(axis.var, 0)) * ((extent_of(axis.extent) or MANY_ROWS) - 1)
            if step > reach and all(not depends(t, row.var) or t is row.var for t in terms):
                return True
    return False


def interleaved_shapes(channel: Expr, rows: int, dtype: DType, target: Target) -> list[TileShape]:
    """The register tiles for `rows` rows where a channel has several sums, the best first; none where one is better."""
    channels, lanes, terms = extent_of(channel), target.lanes(dtype), target.repeated_bytes // dtype.bytes
    if terms > 1:
        is_short = channels is not None and channels < lanes
        return [] if is_short else [_repeated(channels, rows, terms, lanes, target)]
    if channels is None or rows <= FEW_ROWS:
        return []
    least, shapes = float(-(-channels // lanes)), list[TileShape]()
    for terms in SIDE_BY_SIDE:
        vectors = -(-channels * terms // lanes)
        fitting = [_fitting(v, rows, lanes, terms, target) for v in _blocks(vectors, lanes, terms)]
        best = min(fitting, key=_loads, default=None)
        if best is not None and _loads(best) <= MOST_LOADS and vectors / terms <= FULLER * least:
            least = vectors / terms
            shapes.insert(0, best)
    return shapes


def _blocks(vectors: int, lanes: int, terms: int) -> list[int]:
    """The numbers of vectors that make up so many, such that each has all sums of its channels, and what these are
    joined to is whole vectors and at most one shorter one, a half, a quarter, …"""
    if lanes % terms:
        return []
    lefts = {v: v * lanes // terms % lanes for v in VECTORS if vectors % v == 0}
    return [v for v, left in lefts.items() if left & (left - 1) == 0]


def _fitting(vectors: int, rows: int, lanes: int, terms: int, target: Target) -> TileShape:
    """The tile of so many vectors, channels having `terms` sums, with as many rows as there are registers for."""
    return TileShape(max(1, min(rows, rows_for(vectors, target, beside=3))), vectors, lanes, terms)


def _loads(shape: TileShape) -> float:
    """How many loads there are for each product."""
    return (shape.rows + shape.vectors) / (shape.rows * shape.vectors)


def _repeated(channels: int | None, rows: int, terms: int, lanes: int, target: Target) -> TileShape:
    """The tile where loads repeat the data of so many terms all along a vector: as many rows as there are registers
    for, and more than one vector of channels, which divide them, only where rows are few."""
    sums = target.vector_registers - 4
    blocks = 4 if channels is None else -(-channels // lanes)
    most = min(rows, sums // terms)
    results = next(n for n in range(sums // terms // most, 0, -1) if blocks % n == 0)
    return TileShape(min(most, sums // terms // results), results * terms, lanes, terms)

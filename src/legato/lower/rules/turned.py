"""The rule for what is read across the vectors that are stored: blocks are turned round (transposed) in registers.

    parallel (other axes, blocks along a, blocks along i), a being how memory is read and i how it is written:
        for n places of i: part[i][lane] = source at (a + lane, i)        read along memory
        for each bit of a lane's number:                                  one shuffle of two vectors
            part[m][lane] = part[m, this bit of lane][lane, this bit of m]
        for n places of a: out at (a, i + lane) = f(part[a][lane])        written along memory

The exchange of bits is Eklundh's method for transposing a matrix of 2^k rows (IEEE Trans. Comput. C-21, 1972). Blocks
are as large as a vector, then smaller ones; what is left is read element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import pairwise

from legato.arith.expr import Expr, const, floordiv, floormod
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute
from legato.base.dataclass import dataclass
from legato.lower.access import extent_of, stride
from legato.lower.rules.elements import Elements, Env
from legato.lower.rules.nest import parallel, together, vector, vector_loop
from legato.lower.rules.unrolled import unrolled
from legato.te.inline import certain_loads, loads, replaced
from legato.te.tensor import Axis
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, Stmt, Store, block

__all__ = ["turned"]

LEAST, MOST = 4, 16  # rows of a block: shuffles of fewer gain nothing, more do not fit the registers


def turned(job: Elements, lanes: int, threaded: bool) -> Stmt | None:
    """The nest that stores `job`; None if nothing that it surely reads runs along another axis than what is written, or
    if axes or vectors are too short for blocks."""
    if all(_step(x, job.axes[-1]) <= 1 for x in loads(job.body)):
        return None
    job = job.merged()
    *outer, inner = job.axes
    # What conditions guard might not be there: whole blocks are read of all else.
    strided = [x for x in certain_loads(job.body) if _step(x, inner) > 1]
    along = next((a for a in reversed(outer) if any(_step(x, a) == 1 for x in strided)), None)
    if along is None:
        return None
    known = extent_of(inner.extent)
    most = min(lanes, MOST)
    while known is not None and most > known:
        most //= 2
    sizes = _sizes(along.extent, most)
    if not sizes:
        return None
    across = [x for x in strided if _step(x, along) == 1]
    return _Turned(job, across, [a for a in outer if a is not along], along, inner, lanes, threaded).stmt(sizes)


def _step(x: Load, axis: Axis) -> int:
    """Elements between neighbouring places of the axis in what `x` reads; 0 also where that varies."""
    return stride(x, axis.var) or 0


def _sizes(extent: Expr, most: int) -> list[tuple[int, int, Expr]]:
    """(rows of a block, where the first begins, how many) of blocks, the largest first."""
    known = extent_of(extent)
    if known is None:
        return [(most, 0, floordiv(extent, const(most)))] if most >= LEAST else []
    found, first, size = list[tuple[int, int, Expr]](), 0, most
    while size >= LEAST:
        count = (known - first) // size
        if count:
            found.append((size, first, const(count)))
        first, size = first + count * size, size // 2
    return found


@dataclass(frozen=True, slots=True)
class _Turned:
    """`job` over `others`, `along` (how memory is read) and `inner` (how it is written); `across` are turned round."""

    job: Elements
    across: list[Load]
    others: list[Axis]
    along: Axis
    inner: Axis
    lanes: int
    threaded: bool

    def stmt(self, sizes: Sequence[tuple[int, int, Expr]]) -> Stmt:
        """The blocks, and what is left along either axis."""
        nests = list[Stmt | None]()
        for size, first, count in sizes:
            columns = simplify(floordiv(self.inner.extent, const(size)))
            nests.append(self._nest([count, columns], partial(self._block, size, first)))
            nests.append(self._rest(const(first), count * size, columns * size))
        size, first, count = sizes[-1]
        done = first + count * size
        nests.append(self._rest(done, self.along.extent - done, const(0)))
        return together([n for n in nests if n is not None])

    def _nest(self, extents: Sequence[Expr], body: Callable[[Env, list[Expr]], Stmt]) -> Stmt:
        n = len(self.others)

        def one(values: list[Expr]) -> Stmt:
            return body({a.var: v for a, v in zip(self.others, values[:n], strict=True)}, values[n:])

        return parallel([*(a.extent for a in self.others), *extents], one, self.threaded)

    def _rest(self, first: Expr, rows: Expr, start: Expr) -> Stmt | None:
        """Rows first.. at places from `start` on, without blocks; None if there are none."""
        rows, left = simplify(rows), simplify(self.inner.extent - start)
        if extent_of(rows) == 0 or extent_of(left) == 0:
            return None

        def row(env: Env, values: list[Expr]) -> Stmt:
            at = {**env, self.along.var: first + values[0]}
            return vector_loop(left, self.lanes, lambda i: self.job.store({**at, self.inner.var: start + i}))

        return self._nest([rows], row)

    def _block(self, size: int, first: int, env: Env, values: list[Expr]) -> Stmt:
        """One block of `size` × `size` elements."""
        row, column = first + values[0] * size, values[1] * size
        parts, buffers, stmts = dict[Load, Buffer](), list[Buffer](), list[Stmt]()
        for x in self.across:
            shape = (const(size), const(size))
            stages = [Buffer("part", shape, x.dtype, scope=Scope.REGISTER) for _ in range(size.bit_length())]
            stmts.append(_vectors(size, partial(self._read, x, stages[0], env, row, column)))
            stmts += [_exchanged(a, b, size, 1 << bit) for bit, (a, b) in enumerate(pairwise(stages))]
            buffers += stages
            parts[x] = stages[-1]

        def write(m: Expr, lane: Expr) -> Stmt:
            value = replaced(self.job.body, {x: Load(part, (m, lane)) for x, part in parts.items()})
            return self.job.store({**env, self.along.var: row + m, self.inner.var: column + lane}, value)

        stmts.append(_vectors(size, write))
        return reduce(lambda body, buffer: Alloc(buffer, body), reversed(buffers), block(*stmts))

    def _read(self, x: Load, part: Buffer, env: Env, row: Expr, column: Expr, m: Expr, lane: Expr) -> Stmt:
        at = {**env, self.along.var: row + lane, self.inner.var: column + m}
        return Store(part, (m, lane), substitute(x, at))


def _vectors(size: int, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
    """`body` for every row and lane."""
    return unrolled("m", size, lambda m: vector(size, partial(body, m)))


def _exchanged(source: Buffer, to: Buffer, size: int, bit: int) -> Stmt:
    """`source` with this bit of the row's number and of the lane's exchanged."""

    def has(x: Expr) -> Expr:
        return floormod(floordiv(x, const(bit)), const(2)) * bit

    def exchange(m: Expr, lane: Expr) -> Stmt:
        return Store(to, (m, lane), Load(source, (m - has(m) + has(lane), lane - has(lane) + has(m))))

    return _vectors(size, exchange)

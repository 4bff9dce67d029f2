"""Windows that slide along the rows of a register tile, one or more of which read the same element.

    Σ_r data[step·row + apart·r] · weights[r]

Each element is loaded once, for all terms in which it takes part: those of neighbouring rows, each with a weight of its
own. Every sum still adds up its terms in order of r, since elements are loaded in order of place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from legato.arith.expr import Expr, const
from legato.arith.linear import gather
from legato.arith.substitute import rewrite
from legato.base.dataclass import dataclass
from legato.lower.access import depends, extent_of
from legato.te.inline import certain_loads, loads
from legato.te.tensor import Axis
from legato.tir.expr import Load

__all__ = ["Meeting", "Overlap", "find_overlap"]


@dataclass(frozen=True, slots=True)
class Meeting:
    """The `count` terms that an element takes part in: of the windows of rows `row`, `row` - `back`, …, as their terms
    `term`, `term` + `on`, …"""

    row: int
    term: int
    count: int
    back: int
    on: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """`read` goes `step` places on for each row and `apart` for each of a window's `reach` terms."""

    read: Load
    step: int
    apart: int
    reach: int

    def meetings(self, rows: int) -> Iterator[Meeting]:
        """One for each element that the windows of `rows` rows read, in order of place."""
        common = math.gcd(self.step, self.apart)
        back, on = self.apart // common, self.step // common
        places: dict[int, list[tuple[int, int]]] = {}
        for term in range(self.reach):
            for row in range(rows):
                places.setdefault(row * self.step + term * self.apart, []).append((row, term))
        for place in sorted(places):
            row, term = places[place][0]
            yield Meeting(row, term, len(places[place]), back, on)


def find_overlap(body: Expr, row: Axis, last: Axis) -> Overlap | None:
    """How the windows that `body` is a term of, the last of whose axes is `last`, slide along `row`; None if they do
    not, or no two of them read the same element."""
    reach, reads = extent_of(last.extent), [x for x in certain_loads(body) if depends(x, row.var)]
    if reach is None or len(reads) != 1:
        return None
    (read,) = reads
    along = [i for i in read.indices if depends(i, row.var) or depends(i, last.var)]
    if len(along) != 1 or depends(rewrite(body, lambda e: const(0, e.dtype) if e is read else None), row.var):
        return None
    terms, _ = gather(along[0])
    if any(t not in (row.var, last.var) and (depends(t, row.var) or depends(t, last.var)) for t in terms):
        return None
    step, apart = terms.get(row.var, 0), terms.get(last.var, 0)
    if step <= 0 or apart <= 0 or any(x is not read and x in loads(read) for x in loads(body)):
        return None
    return Overlap(read, step, apart, reach) if step // math.gcd(step, apart) < reach else None

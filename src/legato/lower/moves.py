"""What of a group only says where elements lie: inputs put together, blocks cut out of an input.

    t[c, …] = select(c < 64, a[c, …], b[c − 64, …])        a joint of a and b
    u[c, …] = a[c + 32, …]                                 a cut of a

Whoever places a and b side by side need not copy them, and a cut can be read where it lies.
"""

from __future__ import annotations

from typing import Any

from legato.base.dataclass import dataclass

__all__ = ["Cut", "Joint", "Moves"]


@dataclass(frozen=True, slots=True)
class Joint:
    """Inputs, by their numbers, one after the other along `axis`."""

    inputs: tuple[int, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The block of input number `source` from `begin` on: data (`expr_data`) over the group's dims."""

    source: int
    begin: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Moves:
    """The joints that a group reads, in the order of its stages, and what each output is: a joint, by its number, a
    cut, or something else (None)."""

    joints: tuple[Joint, ...] = ()
    outputs: tuple[int | Cut | None, ...] = ()

    def to_json(self) -> list[Any]:
        """The fields as JSON."""
        outputs = [[o.source, o.begin] if isinstance(o, Cut) else o for o in self.outputs]
        return [[[j.inputs, j.axis] for j in self.joints], outputs]

    @staticmethod
    def from_json(data: Any) -> Moves:
        """The moves that `to_json` gave; TypeError or ValueError for other data."""
        found, outputs = data
        return Moves(
            tuple(Joint(tuple(map(int, inputs)), int(axis)) for inputs, axis in found),
            tuple(_cut(*o) if isinstance(o, list) else o for o in outputs),
        )


def _cut(source: Any, begin: Any) -> Cut:
    return Cut(int(source), tuple(begin))

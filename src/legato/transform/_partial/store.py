"""The simulated store: what each cell that the program makes is known to hold.

A branch writes to a frame of its own. Behind the branches a cell holds what it holds after each of them, if that is the
same. What code that is not known may have has leaked: a call of such code may change what leaked cells hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.transform._partial.values import Cell, Known, Literal, Value, parts

__all__ = ["Frame", "Store"]

Frame = dict[Cell, Value | None]  # None: not known


class Store:
    """The contents of cells; `Value`s that are not known to be in one are not known at all."""

    def __init__(self) -> None:
        self._frames: list[Frame] = [{}]
        self._leaked: dict[Cell, None] = {}  # whose contents may be known, in some frame

    def read(self, cell: Cell) -> Value | None:
        """What a cell holds, if that is known."""
        for frame in reversed(self._frames):
            if cell in frame:
                return frame[cell]
        return None

    def write(self, cell: Cell, value: Value) -> None:
        """The cell holds `value` from now on."""
        self._frames[-1][cell] = value
        if cell.is_leaked:
            self._leaked[cell] = None
            self.leak(value)

    def leak(self, value: Value) -> None:
        """Code that is not known may have `value` from now on, and what it holds."""
        todo = [value]
        while todo:
            top = todo.pop()
            if top.is_leaked:
                continue
            top.is_leaked = True
            todo += parts(top)
            if isinstance(top, Cell):
                self._leaked[top] = None  # also where its contents are not known here: they may be in another branch
                todo += [held for frame in self._frames if (held := frame.get(top)) is not None]

    def forget(self) -> None:
        """Code that is not known has run."""
        frame = self._frames[-1]
        for cell in self._leaked:
            frame[cell] = None
        if len(self._frames) == 1:
            self._leaked.clear()

    def enter(self) -> None:
        """A branch begins."""
        self._frames.append({})

    def leave(self) -> Frame:
        """What the branch has written."""
        return self._frames.pop()

    def join(self, frames: Sequence[Frame]) -> None:
        """One of the branches that wrote `frames` has run."""
        for cell in dict.fromkeys(c for frame in frames for c in frame):
            before = self.read(cell)
            found = [frame.get(cell, before) for frame in frames]
            first = found[0]
            is_outer = first is before or len(frames) > 1  # what one branch alone has may be bound in it
            if first is not None and is_outer and all(v is first or _is_same(v, first) for v in found):
                self._frames[-1][cell] = first
                continue
            self._frames[-1][cell] = None
            for v in found:
                if v is not None:
                    self.leak(v)


def _is_same(a: Value | None, b: Value) -> bool:
    return isinstance(a, Literal | Known) and type(a) is type(b) and a.key == b.key

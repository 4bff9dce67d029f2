"""Drawing: every choice is one small number, and 0 is the simplest, so that Hypothesis shrinks towards it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

_below = cache(lambda n: st.integers(0, n - 1))


class Choices:
    """A source of choices."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        found: int = self._draw(_below(n)) if n > 1 else 0
        return found

    def one_of(self, options: Sequence[T]) -> T:
        """One of the options; the first is the simplest."""
        return options[self.below(len(options))]

    def chance(self, one_in: int) -> bool:
        """True one time in `one_in`."""
        return self.below(one_in) == one_in - 1

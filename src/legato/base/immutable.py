"""Values that never change: a copy is the value itself."""

from __future__ import annotations

from typing import Any, Self

__all__ = ["Immutable"]


class Immutable:
    """The base of classes whose instances never change: `copy.copy` and `copy.deepcopy` give the same object."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

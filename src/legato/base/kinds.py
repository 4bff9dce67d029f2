"""Arguments of another kind than a function takes: one typed error, before anything is done with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import index
from typing import Any

from legato.base.errors import CompileError, LegatoError

__all__ = ["integer", "require", "require_integer", "require_mapping", "require_number", "require_sequence"]

Error = Callable[[str], LegatoError]


def integer(value: object) -> int | None:
    """The integer that a value is; None for anything else, True and False among it."""
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        return None
    try:
        return index(value)  # type: ignore[arg-type]  # it says that it can be
    except TypeError:  # an array of several
        return None


def require(is_right: bool, value: object, what: str, wanted: str, error: Error = CompileError) -> None:
    """An `error` that says what was got in place of what is `wanted`, unless `is_right`."""
    if not is_right:
        raise error(f"{what}: got {value!r:.80}, wanted {wanted}")


def require_integer(value: object, what: str, wanted: str = "an integer", error: Error = CompileError) -> int:
    """The integer that `value` is, or the error of `require`."""
    found = integer(value)
    if found is None:
        require(False, value, what, wanted, error)
    assert found is not None
    return found


def require_number(value: object, what: str, wanted: str = "a number", error: Error = CompileError) -> float:
    """`value` as a float, or the error of `require`."""
    try:
        if isinstance(value, str | bytes | bool) or not hasattr(type(value), "__float__"):
            raise TypeError
        return float(value)  # type: ignore[arg-type]  # it says that it can be
    except (TypeError, ValueError, OverflowError):
        raise error(f"{what}: got {value!r:.80}, wanted {wanted}") from None


def require_mapping(value: Any, what: str, wanted: str, error: Error = CompileError) -> Mapping[Any, Any]:
    """`value`, a mapping, or the error of `require`."""
    require(isinstance(value, Mapping), value, what, wanted, error)
    found: Mapping[Any, Any] = value
    return found


def require_sequence(value: Any, what: str, wanted: str, error: Error = CompileError) -> tuple[Any, ...]:
    """What is in `value`, which can be gone through and is no text, or the error of `require`."""
    if isinstance(value, str | bytes) or not hasattr(type(value), "__iter__"):
        require(False, value, what, wanted, error)
    return tuple(value)

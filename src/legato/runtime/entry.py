"""A compiled function as scripts call it: arguments in order or by name, numbers for scalars, tensors as results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from legato.base.codes import encode, has_codes
from legato.base.dataclass import dataclass
from legato.base.dtype import dtype
from legato.base.errors import RunError
from legato.runtime.executable import Executable
from legato.runtime.ndarray import wrapped

__all__ = ["Entry", "scalar_of"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A compiled function, with the names of its arguments and the dtypes of those that are tensors."""

    name: str
    entry: Executable
    names: tuple[str, ...]
    dtypes: tuple[str | None, ...]

    @staticmethod
    def of(name: str, entry: Executable) -> Entry:
        """The function `name`, which is `entry`."""
        takes = entry.arguments
        return Entry(name, entry, tuple(a.name for a in takes), tuple(getattr(a, "dtype", None) for a in takes))

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        return wrapped(self.entry(*self.ordered(args, named)))

    def ordered(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """All arguments in order. RunError where names are none, or given twice; the call checks the rest."""
        rest = self.names[len(args) :]
        if named and (named.keys() - set(rest) or len(named) != len(rest)):
            given = f"{len(args)} arguments and {', '.join(named)}"
            raise RunError(f"{self.name} takes {', '.join(self.names)}, got {given}")
        return self._leaves((*args, *(named[key] for key in rest)) if named else args)

    def _leaves(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """What tuples and lists hold, in a row, where numbers are scalars of the dtype that is wanted there."""
        found: list[Any] = []
        stack = list(reversed(args))
        while stack:
            value = stack.pop()
            if isinstance(value, tuple | list):
                stack += reversed(value)
            else:
                found.append(value)
        if len(found) != len(self.dtypes):
            return tuple(found)  # the call says what is missing
        return tuple(map(scalar_of, found, self.dtypes))


def scalar_of(value: Any, wanted: str | None) -> Any:
    """A number as a scalar of a dtype, anything else as it is; RunError where it does not fit."""
    if not isinstance(value, bool | int | float) or wanted is None:
        return value
    kind = dtype(wanted)
    if kind.is_bool != isinstance(value, bool) or (isinstance(value, float) and not kind.is_float):
        raise RunError(f"got {value!r}, wanted a number of {wanted}")
    if kind.is_int and not kind.min <= value <= kind.max:
        raise RunError(f"{value} does not fit into {wanted}")
    return encode(value, kind) if has_codes(kind) else np.asarray(value, kind.numpy)

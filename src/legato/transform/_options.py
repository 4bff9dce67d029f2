"""Options of passes: the fields of their dataclasses, and what kinds of values these have.

What is said of them here holds for passes that are written as text and for those that are made in Python.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final, get_args, get_origin, get_type_hints

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, InternalError

__all__ = ["Option", "option_of", "options", "require_options"]

_KINDS: Final[Mapping[Any, tuple[str, str]]] = MappingProxyType({
    bool: ("true or false", "true or false"),
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    str: ("a string", "strings"),
})  # fmt: skip
_TAKEN: Final[Mapping[Any, tuple[type, ...]]] = MappingProxyType({
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (float, int, np.floating, np.integer),
    str: (str,),
})  # fmt: skip
_LISTS: Final[Mapping[Any, tuple[type[Any], ...]]] = MappingProxyType({
    tuple: (tuple, list),
    frozenset: (AbstractSet, tuple, list),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a pass: its name in text, the field that it is, and its default. Its values are of the type `kind`,
    one of `_KINDS`, or tuples or sets of such, as `whole` says."""

    name: str
    field: str
    default: Any
    kind: Any
    whole: Any = None

    @property
    def wanted(self) -> str:
        """What its values are, in words."""
        return _KINDS[self.kind][0] if self.whole is None else f"a list of {_KINDS[self.kind][1]}"

    def converted(self, value: Any) -> Any:
        """A value as the field has it. TypeError where it is of another kind."""
        if self.whole is None:
            return _converted(value, self.kind)
        taken: tuple[type[Any], ...] = _LISTS[self.whole]
        if not isinstance(value, taken):
            raise TypeError
        return self.whole(_converted(item, self.kind) for item in value)

    def required(self, value: Any, of: str) -> Any:
        """A value as the field of pass `of` has it. CompileError where it is of another kind."""
        try:
            return self.converted(value)
        except TypeError:
            raise CompileError(f"option {self.name} of pass {of}: got {value!r:.80}, wanted {self.wanted}") from None


def options(of: type[Any]) -> Mapping[str, Option]:
    """The options of a pass by name. InternalError for a field whose values cannot be written."""
    found = _known(of)
    for f in fields(of):
        if f.name not in found:
            name = f.name.replace("_", "-")
            raise InternalError(f"option {name} of pass {of.name} has values that cannot be written")
    return {option.name: option for option in found.values()}


def _known(of: type[Any]) -> dict[str, Option]:
    """The options of a pass by field, without those whose values cannot be written."""
    own = fields(of)
    try:
        kinds = get_type_hints(of) if own else {}
    except NameError:  # annotations that only type checkers can look up
        return {}
    found = (option_of(f.name, f.default, kinds[f.name]) for f in own)
    return {option.field: option for option in found if option is not None}


def option_of(field: str, default: Any, annotation: Any) -> Option | None:
    """The option that a field of this annotation is; None where its values cannot be written."""
    whole, parts = get_origin(annotation), get_args(annotation)
    is_list = whole is frozenset or (whole is tuple and parts[1:] == (...,))
    kind = parts[0] if is_list else annotation
    is_known = isinstance(kind, type) and kind in _KINDS
    return Option(field.replace("_", "-"), field, default, kind, whole if is_list else None) if is_known else None


def _converted(value: Any, kind: type) -> Any:
    is_taken = isinstance(value, _TAKEN[kind]) and (kind is bool or not isinstance(value, bool | np.bool_))
    if not is_taken or (kind is float and isinstance(value, int) and abs(value) > sys.float_info.max):
        raise TypeError
    return value if kind is str else kind(value)


def require_options(step: Any) -> None:
    """Brings the options of a pass into the form that its fields have: a tuple of a list, a float of an integer.

    CompileError for values of another kind. Fields whose values cannot be written are the pass's own matter.
    """
    own = getattr(type(step), "__dataclass_fields__", {})
    if all(getattr(step, name) is f.default for name, f in own.items()):
        return  # so that nobody looks up types for passes as they are
    for option in _known(type(step)).values():
        object.__setattr__(step, option.field, option.required(getattr(step, option.field), step.name))

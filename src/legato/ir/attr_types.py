"""What the fields of an operator's attribute record may hold: its annotations, checked.

An annotation is made of int, float, bool, str, None, DType, Dim, types, `tuple[…]` and unions; what else it names is
not checked. An integer is a number and a list of one, and 0 and 1 are truth values, where only such are allowed.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from legato.arith.expr import Expr as DimExpr
from legato.base.dtype import DType
from legato.base.hints import unaliased
from legato.ir.types import TensorType, Type

__all__ = ["WRONG", "describe", "dim_fields", "field_types", "fitted"]

WRONG: Final = object()  # what `fitted` gives for a value that does not fit
_UNIONS: Final = (Union, types.UnionType)
_WORDS: Final[Mapping[Any, str]] = {
    int: "an integer",
    float: "a number",
    bool: "True or False",
    str: "a string",
    type(None): "None",
    DType: "a dtype",
    DimExpr: "a dim",
    Type: "a type",
    TensorType: "a tensor type",
}


@cache
def field_types(record: type) -> Mapping[str, Any]:
    """The annotations of an attribute record by field, resolved; empty where they name what cannot be found."""
    try:
        return {name: unaliased(hint) for name, hint in get_type_hints(record).items()}
    except NameError:  # a name that exists for type checkers only
        return {}


@cache
def dim_fields(record: type) -> tuple[str, ...]:
    """The fields of an attribute record that may hold symbolic dims."""
    return tuple(name for name, wanted in field_types(record).items() if _has_dims(wanted))


def _has_dims(wanted: Any) -> bool:
    return wanted is DimExpr or any(map(_has_dims, get_args(wanted)))


def fitted(value: Any, wanted: Any) -> Any:
    """`value` as the annotation `wanted` has it: itself, or what an integer stands for there; WRONG if it does not fit.

    >>> fitted(1, tuple[int, ...])
    (1,)
    """
    exact = _exact(value, wanted)
    if exact is not WRONG:
        return exact
    if wanted is bool:
        return bool(value) if type(value) is int and value in (0, 1) else WRONG
    return WRONG if isinstance(value, tuple) else _exact((value,), wanted)


def _exact(value: Any, wanted: Any) -> Any:
    origin = get_origin(wanted)
    if origin in _UNIONS:
        options = get_args(wanted)
        return next((found for found in (_exact(value, o) for o in options) if found is not WRONG), WRONG)
    if origin is tuple:
        return _tuple(value, get_args(wanted))
    if wanted is int:
        return value if type(value) is int else WRONG
    if wanted is float:
        return value if type(value) in (int, float) else WRONG
    if wanted is TensorType and isinstance(value, DType):
        return TensorType((), value)  # a scalar's, in short
    if wanted in _WORDS:
        return value if isinstance(value, wanted) else WRONG
    return value


def _tuple(value: Any, parts: tuple[Any, ...]) -> Any:
    if not isinstance(value, tuple):
        return WRONG
    each = parts[:1] * len(value) if len(parts) == 2 and parts[1] is ... else parts
    if len(each) != len(value):
        return WRONG
    found = tuple([_exact(v, p) for v, p in zip(value, each, strict=True)])
    return WRONG if any(f is WRONG for f in found) else found


def describe(wanted: Any) -> str:
    """An annotation in words."""
    origin, args = get_origin(wanted), get_args(wanted)
    if origin in _UNIONS:
        return " or ".join(dict.fromkeys(map(describe, args)))
    if origin is tuple:
        return f"[{describe(args[0])}, …]" if args[-1] is ... else f"[{', '.join(map(describe, args))}]"
    return _WORDS.get(wanted, str(wanted))

"""Annotations as they are meant: aliases replaced by what they stand for.

`type Ints = tuple[int, ...]` makes an alias that is a value of its own (PEP 695), no tuple; NumPy's `NDArray` is one
since 2.5. Whoever looks at the origin of an annotation wants what is behind it.
"""

from __future__ import annotations

import types
from functools import reduce
from operator import or_
from typing import Any, Union, get_args, get_origin

__all__ = ["unaliased"]


def unaliased(hint: Any) -> Any:
    """`hint` with the value of each alias in its place, also inside tuples and unions.

    >>> unaliased(tuple[int, ...] | None)
    tuple[int, ...] | None
    """
    origin, args = get_origin(hint), get_args(hint)
    alias = hint if origin is None else origin
    if hasattr(alias, "__value__"):
        given = dict(zip(alias.__type_params__, args, strict=False))
        value = alias.__value__
        return unaliased(value[tuple(given[p] for p in value.__parameters__)] if given else value)
    if origin is tuple:
        return tuple[tuple(map(unaliased, args))]  # type: ignore[misc]  # made when it runs
    if origin in (Union, types.UnionType):
        return reduce(or_, map(unaliased, args))
    return hint

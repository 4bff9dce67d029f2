"""Random numbers by keys.

    key = relay.random.threefry_key(0)
    key, x = relay.random.uniform(key, (3, 4))

Keys have the form of the original's. The numbers are those of the published generator, with a counter of 128 bits,
which the original's are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from legato.base.errors import TypeCheckError
from legato.ir.expr import Constant, Expr
from legato.ir.types import Dim
from legato.ops._threefry import key_of
from legato.relay.expr import TupleWrapper, const
from legato.relay.op._functions import function, namespace

__all__ = ["normal", "threefry_generate", "threefry_key", "uniform"]


def threefry_key(seed: int) -> Constant:
    """The key of a seed, a number of up to 256 bits."""
    given: object = seed
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or not 0 <= seed < 1 << 256:
        raise TypeCheckError(f"got seed {seed!r}, wanted an integer from 0 to below 2^256")
    return const(key_of(int(seed)))


def threefry_generate(key: Expr, shape: Sequence[Dim | int]) -> TupleWrapper:
    """The key to go on with, and random words of 64 bits."""
    return _drawn("threefry_generate", key, out_shape=shape)


def uniform(
    key: Expr, shape: Sequence[Dim | int], dtype: str = "float32", low: Expr | float = 0.0, high: Expr | float = 1.0
) -> TupleWrapper:
    """The key to go on with, and numbers that are evenly spread from `low` to below `high`."""
    return _drawn("uniform", key, _scalar(low, dtype), _scalar(high, dtype), out_shape=shape, out_dtype=dtype)


def normal(
    key: Expr, shape: Sequence[Dim | int], dtype: str = "float32", mean: Expr | float = 0.0, scale: Expr | float = 1.0
) -> TupleWrapper:
    """The key to go on with, and numbers with a normal distribution."""
    return _drawn("normal", key, _scalar(mean, dtype), _scalar(scale, dtype), out_shape=shape, out_dtype=dtype)


def _drawn(name: str, *args: Expr, **attrs: Any) -> TupleWrapper:
    shape = attrs["out_shape"]
    attrs["out_shape"] = tuple(shape) if isinstance(shape, list | tuple | np.ndarray) else (shape,)
    return function(f"random.{name}")(*args, **attrs)  # type: ignore[no-any-return]


def _scalar(value: Expr | float, dtype: str) -> Expr:
    return value if isinstance(value, Expr) else const(value, dtype)


__getattr__, __dir__ = namespace("random.", globals())

"""What programs compute: arrays, tuples, closures, values of data types, cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.ir.expr import Function
from legato.ir.op import Op
from legato.runtime.values import Data

if TYPE_CHECKING:
    from legato.interp.activation import Activation

__all__ = ["Array", "Closure", "Data", "Ref", "Value", "as_value", "evaluate_op"]

Value = Any  # array | tuple of values | Closure | Data | Ref
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, slots=True)
class Closure:
    """A function with the activation in which it was made (None: a global function)."""

    func: Function
    env: Activation | None = None


@dataclass(eq=False, slots=True)
class Ref:
    """A cell."""

    value: Value


def evaluate_op(op: Op, args: Sequence[Value], attrs: Any = None) -> Value:
    """The result of one operator on arrays, by its reference.

    Its rows lie one behind the other: in which order NumPy adds depends on how its operands lie in memory, and what a
    program means must not.
    """
    result = op.reference(*args, *op.tail(attrs))
    return _arrays(result)


def as_value(value: Value) -> Value:
    """An argument as a value: anything that NumPy takes becomes an array, lists become tuples."""
    if isinstance(value, tuple | list):
        return tuple(as_value(v) for v in value)
    if isinstance(value, Closure | Data | Ref):
        return value
    return np.asarray(value, order="C")


def _arrays(result: Value) -> Value:
    return tuple(_arrays(r) for r in result) if isinstance(result, tuple) else np.asarray(result, order="C")

"""What programs compute: arrays, tuples, closures, values of data types, cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from legato.base.arrays import as_array
from legato.base.dataclass import dataclass
from legato.base.errors import RunError
from legato.base.node import post_order
from legato.base.strings import is_text, string_array, without_zeros
from legato.ir.expr import Call, Constant, Constructor, Expr, Function, Tuple
from legato.ir.op import Op
from legato.ir.types import TensorType, TupleType, Type
from legato.runtime.floats import float_environment
from legato.runtime.values import Data

if TYPE_CHECKING:
    from legato.interp.activation import Activation

__all__ = ["Array", "Closure", "Data", "Ref", "Value", "as_value", "evaluate_op", "narrowed"]

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


@float_environment()
def evaluate_op(op: Op, args: Sequence[Value], attrs: Any = None) -> Value:
    """The result of one operator on arrays, by its reference.

    Its rows lie one behind the other: in which order NumPy adds depends on how its operands lie in memory, and what a
    program means must not.
    """
    result = op.reference(*args, *op.tail(attrs))
    return _arrays(result)


def as_value(value: Value) -> Value:
    """An argument as a value: anything that NumPy takes becomes an array, lists become tuples, and expressions that
    write a value out (calls of constructors, constants, tuples) that value. RunError for other expressions."""
    if isinstance(value, tuple | list):
        return tuple(as_value(v) for v in value)
    if isinstance(value, Closure | Data | Ref):
        return value
    if isinstance(value, Expr):
        return _written_out(value)
    array = np.asarray(as_array(value), order="C")
    return string_array(array, "an argument") if is_text(array) else array


def narrowed(value: Value, ty: Type | None) -> Value:
    """A value that was widened to float64, in the dtypes of `ty`; the same object where it is so already."""
    if isinstance(ty, TupleType) and isinstance(value, tuple):
        parts = tuple(narrowed(v, t) for v, t in zip(value, ty.fields, strict=True))
        return value if all(a is b for a, b in zip(value, parts, strict=True)) else parts
    if not isinstance(ty, TensorType) or not ty.dtype.is_float or not isinstance(value, np.ndarray):
        return value
    return value.astype(ty.dtype.numpy, copy=False)


def _written_out(expr: Expr) -> Value:
    found: dict[int, Value] = {}
    for node in post_order([expr]):
        match node:
            case Constant(data):
                found[id(node)] = data
            case Tuple(fields):
                found[id(node)] = tuple(found[id(f)] for f in fields)
            case Call(op=Constructor() as constructor, args=args):
                found[id(node)] = Data(constructor, tuple(found[id(a)] for a in args))
            case Constructor():
                pass
            case _:
                raise RunError(f"an argument is an expression that computes something: {node!r}")
    if id(expr) not in found:
        raise RunError(f"an argument is a constructor, {expr!r}, wanted a call of it")
    return found[id(expr)]


def _arrays(result: Value) -> Value:
    if type(result) is int:  # a dim, in a shape
        return result
    if isinstance(result, tuple):
        return tuple(_arrays(r) for r in result)
    return without_zeros(np.asarray(result, order="C"))

"""What a Python expression stands for while a function is translated.

    value = an expression of the language                known when the program runs
          | a number, text, None, a NumPy array, a slice  known now
          | a dim                                         an extent that is symbolic: known when the program runs
          | a tuple (or list) of values
          | Closure, Bound                                functions, with what they have taken from around them
          | Missing                                       a variable that some path leaves without a value
          | any other Python object                       modules, operators, decorated functions, models

Values that are known stay so as long as they can: they are what attributes of operators and shapes are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, Final

import numpy as np

from legato.arith.expr import Const
from legato.base.dataclass import dataclass
from legato.ir.expr import Constant, Constructor, Expr, GlobalVar, Var
from legato.ir.op import Op
from legato.ir.types import Dim, Type
from legato.script.source import Code

__all__ = ["LONGEST", "Bound", "Closure", "Decorated", "Missing", "Native", "Parts", "Value", "describe", "exprs",
           "is_atom", "is_dynamic", "is_foreign", "is_number", "leaves", "mapped", "plain", "runs_code",
           "same"]  # fmt: skip

Value = Any
LONGEST: Final = 10_000  # fields of a tuple that is made, and turns of a loop over one
_KNOWN: Final = ("builtins", "legato", "ml_dtypes", "numpy")  # whose objects may be computed with


@dataclass(frozen=True, eq=False, slots=True)
class Closure:
    """An inner function or lambda, or a method, with the values that it has taken from around it."""

    code: Code
    taken: Mapping[str, Value]


@dataclass(frozen=True, eq=False, slots=True)
class Bound:
    """A function with its first arguments."""

    function: Value
    first: tuple[Value, ...]


class Decorated:
    """A Python function that was decorated: a call of it is a call of a function of the module."""

    code: Code


class Parts:
    """An object with attributes that have a meaning here: a model, with its weights and methods."""

    def part(self, frame: Any, name: str) -> Value:
        """The attribute called `name`, where `frame` is being translated."""
        raise frame.wrong(f"{describe(self)} has no attribute {name!r}")

    def mapped(self, expr: Callable[[Expr], Value]) -> Parts:
        """The same with other expressions."""
        return self


@dataclass(frozen=True, eq=False, slots=True)
class Native:
    """A function that has a meaning of its own here, such as `len`, or a method of tensors."""

    name: str
    run: Callable[..., Value]  # (frame, args, keywords) -> value


@dataclass(frozen=True, slots=True)
class Missing:
    """A variable that has no value on some path, and why."""

    why: str


def is_number(value: Value) -> bool:
    """Whether this is a Python number, whose dtype is that of what it meets."""
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def is_foreign(value: Value) -> bool:
    """Whether `value` has parts whose class is the user's: what computes with them would run the user's code."""
    if isinstance(value, tuple | list):
        return any(map(is_foreign, value))
    if isinstance(value, slice):
        return is_foreign((value.start, value.stop, value.step))
    kind = value if isinstance(value, type) else type(value)
    return not (is_number(value) or isinstance(value, str)) and kind.__module__.split(".")[0] not in _KNOWN


def runs_code(value: Value, *methods: str) -> bool:
    """Whether one of these special methods of the user's object `value` is written in Python."""
    kind: Any = type(value)
    return is_foreign(value) and any(isinstance(getattr(kind, m, None), FunctionType) for m in methods)


def is_atom(value: Value) -> bool:
    """Whether an expression may stand in many places as it is."""
    return isinstance(value, Var | GlobalVar | Constant | Constructor | Op)


def plain(value: Value) -> Value:
    """A dim that is a number as that number; anything else as it is."""
    return int(value.value) if isinstance(value, Const) else value


def mapped(value: Value, expr: Callable[[Expr], Value], dim: Callable[[Dim], Dim] | None = None) -> Value:
    """`value` with its expressions, and its dims, replaced; those inside tuples and closures, too."""
    match value:
        case Op():
            return value
        case Expr():
            return expr(value)
        case Dim():
            return value if dim is None else plain(dim(value))
        case tuple() | list():
            return tuple([mapped(v, expr, dim) for v in value])
        case Closure(code, taken):
            return Closure(code, {name: mapped(v, expr, dim) for name, v in taken.items()})
        case Bound(function, first):
            return Bound(mapped(function, expr, dim), mapped(first, expr, dim))
        case Parts():
            return value.mapped(expr)
        case slice():
            parts = [None if p is None else mapped(p, expr, dim) for p in (value.start, value.stop, value.step)]
            return slice(*parts)
        case _:
            return value


def leaves(values: Iterable[Value]) -> list[Expr | Dim]:
    """The expressions and dims in `values`, in order."""
    found: list[Expr | Dim] = []

    def note(part: Any) -> Any:
        found.append(part)
        return part

    for value in values:
        mapped(value, note, note)
    return found


def exprs(value: Value) -> list[Expr]:
    """The expressions in `value`, in order."""
    return [e for e in leaves([value]) if isinstance(e, Expr)]


def is_dynamic(value: Value) -> bool:
    """Whether anything in `value` is known only when the program runs."""
    return bool(leaves([value]))


def same(a: Value, b: Value) -> bool:
    """Whether two values are known to be the same, so that it does not matter which path was taken."""
    if a is b:
        return True
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if is_number(a) and is_number(b):
        return type(a) is type(b) and a == b
    if isinstance(a, str | np.dtype | Missing | Dim):
        return type(a) is type(b) and bool(a == b)
    return isinstance(a, Expr) and is_atom(a) and a == b and isinstance(b, Expr)


def describe(value: Value) -> str:
    """What messages call a value."""
    match value:
        case Op():
            return f"the operator {value.name}"
        case Expr():
            return "a tensor" if value.ty is None else _type_noun(value.ty)
        case Dim():
            return f"the dim {value}"
        case Closure():
            return f"the function {value.code.name}"
        case Missing():
            return "nothing"
        case bool() | int() | float() | str() | None:
            return repr(value)
        case tuple() | list():
            return f"a tuple of {len(value)}"
        case np.ndarray() | np.generic():
            return f"an array of shape {value.shape} and dtype {value.dtype}"
        case type():
            return f"the class {value.__name__}"
        case _:
            name = None if is_foreign(value) else getattr(value, "__name__", None)
            return f"{type(value).__name__} {name}" if isinstance(name, str) else f"a {type(value).__name__}"


def _type_noun(ty: Type) -> str:
    return f"a value of type {ty}"

"""Whether what somebody gives as an operator is one: `ops=[…]`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, Final

from legato.base.errors import CompileError
from legato.ir.op import Op

__all__ = ["require_record"]

_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def require_record(given: object) -> Op:
    """`given`, a user's own operator. CompileError, naming the field, where a text could not call it, or the compiler
    could not call its functions."""
    if not isinstance(given, Op):
        raise CompileError(f"{given!r} among the operators", hint="ops=[Op(name=…, args=…, type_rel=…, reference=…)]")
    _require_names(given)
    if given.attrs is not None and not _is_frozen(given.attrs):
        raise CompileError(f"{given.name}: attrs is {given.attrs!r}, wanted a class", hint="@dataclass(frozen=True)")
    for field, wanted in _calls(given).items():
        function = getattr(given, field)
        if not callable(function) and (function is not None or field in ("type_rel", "reference")):
            message = f"{given.name}: {field} is {function!r}, wanted a function ({', '.join(wanted)})"
            raise CompileError(message, hint="every operator has a relation and a reference in NumPy")
        if function is not None and not _takes(function, len(wanted)):
            message = f"{given.name}: {field} cannot be called with ({', '.join(wanted)})"
            raise CompileError(message, hint=f"it takes {inspect.signature(function)}")
    return given


def _is_frozen(attrs: object) -> bool:
    """Whether it is a frozen data class, made by the standard decorator or by that of `base.dataclass`."""
    return isinstance(attrs, type) and is_dataclass(attrs) and attrs.__setattr__ is not object.__setattr__


def _require_names(op: Op) -> None:
    name: object = op.name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise CompileError(f"an operator is called {name!r}", hint="words with dots between them: my.squareplus")
    given: Any = op.args
    args = given if isinstance(given, tuple) and all(isinstance(a, str) for a in given) else ("",)
    names = [*args[:-1], *(a.removeprefix("*") for a in args[-1:])]
    if not all(map(_WORD.fullmatch, names)) or len(set(names)) < len(names):
        hint = 'different words, of which the last may be "*more": ("data", "weight")'
        raise CompileError(f"{op.name}: args is {op.args!r}, wanted a tuple of names", hint=hint)


def _calls(op: Op) -> dict[str, list[str]]:
    """The functions of a record by field, with what each is called with."""
    args = [a.lstrip("*") for a in op.args]
    attrs = [] if op.attrs is None else ["attrs"]
    return {
        "type_rel": ["relation", *args, *attrs],
        "reference": [*args, *attrs],
        "compute": [*args, *attrs, "out"],
        "expand": ["builder", *args, *attrs],
        "grad": ["builder", "call", "dy"],
    }


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments; True where it does not say what it takes."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # one written in C
        return True
    return True

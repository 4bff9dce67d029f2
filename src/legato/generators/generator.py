"""What a code generator is: any object like `Generator`.

    class Doubler:
        name = "doubler"

        def supports(self, call):                     which operators; and `composites`, which patterns of several
            return call.op.name == "multiply"

        def compile(self, function):                  a typed function: parameters, a body of operators
            return lambda x, y: x * y                 its engine: arrays in, arrays out

An engine is called with one array for every tensor of the parameters, in order, tuples taken apart; it may only read
them. It gives an array for every tensor of the result: one, or several in a tuple. What it gives is checked against
the function's type. What fails or lies is a GeneratorError that names the generator and the function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

from legato.base.errors import CompileError, GeneratorError
from legato.ir.expr import Call, Expr, Function
from legato.patterns import Pattern

__all__ = ["Check", "Composite", "Engine", "Generator", "checked", "composites_of", "supports_of"]

Check = Callable[[Expr], bool]
Composite = tuple[str, Pattern] | tuple[str, Pattern, Check]  # "NAME.what", what it matches, and what of that is taken
Engine = Callable[..., Any]


@runtime_checkable
class Generator(Protocol):
    """A code generator. Beside these two it may have:

    supports(call):  whether it takes a call of an operator; without it, it takes none.
    composites:      patterns of several calls that it takes as one; their names begin with "NAME.".
    load(data):      the engine that `engine.to_bytes()` has stored. Without these, a file has the function itself, and
                     `compile` is called again when the file is loaded.
    """

    @property
    def name(self) -> str:
        """What the attribute Compiler calls it."""

    def compile(self, function: Function) -> Engine:
        """The engine of a typed function, whose name is its attribute global_symbol."""


def supports_of(generator: Any) -> Callable[[Call], bool]:
    """Which calls of operators a generator takes. GeneratorError where it has no function for that, or this fails."""
    given = _attribute(generator, "supports", _none)
    if not callable(given):
        raise _error(generator, f"supports is a {type(given).__name__}, wanted a method supports(call)")

    def supports(call: Call) -> bool:
        try:
            return bool(given(call))
        except Exception as error:
            name = getattr(call.op, "name", "a function")
            raise _error(generator, f"supports failed for a call of {name}: {_said(error)}") from error

    return supports


def _none(call: Call) -> bool:
    return False


def composites_of(generators: Iterable[Any]) -> tuple[Composite, ...]:
    """The patterns of all these generators, in order. GeneratorError for what are none, or another generator's."""
    return tuple(entry for generator in generators for entry in _composites(generator))


def _composites(generator: Any) -> Iterable[Composite]:
    given = _attribute(generator, "composites", ())
    if not isinstance(given, list | tuple):
        raise _error(generator, f"composites is a {type(given).__name__}, wanted a tuple of patterns with their names")
    for entry in given:
        try:
            name, _, _ = checked(entry)
        except CompileError as error:
            raise _error(generator, f"composites: {error.message}\n  hint: {error.hint}") from error
        if not name.startswith(f"{generator.name}."):
            raise _error(generator, f"composites: {name!r} does not begin with its name\n  hint: {generator.name}.WHAT")
    return given


def checked(entry: Any) -> tuple[str, Pattern, Check]:
    """Name, pattern and check of an entry of a table of patterns. CompileError for what is none; GeneratorError where
    its check fails."""
    if not isinstance(entry, tuple) or len(entry) not in (2, 3):
        raise CompileError(f"no entry of a table of patterns: {entry!r:.80}", hint='("NAME.what", pattern, check)')
    name, pattern, check = entry if len(entry) == 3 else (*entry, _any)
    if not isinstance(name, str) or "." not in name or not isinstance(pattern, Pattern) or not callable(check):
        hint = 'a name "NAME.what", a pattern, and a function that checks what it matches'
        raise CompileError(f"no entry of a table of patterns: {entry!r:.80}", hint=hint)

    def asked(e: Expr) -> bool:
        try:
            return bool(check(e))
        except Exception as error:
            raise GeneratorError(f"the check of pattern {name!r} failed: {_said(error)}") from error

    return name, pattern, asked


def _any(e: Expr) -> bool:
    return True


def _attribute(generator: Any, name: str, default: Any) -> Any:
    try:
        return getattr(generator, name, default)
    except Exception as error:
        raise _error(generator, f"{name} failed: {_said(error)}") from error


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _error(generator: Any, what: str) -> GeneratorError:
    return GeneratorError(f"generator {generator.name!r}: {what}")

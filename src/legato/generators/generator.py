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

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from legato.ir.expr import Call, Expr, Function
from legato.patterns import Pattern

__all__ = ["Check", "Composite", "Engine", "Generator", "composites_of", "supports_of"]

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
    """Which calls of operators a generator takes."""
    found: Callable[[Call], bool] = getattr(generator, "supports", _none)
    return found


def _none(call: Call) -> bool:
    return False


def composites_of(generators: Iterable[Any]) -> tuple[Composite, ...]:
    """The patterns of all these generators, in order."""
    tables: list[Sequence[Composite]] = [getattr(generator, "composites", ()) for generator in generators]
    return tuple(entry for table in tables for entry in table)

"""What a model is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from legato.base.errors import CompileError
from legato.ir.expr import Expr, Var
from legato.relax.block_builder import BlockBuilder

__all__ = ["Composite", "Effect", "parts"]


class Effect:
    """State that methods read and replace: an argument behind the inputs of each of them, and a result behind its own.

    `emit_init` binds what it begins with; `create` makes the variables that stand for it in a method, `set_state`
    takes what they are bound to, and `finalize` gives what it is in the end.
    """

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Expr]:
        """What the state begins with, as values of function _initialize_effect."""
        raise NotImplementedError

    def create(self, name_hint: str) -> list[Var]:
        """Variables, called like `name_hint`, which are parameters of a function."""
        raise NotImplementedError

    def set_state(self, state_vars: list[Expr]) -> None:
        """What the state is now."""
        raise NotImplementedError

    def finalize(self) -> list[Expr]:
        """What the state is in the end; it is forgotten."""
        raise NotImplementedError

    def to(self, dtype: str | None = None) -> None:
        """Another dtype of its elements, where it has any."""


class Composite:
    """What is made of parameters, effects and others of its kind."""

    def _items(self) -> Iterable[tuple[str, Any]]:
        """What it is made of, by name."""
        return list(vars(self).items())


def parts(root: Composite, kind: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """What of `kind` it is made of, in order, with its name. CompileError for a module inside of itself."""
    stack: list[tuple[str, Any, tuple[int, ...]]] = [(prefix, root, ())]
    while stack:
        name, value, above = stack.pop()
        if isinstance(value, kind):
            yield name, value
        if not isinstance(value, Composite):
            continue
        if id(value) in above:
            raise CompileError(f"{name} is a module inside of itself", hint="attributes of a module are its parts")
        inner = [(f"{name}.{key}" if name else key, part, (*above, id(value))) for key, part in value._items()]
        stack += reversed(inner)

"""Mutator: models with other parts in place of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.relax.frontend.nn.core import (
    Effect,
    Module,
    ModuleDict,
    ModuleList,
    Parameter,
    ParameterDict,
    ParameterList,
)

__all__ = ["Mutator"]


class Mutator:
    """What each part of a model becomes: itself, unless a subclass says otherwise.

    `visit(name, model)` puts what its parts become in place of them, in the model itself, and gives it.
    """

    def visit_module(self, name: str, node: Module) -> Any:
        """A module, called `name`."""
        return self._inside(name, node)

    def visit_effect(self, name: str, node: Effect) -> Any:
        """An effect."""
        return node

    def visit_param(self, name: str, node: Parameter) -> Any:
        """A parameter."""
        return node

    def visit_moduledict(self, name: str, node: ModuleDict) -> Any:
        """Modules by name."""
        return self._inside(name, node)

    def visit_modulelist(self, name: str, node: ModuleList) -> Any:
        """Modules in order."""
        return self._inside(name, node)

    def visit_parameterdict(self, name: str, node: ParameterDict) -> Any:
        """Parameters by name."""
        return self._inside(name, node)

    def visit_parameterlist(self, name: str, node: ParameterList) -> Any:
        """Parameters in order."""
        return self._inside(name, node)

    def visit(self, name: str, node: Any) -> Any:
        """What `node` becomes, by its class."""
        rules: tuple[tuple[type, Callable[[str, Any], Any]], ...] = (
            (ModuleList, self.visit_modulelist),
            (ModuleDict, self.visit_moduledict),
            (ParameterList, self.visit_parameterlist),
            (ParameterDict, self.visit_parameterdict),
            (Module, self.visit_module),
            (Effect, self.visit_effect),
            (Parameter, self.visit_param),
        )
        method = next((m for kind, m in rules if isinstance(node, kind)), None)
        return node if method is None else method(name, node)

    def _inside(self, name: str, node: Module) -> Module:
        for key, part in node._items():
            if isinstance(part, Module | Effect | Parameter):
                node._replace(key, self.visit(f"{name}.{key}" if name else key, part))
        return node

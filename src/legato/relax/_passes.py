"""What passes are run by: those of `legato.relay`, but that a Module becomes a Module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.ir.module import Module
from legato.relay import _passes as relay
from legato.relay._passes import Pass, PassContext, PassInfo

__all__ = ["FunctionPass", "ModulePass", "OfModules", "Pass", "PassContext", "PassInfo", "function_pass",
           "module_pass"]  # fmt: skip


class OfModules(Pass):
    """A pass that gives a module of the kind that it is given."""

    def __call__(self, mod: Any) -> Any:
        """The transformed module, of the kind that is given; of a function, what becomes of it."""
        found = super().__call__(mod)
        return found.module if isinstance(mod, Module) else found


class ModulePass(OfModules, relay.ModulePass):
    """A pass made of a function (mod, context) -> mod."""


class FunctionPass(OfModules, relay.FunctionPass):
    """A pass made of a function (func, mod, context) -> func; types are inferred afterwards."""


def module_pass(
    pass_func: Any = None, opt_level: int | None = None, name: str | None = None,
    required: Sequence[str] | None = None, traceable: bool = False,
) -> Any:  # fmt: skip
    """A decorator: a function (mod, context) -> mod, or a class with such a method `transform_module`, as a pass."""
    return relay.pass_of(ModulePass, "transform_module", pass_func, opt_level, name, required, traceable)


def function_pass(
    pass_func: Any = None, opt_level: int | None = None, name: str | None = None,
    required: Sequence[str] | None = None, traceable: bool = False,
) -> Any:  # fmt: skip
    """A decorator: a function (func, mod, context) -> func, or a class with such a method `transform_function`."""
    return relay.pass_of(FunctionPass, "transform_function", pass_func, opt_level, name, required, traceable)

"""What passes are run by: those of `legato.relay`, but that a Module becomes a Module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from legato.base.errors import CompileError
from legato.ir.module import Module
from legato.relay import _passes as relay
from legato.relay._passes import Pass, PassContext, PassInfo
from legato.relay.module import IRModule

__all__ = ["FunctionPass", "ModulePass", "Pass", "PassContext", "PassInfo", "Sequential", "function_pass",
           "module_pass"]  # fmt: skip


class _OfModules(Pass):
    def __call__(self, mod: Any) -> Any:
        """The transformed module, of the kind that is given; of a function, what becomes of it."""
        found = super().__call__(mod)
        return found.module if isinstance(mod, Module) else found


class ModulePass(_OfModules, relay.ModulePass):
    """A pass made of a function (mod, context) -> mod."""

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        found: Any = super().transform(mod, context)
        return IRModule(found) if isinstance(found, Module) else found


class FunctionPass(_OfModules, relay.FunctionPass):
    """A pass made of a function (func, mod, context) -> func; types are inferred afterwards."""


class Sequential(_OfModules):
    """Passes in order, those that the current context enables."""

    def __init__(
        self, passes: Iterable[Any] | None = None, opt_level: int = 0, name: str = "sequential",
        required: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        if required:
            raise CompileError("a sequence requires no other passes", hint="list them in it")
        self.passes = tuple(passes or ())
        self.info = PassInfo(opt_level, name)

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        for step in self.passes:
            info = getattr(step, "info", None)
            if info is None or context.enables(info):
                found = step(mod)
                mod = IRModule(found) if isinstance(found, Module) else found
        return mod


def module_pass(
    pass_func: Any = None, opt_level: int | None = None, name: str | None = None,
    required: Sequence[str] | None = None, traceable: bool = False,
) -> Any:  # fmt: skip
    """A decorator: a function (mod, context) -> mod, or a class with such a method `transform_module`, as a pass."""
    return _pass_of(ModulePass, "transform_module", pass_func, opt_level, name, required, traceable)


def function_pass(
    pass_func: Any = None, opt_level: int | None = None, name: str | None = None,
    required: Sequence[str] | None = None, traceable: bool = False,
) -> Any:  # fmt: skip
    """A decorator: a function (func, mod, context) -> func, or a class with such a method `transform_function`."""
    return _pass_of(FunctionPass, "transform_function", pass_func, opt_level, name, required, traceable)


_pass_of: Callable[..., Any] = relay.pass_of

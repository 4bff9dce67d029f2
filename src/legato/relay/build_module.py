"""Binding parameters, and the two ways to run a program under the names of Relay's many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from legato.base.errors import CompileError, RunError
from legato.base.target import target as as_target
from legato.driver import CompileOptions, compile_module
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Constant, Function, GlobalVar
from legato.pipelines import DEFAULT
from legato.relay.expr import bind, const
from legato.relay.module import IRModule
from legato.runtime.executable import Executable
from legato.transform.pass_ import run

__all__ = ["Executor", "bind_params_by_name", "build", "create_executor", "optimize"]


def bind_params_by_name(func: Function, params: Mapping[str, Any]) -> Function:
    """`func` with the parameters of these names replaced by constants.

    CompileError where a name is that of several parameters. Names that are no parameter's are passed over.
    """
    binds = {}
    for name, value in params.items():
        found = [p for p in func.params if p.name == name]
        if len(found) > 1:
            raise CompileError(f"{len(found)} parameters are called %{name}", hint="give them names of their own")
        if found:
            binds[found[0]] = value if isinstance(value, Constant) else const(np.asarray(value))
    bound = bind(func, binds)
    assert isinstance(bound, Function)
    return bound


def _with_params(mod: IRModule | Function, params: Mapping[str, Any] | None) -> IRModule:
    mod = IRModule.from_expr(mod) if isinstance(mod, Function) else mod.clone()
    if params:
        main = mod["main"]
        mod["main"] = bind_params_by_name(main, params)
    return mod


def build(
    mod: IRModule | Function, target: str = "host", *, params: Mapping[str, Any] | None = None, **options: Any
) -> Executable:
    """The compiled program of @main: `legato.compile`'s Executable, which is called with arrays.

    target: "host", or a level of x86-64; "llvm" is "host". (What Relay's factory modules, graph JSON and parameter
    dictionaries were for, the Executable has itself: see its methods.) CompileError for other options.
    """
    if options:
        raise CompileError(f"build has no option {', '.join(options)}", hint="its options are target and params")
    name = "host" if target.split()[:1] == ["llvm"] else target
    return compile_module(_with_params(mod, params).module, CompileOptions(as_target(name))).executable


def optimize(
    mod: IRModule | Function, target: str = "host", *, params: Mapping[str, Any] | None = None
) -> tuple[IRModule, dict[str, Any]]:
    """The module after the default passes, with `params` bound, and what remains of them: none."""
    return IRModule(run(_with_params(mod, params).module, DEFAULT)), {}


class Executor:
    """Evaluates expressions and functions in the context of a module."""

    def __init__(self, kind: str, mod: IRModule, target: str) -> None:
        self.kind, self.mod, self.target = kind, mod, target

    def evaluate(self, expr: Any = None, binds: Mapping[Any, Any] | None = None) -> Any:
        """What `expr` is: a callable for a function or global variable (None: @main), else its value.

        `binds` replaces free variables. Values are arrays, and tuples of them.
        """
        mod = self.mod.clone()
        if expr is None or isinstance(expr, GlobalVar):
            return self._callable(mod, "main" if expr is None else expr.name)
        if binds:
            expr = bind(expr, binds)
        mod["main"] = expr
        called = self._callable(mod, "main")
        return called if isinstance(expr, Function) else called()

    def _callable(self, mod: IRModule, name: str) -> Callable[..., Any]:
        module = infer(mod.module)
        func = module[name]
        if not isinstance(func, Function):
            raise RunError(f"@{name} is a loop program")
        if self.kind == "debug":
            return lambda *args, **named: evaluate(module, _ordered(func, args, named), name)
        if name != "main":
            others = {gv: f for gv, f in module.functions.items() if gv.name != "main"}
            module = module.with_functions({**others, GlobalVar("main"): func})
        return build(IRModule(module), self.target)


def _ordered(func: Function, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
    names = [p.name for p in func.params]
    unknown = [name for name in named if name not in names[len(args) :]]
    if unknown or len(args) + len(named) != len(names):
        raise RunError(f"got {len(args)} arguments and {', '.join(named) or 'no names'}, wanted {', '.join(names)}")
    return [*args, *(named[name] for name in names[len(args) :])]


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: object = None,
    target: str = "host",
    params: Mapping[str, Any] | None = None,
) -> Executor:
    """An executor: "debug" is the interpreter, "graph", "vm" and "aot" are the compiled program.

    `device` has no meaning: a program runs where its target says.
    """
    if kind not in ("debug", "graph", "vm", "aot"):
        raise CompileError(f"there is no executor {kind!r}", hint="there are debug, graph, vm and aot")
    return Executor(kind, _with_params(mod or IRModule(), params), target)

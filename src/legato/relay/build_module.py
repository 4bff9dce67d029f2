"""Binding parameters, and the two ways to run a program under the names of Relay's many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, count
from typing import Any

from legato.base.arrays import as_array
from legato.base.errors import CompileError, RunError, TypeCheckError
from legato.base.target import Target
from legato.driver import CompileOptions, compile_module
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Constant, Function, GlobalVar
from legato.ir.types import TensorType, Type
from legato.relay._executors.executor_factory import ExecutorFactoryModule
from legato.relay._executors.options import Executor as Executed
from legato.relay._executors.options import Runtime
from legato.relay._external import registered_for
from legato.relay._passes import build_config
from legato.relay._pipeline import pipeline
from legato.relay.expr import bind, const
from legato.relay.module import IRModule
from legato.runtime.entry import scalar_of
from legato.runtime.ndarray import require_cpu, wrapped
from legato.target import as_target
from legato.transform.pass_ import run

__all__ = ["Executor", "bind_params_by_name", "build", "build_config", "create_executor", "optimize", "with_params"]


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
            binds[found[0]] = (
                value if isinstance(value, Constant) else const(as_array(value, f"parameter {name!r}", TypeCheckError))
            )
    bound = bind(func, binds)
    assert isinstance(bound, Function)
    return bound


def with_params(mod: IRModule | Function, params: Mapping[str, Any] | None) -> IRModule:
    """A copy of a module, or the module of a function, with `params` bound in @main."""
    mod = IRModule.from_expr(mod) if isinstance(mod, Function) else mod.clone()
    if params:
        main = mod["main"]
        mod["main"] = bind_params_by_name(main, params)
    return mod


def build(
    mod: IRModule | Function,
    target: Any = None,
    target_host: Any = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
    *,
    packed: Mapping[str, object] | None = None,
    generators: Iterable[Any] = (),
    executor: Executed | None = None,
    runtime: Runtime | None = None,
    **options: Any,
) -> ExecutorFactoryModule:
    """The compiled program of @main: an Executable, which is called with arrays, that also answers to what scripts do
    with (graph, lib, params) and with factories of executors (`relay.backend.executor_factory`).

    target: "host", a level of x86-64, "llvm" with options, or one of these by device: {"cpu": "llvm"}; target_host is
    the same. None: the current Target, or this machine. mod_name is kept in the program, as its attribute mod_name.
    executor and runtime are `relay.backend`'s; all of them are this one program. `packed`, `generators`, and passes,
    are those of `legato.compile`, these as the current PassContext wants them; generators that are registered are
    known, too. CompileError for other options, targets and devices.
    """
    pools = ("workspace_memory_pools", "constant_memory_pools")
    unknown = [name for name, value in options.items() if name not in pools or value is not None]
    if unknown:
        hint = "its options are target, target_host, params, mod_name, executor, runtime, packed and generators"
        raise CompileError(f"build has no option {', '.join(unknown)}", hint=hint)
    for name, value, kind in (("executor", executor, Executed), ("runtime", runtime, Runtime)):
        if value is not None and not isinstance(value, kind):
            raise CompileError(f"{name}={value!r} is none", hint=f'write relay.backend.{kind.__name__}("…")')
    found = with_params(mod, params)
    if mod_name != "default":
        found = found.with_attr("mod_name", mod_name)
    settings = CompileOptions(as_target(target, target_host), passes=pipeline(), packed=packed)
    settings = replace(settings, generators=registered_for(found.module, generators))
    return ExecutorFactoryModule.made(compile_module(found.module, settings).executable, found.module, settings)


def optimize(
    mod: IRModule | Function, target: Any = "host", *, params: Mapping[str, Any] | None = None
) -> tuple[IRModule, dict[str, Any]]:
    """The module after the passes of `build`, with `params` bound, and what remains of them: none.

    They are the same for every target; CompileError for one that there is not.
    """
    as_target(target)
    return IRModule(run(with_params(mod, params).module, pipeline())), {}


class Executor:
    """Evaluates expressions and functions in the context of a module."""

    def __init__(self, kind: str, mod: IRModule, target: Target, packed: Mapping[str, object] | None = None) -> None:
        self.kind, self.mod, self.target, self.packed = kind, mod, target, packed

    def evaluate(self, expr: Any = None, binds: Mapping[Any, Any] | None = None) -> Any:
        """What `expr` is: a callable for a function or global variable (None: @main), else its value.

        `binds` replaces free variables. Values are arrays, tuples of them, and values of data types. The expression may
        call the module's functions, @main too.
        """
        mod = self.mod.clone()
        if expr is None or isinstance(expr, GlobalVar):
            if binds:
                raise CompileError("binds are for the free variables of an expression, a module's function has none")
            return self._callable(mod, "main" if expr is None else expr.name)
        if binds:
            expr = bind(expr, binds)
        name = next(n for n in _names() if n not in mod)
        mod[name] = expr
        called = self._callable(mod, name)
        return called if isinstance(expr, Function) else called()

    def _callable(self, mod: IRModule, name: str) -> Callable[..., Any]:
        module = infer(mod.module)
        func = module[name]
        if not isinstance(func, Function):
            raise RunError(f"@{name} is a loop program")
        if self.kind == "debug":
            return lambda *args, **named: wrapped(
                evaluate(module, _ordered(func, args, named), name, packed=self.packed)
            )
        return build(_with_main(IRModule(module), name), self.target, packed=self.packed)


def _names() -> Iterator[str]:
    """Names for an expression that is evaluated beside the functions of a module."""
    return chain(["main"], (f"evaluated_{n}" for n in count()))


def _with_main(mod: IRModule, name: str) -> IRModule:
    """A module whose @main is function `name`; another @main has a name of its own, and whoever calls it calls that."""
    if name == "main":
        return mod
    if "main" in mod:
        mod = mod.replace_global_vars({"main": next(n for n in _names() if n not in mod)})
    mod["main"] = mod[name]
    return mod


def _ordered(func: Function, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
    names = [p.name for p in func.params]
    unknown = [name for name in named if name not in names[len(args) :]]
    if unknown or len(args) + len(named) != len(names):
        raise RunError(f"got {len(args)} arguments and {', '.join(named) or 'no names'}, wanted {', '.join(names)}")
    given = [*args, *(named[name] for name in names[len(args) :])]
    return [scalar_of(value, _dtype_of(p.ty)) for value, p in zip(given, func.params, strict=True)]


def _dtype_of(ty: Type | None) -> str | None:
    """The dtype of a scalar's type."""
    return ty.dtype.name if isinstance(ty, TensorType) and not ty.rank else None


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: object = None,
    target: Any = "host",
    params: Mapping[str, Any] | None = None,
    *,
    packed: Mapping[str, object] | None = None,
) -> Executor:
    """An executor: "debug" is the interpreter, "graph", "vm" and "aot" are the compiled program, for `target`; `packed`
    has the packed functions that it calls.

    CompileError for a `device` other than the CPU, and for a target that there is not.
    """
    require_cpu(device)
    if kind not in ("debug", "graph", "vm", "aot"):
        raise CompileError(f"there is no executor {kind!r}", hint="there are debug, graph, vm and aot")
    return Executor(kind, with_params(mod or IRModule(), params), as_target(target), packed)

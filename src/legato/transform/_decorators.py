"""Functions as passes: three lines make one.

@function_pass
def square(func, mod):
    return rewrite(rule("power(%x, 2f) => multiply(%x, %x)"), func, mod)

exe = legato.compile(model, passes=[square, "default"])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, make_dataclass
from functools import partial
from inspect import Parameter, getdoc, isfunction, ismethod, signature
from typing import Any, ClassVar, Final, get_type_hints, overload

from legato.base.errors import CompileError, LegatoError
from legato.infer.infer import infer
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.verify import verify
from legato.transform._options import option_of
from legato.transform.pass_ import Pass

__all__ = ["MadePass", "function_pass", "module_pass"]

ModuleFunction = Callable[..., Module]
GraphFunction = Callable[..., Function]
_NAME: Final = re.compile(r"[A-Za-z_]\w*(-[A-Za-z_]\w*)*")


class MadePass(Pass):
    """A pass that is a function of a user's. Programs have types before it, and are typed and verified after it.

    Its options are the function's keyword-only parameters: `dataclasses.replace(some_pass, limit=3)` has another one.
    """

    body: ClassVar[Callable[..., Module]]

    def __call__(self, mod: Module) -> Module:
        mod = infer(mod)
        own: Any = self
        return type(self).body(mod, **{f.name: getattr(own, f.name) for f in fields(own)})


@overload
def module_pass(function: ModuleFunction, /) -> MadePass: ...
@overload
def module_pass(*, name: str | None = None, rounds: bool = False) -> Callable[[ModuleFunction], MadePass]: ...
def module_pass(function: ModuleFunction | None = None, /, *, name: str | None = None, rounds: bool = False) -> Any:
    """`function(mod) -> Module` as a pass, or what makes one of it.

    name:   what the pass is called; None: the function's name, with hyphens.
    rounds: sums and products of floats are formed otherwise than the program says: the pass is left out where the
            precision is exact.

    Keyword-only parameters of the function are options of the pass, which need a default and a type: bool, int, float,
    str, or tuple[T, ...] or frozenset[T] of such. Whatever the function raises is a CompileError that names the pass.
    """
    return _maker(_of_module, function, name, rounds)


@overload
def function_pass(function: GraphFunction, /) -> MadePass: ...
@overload
def function_pass(*, name: str | None = None, rounds: bool = False) -> Callable[[GraphFunction], MadePass]: ...
def function_pass(function: GraphFunction | None = None, /, *, name: str | None = None, rounds: bool = False) -> Any:
    """`function(func, mod) -> Function` as a pass, called for each graph function of a module; see `module_pass`."""
    return _maker(_of_functions, function, name, rounds)


def _of_module(function: ModuleFunction, mod: Module, options: Mapping[str, Any]) -> Module:
    new: object = function(mod, **options)
    if not isinstance(new, Module):
        raise CompileError(f"it gives no module: {new!r:.80}", hint="a module pass is a function (mod) -> Module")
    return new


def _of_functions(function: GraphFunction, mod: Module, options: Mapping[str, Any]) -> Module:
    found = dict(mod.functions)
    for gv, func in mod.graph_functions():
        new: object = function(func, mod, **options)
        if not isinstance(new, Function):
            hint = "a function pass is a function (func, mod) -> Function"
            raise CompileError(f"it gives no function for @{gv.name}: {new!r:.80}", hint=hint)
        found[gv] = new
    return mod.with_functions(found)


def _maker(how: Callable[..., Module], function: Any, name: str | None, rounds: bool) -> Any:
    if function is not None:
        return _made(how, function, name, rounds)
    return lambda function: _made(how, function, name, rounds)


def _made(how: Callable[..., Module], function: Callable[..., Any], name: str | None, rounds: bool) -> MadePass:
    """An instance of a class of its own, so that it has fields, and a name, as all passes do."""
    own = _written(function)
    called = own.__name__.strip("_").replace("_", "-") if name is None and hasattr(own, "__name__") else name
    if not isinstance(called, str) or not _NAME.fullmatch(called):
        raise CompileError(f"{called!r} is no name of a pass", hint="words with hyphens: name='fold-my-constants'")
    if not isinstance(rounds, bool):
        raise CompileError(f"pass {called}: rounds is {rounds!r:.80}, wanted True or False")

    def body(mod: Module, **options: Any) -> Module:
        try:
            new = how(function, mod, options)
            return new if new is mod else _verified(infer(new))
        except CompileError as error:
            error.message = f"pass {called}: {error.message}"
            raise
        except LegatoError:
            raise
        except Exception as error:
            raise CompileError(f"pass {called}: {type(error).__name__}: {error}", hint=_place(error)) from error

    made: Any = make_dataclass(
        f"Made_{called.replace('-', '_')}",
        _options(function, called),
        bases=(MadePass,),
        namespace={
            "name": called, "rounds": rounds, "body": staticmethod(body), "__doc__": getdoc(own) or f"{called}.",
            "__module__": own.__module__,
        },
        frozen=True,
    )  # fmt: skip
    found = made()
    assert isinstance(found, MadePass)
    return found


def _verified(mod: Module) -> Module:
    verify(mod)
    return mod


def _written(function: Any) -> Any:
    """The function whose name, text and types a pass has: of a partial one, the one that it is of. CompileError for
    what cannot be called, and for a class."""
    if not callable(function) or isinstance(function, type):
        got = f"the class {function.__name__}" if isinstance(function, type) else repr(function)
        raise CompileError(f"{got:.80} is no function", hint="a pass is a function, decorated: @function_pass")
    while isinstance(function, partial):
        function = function.func
    return function


def _options(function: Callable[..., Any], called: str) -> list[tuple[str, Any, Any]]:
    """Name, type and default of each keyword-only parameter; what a partial function binds is none if it is not one of
    the function that it is of."""
    try:
        own = [p for p in signature(function).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
        inner = signature(_written(function)).parameters
        own = [p for p in own if p.name in inner and inner[p.name].kind is Parameter.KEYWORD_ONLY]
        hints = _hints(_written(function)) if own else {}
    except (ValueError, TypeError, NameError, SyntaxError) as error:
        raise CompileError(f"pass {called}: its parameters cannot be looked up: {error}") from error
    return [_option(parameter, hints, called) for parameter in own]


def _hints(function: Any) -> dict[str, Any]:
    """The types of parameters: of an object that can be called, those of its method."""
    return get_type_hints(function if isfunction(function) or ismethod(function) else type(function).__call__)


def _option(parameter: Parameter, hints: Mapping[str, Any], called: str) -> tuple[str, Any, Any]:
    name = parameter.name
    if name in (*dir(MadePass), "name", "body"):
        raise CompileError(f"option {name} of pass {called} is what passes have", hint="call it otherwise")
    if parameter.default is Parameter.empty or name not in hints:
        message = f"option {name} of pass {called} needs a type and a default"
        raise CompileError(message, hint=f"write {name}: int = 0, say")
    option = option_of(name, parameter.default, hints[name])
    if option is None:
        hint = "bool, int, float, str, or tuple[T, ...] or frozenset[T] of such"
        raise CompileError(f"option {name} of pass {called} has the type {parameter.annotation}", hint=hint)
    return name, hints[name], option.required(parameter.default, called)


def _place(error: Exception) -> str | None:
    """Where a user's function failed: the last line of its own file."""
    trace, found = error.__traceback__, None
    while trace is not None:
        found = trace
        trace = trace.tb_next
    return None if found is None else f"raised at {found.tb_frame.f_code.co_filename}:{found.tb_lineno}"

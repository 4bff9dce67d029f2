"""`@relay`: a Python function as a program of the language."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any

import numpy as np

from legato.base.errors import CompileError, RunError
from legato.interp import evaluate
from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.ir.types import TensorType, Type
from legato.ops import table
from legato.script.program import Translation
from legato.script.source import read
from legato.script.syntax import check
from legato.script.values import Decorated

__all__ = ["ScriptFunction", "relay", "translated"]


class ScriptFunction(Decorated):
    """A Python function that has become Relay.

    `module` is the program: the function is its @main, and the decorated functions that it calls are beside it.
    Calling it runs the program with the interpreter, `legato.compile(f)` gives a compiled one. It is translated when it
    is first asked for, because a function may call one that is defined after it; the function itself never runs.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.code = read(function)
        check(self.code)
        update_wrapper(self, function)

    @cached_property
    def module(self) -> Module:
        """The typed module. CompileError (with the line of Python) for what cannot become Relay, or is ill-typed."""
        return translated(lambda made: made.add(self, "main"))

    @property
    def mod(self) -> Module:
        """`module`."""
        return self.module

    def __call__(self, *args: Any, **named: Any) -> Any:
        """What the function gives for arrays (numbers for scalars), evaluated by the interpreter."""
        return run(self.module, args, named)

    def astext(self, show_meta_data: bool = True) -> str:
        """The program as text."""
        from legato.ir.printer import show  # not with the package

        return show(self.module, metadata=show_meta_data)

    def __str__(self) -> str:
        return str(self.module)

    def __repr__(self) -> str:
        return f"<relay function {self.code.name}>"


def relay(function: Callable[..., Any]) -> ScriptFunction:
    """`@relay` above a function: reads it as a program.

    @relay
    def power(x: Tensor[("n",), "float32"], k: int) -> Tensor[("n",), "float32"]:
        y = relay.ones_like(x)
        for _ in range(k):
            y = y * x
        return y

    Parameters are annotated with `Tensor[shape, dtype]` (text names symbolic dims), `int`, `float`, `bool`, tuples of
    these, or types of the language. What has a meaning: assignments and tuples, `if`, `while`, `for` over ranges and
    tuples, `return`, `break` and `continue`, operators and subscripts, calls of operators and of other decorated
    functions, inner functions and lambdas, `assert` of what is known of shapes. Numbers, arrays and other objects from
    around the function are constants. UnsupportedError, with the place, for anything else.
    """
    return ScriptFunction(function)


def translated(start: Callable[[Translation], object]) -> Module:
    """The module of what `start` adds to an empty one."""
    table()  # gives meaning to the names of operators
    made = Translation()
    try:
        start(made)
    except CompileError as error:
        made.quote(error)
        raise
    except RecursionError as error:
        raise CompileError("the function nests too deeply", hint="give parts of it names, y = …") from error
    return made.module()


def run(module: Module, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """@main on arguments, evaluated by the interpreter."""
    main = module["main"]
    assert isinstance(main, Function)
    names = [p.name for p in main.params]
    unknown = [n for n in named if n not in names[len(args) :]]
    if unknown or len(args) + len(named) != len(names):
        raise RunError(f"got {len(args)} arguments and {', '.join(named) or 'no names'}, wanted {', '.join(names)}")
    given = [*args, *(named[n] for n in names[len(args) :])]
    return evaluate(module, [_array(g, p.ty) for g, p in zip(given, main.params, strict=True)])


def _array(given: Any, ty: Type | None) -> Any:
    """A number in the dtype of its parameter. RunError for an expression."""
    if isinstance(given, Expr):
        raise RunError("an argument is an expression: decorated functions are called with arrays, and by each other")
    if isinstance(given, bool | int | float) and isinstance(ty, TensorType):
        return np.asarray(given, ty.dtype.numpy)
    return given

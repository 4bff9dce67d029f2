"""What is differentiated: a module, a function, or what holds a module, and the same kind of thing back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar, cast

from legato.base.errors import CompileError
from legato.infer.infer import infer
from legato.ir.expr import Expr, Function, Tuple
from legato.ir.let import chain, lets
from legato.ir.module import Module
from legato.transform.eliminate_common import EliminateCommon
from legato.transform.eliminate_dead import EliminateDead
from legato.transform.fold_constant import FoldConstant
from legato.transform.pass_ import Pass, run
from legato.transform.simplify import Simplify
from legato.transform.to_a_normal import ToANormal
from legato.transform.to_graph import ToGraph

__all__ = ["Program", "as_module", "cleaned", "like", "main_of", "names_of", "with_result"]

Program = TypeVar("Program", bound=object)

# What leaves of a differentiated program what one would write by hand.
CLEAN: Final[tuple[Pass, ...]] = (
    EliminateDead(),
    ToGraph(),
    FoldConstant(),
    Simplify(),
    EliminateCommon(),
    ToANormal(),
    EliminateDead(),
)


def as_module(f: object) -> Module:
    """The typed module of a program: a Module, a Function, or what has a `module` (a decorated function)."""
    held = f if isinstance(f, Module | Function) else getattr(f, "module", None)
    if isinstance(held, Function):
        held = Module.from_expr(held)
    if not isinstance(held, Module):
        raise CompileError(
            f"cannot differentiate a {type(f).__name__}",
            hint="give a Module (legato.parse, legato.from_onnx), a Function or a decorated function",
        )
    return infer(held)


def main_of(mod: Module) -> Function:
    """@main."""
    main = mod["main"]
    assert isinstance(main, Function)
    return main


def like(f: Program, mod: Module) -> Program:
    """`mod`, or its @main where a function was given."""
    return cast("Program", main_of(mod) if isinstance(f, Function) else mod)


def names_of(main: Function, wrt: Sequence[str | int]) -> tuple[str, ...]:
    """The names of parameters, given by names or positions."""
    for which in wrt:
        if isinstance(which, bool) or not isinstance(which, str | int):
            raise CompileError(f"wrt has {which!r}, wanted names or positions of parameters")
        if isinstance(which, int) and not 0 <= which < len(main.params):
            raise CompileError(f"there is no parameter {which}", hint=f"there are {len(main.params)}")
    return tuple(which if isinstance(which, str) else main.params[which].name for which in wrt)


def with_result(mod: Module, make: Callable[[Sequence[Expr]], Expr]) -> Module:
    """`mod`, whose @main is in A-normal form and gives a tuple, with another result made of its fields."""
    main = main_of(mod)
    bindings, result = chain(main.body)
    assert isinstance(result, Tuple)
    body = lets(bindings, make(result.fields))
    return infer(mod.with_function(mod.var("main"), replace(main, body=body, ret_type=None, ty=None)))


def cleaned(mod: Module) -> Module:
    """`mod` without what differentiation made and nobody needs."""
    return run(mod, CLEAN)

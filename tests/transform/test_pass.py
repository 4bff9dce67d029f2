"""What watches passes: order, times, kept modules, and who made a malformed program."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from legato.base.errors import InternalError
from legato.infer.builder import Builder
from legato.ir.expr import Function, Var
from legato.ir.module import Module
from legato.transform.pass_ import FunctionPass, Observer, run


def program() -> Module:
    b = Builder()
    x = b.var("x", (2,))
    return Module.from_expr(b.function([x], x))


@dataclass(frozen=True, slots=True)
class Same(FunctionPass):
    name = "same"

    def function(self, func: Function, mod: Module) -> Function:
        return func


@dataclass(frozen=True, slots=True)
class Forget(FunctionPass):
    """A broken pass: the body names a variable that nobody binds."""

    name = "forget"

    def function(self, func: Function, mod: Module) -> Function:
        return replace(func, body=Var("gone", ty=func.body.ty))


@dataclass(frozen=True, slots=True)
class Stumble(FunctionPass):
    """A broken pass: it raises."""

    name = "stumble"

    def function(self, func: Function, mod: Module) -> Function:
        return func.params[7]  # type: ignore[return-value]  # never gets so far


def test_nothing_changed_means_the_same_module() -> None:
    told: list[str] = []
    mod, observer = program(), Observer(keep=frozenset({"same"}), progress=told.append)
    assert run(mod, (Same(), Same()), observer) is mod
    assert told == ["same", "same"]
    assert observer.kept == {"same": mod}
    assert list(observer.times) == ["same"]


def test_a_malformed_program_names_its_pass() -> None:
    with pytest.raises(InternalError, match=r"pass forget made a malformed program: .*%gone"):
        run(program(), (Same(), Forget()))


def test_a_pass_that_breaks_is_named() -> None:
    with pytest.raises(InternalError, match="pass stumble failed after same: IndexError: tuple index out of range"):
        run(program(), (Same(), Stumble()))

"""What watches passes: order, times, kept modules, and who made a malformed program."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from legato.base.errors import InternalError, RunError, UnsupportedError
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
    error: Exception

    def function(self, func: Function, mod: Module) -> Function:
        raise self.error


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


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (IndexError("out of range"), "IndexError: out of range"),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (InternalError("no rule"), "no rule"),
    ],
)
def test_a_pass_that_breaks_is_named(error: Exception, told: str) -> None:
    with pytest.raises(InternalError, match=f"^pass stumble failed after same: {told}$"):
        run(program(), (Same(), Stumble(error)))


@pytest.mark.parametrize("error", [UnsupportedError("no such code"), RunError("wrong inputs"), MemoryError()])
def test_what_is_no_bug_of_a_pass_stays_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as found:
        run(program(), (Same(), Stumble(error)))
    assert found.value is error

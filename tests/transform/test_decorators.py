"""Passes made of functions: where they run, what they are called, and what is said of those that fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import CompileError, UnsupportedError
from legato.base.tally import counting
from legato.ir.expr import Call, Function, Var
from legato.ir.module import Module
from legato.patterns import Callback, is_op, rewrite, rule, wildcard
from legato.transform import function_pass, module_pass
from legato.transform._text import read_passes, show_pass
from legato.transform.pass_ import run

TEXT = """
#[version = "0.0.5"]
def @main(%x: Tensor[(n,), float32]) -> Tensor[(n,), float32] { negative(negative(power(%x, 2f))) }
"""
X = np.array([1.5, -2, 3], np.float32)
SQUARE = rule("power(%x, 2f) => multiply(%x, %x)")


@function_pass
def square(func: Function, mod: Module) -> Function:
    """Squares are products."""
    return rewrite(SQUARE, func, mod)  # type: ignore[return-value]  # a function stays one


@module_pass(name="less-minus", rounds=True)
def less(mod: Module, *, names: tuple[str, ...] = ("negative",), times: int = 2) -> Module:
    for _ in range(times):
        for name in names:
            x = wildcard()
            drop = Callback(is_op(name)(x), lambda old, now, found, x=x: found[x], once=True)
            mod = mod.with_function(mod.var("main"), rewrite(drop, mod["main"], mod))
    return mod


def test_three_lines_are_a_pass_of_compile() -> None:
    kept = legato.compile(legato.parse(TEXT), passes=[square, "default"], keep=["square"])
    assert "multiply(%x, %x)" in kept.module_after("square")
    np.testing.assert_array_equal(kept(X), X * X)
    by_name = legato.compile(legato.parse(TEXT), passes="default")
    np.testing.assert_allclose(by_name(X), X * X, rtol=1e-6)


def test_names_options_and_text() -> None:
    assert (square.name, square.rounds, show_pass(square)) == ("square", False, "square")
    assert (less.name, less.rounds) == ("less-minus", True)
    once: Any = replace(less, times=1)  # type: ignore[call-arg]  # an option
    assert show_pass(once) == "less-minus{times=1}"
    assert read_passes("less-minus{times=1}", own={"less-minus": type(less)}) == (once,)
    assert str(run(legato.parse(TEXT), [less])).count("negative") == 0


def test_what_rounds_is_left_out_of_exact_programs() -> None:
    exe = legato.compile(legato.parse(TEXT), passes=[less, square, "default"], precision="exact", keep="*")
    assert "negative" in exe.module_after("square")


def test_nothing_changed_is_the_same_module() -> None:
    mod = legato.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { %x }')
    assert square(mod) is mod


def test_relay_passes_are_passes_of_compile() -> None:
    exe = legato.compile(legato.parse(TEXT), passes=[relay.transform.FoldConstant(), square, "default"])
    np.testing.assert_array_equal(exe(X), X * X)

    @relay.transform.function_pass(opt_level=1)
    def same(func: Any, mod: Any, context: Any) -> Any:
        return func

    np.testing.assert_array_equal(legato.compile(legato.parse(TEXT), passes=[same, square, "default"])(X), X * X)


def gives_none(func: Function, mod: Module) -> Any:
    return None


def divides(func: Function, mod: Module) -> Any:
    return 1 // 0


def loses(func: Function, mod: Module) -> Any:
    return replace(func, body=Var("gone", ty=func.body.ty))


def mistypes(func: Function, mod: Module) -> Any:
    assert isinstance(func.body, Call)
    return replace(func, body=relay.add(func.params[0], relay.const(np.zeros((2, 3, 4), np.int8))), ret_type=None)


def refuses(func: Function, mod: Module) -> Any:
    raise UnsupportedError("no", hint="never")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (gives_none, "pass gives-none: it gives no function for @main: None"),
        (divides, "pass divides: ZeroDivisionError: integer division or modulo by zero"),
        (refuses, "pass refuses: no"),
    ],
)
def test_a_function_that_fails_names_its_pass(function: Any, message: str) -> None:
    with pytest.raises(CompileError) as found:
        run(legato.parse(TEXT), [function_pass(function)])
    assert found.value.message == message


@pytest.mark.parametrize("function", [loses, mistypes])
def test_a_malformed_program_names_its_pass(function: Any) -> None:
    with pytest.raises(CompileError, match=f"pass {function.__name__}"):
        run(legato.parse(TEXT), [function_pass(function)])


def test_what_is_no_pass() -> None:
    with pytest.raises(CompileError, match=r"passes: got <function divides.* wanted passes or their names"):
        legato.compile(legato.parse(TEXT), passes=[divides])  # type: ignore[list-item]  # the point
    with pytest.raises(CompileError, match="there is no pass squares"):
        legato.compile(legato.parse(TEXT), passes="squares, default")
    with pytest.raises(CompileError, match="'no name' is no name of a pass"):
        function_pass(name="no name")(divides)

    def untyped(mod, *, depth=1):  # type: ignore[no-untyped-def]
        return mod

    with pytest.raises(CompileError, match="option depth of pass untyped needs a type and a default"):
        module_pass(untyped)


def test_rules_are_counted_with_their_lines() -> None:
    with counting() as counts:
        square(legato.parse(TEXT))
        with counting() as inner:
            square(legato.parse(TEXT))
    ((found, times),) = counts.items()
    assert (found, times, inner) == (SQUARE, 1, {SQUARE: 1})
    path, _, line = found.at.rpartition(":")
    assert path == __file__
    assert 'rule("power(%x, 2f)' in Path(path).read_text().splitlines()[int(line) - 1]

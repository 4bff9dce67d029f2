"""Dims that are bound wherever an annotation may stand: two are equal only where that is proven or checked.

A random program names dims of its parameters and new ones in patterns, lets, casts, the stated type of `if` and of a
result. What inference accepts gives the same compiled as interpreted, or both refuse it, for equal and unequal extents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.base.errors import CompileError, RunError
from legato.base.node import transform
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Expr, Function, If, Let, Match, Var
from legato.ir.module import Module
from legato.ops import table
from legato.prelude import parse as read
from tests.programs.settings import examples
from tests.programs.values import same

_HEAD = """#[version = "0.0.5"]
type Box { Box(Tensor[(a,), float32]) }
type Pair { Pair(Tensor[(a,), float32], Tensor[(b,), float32]) }
def @any(%x: Tensor[(?,), float32]) -> Tensor[(?,), float32] { %x }
def @main(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32], %c: bool) {
"""
_DIMS = st.sampled_from(["n", "m", "k", "j", "k", "?"])
_SIZES = ((2, 2), (2, 3), (3, 1))


@st.composite
def _programs(draw: st.DrawFn) -> str:
    """The text of a program."""
    values = ["%x", "%y"]
    lines = []
    for n in range(draw(st.integers(1, 4))):
        a, b = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        t, u = (f"Tensor[({draw(_DIMS)},), float32]" for _ in range(2))
        d = draw(_DIMS.filter("?".__ne__))
        value = draw(
            st.sampled_from(
                [
                    f"@any({a})",
                    f"match_cast({a}, {u})",
                    f"if (%c) {{ {a} }} else {{ {b} }}",
                    f"match (Box({a})) {{ Box(%p: {u}) => %p }}",
                    f"match (Pair({a}, {b})) {{ Pair(%p: {u}, %q: {u}) => %p + %q }}",
                    f"match (Pair({a}, @any({b}))) {{ Pair(%p, %q: {u}) => %p + %q }}",
                    f"(fn (%p: {u}) -> {t} {{ %p + {b} }})({a})",
                    f"{a} + {b}",
                    f"zeros(shape=[{d}]) + {b}",
                ]
            )
        )
        annotated = draw(st.booleans())
        lines.append(f"  let %v{n}{f': {t}' if annotated else ''} = {value};")
        values.append(f"%v{n}")
    return _HEAD + "\n".join(lines) + f"\n  ({', '.join(values[2:])}, {values[-1]} + {values[-2]})\n}}\n"


def _module(text: str, as_stated: bool) -> Module:
    """The typed module; `as_stated`, a let's annotation is the type that its `if` or `match` carries, as in JSON."""
    module = read(text, ops=table())
    if not as_stated:
        return infer(module)

    def stated(e: Expr) -> Expr | None:
        if not (isinstance(e, Let) and isinstance(e.value, If | Match) and e.var.ty is not None):
            return None
        var = Var(e.var.name)
        return Let(var, replace(e.value, ty=e.var.ty), transform(e.body, {e.var: var}.get))

    main = module["main"]
    assert isinstance(main, Function)
    return infer(module.with_function(module.var("main"), replace(main, body=transform(main.body, stated))))


@examples(60)
@given(_programs(), st.booleans())
def test_compiled_as_interpreted(text: str, as_stated: bool) -> None:
    try:
        module = _module(text, as_stated)
        exe = legato.compile(module, threads=1)
    except CompileError:
        return
    for n, m in _SIZES:
        for c in (True, False):
            args = [np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32) * 10, np.bool_(c)]
            assert same(_outcome(exe, *args), _outcome(evaluate, module, args)), (n, m, c)


def _outcome(call: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, or () where it is refused."""
    try:
        return call(*args)
    except RunError:
        return ()


_GROW = """#[version = "0.0.5"]
def @grow(%n: int32) -> Tensor[(?,), float32] {
  if (%n == 0) { ones(shape=[1]) } else { concatenate((@grow(%n - 1), ones(shape=[1]))) }
}
def @apply[A](%f: fn (int32) -> A, %n: int32) -> A { %f(%n) }
def @self[A](%f: fn (A) -> A, %x: A) -> A { %f(%x) }
def @both(%f: fn (int32) -> Tensor[(k,), float32], %a: int32, %b: int32) { %f(%a) + %f(%b) }
def @main(%a: int32, %b: int32, %c: bool) {
"""


@pytest.mark.parametrize(
    "body",
    [
        "match? (@map(@grow, Cons(%a, Cons(%b, Nil)))) { Cons(%x, Cons(%y, _)) => %x + %y }",
        "@both(@grow, %a, %b)",
        "@apply(@grow, %a) + @apply(@grow, %b)",
        "@self(fn (%x: Tensor[(?,), float32]) -> Tensor[(?,), float32] { concatenate((%x, %x)) }, ones(shape=[2]))",
        "let %f = if (%c) { @grow } else { fn (%n: int32) { ones(shape=[3]) } }; %f(%a) + %f(%b)",
        "let %r = ref(@grow(%a)); ref_write(%r, @grow(%b)); ref_read(%r) + @grow(%a)",
        "match? (Cons(@grow(%a), Cons(@grow(%b), Nil))) { Cons(%x, Cons(%y, _)) => %x + %y }",
    ],
)
def test_results_whose_extents_a_function_decides(body: str) -> None:
    """One that is a value may give other extents each time; its type has one name for them."""
    module = legato.parse(f"{_GROW} {body} }}")
    try:
        exe = legato.compile(module, threads=1)
    except CompileError:
        exe = None
    for a, b in ((1, 1), (1, 4), (2, 2)):
        args = [np.int32(a), np.int32(b), np.bool_(True)]
        found = _outcome(evaluate, module, args)
        assert exe is None or same(_outcome(exe, *args), found)

"""Partial evaluation of random programs whose local functions call themselves with arguments that are known in part."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legato.infer.infer import infer
from legato.ir.verify import Stage, verify
from legato.transform.partial_evaluate import PartialEvaluate
from legato.transform.to_a_normal import ToANormal
from tests.programs.settings import examples
from tests.programs.values import same
from tests.transform.test_partial_evaluate import meaning, parse, size

Draw = st.DrawFn


def number(draw: Draw, names: list[str], depth: int = 2) -> str:
    """An expression of an int32 over variables."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([*names, "2", "-1"]))
    a, b = number(draw, names, depth - 1), number(draw, names, depth - 1)
    return f"({a} {draw(st.sampled_from(['+', '-', '*']))} {b})"


def function(draw: Draw, names: list[str], known: list[str]) -> str:
    """A function of an int32: one that is known by a name, or a new one."""
    if known and draw(st.booleans()):
        return draw(st.sampled_from(known))
    return f"fn (%z: int32) {{ {number(draw, [*names, '%z'])} }}"


def loop(draw: Draw, name: str, names: list[str], before: list[str]) -> str:
    """A local function of a function, a number, and a counter: it ends, and may have another in it."""
    own = [*names, "%a", "%i"]
    inner = loop(draw, f"{name}_in", own, before) if "_in" not in name and draw(st.integers(0, 3)) == 0 else ""
    callees = [name, name, *before, *([f"{name}_in"] if inner else [])]
    write = draw(st.sampled_from(["", "", f"ref_write(%r, ref_read(%r) + {number(draw, own)});"]))
    calls = []
    for n in range(draw(st.integers(1, 2))):
        callee = draw(st.sampled_from(callees))
        given = function(draw, own, ["%f", "%f", "%f"])
        second = draw(st.sampled_from(["%a", "%a", number(draw, own)]))
        calls.append(f"let %v{n} = %{callee}({given}, {second}, %i - 1);")
    seen = [*own, *(f"%v{n}" for n in range(len(calls))), "ref_read(%r)"]
    return f"""
let %{name} = fn (%f: fn (int32) -> int32, %a: int32, %i: int32) -> int32 {{
  {inner}
  if (%i <= 0) {{ {number(draw, [*own, "%f(%a)"])} }} else {{ {write} {" ".join(calls)} %f({number(draw, seen)}) }}
}};"""


@st.composite
def programs(draw: Draw) -> str:
    """@main of two numbers, with a cell and one to three loops, each called as it is and with what is known."""
    names = ["%n", "%k", "ref_read(%r)"]
    found, lines = list[str](), list[str]()
    for n in range(draw(st.integers(1, 3))):
        lines.append(loop(draw, f"l{n}", ["%n", "%k"], found))
        found.append(f"l{n}")
    count = draw(st.integers(1, 4))
    for n in range(count):
        times = draw(st.sampled_from(["%n", "%n", "2"]))
        callee, given = draw(st.sampled_from(found)), function(draw, ["%n", "%k"], [])
        lines.append(f"let %y{n} = %{callee}({given}, {number(draw, names)}, {times});")
    result = ", ".join([*(f"%y{n}" for n in range(count)), "ref_read(%r)"])
    return f"def @main(%n: int32, %k: int32) {{ let %r = ref(%k); {''.join(lines)} ({result}) }}"


@examples(20)
@given(programs(), st.sampled_from([100, 2_000]))
def test_the_meaning_stays(text: str, fuel: int) -> None:
    mod = parse(text)
    new = PartialEvaluate(fuel=fuel)(mod)
    verify(new, Stage.A_NORMAL)
    verify(infer(new), Stage.TYPED)
    for n in (0, 3):
        args = [np.int32(n), np.int32(5)]
        assert same(meaning(new, args), meaning(mod, args))


def test_specialisations_of_local_loops_are_paid_for() -> None:
    mod = parse("""
def @main(%n: int32) {
  let %go = fn (%f: fn (int32) -> int32, %i: int32) -> int32 { if (%i <= 0) { %n } else { %f(%go(%f, %i - 1)) } };
  %go(negative, %n) + %go(fn (%x: int32) { %x * %x }, %n)
}""")
    before, found = size(ToANormal()(mod)), []
    for fuel in (0, 20, 40, 80, 1_000):
        new = PartialEvaluate(fuel=fuel)(mod)
        assert size(new) <= before + fuel
        found.append(len(new.functions))
    assert found[0] == 1
    assert found[-1] == 3

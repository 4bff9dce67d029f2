"""Random programs of whole numbers: what a translated function gives is what Python gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato import relay
from tests.programs.settings import examples

NAMES = ("a", "b", "c", "d")
MODULUS = 97


def loaded(folder: Path, text: str) -> Any:
    """The module of a source text, in a file of its own: functions are read from their files."""
    path = folder / f"program_{abs(hash(text))}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> str:
    """A number: every result is reduced, so that nothing overflows."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from((*NAMES, "3", "1", "x", "12")))
    kind = draw(st.integers(0, 4))
    inner = expressions(depth - 1)
    if kind == 0:
        return f"({draw(inner)} if {draw(conditions(depth - 1))} else {draw(inner)})"
    if kind == 1:
        return f"add({draw(inner)}, {draw(inner)})"
    if kind == 2:
        return f"early({draw(inner)}, {draw(inner)})"
    symbol = draw(st.sampled_from(("+", "-", "*")))
    return f"(({draw(inner)} {symbol} {draw(inner)}) % {MODULUS})"


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.integers(0, 5))
    inner = expressions(max(depth - 1, 0))
    if depth and kind == 0:
        joint = draw(st.sampled_from(("and", "or")))
        return f"({draw(conditions(depth - 1))} {joint} not {draw(conditions(depth - 1))})"
    if depth and kind == 1:
        return f"({draw(inner)} < {draw(inner)} <= {draw(inner)})"
    return f"({draw(inner)} {draw(st.sampled_from(('<', '>=', '==', '!=')))} {draw(inner)})"


@st.composite
def blocks(draw: st.DrawFn, depth: int, loops: int, indent: str) -> list[str]:
    """Statements; `loops`: how many loops are around them. While loops count down `fuel`, which only they use."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.integers(0, 9))
        deeper = blocks(max(depth - 1, 0), loops, indent + "    ")
        if depth and kind in (0, 1):
            lines += [f"{indent}if {draw(conditions())}:", *draw(deeper)]
            if draw(st.booleans()):
                lines += [f"{indent}else:", *draw(deeper)]
        elif depth and kind == 2:
            inner = draw(blocks(depth - 1, loops + 1, indent + "    "))
            lines += [f"{indent}for {draw(st.sampled_from(NAMES))} in range({draw(expressions(0))} % 5):", *inner]
        elif depth and kind == 3:
            fuel = f"fuel{loops}"
            inner = draw(blocks(depth - 1, loops + 1, indent + "    "))
            lines += [f"{indent}{fuel} = 4", f"{indent}while {fuel} > 0 and {draw(conditions())}:"]
            lines += [f"{indent}    {fuel} -= 1", *inner]
        elif kind == 4:
            lines.append(f"{indent}a, b = b, ({draw(expressions())} + a) % {MODULUS}")
        elif kind == 5 and loops:
            lines.append(f"{indent}{draw(st.sampled_from(('break', 'continue')))}")
            break
        elif kind == 6 and indent != "    ":
            lines.append(f"{indent}return {draw(st.sampled_from(NAMES))}, {draw(expressions())}")
            break
        else:
            lines.append(f"{indent}{draw(st.sampled_from(NAMES))} = {draw(expressions())}")
    return lines


@st.composite
def programs(draw: st.DrawFn) -> str:
    body = draw(blocks(3, 0, "    "))
    head = ["from legato import relay", "", "@relay", "def add(x: int, y: int = 2) -> int:", "    return (x + y) % 97",
            "", "@relay", "def program(x: int, y: int):", "    a, b, c, d = x, y, 1, 2",
            "    def early(u, v):", "        if u > v:", "            return u", "        return v - x"]  # fmt: skip
    return "\n".join([*head, *body, "    return a, (b + c + d) % 97", ""])


@given(programs(), st.integers(-20, 20), st.integers(0, 96))
@examples(60, fuzz=False)
def test_random_programs_mean_what_python_means(
    tmp_path_factory: pytest.TempPathFactory, text: str, x: int, y: int
) -> None:
    module = loaded(tmp_path_factory.mktemp("programs"), text)
    program = module.program
    got = tuple(int(v) for v in program(x, y))
    assert got == plain(module)(x, y)
    assert relay.structural_equal(relay.parse(program.astext()), program.module)


def plain(module: Any) -> Any:
    """The Python functions of a module, calling each other as such."""
    program, add = module.program.__wrapped__, module.add.__wrapped__
    names = dict(program.__globals__, add=add)
    return type(program)(program.__code__, names, "program", program.__defaults__)


def test_a_random_program_compiles_to_the_same(tmp_path: Path) -> None:
    text = """
from legato import relay

@relay
def program(x: int, y: int):
    best, at = 0, -1
    for i in range(x):
        if i % 3 == 0:
            continue
        value = (i * i + y) % 31
        if value > 28:
            return i, value
        j = i
        while True:
            j += 7
            if j > 40 or best > 20:
                break
            if (j * y) % 5 == 0:
                best, at = j, i
    return best, at
"""
    module = loaded(tmp_path, text)
    exe = legato.compile(module.program)
    for x in (0, 1, 5, 9):
        for y in (0, 1, 13, 14):
            want = module.program.__wrapped__(x, y)
            assert tuple(int(v) for v in module.program(x, y)) == want
            assert tuple(int(v) for v in exe(np.int32(x), np.int32(y))) == want

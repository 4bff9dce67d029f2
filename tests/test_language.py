"""docs/language*.md and docs/tour.py: every example is read, typed and run, and what they say of it is what comes out.

A block of Relay is a module without its version line. In it, `// e = v` says that two expressions have the same value,
`// @f : type` what the type of a function is, `// e fails: message` what running it says. The `text` block behind a
block is what it prints (Python) or the error that it is (Relay).
"""

from __future__ import annotations

import io
import re
import runpy
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError, RunError
from legato.interp import Data, evaluate
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.printer import show_type
from tools.docs_site import links

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("language*.md"))
VERSION = '#[version = "0.0.5"]\n'

_BLOCK = re.compile(r"^```(relay|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
_TYPE = re.compile(r"^// @(\w+) : (.*)$", re.MULTILINE)
_VALUE = re.compile(r"^// (?!.* fails: )(.*?) = (.*)$", re.MULTILINE)
_FAILS = re.compile(r"^// (.*?) fails: (.*)$", re.MULTILINE)


def _blocks(page: Path) -> Iterator[Any]:
    text = page.read_text(encoding="utf-8")
    for m in _BLOCK.finditer(text):
        yield pytest.param(m[1], m[2], m[3], id=f"{page.stem}, line {text.count(chr(10), 0, m.start()) + 1}")


_BLOCKS = [block for page in PAGES for block in _blocks(page)]


@pytest.mark.parametrize(("language", "code", "outcome"), _BLOCKS)
def test_block(language: str, code: str, outcome: str | None, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        pytest.skip("rewritten by test_update")
    if language == "relay" and outcome is None:
        _check(code)
    else:
        assert _outcome(language, code) == (outcome or "")


def test_update(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--update-golden"):
        assert _BLOCKS
        return

    def again(m: re.Match[str]) -> str:
        return m[0] if m[3] is None else f"```{m[1]}\n{m[2]}```\n\n```text\n{_outcome(m[1], m[2])}```\n"

    for page in PAGES:
        page.write_text(_BLOCK.sub(again, page.read_text(encoding="utf-8")), encoding="utf-8")


def _outcome(language: str, code: str) -> str:
    """What a block prints, or which error it is."""
    if language == "relay":
        with pytest.raises(CompileError) as caught:
            legato.parse(VERSION + code)
        return f"{caught.value}\n"
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "language.md", "exec"), {"__name__": "language"})
    return printed.getvalue()


def _check(program: str) -> None:
    """Raises if what the comments of a program say is not so."""
    values, failures = _VALUE.findall(program), _FAILS.findall(program)
    expressions = [*(side for pair in values for side in pair), *(e for e, _ in failures)]
    asked = "".join(f"def @asked_{n}() {{ {e} }}\n" for n, e in enumerate(expressions))
    module = legato.parse(VERSION + program + asked)
    for name, ty in _TYPE.findall(program):
        function = module[name]
        assert isinstance(function, Function)
        assert show_type(function.checked_type) == ty
    for n, (expression, value) in enumerate(values):
        left, right = (evaluate(module, name=f"asked_{k}") for k in (2 * n, 2 * n + 1))
        assert _same(left, right), f"{expression} is {left}, not {value}"
    for n, (_, reason) in enumerate(failures, 2 * len(values)):
        with pytest.raises(RunError) as failed:
            evaluate(module, name=f"asked_{n}")
        assert str(failed.value) == reason


def _same(left: Any, right: Any) -> bool:
    """True for equal values: tensors of one shape and dtype, tuples, values of data types."""
    stack = [(left, right)]
    while stack:
        a, b = stack.pop()
        if isinstance(a, Data) and isinstance(b, Data) and a.constructor is b.constructor:
            a, b = a.fields, b.fields
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            stack += zip(a, b, strict=True)
        elif np.asarray(a).dtype != np.asarray(b).dtype or not np.array_equal(a, b):
            return False
    return True


def test_something_can_fail() -> None:
    module: Module = legato.parse(VERSION + "def @a() { (1, Cons(2, Nil)) }\ndef @b() { (1, Cons(3, Nil)) }\n")
    a, b = (evaluate(module, name=name) for name in "ab")
    assert _same(a, a)
    assert not _same(a, b)
    assert not _same(np.int32(1) + np.zeros((), "int32"), np.ones((), "float32"))


def test_the_first_page_leads_to_the_others() -> None:
    first, *others = PAGES
    assert len(others) >= 5
    assert {page for page, _ in links(first)} >= set(others)
    assert all(first in {page for page, _ in links(page)} for page in others)
    assert len(_BLOCKS) > 35


def test_tour() -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        runpy.run_path(str(DOCS / "tour.py"), run_name="__main__")
    titles = re.findall(r"^== (.*)$", printed.getvalue(), re.MULTILINE)
    assert titles[:2] == ["typed", "fused"]
    assert printed.getvalue().splitlines()[-1].startswith("compiled and interpreted are the same to")

"""Every hint of the sources is tried: what is refused with it, and that what it says works.

`tried/*.txt` has cases, `untried.list` what is left, and why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from legato.errors import CompileError, LegatoError
from tests.errors.hints import Case, cases, hints, matches
from tests.errors.test_hints_tried import TRIED

UNTRIED = Path(__file__).with_name("untried.list")
MOST_UNTRIED = 6


@cache
def compiled(code: str) -> CodeType:
    return compile(code, "<case>", "exec", dont_inherit=True)


def hints_of(error: Exception) -> list[str]:
    """What an error says would work: its hint, and, where it lists several reasons, what stands behind them."""
    own = [error.hint] if isinstance(error, CompileError) and error.hint is not None else []
    told = re.findall(r"hint: (.+)", str(error), re.DOTALL)
    details = error.details if isinstance(error, CompileError) else ()
    return [*own, *told, *_parts(details)]


def _parts(details: Sequence[str]) -> list[str]:
    """What stands in parentheses at the end of a reason, before how often it occurs."""
    ends = (re.sub(r" \(\d+ times.*", "", line) for line in details)
    return [line[n + 1 : -1] for line in ends if line.endswith(")") for n, c in enumerate(line) if c == "("]


@pytest.mark.filterwarnings("ignore")  # PyTorch's own
@pytest.mark.parametrize("case", cases(), ids=str)
def test_what_a_hint_says_works(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if re.search(r"\bimport torch\b", case.start + case.refused):
        pytest.importorskip("torch")
    names: dict[str, Any] = {"__name__": "case"}
    exec(compiled(case.start), names)
    with pytest.raises((LegatoError, AttributeError)) as caught:
        exec(compiled(case.refused), names)
    told = [text for text in hints_of(caught.value) if matches(case.hint, text)]
    assert told, f"{caught.value}\n\nwanted: {case.hint}"
    names["hint"] = told[0]
    for code in case.followed:
        exec(compiled(code), dict(names))


@cache
def untried() -> dict[str, str]:
    """The reason of each hint of `untried.list`: of the line `== REASON` above it."""
    found, reason = {}, ""
    for line in UNTRIED.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            reason = line.removeprefix("== ")
        elif line and not line.startswith("# "):
            assert line not in found, line
            found[line] = reason
    return found


def test_every_hint_is_tried_or_says_why_not() -> None:
    tried = {case.hint for case in cases()} | TRIED
    missing = {hint: places[0] for hint, places in hints().items() if hint not in tried and hint not in untried()}
    assert not missing, "hints that no test tries: add a case to tests/errors/tried"
    assert not set(untried()) & tried, "these are tried now"
    assert not (set(untried()) | tried) - set(hints()), "the sources have no such hints"


def test_most_hints_are_tried() -> None:
    """No fewer than there were: a new hint has a case."""
    assert len(untried()) <= MOST_UNTRIED
    assert sum(map(len, [case.followed for case in cases()])) >= len(cases())

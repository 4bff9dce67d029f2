"""docs/patterns.md: its programs run, one after another, and print what stands behind them."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "patterns.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def test_the_programs_print_what_they_say(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, Any] = {}

    def again(m: re.Match[str]) -> str:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(m[1], str(PAGE), "exec"), names)
        return f"```python\n{m[1]}```\n" + (f"\n```text\n{printed.getvalue()}```\n" if printed.getvalue() else "")

    new = _BLOCK.sub(again, text)
    assert len(names) > 10
    if request.config.getoption("--update-golden"):
        PAGE.write_text(new, encoding="utf-8")
    assert new == PAGE.read_text(encoding="utf-8")

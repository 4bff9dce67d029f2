"""docs/migration.md: its tables are those of the package, and its program runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.relay.migration import DOCUMENT, written


def test_tables_are_up_to_date() -> None:
    text = DOCUMENT.read_text()
    assert text == written(text), "run python tests/relay/migration.py"
    assert "`tvm.relay.nn.conv2d`" in text


def test_the_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, as somebody does who reads the page."""
    monkeypatch.chdir(tmp_path)
    found: dict[str, object] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)), found)
    assert found["result"].shape == (1, 128)  # type: ignore[attr-defined]

"""docs/migration.md: its tables are those of the package, and its program runs."""

from __future__ import annotations

import re

from tests.relay.migration import DOCUMENT, written


def test_tables_are_up_to_date() -> None:
    text = DOCUMENT.read_text()
    assert text == written(text), "run python tests/relay/migration.py"
    assert "`tvm.relay.nn.conv2d`" in text


def test_the_program_runs() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    found: dict[str, object] = {}
    exec(program, found)
    assert found["result"].shape == (1, 128)  # type: ignore[attr-defined]

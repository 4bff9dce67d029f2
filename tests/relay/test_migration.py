"""docs/migration.md: its tables are those of the package, and its program runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from legato import relay
from legato.ir._relay_ops import RENAMED
from legato.ops import table
from tests.relay.migration import DOCUMENT, operators, written


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


def test_every_operator_of_relay_is_here_or_has_a_reason() -> None:
    listed = operators()
    assert len(listed) == 304
    absent = {name for name in listed if name not in table() and name not in RENAMED}
    assert {name for name, reason in listed.items() if reason} == absent
    assert len(absent) == 31


def test_every_operator_of_relay_that_is_here_is_a_function_of_its_name() -> None:
    """dyn.X is X, given a tensor; contrib_reverse_reshape is a function of another name in Relay, too."""
    for name, reason in operators().items():
        if not reason and not name.startswith("dyn."):
            found: object = relay
            for part in name.split("."):
                found = getattr(found, part)
            assert callable(found), name

"""Which targets this machine runs: a skip here names one for which no random programs are tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from legato.base.target import TARGETS, Target
from tests import machines
from tests.machines import EVERY, LEVELS, each


@pytest.mark.parametrize("target", EVERY)
def test_random_programs_are_tried_for_every_target(target: Target) -> None:
    assert target in LEVELS


def test_parameters_stay_where_instructions_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "missing_features", lambda t: ("avx512f",) if t.name == "x86-64-v4" else ())
    found: list[Any] = each(*TARGETS.values())
    assert [p.id for p in found] == list(TARGETS)
    assert [p.marks[0].args[0] for p in found] == [False, False, True]
    assert found[-1].marks[0].kwargs["reason"] == "this CPU lacks avx512f, which x86-64-v4 has"


def test_no_other_file_leaves_targets_out() -> None:
    """Lists of what runs here are made in one place; elsewhere they would shrink in silence."""
    root = Path(__file__).parent
    own = {Path(__file__), Path(machines.__file__)}
    texts = {path: path.read_text() for path in root.rglob("*.py") if path not in own}
    assert [str(p.relative_to(root)) for p, text in texts.items() if "if not missing_features(" in text] == []

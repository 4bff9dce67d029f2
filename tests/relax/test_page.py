"""The page on Relax: its programs run, and its table has all passes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from legato.relax import transform

PAGE = (Path(__file__).parents[2] / "docs" / "relax.md").read_text().partition("\n## `legato.relax`\n")[2]
OWN = {"FunctionPass", "ModulePass", "Pass", "PassContext", "PassInfo", "Sequential", "function_pass", "module_pass"}


def test_programs_run() -> None:
    names: dict[str, Any] = {}
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(programs) == 4
    for program in programs:
        exec(program, names)


def test_the_table_has_all_passes() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(set(transform.__all__) - OWN)

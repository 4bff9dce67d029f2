"""The page on Relax in Python has all passes in its table. (tests/test_readme.py runs its programs.)"""

from __future__ import annotations

import re
from pathlib import Path

from legato.relax import transform

PAGE = (Path(__file__).parents[2] / "docs" / "relax_python.md").read_text()
OWN = {"FunctionPass", "ModulePass", "Pass", "PassContext", "PassInfo", "Sequential", "function_pass", "module_pass"}


def test_the_table_has_all_passes() -> None:
    table = PAGE.partition("| pass | is |\n|---|---|\n")[2].partition("\n\n")[0]
    listed = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(listed) == sorted(set(transform.__all__) - OWN)

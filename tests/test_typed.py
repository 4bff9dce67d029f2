"""What users write passes `mypy --strict`: calls, results, options; and wrong ones do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import legato

HERE = Path(__file__).parent
PROGRAM = HERE / "typed" / "program.py"


@pytest.mark.heavy
def test_a_users_program_is_well_typed(tmp_path: Path) -> None:
    """With unused comments that ignore an error as errors, so that each wrong call in it is one."""
    pytest.importorskip("mypy")
    assert (Path(legato.__file__).parent / "py.typed").exists()
    (tmp_path / "program.py").write_text(PROGRAM.read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "Success: no issues found in 1 source file\n", done.stdout + done.stderr

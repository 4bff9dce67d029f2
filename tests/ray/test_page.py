"""docs/scaling.md with Ray: its blocks, one after another. Those without are tested wherever pages are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed: make test-ray")
PAGE = Path(__file__).parents[2] / "docs/scaling.md"


def test_the_programs_run(tmp_path: Path) -> None:
    blocks = re.findall(r"^```py(?:thon)?\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    command = [sys.executable, "-c", "\n".join(blocks)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr

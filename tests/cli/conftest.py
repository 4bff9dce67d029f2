"""A folder of its own for every test, and the command line as a function."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from legato import cli

MLP = """
#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(3, 4), float32]) -> Tensor[(n, 3), float32] {
  nn.relu(nn.dense(%x, %w))
}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlp.relay").write_text(MLP)
    return tmp_path


class Done:
    """What one call of the command line did; `told`: the lines of progress, which `err` is without."""

    def __init__(self, code: int, out: str, err: str, told: list[str]) -> None:
        self.code, self.out, self.err, self.told = code, out, err, told

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    """`call("run", …)` runs the command line in this process."""

    def run(*arguments: str) -> Done:
        try:
            code = cli.main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        lines = captured.err.splitlines(keepends=True)
        is_progress = [re.match(r"legato (compile|bench|verify): (?!error: )", line) is not None for line in lines]
        err = "".join(line for line, is_told in zip(lines, is_progress, strict=True) if not is_told)
        return Done(code, captured.out, err, [line for line, told in zip(lines, is_progress, strict=True) if told])

    return run

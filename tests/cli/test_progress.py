"""What commands say on standard error while they work."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import legato
from legato.cli._progress import Lines, progress

SOURCE = Path(legato.__file__).parents[1]


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from legato.cli import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, **options)


def test_no_colour_when_piped_and_progress_in_plain_lines() -> None:
    empty = {**os.environ, "LEGATO_CACHE_DIR": "kernels"}
    done = process("compile", "mlp.relay", "-o", "a.legato", env=empty)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "legato compile: reading mlp.relay",
        "legato compile: passes",
        "legato compile: lower",
        "legato compile: codegen",
        *(f"legato compile: codegen: {n} of 3 modules compiled" for n in (1, 2, 3)),
        "legato compile: link",
        "legato compile: writing a.legato",
    ]
    assert "\x1b" not in done.stdout


def test_no_progress_with_json() -> None:
    done = process("compile", "mlp.relay", "-o", "a.legato", "--json")
    assert (done.returncode, done.stderr) == (0, "")


def test_lines_of_progress_tell_stages_and_quarters() -> None:
    said = io.StringIO()
    lines = Lines("legato bench", said)
    for what in ("reading m.onnx", "passes", "passes: simplify", "passes: fuse", "codegen"):
        lines(what)
    for n in range(1, 41):
        lines(f"codegen: {n} of 40 modules compiled")
    for n in range(1, 4):
        lines(f"measuring, round {n} of at most 3")
    assert said.getvalue().replace("legato bench: ", "").splitlines() == [
        "reading m.onnx", "passes", "codegen", *(f"codegen: {n} of 40 modules compiled" for n in (10, 20, 30, 40)),
        *(f"measuring, round {n} of at most 3" for n in (1, 2, 3)),
    ]  # fmt: skip


def test_progress_ends_where_nobody_reads_it() -> None:
    said = io.StringIO()
    said.close()
    Lines("bench", said)("reading")


@pytest.mark.parametrize("name", ["a[/].onnx", "a[red]b.onnx", "a[/red].onnx", ":smile:.onnx", "a\\[b].onnx"])
def test_names_of_files_are_no_markup(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(said, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=said, force_terminal=True, width=80))
    with progress("legato check", quiet=False, plain=False) as tell:
        tell(f"reading {name}")
    assert f"reading {name}" in said.getvalue()

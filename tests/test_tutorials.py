"""Pages that are read with a terminal: their commands and programs run, one after another, in an empty folder."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def run_python(code: str, page: Path, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), names)
    return printed.getvalue()


def run_shell(code: str) -> str:
    """What commands print; `legato` is the package that is tested."""
    script = f'set -e\nlegato() {{ "{sys.executable}" -m legato "$@"; }}\n{code}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, code + done.stdout + done.stderr
    return done.stdout


def agrees(printed: str, said: str) -> bool:
    """Whether a page says what was printed: spaces are as wide as they are, and … is anything."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in said.split("…")]
    return re.fullmatch(r"[\s\S]*".join(r"\s*" + part + r"\s*" for part in parts), printed) is not None


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # Python 3.12's: docs/howto/batch.md
@pytest.mark.parametrize(
    "name", ["tutorial", "howto/threads", "howto/fleet", "howto/serving", "howto/batch", "versions"]
)
def test_the_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = DOCS / f"{name}.md"
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(DOCS.parent / "examples/serve"))
    module = ModuleType("page")  # one that workers in other processes find functions in
    monkeypatch.setitem(sys.modules, "page", module)
    names = vars(module)
    for language, code, said in blocks:
        printed = run_python(code, page, names) if language == "python" else run_shell(code)
        assert not said or agrees(printed, said), f"{code}\nprinted\n{printed}"


def test_what_agrees() -> None:
    assert agrees("a  b\nc\n", "a b\n…\n")
    assert agrees("x 1\n", "x …\n")
    assert not agrees("a b\nc\n", "a b\n")
    assert not agrees("ab\n", "a b\n")
    assert not agrees("a b c\n", "b …\n")

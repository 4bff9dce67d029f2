"""What the README and the pages of docs say is true: their commands exist and their Python runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def blocks(language: str, page: str = README) -> list[str]:
    """The fenced blocks of `language` in a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_make_targets_exist_and_are_documented() -> None:
    used = set(re.findall(r"\bmake ([a-z]+)", "\n".join([*blocks("sh"), *re.findall(r"`([^`]+)`", README)])))
    documented = set(re.findall(r"^([a-z]+):.*## ", MAKEFILE, re.MULTILINE))
    assert {"demo", "test"} <= used
    assert set() == used - documented


def test_ci_runs_the_test_command() -> None:
    script = (ROOT / ".ci/run").read_text().splitlines()
    assert "make test" in script
    assert "make test" in README


PYTHON = {
    "README": blocks("python"),
    **{
        page: blocks("python", (ROOT / f"docs/{page}.md").read_text())
        for page in (
            "deploying",
            "devices",
            "from_tvm_relax",
            "layouts",
            "operators",
            "packed",
            "paper",
            "passes_ablation",
            "relax",
            "relax_nn",
            "relax_python",
            "running",
            "scaling",
            "shapes",
            "tensor_programs",
        )
    },
}


@pytest.mark.parametrize("page", PYTHON)
def test_python_runs(page: str, tmp_path: Path) -> None:
    """The blocks of a page, one after another, as somebody does who reads it: in the usual build."""
    code, env = "\n".join(PYTHON[page]), {k: v for k, v in os.environ.items() if k != "LEGATO_BOUNDS"}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", sorted(set(re.findall(r"^legato ([a-z]+) ", "\n".join(blocks("sh")), re.MULTILINE))))
def test_verbs_exist(verb: str) -> None:
    done = subprocess.run([sys.executable, "-m", "legato", verb, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_architecture_names_every_part() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    parts = [p for p in (ROOT / "src/legato").iterdir() if not p.name.startswith("_") and p.suffix in ("", ".py")]
    assert len(parts) > 15
    assert [p.name for p in parts if f"| `{p.name}" not in page] == []

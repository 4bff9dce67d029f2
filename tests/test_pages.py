"""Pages whose programs run, one after another, and print what stands behind them."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.`:FutureWarning")  # PyTorch's own
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    "name",
    [
        "errors",
        "generators",
        "gradients",
        "partial_evaluation",
        "passes",
        "patterns",
        "precision",
        "precision_narrow",
        "pytorch",
        "pytorch_backend",
        "seeing",
        "training",
    ],
)
def test_the_programs_print_what_they_say(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("pytorch"):
        pytest.importorskip("torch")
    page = DOCS / f"{name}.md"
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {}

    def again(m: re.Match[str]) -> str:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(m[1], str(page), "exec"), names)
        return f"```python\n{m[1]}```\n" + (f"\n```text\n{printed.getvalue()}```\n" if printed.getvalue() else "")

    new = _BLOCK.sub(again, text)
    assert len(names) > 3
    if request.config.getoption("--update-golden"):
        page.write_text(new, encoding="utf-8")
    assert new == page.read_text(encoding="utf-8")

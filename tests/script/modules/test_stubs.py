"""The stubs of `I`, `R` and `T`: as the tool writes them, and good enough for a script."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.script.modules import test_modules
from tools.script_stubs import FOLDER, stubs

_TEXT = Path(test_modules.__file__).read_text(encoding="utf-8")
MODULES = _TEXT[_TEXT.index("@I.ir_module") : _TEXT.index("@R.function\ndef relax_mlp")]
HEAD = '# mypy: disable-error-code="valid-type"\nfrom legato.script import ir as I, relax as R, tir as T\n\n'


def test_stubs_are_what_the_tool_writes() -> None:
    for name, text in stubs().items():
        assert (FOLDER / f"{name}.pyi").read_text(encoding="utf-8") == text, "python -m tools.script_stubs"


def test_a_type_checker_takes_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone with the stubs; names that mean nothing are told at their lines."""
    api = pytest.importorskip("mypy.api")
    package = tmp_path / "legato/script"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.pyi").touch()
    for name in stubs():
        shutil.copy(FOLDER / f"{name}.pyi", package)
    monkeypatch.chdir(tmp_path)
    script = HEAD + MODULES
    (tmp_path / "good.py").write_text(script)
    (tmp_path / "wrong.py").write_text(script.replace("(lv,)", "(lv0,)").replace("T.grid(M, N)", "T.gird(M, N)"))
    limit = sys.getrecursionlimit()
    try:
        said, _, code = api.run(["--no-incremental", "--config-file=", "good.py", "wrong.py"])
    finally:
        sys.setrecursionlimit(limit)  # mypy raises it for the process
    assert code == 1, said
    assert "good.py" not in said, said
    assert 'Name "lv0" is not defined' in said
    assert 'Module has no attribute "gird"' in said

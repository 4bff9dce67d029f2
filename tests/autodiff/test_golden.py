"""What differentiation leaves, as text: one file per program, in the folder of its function of `legato.autodiff`.

`pytest --update-golden` rewrites what follows `# after`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import legato
from legato import autodiff
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.parser import parse
from legato.ir.verify import verify
from legato.ops import table as operators
from legato.transform.fold_constant import FoldConstant
from tests.autodiff.programs import arguments, assert_near

FOLDER = Path(__file__).parent / "golden"
CASES = [pytest.param(path, id=f"{path.parent.name}-{path.stem}") for path in sorted(FOLDER.glob("*/*.txt"))]
BEFORE, AFTER = "# before\n", "# after\n"


def read(path: Path) -> tuple[str, str]:
    """The two programs of a file."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith(BEFORE), "a golden file starts with # before"
    before, _, after = text.removeprefix(BEFORE).partition(AFTER)
    return before, after


@pytest.mark.parametrize("path", CASES)
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    before, after = read(path)
    new = getattr(autodiff, path.parent.name)(legato.parse(before))
    if request.config.getoption("--update-golden"):
        path.write_text(f"{BEFORE}{before.strip()}\n\n{AFTER}{str(new).strip()}\n", encoding="utf-8")
        return
    assert str(new).strip() == after.strip()
    verify(new)
    assert alpha_equal(infer(parse(after, ops=operators())), new)


@pytest.mark.parametrize("path", CASES)
def test_cleaning_keeps_the_meaning(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mod = legato.parse(read(path)[0])
    differentiate = getattr(autodiff, path.parent.name)
    clean = differentiate(mod)
    monkeypatch.setattr("legato.autodiff.program.CLEAN", (FoldConstant(growth=0),))
    raw = differentiate(mod)
    args = arguments(clean, seed=3)
    assert_near(evaluate(clean, args), evaluate(raw, args), 1e-14)

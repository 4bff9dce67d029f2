"""What each pass does, as text: one file per case, in the folder of its pass, with `# before` and `# after`.

`pytest --update-golden` rewrites what follows `# after`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.types import TensorType, TupleType, Type
from legato.ir.verify import verify
from legato.ops import table as operators
from legato.transform import table
from tests.graphs import concrete_type, leaves, random_array

FOLDER = Path(__file__).parent / "golden"
CASES = sorted(FOLDER.glob("*/*.txt"))
ROUNDS = {"low-precision": 2e-2, "mixed-precision": 2e-2}  # the error of passes that are allowed to round
KEEPING = [p for p in CASES if table()[p.parent.name].keeps_meaning]
BEFORE, AFTER = "# before\n", "# after\n"


def read(path: Path) -> tuple[str, str]:
    """The two programs of a file."""
    text = path.read_text()
    assert text.startswith(BEFORE), "a golden file starts with # before"
    before, _, after = text.removeprefix(BEFORE).partition(AFTER)
    return before, after


def load(text: str, name: str) -> Module:
    """The module of `text`: typed, unless typing it is what is tested."""
    module = parse(text, ops=operators())
    return module if name == "infer-types" else infer(module)


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    before, after = read(path)
    name = path.parent.name
    old = load(before, name)
    new = table()[name]()(old)
    if request.config.getoption("--update-golden"):
        path.write_text(f"{BEFORE}{before.strip()}\n\n{AFTER}{str(new).strip()}\n")
        return
    assert str(new).strip() == after.strip()
    verify(new)
    assert alpha_equal(infer(parse(after, ops=operators())), new)


@pytest.mark.parametrize("path", KEEPING, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_the_meaning_stays(path: Path) -> None:
    name = path.parent.name
    old = load(read(path)[0], name)
    new = table()[name]()(old)
    main = infer(old)["main"]
    assert isinstance(main, Function)
    rng = np.random.default_rng(5)
    error = ROUNDS.get(name, 1e-6)
    args = [argument(p.ty, rng) for p in main.params]
    for g, w in zip(leaves(evaluate(new, args)), leaves(evaluate(old, args)), strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        np.testing.assert_allclose(g, w, rtol=10 * error, atol=error)


def argument(ty: Type | None, rng: np.random.Generator) -> Any:
    """A random value of a type of tensors, symbolic dims being 3."""
    if isinstance(ty, TupleType):
        return tuple(argument(f, rng) for f in ty.fields)
    assert isinstance(ty, TensorType)
    return random_array(rng, concrete_type(ty, 3), ty.dtype.numpy)


@pytest.mark.parametrize("path", KEEPING, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_twice_is_once(path: Path) -> None:
    name = path.parent.name
    once = table()[name]()(load(read(path)[0], name))
    assert table()[name]()(once) is once


def test_every_pass_has_a_case() -> None:
    assert {p.parent.name for p in CASES} == set(table())

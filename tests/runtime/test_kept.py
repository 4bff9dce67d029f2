"""Compiled files stay loadable for as long as the numbers of format and runtime do (docs/versions.md).

`python tests/runtime/test_kept.py` writes the file for the numbers of now: once for each, and never again, since the
file shows that later sources read what earlier ones wrote.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import legato
from legato.base.errors import ArtifactError
from legato.runtime.program import ABI, FORMAT

FOLDER = Path(__file__).with_name("kept")
PROGRAM = """
#[version = "0.0.5"]
def @main[n: ShapeVar](%x: Tensor[(n, 4), float32], %t: Tree[int32], %w: Tensor[(3, 4), float32]) {
  (nn.softmax(nn.dense(%x, %w)), @size(%t), strided_slice(%x, begin=[0], end=[1], axes=[1]))
}
"""
W = np.arange(12, dtype="float32").reshape(3, 4) / 8
NOW = f"format-{FORMAT}-runtime-{ABI}.artifact"


def kept() -> list[Path]:
    return sorted(FOLDER.glob("*.artifact"))


def test_there_is_a_file_of_these_numbers() -> None:
    assert NOW in {path.name for path in kept()}, f"python {Path(__file__).name}"


@pytest.mark.parametrize("path", kept(), ids=lambda p: p.stem)
def test_a_file_that_was_kept(path: Path) -> None:
    if path.name != NOW:
        with pytest.raises(ArtifactError, match=r"has format|version \d+ of the runtime"):
            legato.load(path)
        return
    exe = legato.load(path)
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", exe.program.version)
    rose, cons, nil = (exe.constructors[name] for name in ("Rose", "Cons", "Nil"))
    tree = rose(np.int32(1), cons(rose(np.int32(2), nil()), nil()))
    for n in (1, 5):
        x = np.random.default_rng(n).random((n, 4), "float32")
        shares, size, column = exe(x, tree)
        wanted = np.exp(x @ W.T)
        np.testing.assert_allclose(shares, wanted / wanted.sum(axis=1, keepdims=True), rtol=1e-5)
        assert size == 2
        np.testing.assert_array_equal(column, x[:, :1])


if __name__ == "__main__":
    if (FOLDER / NOW).exists():
        sys.exit(f"{NOW} is there: a file that is kept is not written again")
    legato.compile(legato.parse(PROGRAM), target="x86-64-v2", constants={"w": W}).save(FOLDER / NOW)

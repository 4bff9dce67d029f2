"""Dims that only terms of extents tell: compiled programs take what the interpreter takes, and give the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import legato
from legato.base.errors import RunError, UnsupportedError
from legato.interp import evaluate
from tests.programs.values import same

PROGRAMS = {
    "twice": "(%x: Tensor[(2 * n,), float32]) { (zeros(shape=[n]), %x + 1f) }",
    "plus": "(%x: Tensor[(n + 2,), float32]) { (zeros(shape=[n]), %x) }",
    "bounded": "[n: ShapeVar(1, 2)](%x: Tensor[(2 * n,), float32]) { (zeros(shape=[n]), %x) }",
    "one size": "[n: ShapeVar(3, 3)](%x: Tensor[(n,), float32]) { (zeros(shape=[n]), %x) }",
    "a tuple": "(%x: Tensor[(3 * n + 1,), float32]) { let %t = (%x, %x); zeros(shape=[n + 1]) }",
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_what_fits_is_taken(text: str) -> None:
    module = legato.parse(f'#[version = "0.0.5"]\ndef @main{text}')
    exe = legato.compile(module)
    for n in range(8):
        x = np.arange(n, dtype=np.float32)
        try:
            wanted = evaluate(module, [x])
        except RunError:
            with pytest.raises(RunError):
                exe(x)
        else:
            assert same(exe(x), wanted)


@pytest.mark.parametrize("shapes", [[(3, 3), (3,)], [(2, 6), (2,)], [(1, 3), (1,)], [(4, 4), (3,)], [(3, 3), (4,)]])
def test_one_dim_after_the_other(shapes: Sequence[tuple[int, ...]]) -> None:
    text = "%x: Tensor[(n + 2, m * 3), float32], %y: Tensor[(n * 2 + m,), float32]"
    module = legato.parse(
        f'#[version = "0.0.5"]\ndef @main({text}) {{ (reshape(%x, newshape=[m, -1]), zeros(shape=[n])) }}'
    )
    args = [np.ones(shape, np.float32) for shape in shapes]
    exe = legato.compile(module)
    try:
        wanted = evaluate(module, args)
    except RunError:
        with pytest.raises(RunError):
            exe(*args)
    else:
        assert same(exe(*args), wanted)


def test_squares_tell_nothing() -> None:
    with pytest.raises(UnsupportedError, match="not plain extents"):
        legato.compile(legato.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(n * n,), float32]) { %x }'))

"""Modules over what TVM's scripts have: parsed, printed and parsed again, verified, compiled = interpreted = TVM.

`expected.json` has what apache-tvm 0.27 gave for them (`make tvm`, which asks it again).
"""

from __future__ import annotations

import json

import pytest

from tests.script.modules.tvm.agree import compiled, difference
from tests.script.modules.tvm.cases import FOLDER, Case, cases
from tests.script.modules.tvm.peer import decoded
from tests.script.modules.tvm.translate import translated

CASES = cases()
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", [c for c in CASES.values() if c.reason is None], ids=lambda c: c.name)
@pytest.mark.shared(3)
def test_module(case: Case) -> None:
    for ours, theirs in zip(compiled(case), EXPECTED[case.name], strict=True):
        assert difference(ours, decoded(theirs)) is None


def test_share() -> None:
    agree = [c for c in CASES.values() if c.reason is None]
    assert len(agree) >= 60
    assert len(agree) >= 0.85 * len(CASES)


def test_spellings() -> None:
    text = translated("""
@T.prim_func(private=True)
def k(x: T.handle):
    X = T.match_buffer(x, (4,), 'float32')
    t = T.alloc_buffer((4,), 'float32')
    for i in range(4):
        c = T.alloc_buffer((1,), 'float32')
        with T.block('b'):
            T.block_attr({'a': 1})
            d = T.alloc_buffer((1,), 'float32')
            X[i] = R.call_tir(t, out_sinfo=c)
""")
    assert (
        text
        == """@T.prim_func(s_tir=True, private=True)
def k(x: T.handle):
    X = T.match_buffer(x, (4,), 'float32')
    t = T.sblock_alloc_buffer((4,), 'float32')
    for i in range(4):
        c = T.alloc_buffer((1,), 'float32')
        with T.sblock('b'):
            T.sblock_attr({'a': 1})
            d = T.sblock_alloc_buffer((1,), 'float32')
            X[i] = R.call_tir(t, out_ty=c)
"""
    )

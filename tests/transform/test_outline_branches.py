"""Branches may nest as deeply as one likes: functions of their own take what lies deep."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.interp import evaluate
from legato.ir.module import Module
from legato.transform.outline_branches import OutlineBranches
from tests.programs.values import same


def chain(n: int) -> Module:
    """A chain of n else-ifs, with a cell that counts some of them."""
    ifs = "".join(
        f"if (%x == {k}) {{ {k * k} }} else {{ {'ref_write(%r, ref_read(%r) + 1); ' if k % 7 == 0 else ''}"
        for k in range(n)
    )
    text = f"def @main(%x: int32) {{ let %r = ref(0); let %y = {ifs} 0 - 1 {'}' * n}; (%y, ref_read(%r)) }}"
    return legato.parse(f'#[version = "0.0.5"]\n{text}')


@pytest.mark.parametrize("n", [49, 51, 101, 160])
def test_chains_of_branches(n: int) -> None:
    module = chain(n)
    new, exe = OutlineBranches()(module), legato.compile(module)
    assert (new is module) == (n <= 50)
    assert OutlineBranches()(new) is new
    for x in (0, n // 2, n - 1, n):
        args = [np.array(x, np.int32)]
        wanted = evaluate(module, args)
        assert same(exe(*args), wanted)
        assert same(evaluate(new, args), wanted)

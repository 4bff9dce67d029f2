"""Ranges that a script states: checked where they are about values, and no proof where they are about loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError, LegatoError, RunError
from legato.interp import evaluate
from legato.ir.module import Module
from legato.script import parse

X = np.arange(8, dtype=np.float32)
KERNEL = """
@I.ir_module
class M:
    @T.prim_func
    def k(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32"), s: T.bounded(1, 4)):
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                Y[v] = X[v + s]
    @R.function
    def main(x: R.Tensor((8,), "float32"), y: R.Tensor(("n",), "float32")):
        n = T.int64()
        return R.call_tir(M.k, (x,), out_ty=R.Tensor((8,), "float32"), tir_vars=R.shape([n]))
"""
CAST = """
@R.function(bounds={"n": (2, 5)})
def main(x: R.Tensor(("k",), "float32")):
    k, n = T.int64(), T.int64()
    y = R.match_cast(x, R.Tensor((n,), "float32"))
    return R.add(y, y)
"""
FOUND = """
@R.function(bounds={"n": (2, 5)})
def main(x: R.Tensor(("k",), "float32")):
    k, n = T.int64(), T.int64()
    y = R.match_cast(R.nonzero(x), R.Tensor((1, n), "int64"))
    return R.add(y, y)
"""
ANNOTATED = """
@R.function(bounds={"n": (2, 5)})
def main(x: R.Tensor(("k",), "float32")):
    k = T.int64()
    y: R.Tensor(("n",), "float32") = R.add(x, x)
    return y
"""


def _both(mod: Module, *args: Any) -> np.ndarray[Any, Any]:
    """What a call gives, interpreted and compiled. LegatoError where either says so, and both do."""
    ways = (lambda: evaluate(mod, list(args)), lambda: legato.compile(mod)(*args))
    found, faults = [], []
    for way in ways:
        try:
            found.append(np.asarray(way()))
        except LegatoError as error:
            faults.append(error)
    if faults:
        assert len(faults) == 2
        raise faults[1]
    np.testing.assert_array_equal(found[0], found[1])
    return found[1]


@pytest.mark.parametrize("n", [0, 1, 4, 5, 3_000_000])
def test_an_index_parameter_is_in_its_range(n: int) -> None:
    mod, sized = parse(KERNEL), np.zeros(n, np.float32)
    if 1 <= n <= 4:
        np.testing.assert_array_equal(_both(mod, X, sized)[:4], X[n : n + 4])
    else:
        with pytest.raises(RunError, match="1 <= n <= 4"):
            _both(mod, X, sized)
        with pytest.raises(CompileError, match="s of @k, in its range: the dims differ"):
            parse(KERNEL.replace("R.shape([n])", f"R.shape([{n}])"))


@pytest.mark.parametrize("text", [CAST, FOUND, ANNOTATED])
@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_a_dim_that_is_named_is_in_its_range(text: str, n: int) -> None:
    mod, given = parse(text), np.ones(n, np.float32)
    if 2 <= n <= 5:
        assert _both(mod, given).size == n
    else:
        with pytest.raises(RunError, match="range"):
            _both(mod, given)


@pytest.mark.parametrize(
    "loop",
    [
        "for i in T.serial(4000000, bounds=(0, 7)): Y[i] = X[i]",
        "for i in T.serial(-4000000, 8, bounds=(0, 7)): Y[i] = X[i]",
        "i = T.let(N[0], bounds=(0, 7))\n        Y[0] = X[i]",
    ],
)
def test_what_is_said_of_a_loop_or_a_let_proves_nothing(loop: str) -> None:
    mod = parse(f"""
@I.ir_module
class M:
    @T.prim_func
    def k(X: T.Buffer((8,), "float32"), N: T.Buffer((1,), "int64"), Y: T.Buffer((8,), "float32")):
        {loop}
    @R.function
    def main(x: R.Tensor((8,), "float32"), n: R.Tensor((1,), "int64")):
        return R.call_tir(M.k, (x, n), out_ty=R.Tensor((8,), "float32"))
""")
    with pytest.raises(RunError, match=r"kernel k reads X\[-?\d+\], whose extents are \[8\]"):
        _both(mod, X, np.array([4_000_000]))

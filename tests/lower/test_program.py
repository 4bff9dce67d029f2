"""Stages given as loop programs: which of their loops the threads share, and that the kernel means the same."""

from __future__ import annotations

import numpy as np
import pytest

from legato.arith.expr import Expr, Var, const, ge, le
from legato.base import dtype as dt
from legato.lower.rules.program import threaded
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.interp import run
from legato.tir.stmt import Alloc, For, Func, If, LoopKind, Stmt, Store, block
from legato.tir.verify import verify
from legato.tir.walk import loops

i, j, k = (Var(name, lo=0) for name in "ijk")


def shared(func: Func) -> list[str]:
    """The names of the loops that the threads share, after `threaded`."""
    divided = threaded(func)
    verify(divided, final=True)
    return [s.var.name for s in loops(divided) if s.kind is LoopKind.PARALLEL]


def sums(*outer: Expr | int) -> Func:
    """Running sums along the last of three axes."""
    shape = [const(d) if isinstance(d, int) else d for d in (*outer, 100)]
    x, y = (Buffer(name, tuple(shape), dt.int32) for name in "xy")
    state = Buffer("state", (const(1),), dt.int32, scope=Scope.LOCAL)
    at, total = (i, j, k), Load(state, (const(0),))
    step = block(Store(state, (const(0),), total + Load(x, at)), Store(y, at, total))
    body: Stmt = Alloc(state, block(Store(state, (const(0),), const(0, dt.int32)), For(k, const(100), step)))
    for var, extent in reversed(list(zip((i, j), x.shape[:2], strict=True))):
        body = For(var, extent, body)
    dims = [d for d in outer if isinstance(d, Var)]
    return Func("sums", (x, y, *dims), body)


@pytest.mark.parametrize(
    ("outer", "expected"),
    [
        ((64, 50), ["i"]),
        ((2, 100), ["ij"]),  # too few iterations for the threads to share evenly
        ((2, 2), []),  # not worth a fork-join
        ((Var("n", lo=0), 50), ["ij"]),
    ],
    ids=str,
)
def test_loops_that_are_shared(outer: tuple[Expr | int, ...], expected: list[str]) -> None:
    assert shared(sums(*outer)) == expected


@pytest.mark.parametrize("backwards", [False, True])
def test_the_meaning_stays(backwards: bool) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (2, 100, 100)).astype("int32")
    y = np.zeros_like(x)
    run(threaded(sums(2, 100)), [x, y], backwards=backwards)
    np.testing.assert_array_equal(y, x.cumsum(2))


def test_a_dependence_keeps_the_kernel_on_one_thread() -> None:
    x, y = Buffer("x", (const(100_000),), dt.int32), Buffer("y", (const(10),), dt.int32)
    func = Func(
        "last",
        (x, y),
        For(i, const(100_000), If(ge(Load(x, (i,)), const(0, dt.int32)), Store(y, (const(3),), Load(x, (i,))))),
    )
    assert threaded(func) is func


def test_all_loops_or_none() -> None:
    x, y, z = (Buffer(name, (const(100_000),), dt.int32) for name in "xyz")
    first, second = (
        For(i, const(100_000), Store(y, (i,), Load(x, (i,)))),
        For(j, const(100_000), Store(z, (j,), Load(x, (j,)))),
    )
    assert shared(Func("two", (x, y, z), block(first, second))) == ["i", "j"]
    reads = For(j, const(100_000), Store(z, (j,), Load(y, (const(99_999) - j,))))
    assert shared(Func("chain", (x, y, z), block(first, reads))) == []
    alone = If(le(const(0), x.shape[0]), Store(z, (const(0),), Load(x, (const(0),))))
    assert shared(Func("beside", (x, y, z), block(first, alone))) == []

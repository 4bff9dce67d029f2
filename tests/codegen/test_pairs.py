"""Pairs of bfloat16 and their dot products: how pairs are loaded, and what every target computes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from legato.arith.expr import Expr, const, lt, select
from legato.base import dtype as dt
from legato.base.target import TARGETS, Target, target
from legato.codegen.compile import assembly
from legato.codegen.emit import emit_module
from legato.tir.expr import call as intrinsic
from legato.tir.expr import cast
from legato.tir.stmt import Func
from tests.codegen.programs import at, buffer, index, loop, put
from tests.codegen.running import run
from tests.machines import each

BF16 = target("x86-64-v4+avx512bf16")
LANES = (1, 3, 4, 8, 16, 32)


def bits(values: np.ndarray) -> np.ndarray:
    """The 16 bits of numbers as bfloat16."""
    return values.astype(dt.bfloat16.numpy).view(np.uint16).astype(np.uint32)


def numbers(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(dt.bfloat16.numpy)


def words(values: np.ndarray) -> np.ndarray:
    """Neighbours as words."""
    return np.ascontiguousarray(values).view(np.uint32)


@pytest.mark.parametrize("machine", each(*TARGETS.values(), BF16))
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    ("first", "second"),
    [(lambda i: i * 2, lambda i: i * 2 + 1),  # words in a row
     (lambda i: i * 5, lambda i: i * 5 + 1),  # words apart
     (lambda i: i, lambda i: i + 1),  # words that overlap
     (lambda i: const(6), lambda i: const(7)),  # one for all
     (lambda i: i, lambda i: i + 9)],  # no neighbours
    ids=["run", "apart", "overlapping", "one", "distant"],
)  # fmt: skip
def test_pairs_are_read(
    machine: Target, lanes: int, first: Callable[[Expr], Expr], second: Callable[[Expr], Expr]
) -> None:
    x, y, i = buffer("x", (5 * lanes + 12,), dt.bfloat16), buffer("y", (lanes,), dt.uint32), index()
    body = loop(i, lanes, put(y, (i,), intrinsic("pair", at(x, first(i)), at(x, second(i)))), "vector")
    data, got = numbers(5 * lanes + 12), np.zeros(lanes, np.uint32)
    run(Func("f", (x, y), body), [data, got], machine)
    places = [[int(str(f(const(n)))) for n in range(lanes)] for f in (first, second)]
    low, high = (bits(data[p]) for p in places)
    np.testing.assert_array_equal(got, low | high << 16)


@pytest.mark.parametrize("machine", each(*TARGETS.values(), BF16))
def test_the_last_of_a_pair_may_be_missing(machine: Target) -> None:
    """Nothing is read where a Select or a mask excludes it."""
    x, y, i = buffer("x", (31,), dt.bfloat16), buffer("y", (16,), dt.uint32), index()
    zero = const(0.0, dt.bfloat16)
    high = select(lt(i * 2 + 1, const(31)), at(x, i * 2 + 1), zero)
    body = loop(i, 16, put(y, (i,), intrinsic("pair", at(x, i * 2), high)), "vector")
    data, got = numbers(31), np.zeros(16, np.uint32)
    run(Func("f", (x, y), body), [data, got], machine)
    np.testing.assert_array_equal(got, words(np.append(data, dt.bfloat16.numpy.type(0))))


def dot(lanes: int, broadcast: bool) -> Func:
    """z[l] = z[l] + a · b for words of lane l, or one word of a for all."""
    a, b = (buffer(n, (2 * lanes,), dt.bfloat16) for n in "ab")
    z, i = buffer("z", (lanes,)), index()
    left = intrinsic("pair", *(at(a, const(n) if broadcast else i * 2 + n) for n in (0, 1)))
    right = intrinsic("pair", at(b, i * 2), at(b, i * 2 + 1))
    return Func("f", (a, b, z), loop(i, lanes, put(z, (i,), intrinsic("dot2", at(z, i), left, right)), "vector"))


@pytest.mark.parametrize("machine", each(*TARGETS.values(), BF16))
@pytest.mark.parametrize("broadcast", [False, True], ids=["lanes", "broadcast"])
@pytest.mark.parametrize("lanes", LANES)
def test_dot_products(machine: Target, lanes: int, broadcast: bool) -> None:
    a, b = numbers(2 * lanes, 1), numbers(2 * lanes, 2)
    z = np.linspace(-1, 1, lanes).astype(np.float32)
    pairs = np.broadcast_to(a[:2], (lanes, 2)) if broadcast else a.reshape(lanes, 2)
    products = pairs.astype(np.float64) * b.reshape(lanes, 2).astype(np.float64)
    got = z.copy()
    run(dot(lanes, broadcast), [a, b, got], machine)
    size = np.abs(products).sum(1) + np.abs(z)
    assert np.all(np.abs(got - (z + products.sum(1))) <= 2.0**-23 * size)


def test_the_machine_has_an_instruction_for_it() -> None:
    for lanes, register in ((16, "zmm"), (8, "ymm"), (4, "xmm")):
        text = assembly(emit_module([dot(lanes, True)], BF16, {}), BF16)
        assert sum("vdpbf16ps" in line and register in line for line in text.splitlines()) == 1
    plain = target("x86-64-v4")
    assert "vdpbf16ps" not in assembly(emit_module([dot(16, True)], plain, {}), plain)


@pytest.mark.parametrize("machine", each(*TARGETS.values(), BF16))
def test_rounding_to_bfloat16(machine: Target) -> None:
    """To nearest even; infinities, NaNs and subnormal numbers are kept, whatever the machine's own instruction does."""
    info = np.finfo(np.float32)
    edges = [
        0.0,
        -0.0,
        1 + 2.0**-8,
        1 + 3 * 2.0**-8,
        1 + 2.0**-8 + 2.0**-20,
        np.inf,
        -np.inf,
        np.nan,
        info.max,
        -1.5,
        1e-40,
    ]
    data = np.concatenate([edges, np.random.default_rng(0).standard_normal(64 - len(edges)) * 1e3]).astype(np.float32)
    x, y, i = buffer("x", (64,)), buffer("y", (64,), dt.bfloat16), index()
    lane = index()
    j = i * 16 + lane
    value = cast(at(x, j), dt.bfloat16)
    got = np.zeros(64, dt.bfloat16.numpy)
    run(Func("f", (x, y), loop(i, 4, loop(lane, 16, put(y, (j,), value), "vector"))), [data, got], machine)
    wanted = data.astype(dt.bfloat16.numpy)
    np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(np.float32))

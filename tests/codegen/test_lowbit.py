"""Conversions of numbers in at most 8 bits: compiled = NumPy's (ml_dtypes'), bit for bit, on every level of machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from legato.arith.expr import Expr, const, max_, select
from legato.base import dtype as dt
from legato.base.dtype import ALL_DTYPES, STORAGE_DTYPES, DType
from legato.base.target import Target
from legato.ops._dtypes import convert
from legato.te.math import reinterpret
from legato.tir import interp
from legato.tir.expr import cast
from legato.tir.parser import parse_func
from legato.tir.stmt import Func, block
from tests.codegen.programs import at, buffer, index, loop, put
from tests.codegen.running import build, check
from tests.machines import LEVELS

Array = np.ndarray[Any, Any]
LANES = 16
CODES = np.arange(256, dtype=np.uint8)


@cache
def numbers(kind: DType) -> Array:
    """All values of 16 bits or less; of wider floats those around every number and every halfway case of a narrow
    format, of all sizes and none, and random bits; of integers the edges and random ones."""
    rng = np.random.default_rng(7)
    if kind.bits == 8:
        return (CODES % 2 if kind.is_bool else CODES).view(kind.numpy)
    if kind.bits == 16:
        return np.arange(1 << 16, dtype=np.uint16).view(kind.numpy)
    if kind.is_int:
        edges = np.array([*range(-300, 600), 57344, 61440, 61441]).astype(kind.numpy)
        bits = rng.integers(0, 256, (600, kind.bytes), np.uint8).view(kind.numpy).ravel()
        return np.concatenate([edges, bits, np.array([kind.min, kind.max, kind.max // 2 + 1], kind.numpy)])
    with np.errstate(all="ignore"):
        every = np.concatenate([CODES.view(d.numpy).astype(np.float64) for d in STORAGE_DTYPES])
        every = np.unique(np.abs(every[np.isfinite(every)]))
        every = np.concatenate(
            [every, every[-1:] * 2, [0.0, 2.0**-128, 2.0**-129, 1e-45, 1e-300, 1e300, np.inf, np.nan]]
        )
        halfway = (every[1:] + every[:-1]) / 2
        near = np.concatenate([every, halfway, halfway * 1.5]).astype(kind.numpy)
        near = np.concatenate([near, *(np.nextafter(near, kind.numpy.type(end)) for end in (0, np.inf))])
        bits = rng.integers(0, 256, (4096, kind.bytes), np.uint8).view(kind.numpy).ravel()
        sizes = (rng.standard_normal(4096) * 2.0 ** rng.integers(-32, 32, 4096)).astype(kind.numpy)
        return np.concatenate([near, -near, bits, sizes])


def given(kind: DType) -> Array:
    """`numbers`, as many as make whole vectors."""
    found = numbers(kind)
    return np.resize(found, -(-len(found) // LANES) * LANES)


def conversion(
    source: DType, target: DType, count: int, f: Callable[[Expr], Expr] | None = None, name: str = "of"
) -> Func:
    """A kernel that converts by scalars, and by vectors: by `f`, or a cast."""
    f = f or partial(cast, dtype=target)
    x, one, many = buffer("x", (count,), source), buffer("one", (count,), target), buffer("many", (count,), target)
    i, outer, lane = index("i"), index("o"), index("l")
    j = outer * LANES + lane
    vectors = loop(outer, count // LANES, loop(lane, LANES, put(many, (j,), f(at(x, j))), "vector"))
    scalars = loop(i, count, put(one, (i,), f(at(x, i))))
    return Func(f"{target}_{name}_{source}", (x, one, many), block(scalars, vectors))


def same(got: Array, want: Array) -> None:
    """Equal bits; of NaN among wide floats only that they are NaN."""
    if dt.dtype(want.dtype).is_float:
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        got, want = (np.where(np.isnan(want), want.dtype.type(0), x) for x in (got, want))
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize("machine", LEVELS, ids=str)
@pytest.mark.parametrize("kind", STORAGE_DTYPES, ids=str)
@pytest.mark.shared(4)
def test_compiled(kind: DType, machine: Target) -> None:
    pairs = [p for other in (*ALL_DTYPES, *STORAGE_DTYPES) for p in ((kind, other), (other, kind)) if p[0] != p[1]]
    kernels = build([conversion(source, target, len(given(source))) for source, target in pairs], machine)
    for source, target in pairs:
        x = given(source)
        found = [np.zeros(len(x), target.numpy) for _ in range(2)]
        words = np.array([a.ctypes.data for a in (x, *found)], np.int64)
        assert kernels.kernel(f"{target}_of_{source}")(words.ctypes.data, 0, 1) == 0
        with np.errstate(all="ignore"):
            want = convert(x, target)
        for got in found:
            same(got, want)


@pytest.mark.parametrize("kind", STORAGE_DTYPES, ids=str)
def test_interpreted(kind: DType) -> None:
    """The interpreter of loop programs converts by the same rules."""
    for other in (dt.float32, dt.float64, dt.bool_, dt.int8, dt.uint64, *STORAGE_DTYPES[:1], *STORAGE_DTYPES[-2:]):
        for source, target in ((kind, other), (other, kind)):
            x, outs = np.resize(numbers(source), 64), [np.zeros(64, target.numpy) for _ in range(2)]
            assert interp.run(conversion(source, target, 64), [x, *outs]) == 0
            for got in outs:
                same(got, convert(x, target))


def patterns(kind: DType) -> Array:
    """Elements of all bits, of which there are many."""
    x = np.arange(0, 1 << 16, 7, np.uint64)[: 512 * LANES]
    if kind.bits > 16:
        x = x * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - kind.bits)
    return (x & np.uint64((1 << kind.width) - 1)).astype(f"u{kind.bytes}").view(kind.numpy)


def bits_kernel(source: DType, target: DType, x: Array) -> Func:
    return conversion(source, target, len(x), lambda e: reinterpret(e, target), "bits")


@pytest.mark.parametrize("machine", LEVELS, ids=str)
def test_bits(machine: Target) -> None:
    """`as_X` keeps all bits, those of NaN as well, by scalars and by vectors."""
    kinds = [d for d in (*ALL_DTYPES, *STORAGE_DTYPES) if not d.is_bool]
    pairs = [(s, t) for s in kinds for t in kinds if s != t and s.width == t.width]
    kernels = build([bits_kernel(s, t, patterns(s)) for s, t in pairs], machine)
    for source, target in pairs:
        x = patterns(source)
        found = [np.zeros(len(x), target.numpy) for _ in range(2)]
        words = np.array([a.ctypes.data for a in (x, *found)], np.int64)
        assert kernels.kernel(f"{target}_bits_{source}")(words.ctypes.data, 0, 1) == 0
        for got in found:
            assert got.tobytes() == x.tobytes(), (source, target)


def test_bits_of_what_is_computed() -> None:
    """Floats of 16 bits are wider in registers; a bool is a byte."""
    for source, target in (
        (dt.float16, dt.int16),
        (dt.bfloat16, dt.uint16),
        (dt.float32, dt.int32),
        (dt.bool_, dt.uint8),
    ):
        x = np.resize(np.array([1.5, -0.25, 0.0, 3.0]).astype(source.numpy), 2 * LANES)
        outs = [np.zeros(len(x), target.numpy) for _ in range(2)]

        def twice(e: Expr, kind: DType = target) -> Expr:
            return reinterpret(select(const(True, dt.bool_), max_(e, e), e), kind)

        check(conversion(source, target, len(x), twice), [x, *outs])
        assert outs[0].tobytes() == x.tobytes()
    given = np.resize(np.array([0, 1, 2, 255], np.uint8), 2 * LANES)
    outs = [np.zeros(len(given), np.bool_) for _ in range(2)]
    check(conversion(dt.uint8, dt.bool_, len(given), lambda e: reinterpret(e, dt.bool_)), [given, *outs])
    np.testing.assert_array_equal(outs[0], given != 0)


def test_text() -> None:
    """Kernels that convert come back from their text; literals are those of float32, cast."""
    for source, target in ((dt.float32, STORAGE_DTYPES[0]), (STORAGE_DTYPES[-1], dt.int8)):
        for func in (conversion(source, target, LANES), bits_kernel(dt.uint8, STORAGE_DTYPES[0], patterns(dt.uint8))):
            assert str(parse_func(str(func))) == str(func)
    assert str(const(1.5, STORAGE_DTYPES[0])) == "float8_e4m3fn(1.5f)"

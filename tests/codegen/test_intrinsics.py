"""Elementary functions: error in units in the last place against a wider reference, and every special value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato.arith.expr import Op, binary
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.target import Target
from legato.tir.expr import call
from legato.tir.intrinsics import INTRINSICS
from legato.tir.stmt import Func
from tests.codegen.programs import at, buffer, index, loop, put
from tests.codegen.running import RUNNABLE, run
from tests.codegen.test_arithmetic import elementwise, pairs
from tests.machines import EVERY

UNARY = [i.name for i in INTRINSICS.values() if i.bound and i.arity == 1]
LANES = 16


def compiled(name: str, args: list[np.ndarray], dtype: DType, target: Target) -> np.ndarray:
    n = len(args[0])
    ins, out = [buffer(f"x{k}", (n,), dtype) for k in range(len(args))], buffer("out", (n,), dtype)
    i, lane = index(), index()
    j = i * LANES + lane
    body = loop(i, n // LANES, loop(lane, LANES, put(out, (j,), call(name, *(at(b, j) for b in ins))), "vector"))
    result = np.zeros(n, dtype.numpy)
    run(Func("f", (*ins, out), body), [*args, result], target)
    return result


def samples(dtype: DType, count: int) -> np.ndarray:
    """Normal and uniform numbers of several sizes, every exponent, random bits, and the edges."""
    rng, info = np.random.default_rng(0), np.finfo(dtype.numpy)
    kind = dtype.numpy
    bits = rng.integers(0, np.iinfo(f"u{dtype.bytes}").max, count, f"u{dtype.bytes}").view(kind)
    parts = [
        *(rng.standard_normal(count) * s for s in (1, 10, 100)),
        rng.uniform(-1, 1, count),
        np.linspace(-20, 20, count),
        2.0 ** rng.uniform(-30, 30, count) * rng.choice([-1, 1], count),
    ]
    edges = [0.0, 1, 0.5, 2, 3, 1e5, 1e10, 88.7, 89.3, 104, 709.7, 745, np.inf, np.nan, info.tiny, info.max,
             info.smallest_subnormal, 1 - info.epsneg, 1 + info.eps, 0.5 + info.epsneg, np.pi / 2, np.pi]  # fmt: skip
    edges = [s * np.asarray(e, kind) for e in edges for s in (1, -1)]
    result = np.concatenate([np.concatenate(parts).astype(kind), bits, np.array(edges, kind)])
    return np.resize(result, -(-len(result) // LANES) * LANES)


def exact(name: str, args: list[np.ndarray], dtype: DType) -> np.ndarray:
    """The reference in a wider type; for erf in float64 there is none, and the reference itself is exact to 1 ulp."""
    wide = np.float64 if dtype.bits == 32 or name == "erf" else np.longdouble
    return np.asarray(INTRINSICS[name].reference(*[a.astype(wide) for a in args]))


def ulps(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Error in units of the last place of the rounded result; infinite where NaN or infinity are out of place."""
    rounded = expected.astype(actual.dtype)
    limit = np.finfo(actual.dtype).max
    unit = np.spacing(np.minimum(np.abs(rounded), limit)).astype(expected.dtype)
    error = np.abs(actual.astype(expected.dtype) - expected) / unit
    same = (actual == rounded) | (np.isnan(actual) & np.isnan(rounded))
    error = np.where(same & ~np.isfinite(error), 0, error)
    # One unit beyond the largest number is infinity.
    near_limit = np.isinf(actual) != np.isinf(rounded)
    error = np.where(near_limit & (np.abs(expected) >= limit * (1 - 1e-7)), 1, error)
    return np.where(np.isnan(error), np.inf, error)


def check_error(name: str, args: list[np.ndarray], dtype: DType, target: Target) -> None:
    with np.errstate(all="ignore"):
        actual, expected = compiled(name, args, dtype, target), exact(name, args, dtype)
        error = ulps(actual, expected)
        worst = int(np.argmax(error))
        where = ", ".join(repr(a[worst]) for a in args)
        got = f"{name}({where}) = {actual[worst]!r}, wanted {expected[worst]!r}"
        assert error[worst] <= INTRINSICS[name].bound, got
        reference = INTRINSICS[name].reference(*args)
        zero = (reference == 0) & (actual == 0)
        np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(reference[zero]), err_msg=f"zeros of {name}")


@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=str)
def test_error_is_within_the_bound(name: str, dtype: DType, target: Target) -> None:
    with np.errstate(all="ignore"):
        x = samples(dtype, 1 << 12)
    check_error(name, [x], dtype, target)


@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=str)
@pytest.mark.shared(3)
def test_subnormal_numbers_may_count_as_zero(name: str, dtype: DType, target: Target, torch: Any) -> None:
    """No other number depends on whether they do, unless one of them is its exact value."""
    with np.errstate(all="ignore"):
        x, tiny = samples(dtype, 1 << 10), np.finfo(dtype.numpy).tiny
        kept = compiled(name, [x], dtype, target)
    assert torch.set_flush_denormal(True)
    try:
        flushed = compiled(name, [x], dtype, target)
    finally:
        torch.set_flush_denormal(False)
    normal = ~((np.abs(x) < tiny) | (np.abs(kept) <= tiny))
    np.testing.assert_array_equal(flushed[normal], kept[normal])
    assert (flushed[(np.abs(kept) < tiny) & (np.abs(x) >= tiny)] == 0).all()


def power_samples(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """Edges with edges; powers up to the largest; bases close to 1; negative bases."""
    rng, info, kind = np.random.default_rng(1), np.finfo(dtype.numpy), dtype.numpy
    edges = [0.0, 1, 2, 0.5, 3, 1.5, np.inf, np.nan, 1e-10, 1e10, 1e30, info.smallest_subnormal, 1 + info.eps,
             1 - info.epsneg, 1023, 1024, 2.0**53 + 2]  # fmt: skip
    values = np.array([s * e for e in edges for s in (1, -1)]).astype(kind)
    a, b = (g.ravel() for g in np.meshgrid(values, values))
    n, limit = 1 << 12, 700 if dtype.bits == 64 else 86
    bases = np.concatenate([np.exp(rng.uniform(-5, 5, n)), rng.uniform(0.7, 1.42, n)])
    powers = rng.uniform(-limit, limit, 2 * n) / np.log(bases)
    x = np.concatenate([a, bases.astype(kind), -bases[:n].astype(kind)])
    y = np.concatenate([b, powers.astype(kind), rng.integers(-9, 9, n).astype(kind)])
    size = len(x) // LANES * LANES
    return x[:size].copy(), y[:size].copy()


@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=str)
def test_pow(dtype: DType, target: Target) -> None:
    with np.errstate(all="ignore"):
        x, y = power_samples(dtype)
    check_error("pow", [x, y], dtype, target)


@pytest.mark.parametrize("dtype", [dt.float16, dt.float32, dt.float64], ids=str)
def test_floor_division_and_remainder_follow_numpy(dtype: DType) -> None:
    a, b = pairs(dtype)
    for op in (Op.FLOORDIV, Op.FLOORMOD):
        elementwise(lambda x, y, op=op: binary(op, x, y), [a, b], [dtype, dtype], dtype)


@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sin"])
def test_narrow_floats_are_correct_to_one_unit(name: str, dtype: DType) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    for target in RUNNABLE:
        with np.errstate(all="ignore"):
            actual = compiled(name, [x], dtype, target).astype(np.float64)
            expected: Any = INTRINSICS[name].reference(x.astype(np.float64))
            rounded = np.asarray(expected).astype(dtype.numpy)
            above = np.nextafter(np.abs(rounded), np.array(np.inf, dtype.numpy)).astype(np.float64)
            unit = above - np.abs(rounded).astype(np.float64)
            good = np.abs(actual - expected) <= unit
        same = (actual == rounded.astype(np.float64)) | (np.isnan(actual) & np.isnan(expected))
        assert np.all(good | same), x[~(good | same)][:5]

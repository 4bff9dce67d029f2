"""Operators and conversions compiled = interpreted, at the edges of every dtype, as scalars and as vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato.arith.expr import Expr, Op, Var, binary, const
from legato.arith.fold import COMPARISONS
from legato.base import dtype as dt
from legato.base.dtype import ALL_DTYPES, DType
from legato.tir.expr import Load, call, cast
from legato.tir.stmt import Func, block
from tests.codegen.programs import at, buffer, index, loop, put
from tests.codegen.running import check

INTS = [t for t in ALL_DTYPES if t.is_int]
FLOATS = [t for t in ALL_DTYPES if t.is_float]
INT_OPS = [Op.ADD, Op.SUB, Op.MUL, Op.FLOORDIV, Op.FLOORMOD, Op.MIN, Op.MAX, Op.SHL, Op.SHR, Op.BITAND, Op.BITOR,
           Op.BITXOR, Op.LT, Op.LE, Op.EQ, Op.NE]  # fmt: skip
FLOAT_OPS = [Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MIN, Op.MAX, Op.LT, Op.LE, Op.EQ, Op.NE]
BOOL_OPS = [Op.AND, Op.OR, Op.ADD, Op.MUL, Op.MIN, Op.MAX, Op.BITXOR, Op.EQ, Op.NE, Op.LT, Op.LE]
LANES = 8


def edges(dtype: DType) -> list[Any]:
    if dtype.is_bool:
        return [False, True]
    if dtype.is_int:
        near = [0, 1, 2, 3, 7, 100, dtype.max, dtype.max - 1, dtype.max // 2, dtype.min, dtype.min + 1]
        return sorted({*near, *(-x for x in (1, 2, 3, 7, 100) if dtype.is_signed)})
    inf = float("inf")
    values = [0.0, 1.0, 1.5, 1 / 3, 65504.0, 65520.0, 1e30, 6e-5, 6e-8, 3e-8, 1e-40, 2049.0, inf, float("nan")]
    return [s * v for v in values for s in (1, -1)]


def pairs(dtype: DType, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of edges and some random ones; the count is a multiple of the lanes."""
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        values = np.array(edges(dtype)).astype(dtype.numpy)
        if dtype.is_float:
            more = (rng.standard_normal(48) * 2.0 ** rng.integers(-24, 24, 48)).astype(dtype.numpy)
        else:
            more = rng.integers(dtype.min, dtype.max, 48, dtype=np.uint64 if dtype.name == "uint64" else np.int64)
            more = more.astype(dtype.numpy)
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    a, b = np.concatenate([a, more]), np.concatenate([b, rng.permutation(more)])
    n = len(a) // LANES * LANES
    return a[:n].copy(), b[:n].copy()


def elementwise(f: Any, sources: list[np.ndarray], dtypes: list[DType], out: DType) -> None:
    """`f` of elements, by scalars and by vectors, compiled and interpreted."""
    n = len(sources[0])
    ins = [buffer(f"x{k}", (n,), t) for k, t in enumerate(dtypes)]
    scalars, vectors = buffer("s", (n,), out), buffer("v", (n,), out)
    i, io, lane = index("i"), index("o"), index("l")
    j = io * LANES + lane
    body = block(
        loop(i, n, put(scalars, (i,), f(*(at(b, i) for b in ins)))),
        loop(io, n // LANES, loop(lane, LANES, put(vectors, (j,), f(*(at(b, j) for b in ins))), "vector")),
    )
    results = [np.zeros(n, out.numpy) for _ in range(2)]
    check(Func("f", (*ins, scalars, vectors), body), [*sources, *results])
    np.testing.assert_array_equal(*[r.astype(np.float64) for r in results])


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.shared(2)
def test_integer_operators(dtype: DType) -> None:
    a, b = pairs(dtype)
    for op in INT_OPS:
        out = dt.bool_ if op in COMPARISONS else dtype
        elementwise(lambda x, y, op=op: binary(op, x, y), [a, b], [dtype, dtype], out)


@pytest.mark.parametrize("dtype", [dt.int8, dt.uint8, dt.int32, dt.int64, dt.uint64], ids=str)
@pytest.mark.parametrize("divisor", [-128, -7, -2, -1, 0, 1, 2, 3, 16, 100])
def test_division_by_literals(dtype: DType, divisor: int) -> None:
    if divisor < 0 and not dtype.is_signed:
        return
    a, _ = pairs(dtype)
    for op in (Op.FLOORDIV, Op.FLOORMOD):
        elementwise(lambda x, op=op: binary(op, x, const(divisor, dtype)), [a], [dtype], dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_operators(dtype: DType) -> None:
    a, b = pairs(dtype)
    for op in FLOAT_OPS:
        out = dt.bool_ if op in COMPARISONS else dtype
        elementwise(lambda x, y, op=op: binary(op, x, y), [a, b], [dtype, dtype], out)
    for op in (Op.MIN, Op.MAX):
        elementwise(lambda x, op=op: binary(op, x, const(0.0, dtype)), [a], [dtype], dtype)
        elementwise(lambda x, op=op: binary(op, const(6.0, dtype), x), [a], [dtype], dtype)


def test_bool_operators() -> None:
    a, b = pairs(dt.bool_)
    for op in BOOL_OPS:
        elementwise(lambda x, y, op=op: binary(op, x, y), [a, b], [dt.bool_, dt.bool_], dt.bool_)


@pytest.mark.parametrize("source", ALL_DTYPES, ids=str)
@pytest.mark.shared(2)
def test_casts(source: DType) -> None:
    a, _ = pairs(source)
    for target in ALL_DTYPES:
        elementwise(lambda x, t=target: cast(x, t), [a], [source], target)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_exact_intrinsics(dtype: DType) -> None:
    a, _ = pairs(dtype)
    for name in ("sqrt", "neg", "abs", "floor", "ceil", "trunc", "round"):
        elementwise(lambda x, name=name: call(name, x), [a], [dtype], dtype)
    for name in ("isnan", "isinf"):
        elementwise(lambda x, name=name: call(name, x), [a], [dtype], dt.bool_)


@pytest.mark.parametrize("dtype", [dt.int8, dt.uint8, dt.int32, dt.int64], ids=str)
def test_integer_intrinsics(dtype: DType) -> None:
    a, _ = pairs(dtype)
    for name in ("neg", "abs", "bitnot"):
        elementwise(lambda x, name=name: call(name, x), [a], [dtype], dtype)


def test_index_arithmetic_is_total() -> None:
    values = np.array([-(2**40), -17, -16, -3, -1, 0, 1, 3, 16, 17, 2**40], np.int64)
    n = len(values)
    x, out = buffer("x", (n,), dt.int64), buffer("out", (n, n, 6), dt.int64)
    i, j = index(), index()

    def value(v: Var) -> Expr:
        return cast(Load(x, (v,)), dt.index)

    ops = (Op.FLOORDIV, Op.FLOORMOD, Op.MIN, Op.MAX)
    stores = [put(out, (i, j, k), cast(binary(op, value(i), value(j)), dt.int64)) for k, op in enumerate(ops)]
    stores += [put(out, (i, j, 4), cast(value(i) // 12, dt.int64)), put(out, (i, j, 5), cast(value(i) % 12, dt.int64))]
    check(Func("f", (x, out), loop(i, n, loop(j, n, block(*stores)))), [values, np.zeros((n, n, 6), np.int64)])

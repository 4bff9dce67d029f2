"""Quantised sums and products of the largest codes and zero points there are: what integers of any length give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import legato
from legato.base import dtype as dt
from legato.base.errors import TypeCheckError
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.attrs import make_attrs
from legato.ir.expr import constant
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ops import table
from tests.ops.test_ops import type_of

FACTORS = [2.0**-40, 2.0**-31, 3e-9, 1e-5, 0.3, 0.5, 1.0, 1.7, 100.0, 2.0**20, 2.0**29]
FAR = 1 << 30


def exact(v: int, factor: float, zero: int, dtype: dt.DType, rounding: str = "UPWARD") -> int:
    """round(v · factor) + zero, saturated; the factor has 31 bits."""
    exponent = max(int(np.frexp(factor)[1]), -31)
    shift = 31 - exponent
    product, half = v * int(np.floor(np.ldexp(factor, shift) + 0.5)), 1 << (shift - 1)
    below = product - (product >> shift << shift)
    found = product >> shift
    is_up = {"UPWARD": below >= half, "TONEAREST": below >= half if product >= 0 else below > half}
    is_up["TONEVEN"] = below > half or (below == half and found % 2 == 1)
    return min(max(found + is_up[rounding] + zero, dtype.min), dtype.max)


def results(op: Op, values: Sequence[Any], attrs: Any) -> list[np.ndarray[Any, Any]]:
    """The reference's, and the compiled ones with parameters as constants and as parameters."""
    found = []
    for known in (True, False):
        b = Builder()
        data = [n for n, name in enumerate(op.args) if name in ("data", "lhs", "rhs") or not known]
        params = {n: b.var(f"x{n}", type_of(values[n])) for n in data}
        args = [params.get(n, constant(v)) for n, v in enumerate(values)]
        mod = Module.from_expr(b.function(list(params.values()), b.call_op(op, args, make_attrs(op, attrs))))
        given = [values[n] for n in data]
        found += [evaluate(mod, given), legato.compile(mod)(*given)]
    return found


def ends(dtype: str) -> list[int]:
    d = dt.dtype(dtype)
    return sorted({d.min, d.min + 1, -1 if d.min else 1, 0, 1, 3, d.max // 2, d.max - 1, d.max})


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST", "TONEVEN"])
@pytest.mark.parametrize(("of", "to"), [("int32", "int32"), ("uint32", "uint32"), ("int32", "int8"), ("int8", "int32")])
def test_requantize(of: str, to: str, rounding: str) -> None:
    op, data, out = table()["qnn.requantize"], ends(of), dt.dtype(to)
    x = np.repeat(np.array(data, of)[:, None], len(FACTORS), 1)
    scales = np.array(FACTORS, np.float64)
    for zero, after in ((0, 0), (-(2**31), 2**31 - 1), (2**31 - 1, -(2**31)), (5, 3)):
        inside = [min(max(z, -FAR), FAR) if dt.dtype(d).bits <= 16 else z for z, d in ((zero, of), (after, to))]
        wanted = [[exact(v - inside[0], f, inside[1], out, rounding) for f in FACTORS] for v in data]
        values = [x, scales, np.int32(zero), np.float64(1), np.int32(after)]
        attrs = {"axis": 1, "rounding": rounding, "out_dtype": to}
        for found in results(op, [np.asarray(v) for v in values], attrs):
            np.testing.assert_array_equal(found, np.array(wanted, out.numpy))


@pytest.mark.parametrize("of", ["int8", "uint8", "int16", "uint16"])
def test_mul(of: str) -> None:
    op, codes, d = table()["qnn.mul"], ends(of), dt.dtype(of)
    x = np.array(codes, of)
    for scale in (2.0**-28, 1e-5, 0.3, 3.0):
        for left, right, after in ((0, 0, 0), (d.max, d.min, 1), (2**31 - 1, -(2**31), 7), (-(2**31), -(2**31), -7)):
            a, c, z = (min(max(n, -FAR), FAR) for n in (left, right, after))
            wanted = [[exact((v - a) * (w - c), scale, z, d) for w in codes] for v in codes]
            one, given = np.float64(1), (np.int32(left), np.int32(right), np.int32(after))
            values = [x[:, None], x[None], np.float64(scale), given[0], one, given[1], one, given[2]]
            for found in results(op, [np.asarray(v) for v in values], {}):
                np.testing.assert_array_equal(found, np.array(wanted, d.numpy))


def test_zero_points_have_at_most_32_bits() -> None:
    b = Builder()
    x = b.var("x", (3,), "int32")
    one, zero = b.constant(np.float32(1)), b.constant(np.int64(1 << 40))
    with pytest.raises(TypeCheckError, match="zero point has dtype int64, wanted an integer of at most 32 bits"):
        b.call_op(table()["qnn.requantize"], [x, one, zero, one, zero], make_attrs(table()["qnn.requantize"], {}))

"""Pointwise operators against PyTorch: special values, signs of zeros, promotion, 16-bit floats, symbolic dims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

from legato.base.errors import UnsupportedError  # noqa: E402  # after torch is known to be there
from tests.frontend.torch.agree import Imported, agree, imported  # noqa: E402

INF, NAN = float("inf"), float("nan")
EDGES = torch.tensor([-INF, -40.0, -2.5, -1.0, -0.3, -0.0, 0.0, 1e-6, 0.5, 1.0, 2.5, 3.0, 40.0, INF, NAN])
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def _with_signs(f: Callable[..., Sequence[Any]]) -> Callable[..., list[Any]]:
    """`f`, and of each of its floats that is a zero the sign."""

    def both(*tensors: Any) -> list[Any]:
        found = list(f(*tensors))
        return found + [torch.signbit(x) & (x == 0) for x in found if x.dtype.is_floating_point]

    return both


def _pairs(x: Any, y: Any) -> list[Any]:
    return [x + y, x - y, x * y, x / y, x // y, torch.fmod(x, y), torch.remainder(x, y),
            torch.div(x, y, rounding_mode="trunc"), torch.sub(x, y, alpha=4), torch.rsub(x, y, alpha=2),
            torch.atan2(x, y), torch.copysign(x, y), torch.hypot(x, y), torch.true_divide(x, y)]  # fmt: skip


def _choices(x: Any, y: Any) -> list[Any]:
    return [torch.maximum(x, y), torch.minimum(x, y), torch.fmax(x, y), torch.fmin(x, y), x == y, x != y, x < y,
            x <= y, x > y, x >= y, torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_xor(x, y),
            torch.where(x > 0, x, y), torch.clamp(x, y), torch.clamp(x, max=y), torch.clamp(x, y, y + 1),
            torch.clamp(x, -0.5, 0.7), torch.clamp(x, min=NAN), torch.xlogy(x, y), torch.logaddexp(x, y),
            torch.nextafter(x, y)]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values_of_two_operands(dtype: Any) -> None:
    x, y = EDGES.to(dtype)[:, None], EDGES.to(dtype)
    imported(_with_signs(_pairs), x, y, compile=dtype is torch.float32)
    imported(_choices, x, y, compile=dtype is torch.float32)


def test_powers() -> None:
    x, y = EDGES[:, None], EDGES
    imported(lambda x, y: [x**y, x**2, x**3, x**0.5, x**-0.5, x**-1, x**0, x**-2.5, 2**x, 1**x], x, y, compile=True)
    n = torch.tensor([-3, -1, 0, 1, 2, 7])
    imported(lambda n: [n**2, n**0, n ** torch.tensor(3), n**0.5, 2.5**n, n[3:] ** torch.tensor([-1, -2, 0])], n)


UNARY = [
    torch.acos, torch.acosh, torch.asin, torch.asinh, torch.atan, torch.atanh, torch.cosh, torch.sinh, torch.erf,
    torch.erfc, torch.exp, torch.exp2, torch.expm1, torch.log, torch.log10, torch.log1p, torch.log2, torch.reciprocal,
    torch.rsqrt, torch.sigmoid, torch.sqrt, torch.tanh, torch.erfinv, torch.lgamma, torch.digamma, torch.abs, torch.neg,
    torch.sign, torch.sgn, torch.signbit, torch.floor, torch.ceil, torch.trunc, torch.round, torch.frac, torch.isnan,
    torch.isinf, torch.isfinite, torch.angle, torch.isposinf, torch.isneginf, torch.logical_not, torch.square,
    torch.positive, lambda x: torch.round(x, decimals=1), lambda x: torch.round(x, decimals=-1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values_of_one_operand(dtype: Any) -> None:
    imported(lambda x: [f(x) for f in UNARY], EDGES.to(dtype), compile=dtype is torch.float32)


def test_functions_keep_their_digits() -> None:
    x = torch.logspace(-12, 1, 60, dtype=torch.float64)
    program = Imported(lambda x: [torch.expm1(x), torch.expm1(-x), torch.log1p(x), torch.erfc(x), torch.erfinv(x / 11),
                                  torch.lgamma(x), torch.digamma(-x), torch.atan2(x, 1 - x)], [x])  # fmt: skip
    wanted = [torch.expm1(x), torch.expm1(-x), torch.log1p(x), torch.erfc(x), torch.erfinv(x / 11), torch.lgamma(x),
              torch.digamma(-x), torch.atan2(x, 1 - x)]  # fmt: skip
    agree(program.interpreted([x]), wanted, rtol=1e-11, atol=0)


def test_integers_give_floats_of_32_bits() -> None:
    for x in (torch.tensor([0, 1, 5]), torch.tensor([False, True]), torch.tensor([3, 200], dtype=torch.uint8)):
        imported(lambda x: [f(x) for f in UNARY[:24]], x)


def test_integers_wrap_and_are_shifted_out() -> None:
    x = torch.tensor([-(2**63), 2**63 - 1, -7, -1, 0, 1, 7, 2**40])[:, None]
    y = torch.tensor([-3, -2, 1, 2, 5, 62, 63, 64, 70])
    imported(lambda x, y: [x + y, x * y, x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc"),
                           x << y, x >> y, x & y, x | y, x ^ y, ~x, x / y, torch.maximum(x, y), torch.clamp(x, -2, 5)],
             x, y, compile=True)  # fmt: skip
    small = torch.tensor([250, 3], dtype=torch.uint8)
    imported(lambda x: [x + 300, x * 2, -x, x // 7, x % 7, x == 300, x < 300, x << 3, x >> 9], small)


def test_truth_values() -> None:
    x, y = torch.tensor([True, False, True]), torch.tensor([True, True, False])
    imported(lambda x, y: [x + y, x * y, x & y, x | y, x ^ y, ~x, x == y, x < y, torch.maximum(x, y), x / y, x + 1,
                           x * 2.5, torch.add(x, y, alpha=True), torch.clamp_min(x, y), torch.where(x, 1, y)],
             x, y)  # fmt: skip


def test_dtypes_are_promoted_as_pytorch_does() -> None:
    kinds = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32)
    tensors = [torch.tensor([1, 0, 3]).to(k) for k in kinds] + [torch.tensor(2), torch.tensor(0.1, dtype=torch.float64)]
    for first in range(0, len(tensors), 3):
        imported(lambda *ts, first=first: [op(a, b) for a in ts[first : first + 3] for b in ts for op in (
            torch.add, torch.mul, torch.true_divide, torch.eq, torch.lt, torch.maximum)] + [
            op(a, v) for a in ts[first : first + 3] for v in (True, 2, 0.1) for op in (torch.add, torch.eq)],
            *tensors)  # fmt: skip


def test_comparisons_of_integers_with_floats_round_as_pytorch_does() -> None:
    x = torch.tensor([2**24 + 1, 2**53 + 1, 3])
    imported(lambda x: [x == 2.0**24, x == 2.0**53, x > 2.5, x < torch.tensor(3.5), x == x.float()], x)


def test_numbers_beside_16_bit_floats_keep_their_digits() -> None:
    x = torch.randn(200, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.bfloat16, torch.float16):
        imported(lambda x: [x * 0.1, x + 0.3, x / 3, x - 0.7, x * torch.tensor(0.1), x % 0.3, x // 0.3,
                            torch.fmod(x, 0.3), x**2, x**3, x == 0.1, torch.lerp(x, x * 2, 0.3),
                            torch.addcmul(x, x, x, value=0.3)],
                 x.to(dtype))  # fmt: skip
        imported(torch.ldexp, x.to(dtype), torch.tensor([3]))


def test_casts() -> None:
    x = torch.tensor([-300.7, -1.5, -0.0, 0.4, 44.9, 300.0, 70000.0])
    kinds = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16)
    imported(lambda x: [x.to(k) for k in kinds], x, compile=True)
    imported(lambda x: [x.to(k) for k in kinds], torch.tensor([-(2**40) - 3, -1, 0, 200, 2**33 + 5]))
    imported(lambda x: [(x > 0).to(k) for k in kinds] + [torch.tensor([NAN, INF]).bool() & (x[:2] < 0)], x)


ACTIVATIONS: list[Callable[[Any], Any]] = [
    F.relu, F.relu6, F.leaky_relu, F.elu, F.celu, F.selu, F.silu, F.mish, F.hardtanh, F.hardswish,
    F.hardsigmoid, F.softplus, F.softshrink, F.hardshrink, F.logsigmoid, F.softsign, F.tanhshrink,
    lambda x: F.gelu(x.clamp(-50, 50)), lambda x: F.gelu(x, approximate="tanh"), lambda x: F.elu(x, 0.5),
    lambda x: F.celu(x, 2.0), lambda x: torch.ops.aten.elu(x, 1.5, 0.5, 2.0),
    lambda x: F.hardtanh(x, -2, 0.5), lambda x: F.softplus(x, 2.0, 5.0),
    lambda x: F.threshold(x, 0.5, 3.0), lambda x: F.rrelu(x), lambda x: F.prelu(x, torch.tensor([0.25]).to(x.dtype)),
    lambda x: torch.nan_to_num(x), lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0),
    lambda x: F.glu(torch.stack([x, -x]), 0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_activations(dtype: Any) -> None:
    imported(lambda x: [f(x) for f in ACTIVATIONS], EDGES.to(dtype), compile=dtype is torch.float32)


def test_activations_of_integers() -> None:
    x = torch.tensor([-7, -1, 0, 1, 9])
    imported(lambda x: [F.relu(x), F.relu6(x), F.hardtanh(x, -2, 3), F.threshold(x, 0, 5), torch.clamp(x, 0.5)], x)


def test_symbolic_dims() -> None:
    def function(x: Any, y: Any) -> list[Any]:
        return [x * y + 1, torch.where(x > y, x, y), x / x.shape[0], x + y.shape[1], F.gelu(x).clamp(min=0), x // y,
                x.clamp(max=x.shape[0]), x.round().int() % x.shape[0], torch.add(x, y, alpha=x.shape[1])]  # fmt: skip

    x, y = torch.randn(3, 4), torch.randn(3, 1) + 2
    program = Imported(function, [x, y], "symbolic")
    for rows, columns in ((3, 4), (5, 2), (2, 9)):
        given = [torch.randn(rows, columns), torch.rand(rows, 1) + 1]
        agree(program.interpreted(given), function(*given))


def test_what_has_no_dtype_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="polar"):
        Imported(lambda x: [torch.view_as_real(torch.polar(x, x))], [torch.ones(2)])
    with pytest.raises(UnsupportedError, match="random slopes"):
        Imported(lambda x: [F.rrelu(x, training=True)], [torch.ones(2)])

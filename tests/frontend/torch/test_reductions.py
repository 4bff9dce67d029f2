"""Reductions and running sums against PyTorch: axes, dtypes, NaN, ties, nothing to reduce, symbolic dims."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from legato.base.errors import UnsupportedError  # noqa: E402  # after torch is known to be there
from tests.frontend.torch.agree import Imported, agree, imported  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom")
INF, NAN = float("inf"), float("nan")
SPECIAL = torch.tensor([[1.0, NAN, 3.0, NAN], [INF, 2.0, -1.0, INF], [-INF, INF, 0.0, 1.0], [-INF, -INF, -INF, -INF],
                        [2.0, 2.0, 1.0, 1.0]])  # fmt: skip


def _sums(x: Any) -> list[Any]:
    f = x if x.dtype.is_floating_point else x.float()
    return [x.sum(), x.sum(1), x.sum((0, -1), keepdim=True), x.sum(0, dtype=torch.float64), x.prod(), x.prod(1, True),
            x.any(), x.any(0), x.all(1, keepdim=True), x.all(), torch.any(x, (0, 1)), torch.count_nonzero(x, 1),
            x.cumsum(0), x.cumprod(1), x.cumsum(1, dtype=torch.float32), f.mean(), f.mean((0,), keepdim=True),
            x.sum(()), x.sum(1, dtype=torch.bool), x.prod(dtype=torch.bool), torch.any(x, ()), x.nansum(1),
            f.logsumexp((0, 1)), f.logsumexp(1, True)]  # fmt: skip


def _extremes(x: Any) -> list[Any]:
    return [x.max(), x.min(), *x.max(1), *x.min(0, keepdim=True), x.amax((0, 1)), x.amin(1, True), x.amax(),
            *torch.aminmax(x, dim=1), *x.cummax(1), *x.cummin(0)]  # fmt: skip


def _spreads(x: Any) -> list[Any]:
    return [x.var(), x.var(1), x.var((0, 1), correction=0), x.var(0, correction=2, keepdim=True), x.std(1),
            *torch.var_mean(x, 1), *torch.std_mean(x, (0, 1), keepdim=True), x.var(1, correction=9),
            *(torch.linalg.vector_norm(x, p, 1) for p in (0, 1, 2, 3, -1.5, INF, -INF)), x.norm(), x.norm(p=1, dim=0),
            torch.dist(x, x.flip(0)), x.softmax(1), x.log_softmax(0), x.logcumsumexp(1)]  # fmt: skip


def test_special_values() -> None:
    imported(lambda x: [*_sums(x), *_extremes(x), x.argmax(1), x.argmin(0), x.argmax(), x.argmin(keepdim=True),
                        x.softmax(1), x.log_softmax(1), x.logcumsumexp(0), x.median(), *x.median(1), x.nanmedian(),
                        *x.nanmedian(0, True), torch.linalg.vector_norm(x, INF, 1)], SPECIAL, compile=True)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integers_and_truth_values(dtype: Any) -> None:
    x = torch.tensor([[1, 0, 3, 3], [0, 0, 0, 0], [7, 200, 2, 200]]).to(dtype)
    imported(lambda x: [*_sums(x), *_extremes(x)], x, compile=dtype is torch.bool)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_spreads_and_norms(dtype: Any) -> None:
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
    imported(lambda x: [*_sums(x), *_extremes(x)], x)
    imported(_spreads, x[:, :4].contiguous())


def test_spreads_and_norms_compiled() -> None:
    imported(_spreads, torch.randn(3, 5, generator=torch.Generator().manual_seed(0)) + 100, compile=True)


def test_16_bit_sums_are_rounded_once() -> None:
    x = torch.full((4096,), 0.01)
    for dtype in (torch.bfloat16, torch.float16):
        imported(lambda x: [x.sum(), x.mean(), x.norm(), x.logsumexp(0), x.var(), x.cumsum(0)], x.to(dtype))


def test_scalars_have_an_axis() -> None:
    imported(lambda x: [x.sum(0), x.sum(-1, keepdim=True), x.mean(), x.prod(0), x.amax(0), *x.max(-1), x.argmax(0),
                        x.softmax(0), x.log_softmax(-1), x.cumsum(0), x.cumprod(-1), *x.cummax(0), x.any(0),
                        x.logsumexp(0), x.logcumsumexp(0), x.median(), x.norm(), x.var(0, correction=0)],
             torch.tensor(2.5), compile=True)  # fmt: skip


def test_nothing_to_reduce() -> None:
    imported(lambda x: [x.sum(), x.sum(1), x.mean(), x.mean(1), x.prod(0), x.prod(1), x.any(1), x.all(), x.var(),
                        x.var(1), x.var(1, correction=0), x.std(1), x.cumsum(1), x.logsumexp(1), x.norm(), x.nansum(1),
                        x.amax(0), *x.max(0), x.argmax(0), x.softmax(1), *x.cummax(1), x.median()],
             torch.zeros(2, 0), compile=True)  # fmt: skip


def test_symbolic_dims() -> None:
    def function(x: Any) -> list[Any]:
        return [x.sum(), x.mean((0, 1)), x.mean(1, True), x.var(0), x.var(1, correction=3), x.std(), x.amax(1),
                *x.max(0), x.argmax(), x.cumsum(1), x.softmax(0), x.norm(dim=1), x.logsumexp(0), x.median(),
                *x.median(1), x.sum(0) / x.shape[0]]  # fmt: skip

    program = Imported(function, [torch.randn(3, 4)], "symbolic")
    for shape in ((3, 4), (2, 7), (6, 2)):
        given = [torch.randn(shape)]
        agree(program.interpreted(given), function(*given))


def test_running_extremes_need_a_known_extent() -> None:
    with pytest.raises(UnsupportedError, match="must be known"):
        Imported(lambda x: list(x.cummax(0)), [torch.randn(3, 4)], "symbolic")

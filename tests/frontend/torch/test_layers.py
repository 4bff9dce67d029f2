"""Layers where PyTorch's samples do not go: symbolic and empty dims, 16-bit floats, NaNs, what rounding decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402  # after torch is known to be there

from tests.frontend.torch.agree import imported  # noqa: E402
from tests.heavy import light  # noqa: E402

aten = torch.ops.aten


def _random(*shape: int, dtype: Any = None) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "products": (lambda x, y, z: torch.baddbmm(z, x, y, beta=0.5, alpha=2), (_random(2, 3, 4), _random(2, 4, 5),
                                                                            _random(2, 3, 1))),
    "rows": (torch.addmm, (_random(5), _random(3, 4), _random(4, 5))),
    "summed products": (torch.addbmm, (_random(3, 5), _random(2, 3, 4), _random(2, 4, 5))),
    "distances": (lambda x, y: torch.cdist(x, y, p=1.0), (_random(3, 4), _random(5, 4))),
    "convolution": (lambda x, w: F.conv2d(x, w, stride=2, padding=1), (_random(2, 3, 7, 6), _random(4, 3, 3, 2))),
    "transposed": (lambda x, w: F.conv_transpose1d(x, w, stride=2, output_padding=1, groups=2),
                   (_random(2, 4, 5), _random(4, 3, 3))),
    "layer_norm": (lambda x, w: aten.native_layer_norm(x, [4], w, None, 1e-3), (_random(2, 3, 4), _random(4))),
    "group_norm": (lambda x, w: F.group_norm(x, 2, w, w), (_random(2, 4, 5), _random(4))),
    "batch_norm": (lambda x, m, v: F.batch_norm(x, m, v), (_random(3, 4, 5), _random(4), _random(4).abs())),
    "statistics": (lambda x: aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5),
                   (_random(3, 4, 5),)),
    "maxima": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True), (_random(2, 3, 7, 6),)),
    "means": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), (_random(2, 3, 7, 6),)),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), (_random(2, 3, 7, 6),)),
    "nearest": (lambda x: aten.upsample_nearest2d(x, [2 * x.shape[2], 9]), (_random(2, 3, 4, 5),)),
    "linear": (lambda x: aten.upsample_bilinear2d(x, [2 * x.shape[2], 9], False), (_random(2, 3, 4, 5),)),
    "grid": (lambda x, g: F.grid_sample(x, g, align_corners=False), (_random(2, 3, 4, 5), _random(2, 6, 7, 2))),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_symbolic_extents(name: str) -> None:
    imported(FUNCTIONS[name][0], *FUNCTIONS[name][1], mode="symbolic")


def test_compiled() -> None:
    for name in ("rows", "convolution", "layer_norm", "maxima", "adaptive", "nearest"):
        imported(FUNCTIONS[name][0], *FUNCTIONS[name][1], compile=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_floats_are_rounded_once(dtype: Any) -> None:
    x, w = _random(2, 4, 6, dtype=dtype), _random(4, dtype=dtype)
    imported(lambda x, w: F.batch_norm(x, w, w.abs()), x, w)
    imported(lambda x: F.avg_pool1d(x, 3), x)
    imported(lambda x: F.layer_norm(x, (6,)), x)
    imported(lambda x, w: aten.native_group_norm(x, w, w, 2, 4, 6, 2, 1e-5), x, w)


def test_without_elements() -> None:
    imported(lambda x, y: x @ y, _random(2, 0), _random(0, 3))
    imported(lambda x, y: torch.cdist(x, y), _random(2, 0), _random(3, 0))
    imported(lambda x, y, z: torch.addmm(z, x, y), _random(0, 4), _random(4, 3), _random(3))
    imported(lambda x: F.max_pool2d(x, 2), _random(0, 2, 4, 4))
    imported(lambda x: aten.native_layer_norm(x, [4], None, None, 1e-5)[0], _random(0, 4))


def test_a_factor_of_zero_leaves_out_what_is_not_a_number() -> None:
    imported(lambda x, y, z: torch.addmm(z, x, y, beta=0), _random(2, 4), _random(4, 3), torch.full((3,), torch.nan))


def test_the_last_of_several_nans_is_a_maximum_and_the_first_of_other_elements() -> None:
    x = torch.tensor([[[[1.0, 1, 0, -torch.inf], [1, torch.nan, 2, -torch.inf], [torch.nan, 1, 2, -torch.inf]]]])
    imported(lambda x: F.max_pool2d(x, 2, 1, 1, return_indices=True), x)
    imported(lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True), x)
    imported(lambda x: F.max_pool2d(x, 2, 1, return_indices=True), x.nan_to_num(5.0).to(torch.int64))


@pytest.mark.parametrize("exact", [False, True])
def test_the_nearest_element_is_what_rounding_makes_it(exact: bool) -> None:
    name = "_upsample_nearest_exact1d" if exact else "upsample_nearest1d"
    x = torch.arange(61.0)[None, None]
    sizes = (7, 61, 122, 49, 98, 211)
    imported(lambda x: tuple(getattr(aten, name)(x, [size]) for size in sizes), x)
    imported(lambda x: getattr(aten, name)(x, [98]), x.double())
    imported(lambda x: getattr(aten, name)(x, [47]), x[:, :, :29].clone(), mode="symbolic")


def test_running_statistics_are_results() -> None:
    x, mean, variance = _random(3, 4, 5), _random(4), _random(4).abs()
    imported(lambda x, m, v: aten._native_batch_norm_legit_functional(x, None, None, m, v, True, 0.2, 1e-5),
             x, mean, variance)  # fmt: skip


@pytest.mark.parametrize("factor", light([2.0, 1.5, 0.5], [1.5]))
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_extents_times_a_factor(factor: float, mode: str) -> None:
    def twice(x: Any) -> Any:
        return F.interpolate(F.interpolate(x, scale_factor=factor, mode=mode) + 1, scale_factor=2.0, mode=mode)

    imported(twice, _random(2, 3, 7, 5), mode="symbolic")

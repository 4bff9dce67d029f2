"""Backward operators, as AOTAutograd makes them, agree with PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402  # after torch is known to be there

from tests.frontend.torch.agree import imported  # noqa: E402

aten = torch.ops.aten
Case = tuple[Callable[..., Any], tuple[Any, ...]]


def _random(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def _convolution(shape: tuple[int, ...], weight: tuple[int, ...], transposed: bool = False, groups: int = 1) -> Case:
    rank = len(shape) - 2
    how = ([2] * rank, [1] * rank, [1] * rank, transposed, [0] * rank, groups)
    x, w = _random(*shape), _random(*weight)
    dy = torch.randn_like(torch.convolution(x, w, None, *how))
    channels = dy.shape[1]

    def backward(dy: Any, x: Any, w: Any) -> Any:
        return aten.convolution_backward(dy, x, w, [channels], *how, [True, True, True])

    return backward, (dy, x, w)


def _resize(name: str, sizes: tuple[int, ...], *how: Any) -> Case:
    backward = getattr(aten, f"{name}_backward")
    shape = (2, 3, *(4, 5, 3)[: len(sizes)])
    return lambda dy: backward(dy, sizes, shape, *how), (_random(2, 3, *sizes),)


def _maxima() -> Case:
    x, how = _random(2, 3, 7, 6), ([3, 2], [2, 2], [1, 0], [1, 1], True)
    y, at = aten.max_pool2d_with_indices(x, *how)
    return lambda dy, x, at: aten.max_pool2d_with_indices_backward(dy, x, *how, at), (torch.randn_like(y), x, at)


def _means(*how: Any) -> Case:
    x = _random(2, 3, 7, 6)
    dy = torch.randn_like(aten.avg_pool2d(x, *how))
    return lambda dy, x: aten.avg_pool2d_backward(dy, x, *how), (dy, x)


CASES: dict[str, Case] = {
    "convolution": _convolution((2, 4, 7, 6), (6, 4, 3, 3)),
    "grouped": _convolution((2, 4, 7), (6, 2, 3), groups=2),
    "transposed": _convolution((2, 4, 5, 6), (4, 3, 3, 3), transposed=True),
    "maxima": _maxima(),
    "means": _means([3, 2], [2, 2], [1, 0], True, False, None),
    "padded means": _means([3, 2], [2, 1], [1, 1], True, True, None),
    "sums": _means([3, 2], [2, 1], [1, 1], True, True, 5),
    "adaptive": (lambda dy, x: aten._adaptive_avg_pool2d_backward(dy, x), (_random(2, 3, 3, 4), _random(2, 3, 7, 6))),
    "rows": (lambda dy, at: aten.embedding_dense_backward(dy, at, 6, 2, False),
             (_random(2, 3, 4), torch.tensor([[1, 2, 1], [5, 0, 1]]))),
    "rare rows": (lambda dy, at: aten.embedding_dense_backward(dy, at, 6, -1, True),
                  (_random(2, 3, 4), torch.tensor([[1, 2, 1], [5, 0, 1]]))),
    "nearest": _resize("upsample_nearest2d", (8, 10)),
    "uneven nearest": _resize("upsample_nearest2d", (7, 3)),
    "exact nearest": _resize("_upsample_nearest_exact1d", (9,)),
    "bilinear": _resize("upsample_bilinear2d", (8, 3), False),
    "aligned": _resize("upsample_linear1d", (9,), True),
    "bicubic": _resize("upsample_bicubic2d", (8, 3), False),
    "trilinear": _resize("upsample_trilinear3d", (8, 3, 4), False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_backward_operators(name: str) -> None:
    imported(CASES[name][0], *CASES[name][1])


@pytest.mark.parametrize("name", ["convolution", "maxima", "padded means", "bilinear", "rows"])
def test_of_symbolic_extents(name: str) -> None:
    imported(CASES[name][0], *CASES[name][1], mode="symbolic")


def test_compiled() -> None:
    for name in ("convolution", "maxima", "rows"):
        imported(CASES[name][0], *CASES[name][1], compile=True)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention(is_causal: bool) -> None:
    q, k, v = _random(2, 3, 4, 8), _random(2, 3, 4, 8) + 1, _random(2, 3, 4, 8) * 2
    y, sums = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, is_causal)
    imported(lambda dy, q, k, v, y, s: aten._scaled_dot_product_flash_attention_for_cpu_backward(
        dy, q, k, v, y, s, 0.0, is_causal), _random(2, 3, 4, 8), q, k, v, y, sums)  # fmt: skip


LOSSES: dict[str, Callable[..., Any]] = {
    "layer_norm": lambda x, w: F.layer_norm(x, (4,), w, w),
    "group_norm": lambda x, w: F.group_norm(x, 2, w, w),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w, w, training=True),
    "softmax": lambda x, w: F.softmax(x * w.sum(), -1),
    "log_softmax": lambda x, w: F.log_softmax(x * w.sum(), 1),
    "activations": lambda x, w: F.gelu(x) + F.silu(x) + F.hardswish(x) + F.relu(x) * w.sum(),
    "cross_entropy": lambda x, w: F.cross_entropy(x * w.sum(), torch.tensor([[1] * 4, [2] * 4])),
}


@pytest.mark.parametrize("name", LOSSES)
def test_of_graphs_with_forward_and_backward(name: str) -> None:
    """Gradients that autograd makes of operators with decompositions."""

    def gradients(x: Any, w: Any) -> Any:
        return torch.func.grad(lambda x, w: (LOSSES[name](x, w) ** 2).sum(), argnums=(0, 1))(x, w)

    imported(gradients, _random(2, 4, 4), _random(4))

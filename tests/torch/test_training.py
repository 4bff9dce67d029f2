"""Training a ResNet through `torch.compile(backend="legato")` follows eager: losses, statistics of batches, weights."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from legato.torch.report import Watch  # noqa: E402
from tests.heavy import marked  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


class Block(nn.Module):
    """Two convolutions beside a way around them, as ResNet-18 has them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs))
        self.last = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.around = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        return (self.last(self.first(x).relu()) + self.around(x)).relu()


def resnet(width: int, blocks: int, stages: int) -> nn.Module:
    """ResNet-18 is (64, 2, 4)."""
    widths = [width, *(width << n for n in range(stages))]
    layers: list[nn.Module] = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                               nn.MaxPool2d(3, 2, 1)]  # fmt: skip
    for n, (inputs, outputs) in enumerate(pairwise(widths)):
        layers += [Block(outputs if b else inputs, outputs, 1 if b or not n else 2) for b in range(blocks)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))


def losses(net: nn.Module, run: Any, steps: int, batch: int = 16, size: int = 32) -> list[float]:
    """Of SGD with momentum and a cosine schedule, on images whose means tell their classes."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    numbers = torch.Generator().manual_seed(1)
    means = torch.randn(10, 3, 1, 1, generator=numbers)
    found = []
    for _ in range(steps):
        classes = torch.randint(10, (batch,), generator=numbers)
        images = means[classes] + torch.randn(batch, 3, size, size, generator=numbers)
        loss = nn.functional.cross_entropy(run(images.to(next(net.parameters()).dtype)), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize(
    ("width", "blocks", "stages", "dtype", "near"),
    [
        marked(8, 1, 2, torch.float32, 1e-3, heavy=False, name="small"),
        marked(64, 2, 4, torch.float64, 1e-9, heavy=True, name="resnet18"),  # eager's in float32 leaves it, in 4 steps
    ],
)
def test_a_resnet_is_trained_as_eager_trains_it(width: int, blocks: int, stages: int, dtype: Any, near: float) -> None:
    net = resnet(width, blocks, stages).to(dtype)
    other = deepcopy(net)
    watch = Watch()
    found = losses(net, torch.compile(net, backend=watch.backend), 24)
    wanted = losses(other, other, 24)
    apart = max(abs(a - b) / abs(b) for a, b in zip(found, wanted, strict=True))
    assert apart < near, (found, wanted)
    assert median(found[-5:]) < 0.8 * median(found[:5])
    for (name, own), peer in zip(net.state_dict().items(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(own, peer, rtol=1e-2, atol=1e-3, msg=lambda text, name=name: f"{name}: {text}")
    assert [(g.kind, g.native == g.count, g.programs) for g in watch.reports()] == [
        ("forward", True, 1), ("backward", True, 1)
    ]  # fmt: skip

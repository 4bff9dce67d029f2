"""relay.frontend.from_pytorch, as programs for Relay call it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import legato  # noqa: E402
from legato import relay  # noqa: E402
from legato.base.errors import UnsupportedError  # noqa: E402
from tests.heavy import HEAVY  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def run(mod: Any, params: dict[str, Any], *arrays: Any) -> Any:
    """The module with its parameters by name, compiled."""
    exe = legato.compile(mod)
    names = [leaf.name for leaf in exe.arguments]
    return exe(*arrays, *(params[name] for name in names[len(arrays) :]))


class MyRNNCell(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Of a listing in seed 000."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(10, 20)

    def forward(self, x: Any, h: Any) -> Any:
        return torch.tanh(self.linear(x) + h)


def test_the_listing_of_seed_000() -> None:
    cell = MyRNNCell()
    scripted = torch.jit.trace(cell.eval(), (torch.randn(1, 10), torch.randn(1, 20)))
    mod, params = relay.frontend.from_pytorch(scripted, [("x", (1, 10)), ("h", (1, 20))])
    assert sorted(params) == ["linear.bias", "linear.weight"]
    x, h = np.random.default_rng(0).normal(size=(2, 1, 20)).astype(np.float32)
    wanted = cell(torch.from_numpy(x[:, :10].copy()), torch.from_numpy(h)).detach().numpy()
    np.testing.assert_allclose(run(mod, params, x[:, :10].copy(), h), wanted, rtol=1e-5, atol=1e-6)


class SmallResNet(torch.nn.Module):  # type: ignore[misc, name-defined]
    """What torchvision's is made of, at a small size."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
                                  nn.MaxPool2d(3, 2, 1))  # fmt: skip
        self.conv = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8))
        self.relu = nn.ReLU(inplace=True)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8, 10)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        y = self.conv(x)
        y += x
        return self.fc(torch.flatten(self.avgpool(self.relu(y)), 1))


def test_the_listing_of_seed_002() -> None:
    model = SmallResNet().eval()
    scripted = torch.jit.trace(model, torch.randn(1, 3, 32, 32))
    input_infos = [("input", (1, 3, 32, 32))]
    mod, params = relay.frontend.from_pytorch(scripted, input_infos)
    assert set(params) <= set(model.state_dict())
    assert "stem.0.weight" in params
    x = torch.randn(1, 3, 32, 32)
    np.testing.assert_allclose(run(mod, params, x.numpy()), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def torchvision() -> Any:
    """The package, where `python -m tools.zoo.packages` has put it: it is not installed beside PyTorch."""
    packages = pytest.importorskip("tools.zoo.packages")
    try:
        packages.ready()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    return pytest.importorskip("torchvision")


@pytest.mark.sized
def test_the_listing_of_seed_002_with_the_model_of_torchvision(torchvision: Any) -> None:
    model = torchvision.models.resnet18(weights=None).eval()
    scripted = torch.jit.trace(model, torch.randn(1, 3, 224, 224))
    input_infos = [("input", (1, 3, 224, 224))]
    mod, params = relay.frontend.from_pytorch(scripted, input_infos)
    op_counts: dict[str, int] = {}

    def visit(node: Any) -> None:
        if isinstance(node, relay.Call) and hasattr(node.op, "name"):
            op_counts[node.op.name] = op_counts.get(node.op.name, 0) + 1

    relay.analysis.post_order_visit(mod["main"], visit)
    listed = {"nn.conv2d": 20, "nn.batch_norm": 20, "nn.relu": 17, "nn.dense": 1, "nn.max_pool2d": 1}
    assert {name: op_counts.get(name) for name in listed} == listed
    weights = dict(model.named_parameters())
    assert sum(int(np.prod(params[name].shape)) for name in weights) == 11_689_512
    if HEAVY:
        x = torch.randn(1, 3, 224, 224)
        np.testing.assert_allclose(run(mod, params, x.numpy()), model(x).detach().numpy(), rtol=1e-3, atol=1e-4)


def test_names_and_dtypes() -> None:
    scripted = torch.jit.script(torch.nn.Linear(3, 2).double().eval())
    mod, params = relay.frontend.from_pytorch(scripted, [("x", ((relay.Any(), 3), torch.float64))])
    assert sorted(params) == ["bias", "weight"]
    nested = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 2)).eval())
    mod, params = relay.frontend.from_pytorch(nested, [("x", (4, 3))], use_parser_friendly_name=True)
    assert sorted(params) == ["0_bias", "0_weight"]
    assert mod["main"].params[0].name_hint == "x"
    with pytest.raises(UnsupportedError, match="custom_convert_map"):
        relay.frontend.from_pytorch(nested, [("x", (4, 3))], {"aten::relu": None})

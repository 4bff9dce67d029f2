"""Recurrent layers through `torch.compile(backend="legato")`: one operator each where Dynamo takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import legato.torch  # noqa: E402
from legato.torch.recurrent import declare, kept  # noqa: E402
from legato.torch.report import Watch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch._dynamo.config.patch(allow_rnn=True):
        yield
    torch._dynamo.reset()


class Tagger(nn.Module):
    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer = layer
        self.last = nn.Linear(width, 2)

    def forward(self, x: Any) -> Any:
        found, states = self.layer(x.tanh())
        return self.last(found).relu(), states


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
        (nn.LSTM, {"proj_size": 2}),
        (nn.GRU, {"bias": False, "batch_first": True}),
        (nn.RNN, {"nonlinearity": "relu", "bidirectional": True}),
        (nn.RNN, {}),
    ],
)
def test_layers_are_operators_of_one_program(kind: Any, more: dict[str, Any]) -> None:
    width = more.get("proj_size", 4) * (2 if more.get("bidirectional") else 1)
    net = Tagger(kind(3, 4, **more), width).eval()
    watch = Watch()
    run = torch.compile(net, backend=watch.backend)
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(3, 5, 3)
            torch.testing.assert_close(run(x), net(x), rtol=1e-4, atol=1e-5)
    (graph,) = watch.reports()
    assert (graph.programs, graph.eager, graph.failed) == (1, (), ())
    name = f"rnn_{net.layer.nonlinearity}" if kind is nn.RNN else kind.__name__.lower()
    assert graph.operators[f"legato::{name}"] == 1


def test_dropout_between_layers_is_that_of_eager() -> None:
    net = Tagger(nn.LSTM(3, 4, 2, dropout=0.5), 4)
    watch = Watch()
    run, x = torch.compile(net, backend=watch.backend), torch.randn(5, 2, 3)
    with torch.no_grad():
        torch.manual_seed(1)
        found = run(x)
        torch.manual_seed(1)
        torch.testing.assert_close(found, net(x))
    (graph,) = watch.reports()
    assert [fault.operator for fault in graph.eager] == ["legato::lstm"]


def test_gradients_of_layers() -> None:
    net, x = Tagger(nn.GRU(3, 4), 4), torch.randn(3, 2, 3, requires_grad=True)
    run = torch.compile(net, backend="legato")
    grads = [torch.autograd.grad(m(x)[0].square().sum(), (x, *net.parameters())) for m in (run, net)]
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)


def test_a_break_at_a_layer_says_how_there_is_none() -> None:
    with torch._dynamo.config.patch(allow_rnn=False):
        found = legato.torch.explain(Tagger(nn.GRU(3, 4), 4), torch.randn(3, 2, 3))
    (left,) = found.left
    assert left.startswith("Attempted to wrap RNN, GRU, or LSTM (unless torch._dynamo.config.allow_rnn")
    assert f"in eager: a function, since {left}" in str(found)
    assert not found.is_whole


def layers_in(f: Any, x: Any) -> tuple[Any, int]:
    """What Dynamo's graph of `f` gives in eager, and how many operators of Legato's are in it."""
    count = 0

    def counting(graph_module: Any, inputs: Any) -> Any:
        nonlocal count
        found = kept(graph_module, inputs)
        count += sum(str(n.target).startswith("legato.") for n in found.graph.nodes)
        return found.forward

    return torch.compile(f, backend=counting)(x), count


def test_layers_of_plain_inference_become_operators() -> None:
    layer, x = nn.LSTM(3, 4), torch.randn(2, 2, 3)
    with torch.no_grad():
        found, count = layers_in(lambda x: layer(x)[0], x)
        assert count == 1
        torch.testing.assert_close(found, layer(x)[0])


@pytest.mark.parametrize("where", ["around", "inside", "no longer"])
def test_layers_are_cast_as_autocast_does(where: str) -> None:
    layer, x = nn.Sequential(nn.Linear(3, 3), nn.LSTM(3, 4)), torch.randn(2, 2, 3)
    cast = torch.autocast("cpu", torch.bfloat16)

    def inside(x: Any) -> Any:
        with cast:
            return layer(x)[0]

    def no_longer(x: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return layer(x)[0]

    f = {"around": lambda x: layer(x)[0], "inside": inside, "no longer": no_longer}[where]
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=where != "inside"):
        found, count = layers_in(f, x)
        wanted = f(x)
    assert count == 0
    assert found.dtype is wanted.dtype is (torch.float32 if where == "no longer" else torch.bfloat16)


def test_a_layer_under_autocast_runs_in_the_backend() -> None:
    net, x = nn.Sequential(nn.Linear(3, 3), nn.GRU(3, 4)), torch.randn(2, 2, 3)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found, wanted = torch.compile(net, backend="legato")(x)[0], net(x)[0]
    assert found.dtype is wanted.dtype
    torch.testing.assert_close(found, wanted, rtol=3e-2, atol=3e-2)


def test_gradients_that_are_recorded_inside_are_not_lost() -> None:
    layer, x = nn.LSTM(3, 4), torch.randn(2, 2, 3)

    def f(x: Any) -> Any:
        with torch.enable_grad():
            return layer(x)[0]

    with torch.no_grad():
        found, count = layers_in(f, x)
    assert count == 0
    found.sum().backward()
    assert layer.weight_ih_l0.grad is not None


def test_layers_of_transformed_functions_stay() -> None:
    layer, x = nn.GRU(3, 4), torch.randn(2, 2, 3)
    gradient = torch.func.grad(lambda x: layer(x)[0].sum())
    with torch.no_grad():
        found, count = layers_in(gradient, x)
    assert count == 0
    torch.testing.assert_close(found, gradient(x))


def test_layers_on_other_devices_stay() -> None:
    layer, x = nn.LSTM(3, 4, device="meta"), torch.randn(2, 2, 3, device="meta")
    with torch.no_grad():
        found, count = layers_in(lambda x: layer(x)[0], x)
    assert (found.device.type, found.shape, count) == ("meta", (2, 2, 4), 0)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_operators_give_what_they_are_traced_as(name: str) -> None:
    declare()
    layer = getattr(nn, name.upper())(3, 4, 2)
    h = torch.randn(2, 2, 4).transpose(0, 1)  # of other strides than its shape says
    states = [h, h.clone(memory_format=torch.preserve_format)] if name == "lstm" else h
    args = (torch.randn(5, 2, 3), states, [w.detach() for w in layer.parameters()], True, 2, 0.0, False, False, False)
    operator = getattr(torch.ops.legato, name).default
    torch.library.opcheck(operator, args, test_utils=("test_schema", "test_faketensor"))

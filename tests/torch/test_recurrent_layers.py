"""Recurrent layers through `torch.compile(backend="legato")`: one operator each where Dynamo takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import legato.torch  # noqa: E402
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

"""`torch.compile(f, backend="legato")` computes what eager does, whatever of it Legato takes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from legato.torch.backend import backend  # noqa: E402
from legato.torch.graph import CompiledGraph  # noqa: E402

Graphs = list[CompiledGraph]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def compiled(f: Any, dynamic: bool | None = None, **options: Any) -> tuple[Callable[..., Any], Graphs]:
    """`f` compiled, and the graphs as they are made."""
    graphs: Graphs = []

    def recording(graph_module: Any, inputs: Any) -> Any:
        return backend(graph_module, inputs, options=options, made=graphs.append)

    return torch.compile(f, backend=recording, dynamic=dynamic), graphs


def same(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


def whole(graphs: Graphs) -> bool:
    """Whether each graph is one program, and nothing runs in eager."""
    return bool(graphs) and all(len(g.programs) == 1 and not g.fallbacks for g in graphs)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def test_the_backend_is_found_by_its_name_and_modes_and_options_act_or_are_refused() -> None:
    x = torch.randn(3)
    same(torch.compile(lambda x: x.exp() + 1, backend="legato", options={"precision": "exact"})(x), x.exp() + 1)
    for bad in ({"mode": "max-autotune"}, {"options": {"thread": 1}}, {"options": {"precision": "none"}}):
        with pytest.raises(Exception, match=r"mode|did you mean 'threads'|precision"):
            torch.compile(lambda x: x.exp(), backend="legato", **bad)(x)


def test_training_gives_the_gradients_of_eager_and_the_parameters_are_shared() -> None:
    net = network()
    other = network()
    other.load_state_dict(net.state_dict())
    run, graphs = compiled(net)
    steps = [torch.optim.SGD(m.parameters(), 0.1, momentum=0.9) for m in (net, other)]
    for _ in range(3):
        x, y = torch.randn(5, 6), torch.randn(5, 3)
        losses = [nn.functional.mse_loss(m(x), y) for m in (run, other)]
        same(*losses)
        for loss, step in zip(losses, steps, strict=True):
            step.zero_grad()
            loss.backward()
            step.step()
        for p, q in zip(net.parameters(), other.parameters(), strict=True):
            same(p.grad, q.grad)
            same(p, q)
    assert whole(graphs)
    assert {g.kind for g in graphs} == {"forward", "backward"}


def test_sizes_that_are_symbols_are_compiled_once() -> None:
    run, graphs = compiled(lambda x, w: (x @ w).softmax(-1).sum(0), dynamic=True)
    for n in (3, 5, 8, 13):
        x, w = torch.randn(n, 4), torch.randn(4, 7)
        same(run(x, w), (x @ w).softmax(-1).sum(0))
    assert whole(graphs)
    assert len(graphs) == 1
    same(run(torch.randn(0, 4), torch.randn(4, 7)), torch.zeros(7))


def test_integers_and_floats_of_calls_and_results_that_are_sizes() -> None:
    def f(x: Any, n: int, scale: float) -> Any:
        return x * n + scale, x.shape[0] * 2 + n, None, x.shape[0] / 2

    run, _ = compiled(f, dynamic=True)
    for n, scale in ((3, 0.5), (-4, 1.5), (0, -2.5), (1, 7.0)):
        for x in (torch.randn(5, 2), torch.arange(6).reshape(3, 2)):
            same(run(x, n, scale), f(x, n, scale))


def test_an_operator_without_a_converter_runs_in_eager_between_programs(caplog: pytest.LogCaptureFixture) -> None:
    def f(x: Any, y: Any) -> Any:
        z = (x * 2 + y).sum(0)
        q, r = torch.linalg.qr(x.t() @ x)
        values, _ = torch.linalg.qr(q + z)
        return (values @ z).exp(), r * 2

    run, graphs = compiled(f)
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    with caplog.at_level(logging.WARNING, "legato.torch"):
        same(run(x, y), f(x, y))
        same(run(x, y), f(x, y))
    (graph,) = graphs
    assert len(graph.programs) >= 2
    assert len(graph.fallbacks.faults) == 2
    assert not graph.fallbacks.parts
    assert len([r for r in caplog.records if "qr" in r.getMessage()]) == 1
    assert __file__ in caplog.text
    with pytest.raises(Exception, match="qr: no converter"):
        compiled(f, fallback=False)[0](x, y)


def test_what_no_program_takes_stays_in_eager() -> None:
    def f(x: Any, y: Any) -> Any:
        z = torch.complex(x, y) * torch.complex(y, x)
        return torch.view_as_real(z).sum(-1) * 2 + x, z

    run, graphs = compiled(f)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    same(run(x, y), f(x, y))
    assert graphs[0].programs
    assert not graphs[0].fallbacks.parts
    run, graphs = compiled(lambda x, z: (x.exp() * 2, z))
    same(run(x, torch.complex(x, y))[0], x.exp() * 2)


def test_breaks_of_the_graph() -> None:
    def f(x: Any) -> Any:
        x = x * 2 + 1
        if x.sum() > 0:
            x = x - 3
        torch._dynamo.graph_break()
        return x.relu()

    run, graphs = compiled(f)
    for x in (torch.ones(4), -torch.ones(4)):
        same(run(x), f(x))
    assert whole(graphs)
    assert len(graphs) >= 3


@pytest.mark.parametrize("name", ["input", "view", "both", "transposed", "slice", "detached"])
def test_results_that_are_inputs_or_views_and_inputs_that_are_changed(name: str) -> None:
    def f(x: Any) -> Any:
        match name:
            case "input":
                x.add_(1)
                return x
            case "view":
                y = x.view(-1)[2:]
                y.mul_(3)
                return y, x.sum()
            case "both":
                y = x + 1
                return y, y.t(), x.t(), x
            case "transposed":
                x.t()[0].zero_()
                return x.t() * 2
            case "slice":
                y = x.clone()
                y[1:, ::2] = 7
                return y, y[0]
            case _:
                return x.detach(), x.expand(2, *x.shape)

    run, graphs = compiled(f)
    for _ in range(2):
        x = torch.randn(3, 4)
        own, peer = x.clone(), x.clone()
        found, wanted = run(own), f(peer)
        same(found, wanted)
        same(own, peer)
        found, wanted = (r if isinstance(r, tuple) else (r,) for r in (found, wanted))
        aliased = [[r.untyped_storage().data_ptr() == i.untyped_storage().data_ptr() for r in rs]
                   for rs, i in ((found, own), (wanted, peer))]  # fmt: skip
        assert aliased[0] == aliased[1]
        assert [r.stride() for r in found] == [r.stride() for r in wanted]
    assert not any(g.fallbacks for g in graphs)


def test_statistics_of_batches_and_memory_formats() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    other = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    other.load_state_dict(net.state_dict())
    run, _ = compiled(net)
    for x in (torch.randn(2, 3, 6, 6), torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)):
        found, wanted = run(x), other(x)
        same(found, wanted)
        found.square().sum().backward()
        wanted.square().sum().backward()
    same(dict(net.named_buffers()), dict(other.named_buffers()))
    same([p.grad for p in net.parameters()], [p.grad for p in other.parameters()])
    for layout in (torch.channels_last, torch.contiguous_format):
        x = torch.randn(2, 4, 5, 5).to(memory_format=layout)
        own, _ = compiled(lambda x: x * 2 + 1, dynamic=True)
        assert own(x).stride() == (x * 2 + 1).stride()
        same(own(x), x * 2 + 1)


def test_random_numbers_are_those_of_eager() -> None:
    def f(x: Any) -> Any:
        x = nn.functional.dropout(x * 2, 0.3) + 1
        y = torch.rand_like(x) + nn.functional.dropout(x.exp(), 0.6)
        return y * torch.randn(x.shape) + torch.bernoulli(x.sigmoid())

    run, graphs = compiled(f)
    x = torch.randn(8, 5)
    for seed in (1, 2):
        torch.manual_seed(seed)
        found = run(x)
        torch.manual_seed(seed)
        same(found, f(x))
    assert graphs[0].programs
    x.requires_grad_()
    torch.manual_seed(3)
    run(x).sum().backward()
    found, x.grad = x.grad, None
    torch.manual_seed(3)
    f(x).sum().backward()
    same(found, x.grad)


def test_autocast_computes_in_bfloat16() -> None:
    net = network()
    run, graphs = compiled(net)
    x = torch.randn(5, 6)
    with torch.autocast("cpu", torch.bfloat16):
        found, wanted = run(x), net(x)
    assert found.dtype is wanted.dtype is torch.bfloat16
    torch.testing.assert_close(found, wanted, rtol=3e-2, atol=3e-2)
    found.float().sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    assert whole(graphs)


@pytest.mark.parametrize("mode", ["no_grad", "inference"])
@pytest.mark.parametrize("freeze", [True, False])
def test_weights_that_change_are_those_of_the_call(mode: str, freeze: bool) -> None:
    net = network()
    run, graphs = compiled(net, freeze=freeze)
    x = torch.randn(5, 6, requires_grad=True)

    def check() -> None:
        with torch.no_grad() if mode == "no_grad" else torch.inference_mode():
            same(run(x), net(x))

    check()
    (program,) = graphs[0].programs
    assert (len(program.face.given) == 1) is freeze
    check()
    with torch.no_grad():
        net[0].weight.mul_(2)
    check()
    net.load_state_dict({name: t + 1 for name, t in net.state_dict().items()})
    check()
    net[0].bias.data = torch.randn(8)
    check()
    net[2].weight = nn.Parameter(torch.randn(3, 8))
    check()
    assert whole(graphs)


def test_a_weight_is_followed_by_object_version_and_memory_and_not_kept() -> None:
    from legato.torch.weights import FrozenWeight

    w = torch.randn(3)
    frozen = FrozenWeight(0, w)
    assert frozen.is_same(w)
    assert not frozen.is_same(w.clone())
    w.add_(1)
    assert not frozen.is_same(w)
    frozen = FrozenWeight(0, w)
    w.data = torch.randn(3)
    assert not frozen.is_same(w)
    frozen = FrozenWeight(0, w)
    del w
    assert frozen.held is None
    assert not frozen.is_same(None)


def test_writes_that_pytorch_does_not_count_are_seen_where_they_change_what_is_sampled() -> None:
    net = network().bfloat16()
    run, _ = compiled(net)
    x = torch.randn(5, 6).bfloat16()
    changes: list[Callable[[], Any]] = [
        lambda: net[0].weight.data.mul_(2), lambda: net[2].bias.data.copy_(torch.ones(3)),
        lambda: net[0].bias.detach().view(torch.int16).numpy().fill(16256), lambda: net[2].weight.data.t().neg_(),
    ]  # fmt: skip
    with torch.no_grad():
        torch.testing.assert_close(run(x), net(x), rtol=3e-2, atol=3e-2)
        for change in changes:
            before = net(x)
            change()
            wanted = net(x)
            assert not torch.equal(before, wanted)
            torch.testing.assert_close(run(x), wanted, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("shape", [(), (1,), (2,), (3,), (4,), (5,), (6,), (5, 7), (0, 3), (2, 3, 4, 5)])
def test_samples_of_weights_reach_from_the_first_element_to_the_last(shape: tuple[int, ...]) -> None:
    from legato.torch.weights import FrozenWeight

    for lay in (lambda t: t, lambda t: t.permute(tuple(reversed(range(t.dim()))))):
        w = lay(torch.zeros(shape))
        frozen = FrozenWeight(0, w)
        seen = set()
        for at in range(w.numel()):
            w.data[tuple(map(int, np.unravel_index(at, w.shape)))] += 1
            if not frozen.is_same(w):
                seen.add(at)
                frozen = FrozenWeight(0, w)
        assert len(seen) == min(w.numel(), 4)
        assert not w.numel() or {0, w.numel() - 1} <= seen


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("kind", ["negative", "gaps", "nested"])
def test_weights_without_samples_are_followed_by_version_and_memory(kind: str) -> None:
    from legato.torch.weights import FrozenWeight

    x = torch.randn(4, 4)
    made: dict[str, Callable[[], Any]] = {
        "negative": lambda: torch.complex(x[:1, 0], x[:1, 0]).conj().imag,
        "gaps": lambda: x[:, :2],
        "nested": lambda: torch.nested.nested_tensor([x[0], x[1, :2]]),
    }
    w = made[kind]()
    frozen = FrozenWeight(0, w)
    assert frozen.sample is None
    assert frozen.is_same(w)
    w.mul_(2)
    assert not frozen.is_same(w)


def test_eager_operators_keep_their_order_and_hardly_cut_the_graph() -> None:
    def f(x: Any) -> Any:
        drawn = [torch.rand_like(x.exp() * n) for n in range(1, 4)]
        return sum(d * 2 + x for d in drawn)

    run, graphs = compiled(f)
    x = torch.randn(4)
    torch.manual_seed(4)
    found = run(x)
    torch.manual_seed(4)
    same(found, f(x))
    assert len(graphs[0].programs) == 2
    assert len(graphs[0].fallbacks.faults) == 3


def test_a_weight_that_changes_often_leaves_the_others_constants() -> None:
    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.register_buffer("seen", torch.zeros(3))
            self.register_buffer("shift", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.seen.add_(x.sum(0))
            return self.layer(x) + self.seen + self.shift

    net, x = Cached(), torch.randn(2, 3)
    run, graphs = compiled(net)
    total = torch.zeros(3)
    made = []
    for n in range(4):
        with torch.no_grad():
            total += x.sum(0)
            same(run(x), net.layer(x) + total + n)
            net.shift.add_(1)
        made.append(graphs[0].programs[0])
        assert len(graphs[0].programs[0].face.given) == (2 if n == 0 else 3)
    assert made[0] is not made[1]
    assert made[1] is made[2] is made[3]

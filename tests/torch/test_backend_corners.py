"""`torch.compile(f, backend="legato")` where calls come from threads, tensors are odd, and programs fail."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from legato.base.errors import CompileError, InternalError, RunError, UnsupportedError  # noqa: E402
from legato.torch import graph as graphs_of  # noqa: E402
from legato.torch.backend import backend  # noqa: E402
from legato.torch.graph import CompiledGraph  # noqa: E402
from tests.heavy import marked  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def compiled(f: Any, dynamic: bool | None = None, **options: Any) -> tuple[Callable[..., Any], list[CompiledGraph]]:
    """`f` compiled, and the graphs as they are made."""
    graphs: list[CompiledGraph] = []

    def recording(graph_module: Any, inputs: Any) -> Any:
        return backend(graph_module, inputs, options=options, made=graphs.append)

    return torch.compile(f, backend=recording, dynamic=dynamic), graphs


def same(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_threads_that_compile_and_call_at_once() -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    run, _ = compiled(net)
    x = [torch.randn(n, 6) for n in range(2, 10)]
    with torch.no_grad():
        wanted = [net(each) for each in x]
    together = threading.Barrier(4)

    def calls(n: int) -> list[Any]:
        together.wait()
        with torch.no_grad():
            return [run(each) for each in (x[n:] + x[:n]) * 3]

    with ThreadPoolExecutor(4) as pool:
        for n, found in enumerate(pool.map(calls, range(4))):
            same(found, (wanted[n:] + wanted[:n]) * 3)


@pytest.mark.parametrize("name", ["empty", "scalar", "integers", "strided", "requiring", "halves", "nonfinite"])
def test_tensors_of_every_kind(name: str) -> None:
    x = {
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(2.5),
        "integers": torch.arange(-3, 3).reshape(2, 3),
        "strided": torch.randn(6, 8)[::2, 1::3].t(),
        "requiring": torch.randn(2, 3, requires_grad=True),
        "halves": torch.randn(2, 3).bfloat16(),
        "nonfinite": torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0]),
    }[name]

    def f(x: Any) -> Any:
        return x * 2 + 1, x.sum(), x.abs().amax() if x.numel() else x, x.to(torch.int32) if name == "integers" else -x

    run, graphs = compiled(f)
    with torch.no_grad():
        same(run(x), f(x))
    assert not any(g.fallbacks for g in graphs)


def test_what_tensors_alias_is_told_apart_when_both_are_changed() -> None:
    def f(x: Any, y: Any) -> Any:
        x.mul_(2)
        y.add_(1)
        return x + y

    run, _ = compiled(f)
    own, peer = torch.randn(6), torch.zeros(6)
    peer.copy_(own)
    same(run(own[:4], own[2:]), f(peer[:4], peer[2:]))
    same(own, peer)
    same(run(own, own), f(peer, peer))
    same(own, peer)


def test_gradients_of_gradients_are_refused_by_pytorch_and_views_of_inputs_have_theirs() -> None:
    def f(x: Any, w: Any) -> Any:
        y = x.view(-1)[1:7].reshape(2, 3)
        return (y @ w).tanh().sum(), y

    run, _ = compiled(f)
    x, w = torch.randn(2, 4, requires_grad=True), torch.randn(3, 5, requires_grad=True)
    found, wanted = run(x, w), f(x, w)
    same(found, wanted)
    grads = [torch.autograd.grad(a + b.sum(), (x, w)) for a, b in (found, wanted)]
    same(*grads)


def test_a_graph_that_only_hands_on_has_a_program_of_nothing() -> None:
    run, _ = compiled(lambda x, n: (x, None, n), dynamic=True)
    x = torch.randn(3)
    found = run(x, 4)
    assert found[0] is x
    assert found[1:] == (None, 4)


def test_old_weights_and_dead_modules_are_let_go() -> None:
    net = nn.Linear(4, 4)
    run, _ = compiled(net)
    x = torch.randn(2, 4)
    with torch.no_grad():
        run(x)
        old = weakref.ref(net.weight)
        net.weight = nn.Parameter(torch.randn(4, 4))
        gc.collect()
        assert old() is None
        same(run(x), net(x))
    alive = weakref.ref(net)
    del run, net
    gc.collect()
    assert alive() is None


def test_an_error_of_the_compiler_leaves_the_graph_to_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (InternalError("a bug"), CompileError("a fault"), KeyError("of Python")):

        def fail(*_: Any, error: Exception = error) -> Any:
            raise error

        monkeypatch.setattr(graphs_of, "compile_module", fail)
        run, graphs = compiled(lambda x: x * 2 + 1)
        x = torch.randn(3)
        same(run(x), x * 2 + 1)
        assert len(graphs[0].fallbacks.parts) == 1
        torch._dynamo.reset()
        with pytest.raises(type(error)):
            compiled(lambda x: x * 2 + 1, fallback=False)[0](x)
        torch._dynamo.reset()


def test_a_program_that_fails_is_an_error_and_no_result() -> None:
    run, _ = compiled(lambda x: (x.exp() @ x.t()).softmax(-1).cumsum(0) @ x, memory_limit=64)
    with pytest.raises(RunError, match=r"memory|workspace"):
        run(torch.randn(64, 64))
    run, _ = compiled(lambda x: x.exp() + 1)
    same(run(torch.ones(2)), torch.ones(2).exp() + 1)


def test_weights_frozen_in_parts_are_followed_too() -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.last = nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            q, _ = torch.linalg.qr(self.first(x))
            return self.last(q)

    net = Parts()
    run, graphs = compiled(net)
    x = torch.randn(4, 3)
    with torch.no_grad():
        same(run(x), net(x))
        assert [len(p.face.given) for p in graphs[0].programs] == [1, 1]
        net.last.weight.mul_(3)
        same(run(x), net(x))


def _constants(x: Any) -> Any:
    q, _ = torch.linalg.qr(x + torch.tensor([1.0, 2.0, 3.0]))
    return q * torch.tensor([[1.0], [2.0], [3.0]]) + torch.arange(3)


def _sizes(x: Any) -> Any:
    n = x.shape[0] * 2 + 1
    q, _ = torch.linalg.qr(x.new_ones(n, 3).tril() * x.sum())
    return q.reshape(-1)[: n - 2] * n, n, x.shape[0] / n


def _branches(x: Any) -> Any:
    y = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
    return torch.linalg.qr(y)[0].exp() + y


def _written(x: Any) -> Any:
    q, r = torch.linalg.qr(x * 2)
    x.add_(1)
    x[0] = r[0]
    return q.t()[1:], x.mul_(3)


def _one_of_two(x: Any) -> Any:
    values, places = torch.sort(x, 0)
    return torch.linalg.qr(values)[0], places


@pytest.mark.parametrize(
    ("f", "dynamic"),
    [
        marked(f, dynamic, heavy=dynamic != (f in (_sizes, _written)))
        for f in (_constants, _sizes, _branches, _written, _one_of_two)
        for dynamic in (False, True)
    ],
)
def test_parts_of_graphs_around_eager_operators(f: Callable[[Any], Any], dynamic: bool) -> None:
    run, graphs = compiled(f, dynamic=dynamic)
    for n in (3, 4) if dynamic and f is not _constants else (3,):
        for x in (torch.randn(n, 3), -torch.ones(n, 3) + torch.eye(n, 3)):
            own, peer = x.clone(), x.clone()
            same(run(own), f(peer))
            same(own, peer)
    assert graphs[0].programs
    assert not graphs[0].fallbacks.parts


def test_gradients_through_eager_operators() -> None:
    def f(x: Any, w: Any) -> Any:
        y = (x @ w).relu() + 1
        z = torch.linalg.solve(y @ y.t() + torch.eye(4) * 9, y)
        return (z * 2).tanh()

    run, graphs = compiled(f)
    x, w = torch.randn(4, 3, requires_grad=True), torch.randn(3, 5, requires_grad=True)
    found, wanted = run(x, w), f(x, w)
    same(found, wanted)
    same(*(torch.autograd.grad(y.square().sum(), (x, w), retain_graph=True) for y in (found, wanted)))
    same(*(torch.autograd.grad(y.sum(), (x, w)) for y in (found, wanted)))
    assert {g.kind for g in graphs} == {"forward", "backward"}
    assert all(g.programs for g in graphs)


def test_batches_of_any_size_are_trained_by_one_pair_of_programs() -> None:
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    run, graphs = compiled(net, dynamic=True)
    for n in (7, 3, 5):
        x = torch.randn(n, 2, 6, 6)
        net.zero_grad()
        statistics = {name: t.clone() for name, t in net.state_dict().items()}
        run(x).square().sum().backward()
        found = [p.grad for p in net.parameters()]
        after = {name: t.clone() for name, t in net.named_buffers()}
        net.load_state_dict(statistics)
        net.zero_grad()
        net(x).square().sum().backward()
        same(found, [p.grad for p in net.parameters()])
        same(after, dict(net.named_buffers()))
    assert len(graphs) == 2


def test_a_number_that_the_data_decides() -> None:
    def f(x: Any) -> Any:
        n = x.max().item()
        return x * n, x[: int(n)].sum()

    run, _ = compiled(f)
    for x in (torch.tensor([3, 1, 2]), torch.tensor([1, -5, -7]), torch.tensor([-2, -1, -3])):
        same(run(x), f(x))
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        torch._dynamo.reset()
        run, _ = compiled(lambda x: x * x.max().item() + 1)
        for x in (torch.tensor([3, 1, 2]), torch.tensor([-2, -1, -3]), torch.tensor([0, -1])):
            same(run(x), x * x.max() + 1)


def _tail(x: Any) -> Any:
    return x[1:], x[:, 1:].t(), x[::2], x[-2]


def _tail_of_a_sum(x: Any) -> Any:
    y = x + 1
    return y[x.shape[0] // 2 :, 1], y, y.unsqueeze(1).expand(-1, 2, -1)


@pytest.mark.parametrize("f", [_tail, _tail_of_a_sum])
def test_results_that_are_views_of_symbolic_sizes(f: Callable[[Any], Any]) -> None:
    run, graphs = compiled(f, dynamic=True)
    for n in (4, 5, 6):
        x = torch.randn(n, 3)
        own, peer = x.clone(), x.clone()
        found, wanted = run(own), f(peer)
        same(found, wanted)
        assert [v.stride() for v in found] == [v.stride() for v in wanted]
        found[0].add_(1)  # what shares memory with another changes it
        wanted[0].add_(1)
        same((found, own), (wanted, peer))
    assert not graphs[0].fallbacks.parts


def test_results_that_are_views_are_refused_without_eager() -> None:
    run, _ = compiled(_tail, dynamic=True, fallback=False)
    with pytest.raises(UnsupportedError, match="a view"):
        run(torch.randn(4, 3))


def _of_the_default_dtype(x: Any) -> Any:
    n = x.shape[0]
    return (x / 2, x + 0.5, x > 1.5, x.sin(), torch.full((2,), 1.5) * x[0], torch.arange(n) / n, torch.sigmoid(x) * 2.5,
            torch.linspace(0, 1, 4), x.float() * 0.1, torch.zeros(2))  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float32])
def test_floats_of_integers_are_of_the_default_dtype(dtype: torch.dtype) -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        for x in (torch.arange(4), torch.arange(4) > 2):
            run, graphs = compiled(_of_the_default_dtype)
            found, wanted = run(x), _of_the_default_dtype(x)
            torch.testing.assert_close(found, wanted)
            assert not graphs[0].fallbacks
            torch._dynamo.reset()
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("name", ["complex", "sparse", "negative", "one negative", "expanded"])
def test_weights_of_every_kind(name: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            x = torch.randn(3, 3)
            self.register_buffer("w", {
                "complex": torch.complex(x, x + 1), "sparse": x.relu().to_sparse(),
                "negative": torch.complex(x, x).conj().imag,
                "one negative": torch.complex(x[:1, 0], x[:1, 0]).conj().imag, "expanded": x[:1].expand(3, 3),
            }[name])  # fmt: skip

        def forward(self, x: Any) -> Any:
            if name == "one negative":
                return (self.w * x).exp()
            y = torch.view_as_real(self.w * x).sum(-1) if name == "complex" else self.w @ x
            return y.exp()

    net, x = Net(), torch.randn(3, 3)
    run, _ = compiled(net)
    with torch.no_grad():
        for _ in range(2):
            same(run(x), net(x))
            if name != "expanded":
                net.w.mul_(2)

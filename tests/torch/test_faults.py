"""`torch.compile(backend="legato")` where converters fail: that operator runs in eager, and is named."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import legato.torch  # noqa: E402
from legato.base.errors import InternalError, UnsupportedError  # noqa: E402
from legato.frontend.torch import signature, walk  # noqa: E402
from legato.torch.backend import backend  # noqa: E402
from legato.torch.report import Watch  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def _raises(b: Any, self: Any) -> Any:
    raise KeyError("of Python")


def _is_of_another_shape(b: Any, self: Any) -> Any:
    return b.sum(self, axis=(0,))


def f(x: Any) -> Any:
    return (x * 2).exp() + x


@pytest.mark.parametrize(("faulty", "told"), [(_raises, "KeyError: 'of Python'"), (_is_of_another_shape, "in PyTorch")])
def test_a_bug_in_a_converter_costs_that_operator(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, faulty: Any, told: str
) -> None:
    monkeypatch.setattr(walk, "find", lambda op, own: faulty if "exp" in str(op) else signature.find(op, own))
    x = torch.randn(3, 2)
    watch = Watch()
    with caplog.at_level(logging.WARNING, "legato.torch"):
        torch.testing.assert_close(torch.compile(f, backend=watch.backend)(x), f(x))
    (graph,) = watch.reports()
    ((fault,), failed) = graph.eager, graph.failed
    assert (fault.operator, failed, graph.programs) == ("aten::exp", (), 2)
    assert (graph.native, graph.count) == (2, 3)
    assert fault.reason.startswith("a bug in Legato: ")
    assert told in fault.reason
    assert "aten::exp runs in eager: a bug in Legato" in caplog.text
    assert "3 operators (2 in programs)" in str(graph)
    torch._dynamo.reset()
    with pytest.raises((KeyError, InternalError)):
        torch.compile(f, backend=lambda g, i: backend(g, i, options={"fallback": False}))(x)


@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.`:FutureWarning")  # PyTorch's own
def test_where_python_s_stack_ends_there_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a converter of the caller's, the error is the caller's."""

    def endless(b: Any, self: Any) -> Any:
        return endless(b, self)

    x = torch.randn(3, 2)
    with pytest.raises(RecursionError):
        legato.compile(Exp(), args=(x,), custom={"aten::exp": endless})
    monkeypatch.setattr(walk, "find", lambda op, own: endless if "exp" in str(op) else signature.find(op, own))
    watch = Watch()
    torch.testing.assert_close(torch.compile(f, backend=watch.backend)(x), f(x))
    (fault,) = watch.reports()[0].eager
    assert fault.reason.startswith("the conversion of aten::exp takes more of Python's stack than is left")
    with pytest.raises(UnsupportedError, match="takes more of Python's stack than is left"):
        legato.compile(Exp(), args=(x,))


class Exp(torch.nn.Module):  # type: ignore[misc,name-defined]
    def forward(self, x: Any) -> Any:
        return x.exp()


def test_what_a_branch_has_that_cannot_be_compiled_costs_the_branch() -> None:
    def g(x: Any) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: torch.linalg.qr(x)[1].sum() + x, lambda x: x - 1, (x.exp(),))
        return y * 2

    for x in (torch.randn(3, 3), -torch.ones(3, 3)):
        found = legato.torch.explain(g, x)
        (graph,) = found.graphs
        assert [fault.operator for fault in graph.eager] == ["aten::linalg_qr"]
        assert graph.programs == 2
        torch.testing.assert_close(torch.compile(g, backend="legato")(x), g(x))


def test_a_graph_without_memory_to_compile_it_runs_in_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def exhausted(b: Any, self: Any) -> Any:
        asked.append(self)
        raise MemoryError

    monkeypatch.setattr(walk, "find", lambda op, own: exhausted if "exp" in str(op) else signature.find(op, own))
    x = torch.randn(3, 2)
    watch = Watch()
    torch.testing.assert_close(torch.compile(f, backend=watch.backend)(x), f(x))
    (graph,) = watch.reports()
    assert (graph.eager, graph.failed, graph.programs) == ((), ("error: there is not the memory to compile it",), 0)
    assert len(asked) == 1  # the graph is not cut there and tried again

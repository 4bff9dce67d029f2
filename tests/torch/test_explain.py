"""`legato.torch.explain` says what is compiled, what runs in eager, and where graphs break."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import legato.torch  # noqa: E402
from legato.torch.report import Explanation, GraphReport  # noqa: E402


def _where(text: str) -> int:
    """The line of this file that ends with a comment."""
    with open(__file__) as file:
        return next(n for n, line in enumerate(file, 1) if line.rstrip().endswith(f"# {text}"))


def test_a_report_of_a_function_with_all_that_can_happen() -> None:
    def f(x: Any) -> Any:
        y = (x.t() @ x).exp()
        y, _ = torch.linalg.qr(y * 2)  # eager
        torch._dynamo.graph_break()  # break
        return y.relu() + 1

    found = legato.torch.explain(f, torch.randn(4, 3))
    first, second = found.graphs
    assert first.programs >= 1
    assert first.operators["aten::exp"] == 1
    (fault,) = first.eager
    assert (fault.operator, fault.reason) == ("aten::linalg_qr", "no converter")
    assert (fault.span.source, fault.span.line) == (__file__, _where("eager"))
    assert (second.programs, second.eager, second.failed) == (1, (), ())
    (cut,) = found.breaks
    assert cut.span is not None
    assert (cut.span.source, cut.span.line) == (__file__, _where("break"))
    assert not found.is_whole
    text = str(found)
    assert text.startswith("2 graphs, 1 break, 0 recompilations\ninference: ")
    assert f"in eager: aten::linalg_qr at {fault.span}: no converter" in text


def test_backward_graphs_are_in_it_and_gradients_are_not_touched() -> None:
    net = torch.nn.Linear(3, 2)
    found = legato.torch.explain(torch.compile(net, backend="legato"), torch.randn(4, 3))
    assert {g.kind for g in found.graphs} <= {"forward", "backward"}
    assert found.is_whole
    assert net.weight.grad is None


def test_recompilations_are_counted() -> None:
    def inner(x: Any) -> Any:
        x = x * 3
        torch._dynamo.graph_break()
        return x + 1

    def outer(x: Any) -> Any:
        return inner(x) + inner(x.double()).float()

    found = legato.torch.explain(outer, torch.randn(4))
    assert found.recompilations == 2  # before the break and behind it, for float64


def test_a_graph_with_a_part_that_failed_is_not_whole() -> None:
    graph = GraphReport("inference", 1, {"aten::exp": 2}, 1, (), (), False)
    assert Explanation((graph,), ()).is_whole
    assert not Explanation((replace(graph, failed=("a size is not known",)),), ()).is_whole

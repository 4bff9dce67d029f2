"""The benchmark of torch.compile: what is compared with what, and what its table says."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
bench = pytest.importorskip("tools.bench.torch_compile")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Networks that are one layer, and blocks that are as short as they may be."""
    layer = lambda: (torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()), (torch.ones(2, 4),))  # noqa: E731
    monkeypatch.setattr(bench, "NETS", {"small": layer})
    monkeypatch.setattr(bench, "BLOCK", 0.0)
    return bench


@pytest.mark.parametrize("backends", [("legato", "eager"), ("legato",)])
def test_results_are_compared_with_eager(small: Any, backends: tuple[str, ...]) -> None:
    row = small.times("small", 1, 1, backends)
    assert (set(row.milliseconds), set(row.cold), row.missing, row.differ) == ({*backends}, {*backends}, {}, False)
    assert set(row.ratios) == {*backends} - {"legato"}


def test_results_that_differ(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small, "_near", lambda found, wanted, near=small._near: near([a + 1 for a in found], wanted))
    assert small.times("small", 1, 1, ("legato",)).differ


def test_no_tensors_are_not_near(small: Any) -> None:
    assert not small._near([], [])


def test_what_is_compiled_stays_compiled(small: Any) -> None:
    """Beginning with another backend does not make the calls of the first compile again."""
    calls = []
    for backend in ("legato", "aot_eager"):
        calls.append(small.call_of("small", backend))
        calls[-1]()
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for call in calls:
        call()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before


def test_a_row_says_what_was_measured() -> None:
    row = bench.Row("a", {"legato": 1.0, "eager": 2.0}, {"legato": 3.25}, {"eager": (2.0, 1.9, 2.1)}, {"inductor": "x"})
    failed = bench.Row("b", missing={"legato": "the operator f"}, differ=True)
    rows = [asdict(r) for r in (row, failed)]
    text = bench.markdown({"machine": "a machine", "threads": 2, "torch": "2", "rows": rows})
    assert text.splitlines()[2:5] == [
        "| a | 1.00 | 2.00 | – | 2.00× | – | 3.2, – |",
        "| b (the operator f) | – | – | – | – | – | –, – |",
        "| geometric mean | | | | 2.00× | – | |",
    ]


@pytest.mark.skipif(not (bench.ROOT / "docs/torch_compile.json").exists(), reason="`make bench-torch` was not run")
def test_the_page_has_what_the_figures_say() -> None:
    figures = json.loads((bench.ROOT / "docs/torch_compile.json").read_text())
    page = Path(bench.ROOT / "docs/pytorch_backend.md").read_text(encoding="utf-8")
    assert f"{bench.BEGIN}\n{bench.markdown(figures)}\n{bench.END}" in page

"""The benchmark of training steps: its networks are one network for both engines, and what its table says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from legato.interp import evaluate

torch = pytest.importorskip("torch")
nets = pytest.importorskip("tools.bench.training_nets")
training = pytest.importorskip("tools.bench.training")


@pytest.mark.parametrize("name", ["char_rnn", "lstm"])
def test_programs_are_what_pytorch_runs(name: str) -> None:
    net = nets.NETS[name]
    params, given = nets.parameters(net), nets.batch(net)
    with torch.inference_mode():
        eager = nets.Eager({n: torch.from_numpy(value) for n, value in params.items()})
        wanted = net.loss(eager, *map(torch.from_numpy, given.values()))
    np.testing.assert_allclose(evaluate(net.program(), [*params.values(), *given.values()]), wanted, rtol=1e-5)


@pytest.mark.heavy
def test_the_tree_is_what_pytorch_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(training.ROOT / "examples"))
    ours, theirs = (training.step_of(engine, "tree_lstm", 1) for engine in ("legato", "torch"))
    for _ in range(3):
        np.testing.assert_allclose(ours(), theirs(), rtol=1e-4)


def test_a_row_says_what_was_measured() -> None:
    row = training.Row(
        "lstm", "LSTM", {"legato": 12.34, "torch": 20.0}, 1.62, 1.6, 1.65, {"legato": 3_000_000}, (1.0, 4.04),
        {"torch.compile": "no compiler"},
    )  # fmt: skip
    failed = training.Row("x", "X", missing={"legato": "the operator f has no gradient"})
    text = training.markdown(
        {"machine": "a machine", "threads": 2, "rows": [training.asdict(r) for r in (row, failed)]}
    )
    assert text.splitlines()[2:4] == [
        "| LSTM | 12.3 | 20.0 | – | 1.62× (1.60–1.65) | 3, –, – | 1.0, 4.0 |",
        "| X (the operator f has no gradient) | – | – | – | – | –, –, – | – |",
    ]


@pytest.mark.skipif(not (training.ROOT / "docs/training.json").exists(), reason="`make bench-training` was not run")
def test_the_page_has_what_the_figures_say() -> None:
    figures = json.loads((training.ROOT / "docs/training.json").read_text())
    page = Path(training.ROOT / "docs/training.md").read_text(encoding="utf-8")
    assert f"{training.BEGIN}\n{training.markdown(figures)}\n{training.END}" in page

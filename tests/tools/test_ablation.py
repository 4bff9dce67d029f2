"""What each pass is worth: the stack of pipelines, and what is made of the figures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from legato.bench.statistics import Ratio
from legato.pipelines import DEFAULT, OPTIONAL
from tools.bench import passes
from tools.bench.ablation import MODELS, main, stack
from tools.bench.ablation_page import BEGIN, END, LAYOUTS, Figures, Model, Step, chart, markdown, slower
from tools.bench.pair import machine

ROOT = Path(__file__).parents[2]


def ratio(median: float, spread: float = 0.01) -> Ratio:
    return Ratio(median, median * (1 - spread), median * (1 + spread), 0.96, 30)


def model(name: str, gains: dict[str, float], spread: float = 0.01) -> Model:
    """A model whose first program takes 8 ms; each step makes it so many times as fast, 1 leaves it as it is."""
    steps, total = [Step("none", 8.0, 20, None, None)], 1.0
    for step, gain in gains.items():
        total *= gain
        before = None if gain == 1 else ratio(gain, spread)
        steps.append(Step(step, 8.0 / total, 10, before, None if total == 1 else ratio(total)))
    return Model(name, name.upper(), 30, tuple(steps))


FIGURES = Figures(
    "a machine",
    2,
    (
        model("dqn", {"fold": 1.0, "simplify": 1.0, "fuse": 2.0, LAYOUTS: 1.25}),
        model("lstm", {"fold": 0.5, "simplify": 1.0, "fuse": 0.98, LAYOUTS: 4.0}),
    ),
)


# ---------------------------------------------------------------------------------------------------------- the stack


def test_each_stage_has_one_thing_more() -> None:
    first, *others = stages = stack()
    assert not {type(p) for p in first.passes} & set(OPTIONAL)
    for one, more, added in zip(stages, others, OPTIONAL, strict=False):
        assert {type(p) for p in more.passes} - {type(p) for p in one.passes} == {added}
        assert more.name == added.name
    assert [s.assign_layouts for s in stages] == [False] * (len(stages) - 1) + [True]
    assert stages[-1].passes == stages[-2].passes == DEFAULT


# --------------------------------------------------------------------------------------------------------- the figures


def test_json_keeps_everything() -> None:
    assert Figures.from_json(json.loads(json.dumps(FIGURES.to_json()))) == FIGURES


def test_a_model_replaces_the_one_of_its_name() -> None:
    new = FIGURES.with_model(model("dqn", {"fuse": 3.0}), MODELS)
    assert [m.name for m in new.models] == ["dqn", "lstm"]
    assert new.models[0].steps[-1].gain == 3.0
    assert [m.name for m in FIGURES.with_model(model("vgg16", {}), MODELS).models] == ["vgg16", "dqn", "lstm"]


def test_what_makes_a_model_slower_is_named() -> None:
    dqn, lstm = FIGURES.models
    assert slower(dqn) == []
    assert slower(lstm) == ["fold makes LSTM slower: 0.50× (0.49–0.51)"]  # the other one costs less than 3 %
    assert slower(model("gru", {"fuse": 0.9}, spread=0.2)) == []  # inside the noise


def test_the_table() -> None:
    assert markdown(FIGURES).splitlines() == [
        "| with | DQN | LSTM |",
        "| --- | --: | --: |",
        "| none | 8.00 | 8.00 |",
        "| fold | · | 16.00 (0.50×) |",
        "| fuse | 4.00 (2.00×) | 16.33 (0.98×) |",
        "| buffer layouts | 3.20 (1.25×) | 4.08 (4.00×) |",
        "| in all | 2.50× | 1.96× |",
        "| kernels | 20 → 10 | 20 → 10 |",
        "",
        "Slower by more than 3 %:",
        "",
        "- fold makes LSTM slower: 0.50× (0.49–0.51)",
        "",
        "The same programs with and without: simplify.",
        "",
        "Milliseconds of one call, medians over at least 30 blocks, on 2 threads of a machine; behind them how many "
        "times as fast as the row above. · is the same program as above.",
    ]
    assert "No step makes a model slower by more than 3 %." in markdown(Figures("a machine", 2, FIGURES.models[:1]))


@pytest.mark.parametrize("figures", [FIGURES, Figures("a machine", 2, ())], ids=["two models", "none"])
def test_the_chart(figures: Figures) -> None:
    root = ElementTree.fromstring(chart(figures))
    lines = root.findall("{*}polyline")
    assert len(lines) == len(figures.models)
    for line, m in zip(lines, figures.models, strict=True):
        places = [tuple(map(float, p.split(","))) for p in line.attrib["points"].split()]
        assert [x for x, _ in places] == sorted(x for x, _ in places)
        gains = [step.gain for step in m.steps if step.name != "simplify"]
        assert len(places) == len(gains)
        heights = [-np.log2(g) for g in gains]
        np.testing.assert_allclose(np.corrcoef(heights, [y for _, y in places])[0, 1], 1, atol=1e-6)
    texts = [t.text for t in root.findall("{*}text")]
    assert not figures.models or {"DQN 2.50×", "LSTM 1.96×", "fuse"} <= set(texts)
    assert "simplify" not in texts


def test_the_chart_is_of_the_json() -> None:
    figures = Figures.from_json(json.loads((ROOT / "docs/passes_ablation.json").read_text()))
    assert [m.name for m in figures.models] == list(MODELS)
    assert (ROOT / "docs/passes_ablation.svg").read_text() == chart(figures)


# ----------------------------------------------------------------------------------------------------------- the tools


def test_models_that_there_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "resnet19"])
    assert "no model resnet19; there are resnet18, " in capsys.readouterr().err


@pytest.mark.models
def test_a_small_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page, drawn = tmp_path / "a.json", tmp_path / "page.md", tmp_path / "a.svg"
    page.write_text(f"{BEGIN}\n{END}\n")
    file.write_text(json.dumps(Figures(machine(), 2, FIGURES.models[1:]).to_json()))
    outputs = ["--json", str(file), "--markdown", str(page), "--svg", str(drawn)]
    assert main(["--only", "dqn", "--rounds", "1", "--block", "0", *outputs]) == 0
    found = Figures.from_json(json.loads(file.read_text()))
    assert [m.name for m in found.models] == ["dqn", "lstm"]
    assert found.models[1] == FIGURES.models[1]
    steps = found.models[0].steps
    assert [s.name for s in steps] == [s.name for s in stack()]
    assert all(s.milliseconds > 0 for s in steps)
    assert steps[-1].before is not None
    assert steps[0].kernels > steps[-1].kernels
    assert page.read_text() == f"{BEGIN}\n{markdown(found)}\n{END}\n"
    assert drawn.read_text() == chart(found)
    assert "DQN: none " in capsys.readouterr().out


@pytest.mark.heavy
@pytest.mark.models
def test_how_long_passes_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.json"
    for name in ("dqn", "lstm"):
        assert passes.main([name, "--runs", "1", "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    assert [row["name"] for row in figures["rows"]] == ["dqn", "lstm"]
    for row in figures["rows"]:
        names = [name for name, _, _ in row["passes"]]
        assert names == [p.name for p in DEFAULT]
        assert row["seconds"] == pytest.approx(sum(seconds for _, seconds, _ in row["passes"]))
    told = capsys.readouterr().out
    assert re.search(r"^dqn +fuse +\d", told, re.MULTILINE)
    assert told.endswith(f"{passes.markdown(figures)}\n")
    assert re.search(r"^\| DQN \| \d+ \| \d+ \| `", told, re.MULTILINE)

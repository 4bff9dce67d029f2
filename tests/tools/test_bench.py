"""The benchmark's table: what rows say, that JSON keeps all of it, and that the README has what the JSON says."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.base.target import cpu_name
from legato.bench.statistics import ENOUGH, Ratio
from legato.bench.table import RIVALS, Row, Table
from tests.heavy import amount
from tools.bench import ablation_page, passes
from tools.bench.__main__ import main
from tools.bench.entries import ENTRIES
from tools.bench.report import BEGIN, END, NAMES, footer, line, markdown, verdict, write_region
from tools.models import MODELS

programs = pytest.importorskip("tools.bench.programs", reason="what is measured is written in PyTorch")
symbolic = pytest.importorskip("tools.bench.symbolic")
ROOT = Path(__file__).parents[2]


def row(
    name: str,
    seconds: dict[str, float],
    *,
    spread: float = 0.01,
    within: int = ENOUGH,
    scored: bool = True,
    differ: tuple[str, ...] = (),
) -> Row:
    """A row whose ratios follow from the times."""
    ours = seconds.get("legato")
    ratios = {
        other: Ratio(t / ours, t / ours * (1 - spread), t / ours * (1 + spread), 0.96, within)
        for other, t in seconds.items()
        if ours is not None and other != "legato"
    }
    return Row(
        name, name.title(), scored, seconds, ratios, {} if ours else {"legato": "too large"},
        dict.fromkeys(ratios, 1e-6), differ, within + 1, within, 2e-7, (2e-7,) * (within + 2), 1.25, 0.5, 0.1,
    )  # fmt: skip


def table(*rows: Row) -> Table:
    return Table("a machine", "x86-64-v4", 2, {"legato": "0.1.0", "openvino": "2026.4.1"}, rows)


TIMES = st.dictionaries(st.sampled_from(list(NAMES)), st.floats(1e-6, 10), min_size=1)
ROWS = st.builds(
    row,
    st.text("abc", min_size=1, max_size=3),
    TIMES,
    spread=st.floats(0, 0.1),
    within=st.integers(0, 2 * ENOUGH),
    scored=st.booleans(),
    differ=st.sampled_from([(), ("openvino",)]),
)
TABLES = st.lists(ROWS, max_size=4, unique_by=lambda row: row.name).map(lambda rows: table(*rows))


# ---------------------------------------------------------------------------------------------------- rows and tables


@given(ROWS)
def test_the_rival_is_the_faster_of_those_that_ran(row: Row) -> None:
    ran = {name: row.seconds[name] for name in RIVALS if name in row.seconds}
    assert (row.rival is None) == (not ran)
    if row.rival is not None:
        assert row.seconds[row.rival] == min(ran.values())
    assert not row.counts or (row.within >= ENOUGH and row.ratio is not None and row.rival not in row.differ)
    assert not row.reached or row.counts


@given(TABLES)
def test_json_keeps_everything(table: Table) -> None:
    assert Table.from_json(json.loads(json.dumps(table.to_json(), allow_nan=False))) == table


@given(TABLES, ROWS)
def test_a_row_replaces_the_one_of_its_name(table: Table, row: Row) -> None:
    order = {name: place for place, name in enumerate(sorted({r.name for r in [*table.rows, row]}))}
    more = table.with_row(row, order)
    assert [r.name for r in more.rows] == sorted({r.name for r in [*table.rows, row]})
    assert row in more.rows


def test_the_mean_is_over_scored_rows_that_can_be_compared() -> None:
    found = table(
        row("a", {"legato": 1.0, "openvino": 2.0, "onnxruntime": 9.0}),
        row("b", {"legato": 1.0, "openvino": 9.0, "onnxruntime": 8.0}),
        row("c", {"legato": 1.0, "torch": 9.0}),
        row("d", {"openvino": 9.0}),
        row("e", {"legato": 1.0, "openvino": 9.0}, scored=False),
    )
    assert found.mean == pytest.approx(4.0)
    assert footer(found) == (
        "4 models of the table: 2 count, 2 at least as fast as the faster of ONNX Runtime and OpenVINO; "
        "geometric mean 4.000× over 2"
    )
    assert table().mean is None


def test_verdicts() -> None:
    both = {"legato": 1.0, "openvino": 1.5}
    assert verdict(row("a", both)) == "counts: at least as fast as openvino"
    assert verdict(row("a", {"legato": 1.5, "openvino": 1.0})) == "counts: SLOWER than openvino"
    assert verdict(row("a", both, spread=0.03)) == "does not count: the interval is wider than ±2 %"
    assert verdict(row("a", both, within=12)) == "does not count: 12 rounds in one mode, 30 are wanted"
    assert verdict(row("a", both, differ=("openvino",))) == "does not count: outputs differ"
    assert verdict(row("a", {"openvino": 1.0})) == "does not count: there is nothing to compare"


def test_a_row_on_the_terminal() -> None:
    assert line(row("dqn", {"legato": 1e-4, "openvino": 2e-4})).splitlines() == [
        "dqn                  legato 0.100  openvino 0.200 ms  (fork-join 0.20 µs, 30 of 31 rounds)",
        "                     2.000× openvino (1.980 to 2.020, confidence 96.0%)",
        "                     counts: at least as fast as openvino",
    ]
    assert line(row("dqn", {"openvino": 2e-4})).splitlines()[1:] == [
        "                     legato did not run: too large",
        "                     does not count: there is nothing to compare",
    ]


# ------------------------------------------------------------------------------------------------------ in the README


def test_the_table_as_markdown() -> None:
    found = table(
        row("dqn", {"legato": 1e-4, "openvino": 2e-4}),
        row("vgg", {"legato": 0.1234, "openvino": 0.1234}, spread=0.05),
        row("gru", {"openvino": 2e-3}),
    )
    lines = markdown(found).splitlines()
    assert lines[:6] == [
        "| model | Legato | OpenVINO | ratio | rounds | fork-join | compile |",
        "| --- | --: | --: | --: | --: | --: | --: |",
        "| Dqn | 0.100 | 0.200 | 2.00× | 30 | 0.20 µs | 1.2 / 0.5 s |",
        "| Vgg | 123.4 | 123.4 | (0.95–1.05) | 30 | 0.20 µs | 1.2 / 0.5 s |",
        "| Gru | – | 2.00 | – | 30 | 0.20 µs | 1.2 / 0.5 s |",
        "",
    ]
    assert lines[6] == "Machine: a machine (x86-64-v4), 2 threads; Legato 0.1.0, OpenVINO 2026.4.1."
    assert lines[-1] == "Geometric mean of the ratios of 2 models with random weights: 1.41×."


@given(TABLES)
def test_every_line_has_as_many_cells(table: Table) -> None:
    rows = [text for text in markdown(table).splitlines() if text.startswith("|")]
    assert len(rows) == 2 + len(table.rows)
    assert len({text.count("|") for text in rows}) == 1


def test_the_region_between_the_markers_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text(f"above\n{BEGIN}\nold\n{END}\nbelow\n")
    for content in ("one", "two\\1\ntwo"):
        write_region(file, content)
        assert file.read_text() == f"above\n{BEGIN}\n{content}\n{END}\nbelow\n"
    file.write_text("nothing")
    with pytest.raises(ValueError, match="has 0 regions between"):
        write_region(file, "one")


@pytest.mark.parametrize(
    ("page", "message"), [("", "'' cannot be read: Is a directory"), ("page.md", "page.md has 0 regions between")]
)
def test_a_page_without_the_region_is_refused_before_anything_is_measured(
    page: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("page.md").write_text("nothing")
    with pytest.raises(SystemExit):
        main(["--only", "dqn", "--markdown", page])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("figures", "page", "begin", "end", "table"),
    [
        ("benchmarks", "README.md", BEGIN, END, lambda found: markdown(Table.from_json(found))),
        ("benchmarks-avx2", "docs/avx2.md", BEGIN, END, lambda found: markdown(Table.from_json(found))),
        ("programs", "README.md", programs.BEGIN, programs.END, programs.markdown),
        ("symbolic", "docs/shapes.md", symbolic.BEGIN, symbolic.END, symbolic.markdown),
        ("pass_times", "docs/compile_time.md", passes.BEGIN, passes.END, passes.markdown),
        (
            "passes_ablation",
            "docs/passes_ablation.md",
            ablation_page.BEGIN,
            ablation_page.END,
            lambda found: ablation_page.markdown(ablation_page.Figures.from_json(found)),
        ),
    ],
)
def test_pages_have_what_the_json_says(
    figures: str, page: str, begin: str, end: str, table: Callable[[Any], str]
) -> None:
    found = json.loads((ROOT / "docs" / f"{figures}.json").read_text())
    assert f"{begin}\n{table(found)}\n{end}" in (ROOT / page).read_text()


# ----------------------------------------------------------------------------------------------------------- the tool


def test_entries_are_models() -> None:
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names)
    assert set(names) == {model.name for model in MODELS if not model.name.endswith("_batch")}


@pytest.mark.sized
@pytest.mark.models
def test_a_small_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, readme = tmp_path / "table.json", tmp_path / "README.md"
    readme.write_text(f"{BEGIN}\n{END}\n")
    common = ["--rounds", "1", "--max-rounds", "2", "--block", "0", "--json", str(file), "--markdown", str(readme)]
    engines = ["legato-exact", *amount((), ("openvino", "torch"))]
    assert main(["--only", "dqn", "--vs", ",".join(engines), *common]) == 0
    assert "does not count" in capsys.readouterr().out
    first = Table.from_json(json.loads(file.read_text()))
    assert [set(row.seconds) for row in first.rows] == [{"legato", *engines}]
    assert main(["--only", "rnet", "--vs", "onnxruntime", *common]) == 0
    found = Table.from_json(json.loads(file.read_text()))
    assert [row.name for row in found.rows] == ["dqn", "rnet"]
    assert found.rows[0] == first.rows[0]
    assert readme.read_text() == f"{BEGIN}\n{markdown(found)}\n{END}\n"
    assert main(["--rounds", "0", "--json", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == footer(found)


def test_a_row_that_crashes_takes_no_other_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, before = tmp_path / "table.json", row("gru", {"legato": 1.0})
    crashing = tmp_path / "python"
    crashing.write_text("#!/bin/sh\nkill -SEGV $$\n")
    crashing.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(crashing))
    file.write_text(json.dumps(replace(table(before), machine=cpu_name()).to_json()))
    assert main(["--only", "dqn,lstm", "--json", str(file)]) == 1
    found = Table.from_json(json.loads(file.read_text()))
    assert [row.name for row in found.rows] == ["dqn", "lstm", "gru"]
    assert found.rows[0].missing == {"legato": "the process that measures it ended with code -11"}
    assert found.rows[2] == before
    assert "legato did not run: the process that measures it ended with code -11" in capsys.readouterr().out


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "resnet19"])
    assert "no model resnet19; there are resnet18, resnet50, " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--vs", "caffe,torch"])
    assert (
        "no engine caffe; there are legato-exact, legato-fast, legato-bfloat16, "
        "onnxruntime, openvino, openvino-bf16, torch, tensorflow, tensorflow-xla, mxnet, tvm" in capsys.readouterr().err
    )


WRITTEN = re.findall(r"-m (tools\.\S+) .*--markdown (\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("module", "page"), WRITTEN)
def test_what_make_writes_has_its_place(module: str, page: str) -> None:
    path = ROOT / module.replace(".", "/")
    files = (path / "report.py", path.with_name(f"{path.name}_page.py"), path.with_suffix(".py"))
    text = next(file for file in files if file.exists()).read_text(encoding="utf-8")
    markers = re.findall(r'^(?:BEGIN|END)\b.*= "(.*)"$', text, re.MULTILINE)
    assert [(ROOT / page).read_text(encoding="utf-8").count(marker) for marker in markers] == [1, 1]

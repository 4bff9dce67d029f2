"""docs/paper.md: its tables are what the JSON files say, and an engine without a figure is told with the reason."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from legato.bench.statistics import Ratio
from legato.bench.table import Row, Table
from tools.bench import paper
from tools.bench.ablation_page import Figures
from tools.bench.paper import BEGIN, ENGINES, LAYERS, PROGRAMS, VISION, markdown

DOCS = Path(__file__).parents[2] / "docs"
ROW = Row(
    "dqn", "DQN", True, {"legato": 1e-3, "torch": 2e-3}, {"torch": Ratio(2.0, 1.9, 2.1, 0.96, 30)}, {}, {"torch": 1e-6},
    (), 30, 30, 2e-7, (), 1.0, 0.5, 0.1,
)  # fmt: skip
SLOW = replace(ROW, ratios={"tvm": Ratio(321.4, 300.0, 330.0, 0.5, 1)})
TABLE = Table("a machine", "x86-64-v4", 2, {"legato": "1", "torch": "2"}, (ROW,))
PROGRAMS_THERE: dict[str, Any] = {
    "machine": "m",
    "torch": "2",
    "rows": [{"name": PROGRAMS[1], "legato": 1.5, "ratio": 2.25}],
}
NO_PASSES = Figures("m", 2, ())


def test_the_page_has_what_the_files_say(tmp_path: Path) -> None:
    page = tmp_path / "paper.md"
    text = (DOCS / "paper.md").read_text(encoding="utf-8")
    page.write_text(text.partition(BEGIN)[0] + BEGIN + "\n<!-- end of paper -->\n", encoding="utf-8")
    paper.main(["--markdown", str(page)])
    assert page.read_text(encoding="utf-8") == text


def test_every_network_and_engine_was_measured_on_one_machine() -> None:
    table, tvm = (Table.from_json(json.loads((DOCS / f"{n}.json").read_text())) for n in ("paper", "paper_tvm"))
    programs = json.loads((DOCS / "paper_programs.json").read_text())
    assert {row.name for row in table.rows} == {row.name for row in tvm.rows} == {*VISION, *LAYERS}
    for row in table.rows:
        assert {*row.seconds, *row.missing} == {"legato", *ENGINES} - {"tvm"}
        assert row.differ == ()
    for row in tvm.rows:
        assert {*row.seconds, *row.missing} == {"legato", "tvm"}
        assert row.differ == ()
    assert {row["name"] for row in programs["rows"]} >= {*PROGRAMS}
    assert table.fits(tvm)
    assert programs["machine"] == f"{table.machine} ({table.target})"


@pytest.mark.parametrize(
    ("row", "slow", "cell"),
    [
        (ROW, None, "| DQN | 1.00 ms | 2.00× | – | – | – | – | – | – |"),
        (ROW, SLOW, "| DQN | 1.00 ms | 2.00× | – | – | – | – | – | 321× |"),
        (replace(ROW, differ=("torch",)), None, "| DQN | 1.00 ms | outputs differ | – | – | – | – | – | – |"),
    ],
)  # fmt: skip
def test_a_row(row: Row, slow: Row | None, cell: str) -> None:
    tvm = replace(TABLE, rows=() if slow is None else (slow,))
    assert cell in markdown(replace(TABLE, rows=(row,)), tvm, PROGRAMS_THERE, NO_PASSES).splitlines()


def test_an_engine_without_a_figure_says_why() -> None:
    row = replace(ROW, missing={"mxnet": "Refused: a reason"})
    text = markdown(replace(TABLE, rows=(row,)), replace(TABLE, rows=()), PROGRAMS_THERE, NO_PASSES)
    assert "- DQN in MXNet: Refused: a reason" in text.splitlines()
    assert "| TreeLSTM | 1.50 ms | 2.25× |" in text.splitlines()

"""Writes the figures of docs/paper.md from what `make paper` measured: `python -m tools.bench.paper --markdown F`.

How many times as long as Legato each engine takes, as the paper shows it; why an engine has no figure stands below.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from legato.bench.table import Row, Table
from tools.bench.ablation_page import Figures
from tools.bench.report import NAMES, add_markdown, cells, milliseconds, write_region

__all__ = ["BEGIN", "END", "main", "markdown"]

DOCS: Final = Path(__file__).parents[2] / "docs"
BEGIN: Final = "<!-- paper: written by `python -m tools.bench.paper` from what `make paper` measures -->"
END: Final = "<!-- end of paper -->"
ENGINES: Final = ("torch", "tensorflow", "tensorflow-xla", "mxnet", "onnxruntime", "openvino", "tvm")
VISION: Final = ("resnet18", "mobilenet_v2", "vgg16", "dqn", "inception_v3")
LAYERS: Final = ("gru", "lstm")
PROGRAMS: Final = ("CharRNN, 200 characters", "TreeLSTM")
NONE: Final = "–"


def markdown(table: Table, tvm: Table, programs: dict[str, Any], passes: Figures) -> str:
    """All tables. tvm: that engine alone, which takes so long that it has few rounds; programs: rows of
    `tools.bench.programs`; passes: of `tools.bench.ablation`."""
    rows = {row.name: row for row in table.rows}
    slow = {row.name: row for row in tvm.rows}
    networks = [(rows[name], slow.get(name)) for name in (*VISION, *LAYERS) if name in rows]
    return "\n".join(
        [
            *_networks(networks),
            "",
            *_legend(table, tvm, networks),
            "",
            *_programs(programs),
            "",
            "## Figure 5: passes on top of each other",
            "",
            *_passes(passes),
        ]
    )


def _networks(pairs: Sequence[tuple[Row, Row | None]]) -> Iterator[str]:
    yield cells(["network", "Legato", *(NAMES[engine] for engine in ENGINES)])
    yield cells(["---", *["--:"] * (len(ENGINES) + 1)])
    for row, slow in pairs:
        shown = [_shown(slow if engine == "tvm" else row, engine) for engine in ENGINES]
        yield cells([row.title, f"{milliseconds(row.seconds.get('legato'))} ms", *shown])


def _shown(row: Row | None, engine: str) -> str:
    """How many times as long as Legato an engine takes."""
    if row is None or engine not in row.ratios:
        return NONE
    if engine in row.differ:
        return "outputs differ"
    times = row.ratios[engine].median
    return f"{times:.0f}×" if times >= 100 else f"{times:.1f}×" if times >= 10 else f"{times:.2f}×"


def _legend(table: Table, tvm: Table, pairs: Sequence[tuple[Row, Row | None]]) -> Iterator[str]:
    versions = {**tvm.versions, **table.versions}
    named = ", ".join(f"{NAMES[engine]} {versions[engine]}" for engine in ("legato", *ENGINES) if engine in versions)
    rounds = min((row.within for row, _ in pairs), default=0)
    yield (
        f"Milliseconds of one call of Legato at batch 1, and how many times as long each other takes: medians over at "
        f"least {rounds} alternating blocks (TVM: of two calls), {table.threads} threads of {table.machine} "
        f"({table.target}). {named}."
    )
    missing: dict[str, list[str]] = {}
    for row, slow in pairs:
        for engine, why in {**row.missing, **({} if slow is None else slow.missing)}.items():
            missing.setdefault(f"{NAMES[engine]}: {why}", []).append(row.title.partition(",")[0])
    if missing:
        yield ""
        yield from (f"- {', '.join(titles)} in {why}" for why, titles in missing.items())


def _programs(figures: dict[str, Any]) -> Iterator[str]:
    yield cells(["program", "Legato", "PyTorch"])
    yield cells(["---", "--:", "--:"])
    for row in figures["rows"]:
        if row["name"] in PROGRAMS:
            yield cells([row["name"], f"{row['legato']:.2f} ms", f"{row['ratio']:.2f}×"])
    yield ""
    yield f"One thread of {figures['machine']}; PyTorch {figures['torch']}, operator by operator."


def _passes(figures: Figures) -> Iterator[str]:
    yield cells(["network", "all passes", "most of it", "kernels"])
    yield cells(["---", "--:", "---", "--:"])
    for model in figures.models:
        best = max(model.steps, key=lambda step: step.before.median if step.before is not None else 0)
        gain = best.before.median if best.before is not None else 1.0
        kernels = f"{model.steps[0].kernels} → {model.steps[-1].kernels}"
        yield cells([model.title, f"{model.steps[-1].gain:.2f}×", f"{best.name}, {gain:.2f}×", kernels])
    yield ""
    yield (
        f"How many times as fast a network is with all passes and buffer layouts as with those alone that code needs: "
        f"{figures.threads} threads of {figures.machine}. Each step by itself: "
        "[what each pass is worth](passes_ablation.md)."
    )


def main(given: Sequence[str] | None = None) -> None:
    """Reads, prints, writes."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.paper", description=__doc__)
    parser.add_argument("--from", type=Path, default=DOCS, dest="folder", help="where the JSON files are (docs)")
    add_markdown(parser, BEGIN, END)
    args = parser.parse_args(given)
    table, tvm, programs, passes = (
        json.loads((args.folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("paper", "paper_tvm", "paper_programs", "passes_ablation")
    )
    text = markdown(Table.from_json(table), Table.from_json(tvm), programs, Figures.from_json(passes))
    print(text)
    if args.markdown is not None:
        write_region(args.markdown, text, BEGIN, END)


if __name__ == "__main__":
    main()

"""Measures how long the default pipeline takes: `python -m tools.bench.passes`.

Seconds of CPU time of each pass, the median over runs after one that imports what passes need, without what is around
them (reading the file before, lowering behind). Rows that the JSON file has of this machine are kept where they are not
measured again.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.base.target import host
from legato.driver import CompileOptions, load_model
from legato.ir.module import Module
from tools.bench.entries import ENTRIES
from tools.bench.pair import machine
from tools.bench.report import add_outputs, cells, publish
from tools.models import get

__all__ = ["BEGIN", "END", "Row", "main", "markdown", "measured"]

BEGIN: Final = "<!-- passes: written by `python -m tools.bench.passes` from docs/pass_times.json -->"
END: Final = "<!-- end of passes -->"
TITLES: Final = {entry.name: entry.title for entry in ENTRIES}
LONGEST: Final = 4  # passes that a row of the table names


@dataclass(frozen=True, slots=True)
class Row:
    """A model: nodes of its program as it is read; seconds of the whole pipeline, the median over `runs`; names and
    seconds of its passes in order, and whether each found something to do."""

    name: str
    nodes: int
    runs: int
    seconds: float
    passes: tuple[tuple[str, float, bool], ...]


def measured(name: str, runs: int) -> Row:
    """The row of a model."""
    model = get(name)
    shapes = model.static_shapes() if model.symbolic and not name.endswith("_batch") else None
    mod = load_model(model.path(), shapes=shapes)
    nodes = sum(1 for _ in post_order(func.body for _, func in mod.graph_functions()))
    _once(mod)
    found = [_once(mod) for _ in range(runs)]
    passes = tuple((first[0], median(row[n][1] for row in found), first[2]) for n, first in enumerate(found[0]))
    return Row(name, nodes, runs, median(sum(seconds for _, seconds, _ in row) for row in found), passes)


def _once(mod: Module) -> list[tuple[str, float, bool]]:
    """Name and seconds of each pass over `mod`, and whether it made another module."""
    found: list[tuple[str, float, bool]] = []
    with _without_collection():
        for step in CompileOptions(host()).pipeline:
            start = time.process_time()
            new = step(mod)
            found.append((step.name, time.process_time() - start, new is not mod))
            mod = new
    return found


@contextmanager
def _without_collection() -> Iterator[None]:
    """Python's search for cycles, paused, as it is while programs are compiled."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def markdown(figures: Mapping[str, Any]) -> str:
    """The rows that the JSON file holds as a table."""
    head = [cells(["model", "nodes", "all passes", "the longest"]), cells(["---", "--:", "--:", "---"])]
    lines = [cells([*_told(row)]) for row in figures["rows"]]
    return "\n".join([*head, *lines, "", f"Milliseconds of CPU time on {figures['machine']}."])


def _told(row: Mapping[str, Any]) -> list[str]:
    seconds: dict[str, float] = {}
    for name, taken, _ in row["passes"]:
        seconds[name] = seconds.get(name, 0.0) + taken
    longest = sorted(seconds, key=lambda name: -seconds[name])[:LONGEST]
    named = ", ".join(f"`{name}` {1e3 * seconds[name]:.1f}" for name in longest)
    batch = row["name"].removesuffix("_batch")
    title = TITLES[batch] if batch == row["name"] else f"{TITLES[batch].partition(',')[0]}, any sizes"
    return [title, str(row["nodes"]), f"{1e3 * row['seconds']:.0f}", named]


def _kept(path: Path | None) -> dict[str, dict[str, Any]]:
    """The rows that an earlier run on this machine has written, by model."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path is not None and path.exists() else {}
    return {row["name"]: row for row in found.get("rows", ()) if found.get("machine") == machine()}


def main(given: Sequence[str] | None = None) -> int:
    """Measures, prints and writes; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.passes", description=__doc__)
    parser.add_argument("models", nargs="*", default=["bert_base"], help="of tools.models (default: bert_base)")
    parser.add_argument("--runs", type=int, default=11)
    add_outputs(parser, BEGIN, END)
    args = parser.parse_args(given)
    rows = _kept(args.json)
    for name in args.models:
        rows[name] = asdict(measured(name, args.runs))
        for step, seconds, changed in rows[name]["passes"]:
            print(f"{name:20} {step:20} {1e3 * seconds:8.2f} ms{'' if changed else '  (unchanged)'}")
        print(f"{name:20} {'all passes':20} {1e3 * rows[name]['seconds']:8.2f} ms", flush=True)
    figures = {"machine": machine(), "rows": list(rows.values())}
    publish(args, figures, markdown(figures), BEGIN, END)
    return 0


if __name__ == "__main__":
    sys.exit(main())

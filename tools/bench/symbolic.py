"""Measures models compiled once, for any sizes, against builds for each size: `python -m tools.bench.symbolic`.

In alternating blocks, two threads. A row is one size; few rounds where a call takes long. Exit code 1 if outputs differ
by more than rounding. Rows that the JSON file has of this machine are kept where they are not measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import legato
from legato._version import __version__
from legato.bench.engines import Engine, Feeds, legato_engine
from legato.runtime.executable import Executable
from tools.bench.pair import compare, machine
from tools.bench.report import add_outputs, milliseconds, publish
from tools.models import get

__all__ = ["BEGIN", "END", "Row", "main", "markdown"]

BEGIN = "<!-- sizes: written by `python -m tools.bench.symbolic` from docs/symbolic.json -->"
END = "<!-- end of sizes -->"
BATCHES, LENGTHS = (1, 7, 8, 33), (17, 128, 384)
CALLS = 6  # calls of a round, when they are long: two engines, each once to warm up and twice counted
FEWEST = 6  # rounds; the sign test's interval of 95 % needs so many


@dataclass(frozen=True, slots=True)
class Row:
    """Milliseconds of one call, medians over blocks; the time of the program for any size divided by that of the build
    for this one, with its interval; whether the outputs have the same bits."""

    model: str
    size: str
    static: float
    symbolic: float
    ratio: float
    low: float
    high: float
    rounds: int
    same: bool


def images() -> Iterator[tuple[str, Feeds]]:
    """Inputs of a classifier, by size."""
    for batch in BATCHES:
        yield str(batch), {"x": np.random.default_rng(0).standard_normal((batch, 3, 224, 224), np.float32)}


def texts() -> Iterator[tuple[str, Feeds]]:
    """Inputs of an encoder, by size."""
    for batch, length in product(BATCHES, LENGTHS):
        ids = np.random.default_rng(0).integers(0, 30_000, (batch, length))
        yield (
            f"{batch} × {length}",
            {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids),
            },
        )


MODELS = {"resnet50": ("ResNet-50", images), "bert_base": ("BERT-base", texts)}


def _rounds(engines: list[Engine], seconds: float) -> int:
    """How many fit into `seconds`."""
    start = time.perf_counter()
    engines[0].call()
    return max(FEWEST, min(30, int(seconds / (CALLS * (time.perf_counter() - start)))))


def _measured(title: str, size: str, engines: list[Engine], seconds: float) -> Row | None:
    """A row; None where outputs differ."""
    ours, theirs = (engine.call() for engine in engines)
    if not all(np.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(ours, theirs, strict=True)):
        return None
    same = all(a.tobytes() == b.tobytes() for a, b in zip(ours, theirs, strict=True))
    found = compare(engines, _rounds(engines, seconds))
    r = found.ratio
    return Row(title, size, found.first, found.second, r.median, r.low, r.high, found.rounds, same)


def markdown(figures: Mapping[str, Any]) -> str:
    """The rows that the JSON file holds as a table."""
    head = "| model | size | built for it | for any size | ratio | same bits |\n| --- | --- | --: | --: | --: | --- |"
    rows = [Row(**row) for row in figures["rows"]]
    lines = [
        f"| {r.model} | {r.size} | {milliseconds(r.static / 1e3)} | {milliseconds(r.symbolic / 1e3)} "
        f"| {r.ratio:.2f} ({r.low:.2f}–{r.high:.2f}) | {'yes' if r.same else 'no'} |"
        for r in rows
    ]
    return "\n".join([head, *lines, "", f"Milliseconds on two threads of {figures['machine']}."])


def _both(symbolic: Executable, path: Path, feeds: Feeds) -> list[Engine]:
    """The program for any size, and a build for that of `feeds`."""
    shapes = {name: array.shape for name, array in feeds.items()}
    pair = {"static": legato.compile(path, threads=2, shapes=shapes), "symbolic": symbolic}
    return [legato_engine(exe, feeds, __version__, name) for name, exe in pair.items()]


def _kept(path: Path | None) -> dict[tuple[str, str], Row]:
    """The rows that an earlier run on this machine has written, by model and size."""
    found: dict[str, Any] = json.loads(path.read_text()) if path is not None and path.exists() else {}
    rows = [Row(**row) for row in found.get("rows", ()) if found.get("machine") == machine()]
    return {(row.model, row.size): row for row in rows}


def main() -> int:
    """Measures, prints and writes; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.symbolic", description=__doc__)
    parser.add_argument("--only", choices=MODELS)
    parser.add_argument("--size", help="this size alone, as the table has it; other rows of the JSON file are kept")
    parser.add_argument("--seconds", type=float, default=20, help="of a row, about; at least six rounds (default: 20)")
    add_outputs(parser, BEGIN, END)
    args = parser.parse_args()
    rows = _kept(args.json)
    for name in [args.only] if args.only else MODELS:
        (title, sizes), path = MODELS[name], get(f"{name}_batch").path()
        symbolic = legato.compile(path, threads=2)
        for size, feeds in sizes():
            if args.size not in (None, size):
                continue
            row = _measured(title, size, _both(symbolic, path, feeds), args.seconds)
            if row is None:
                print(f"{title} at {size}: the outputs differ", file=sys.stderr)
                return 1
            print(row, flush=True)
            rows[title, size] = row
    figures = {"machine": machine(), "rows": [asdict(r) for r in rows.values()]}
    publish(args, figures, markdown(figures), BEGIN, END)
    return 0


if __name__ == "__main__":
    sys.exit(main())

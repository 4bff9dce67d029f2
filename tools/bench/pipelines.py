"""Measures pipelines of scikit-learn, LightGBM and XGBoost beside ONNX Runtime: `python -m tools.bench.pipelines`.

One program for any number of rows is called with 1 row and with 1,000, in alternating blocks with ONNX Runtime. Exit
code 1 if decisions differ, or numbers by more than 1e-5 of the largest.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import legato
from legato._version import __version__
from legato.bench.engines import Engine, legato_engine
from legato.frontend.onnx import from_onnx
from tools.bench.pair import compare, machine
from tools.bench.report import add_outputs, milliseconds, publish
from tools.pipelines import PIPELINES, Array, Fitted, fitted

__all__ = ["BEGIN", "END", "Row", "main", "markdown"]

BEGIN = "<!-- pipelines: written by `python -m tools.bench.pipelines` -->"
END = "<!-- end of pipelines -->"
COUNTS = (1, 1000)
NEAR = 1e-5  # of the largest value
ROUNDS = 6  # the sign test's interval of 95 % needs so many


@dataclass(frozen=True, slots=True)
class Row:
    """Milliseconds of one call, medians over blocks; ONNX Runtime's time divided by Legato's, with its interval."""

    pipeline: str
    rows: int
    legato: float
    onnxruntime: float
    ratio: float
    low: float
    high: float


def engines(made: Fitted, count: int, threads: int) -> list[Engine]:
    """Both, on the first `count` rows."""
    import onnxruntime as ort

    feeds = {"x": made.rows[:count]}
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = ort.InferenceSession(made.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    ours = legato_engine(legato.compile(from_onnx(made.model), threads=threads), feeds, __version__)
    return [ours, Engine("onnxruntime", ort.__version__, lambda: session.run(None, feeds))]


def same(ours: Sequence[Array], theirs: Sequence[Any]) -> bool:
    """Whether decisions are the same and numbers near; a list of maps is the matrix of their values."""
    pairs = [(a, np.array([list(row.values()) for row in b]) if isinstance(b, list) else b)
             for a, b in zip(ours, theirs, strict=True)]  # fmt: skip
    return all(
        np.allclose(a, b, rtol=0, atol=NEAR * float(np.abs(b).max())) if a.dtype.kind == "f" else np.array_equal(a, b)
        for a, b in pairs
    )


def markdown(figures: Mapping[str, Any]) -> str:
    """The rows as a table, and their geometric means."""
    rows = [Row(**row) for row in figures["rows"]]
    head = "| pipeline | rows | Legato | ONNX Runtime | times as fast |\n| --- | --: | --: | --: | --: |"
    lines = [
        f"| {r.pipeline} | {r.rows} | {milliseconds(r.legato / 1e3)} | {milliseconds(r.onnxruntime / 1e3)} "
        f"| {r.ratio:.2f} ({r.low:.2f}–{r.high:.2f}) |"
        for r in rows
    ]
    means = [f"{statistics.geometric_mean(r.ratio for r in rows if r.rows == count):.2f} for {count}"
             for count in COUNTS if any(r.rows == count for r in rows)]  # fmt: skip
    foot = f"Milliseconds on {figures['threads']} threads of {figures['machine']}; geometric means: {', '.join(means)}."
    return "\n".join([head, *lines, "", foot])


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints and writes; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.pipelines", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="of these alone: a part of the name is enough")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of alternating blocks (default: {ROUNDS})")
    parser.add_argument("--threads", type=int, default=2, help="of both (default: 2)")
    add_outputs(parser, BEGIN, END)
    args = parser.parse_args(argv)
    rows: list[Row] = []
    for name in PIPELINES:
        if args.only and not any(part in name for part in args.only):
            continue
        made = fitted(name)
        for count in COUNTS:
            both = engines(made, count, args.threads)
            if not same(*(engine.call() for engine in both)):
                print(f"{name} with {count} rows: the outputs differ", file=sys.stderr)
                return 1
            found = compare(both, args.rounds)
            r = found.ratio
            rows.append(Row(name, count, found.first, found.second, r.median, r.low, r.high))
            print(rows[-1], file=sys.stderr, flush=True)
    figures = {"machine": machine(), "threads": args.threads, "rows": [asdict(row) for row in rows]}
    publish(args, figures, markdown(figures), BEGIN, END)
    return 0


if __name__ == "__main__":
    sys.exit(main())

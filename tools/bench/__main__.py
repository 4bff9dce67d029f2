"""Measures every model of the table in Legato, ONNX Runtime, OpenVINO and PyTorch: `python -m tools.bench`.

Each row is measured in a process of its own, printed and written as it is ready. With --only, rows of other models that
the JSON file holds are kept, if they were measured on this machine with as many threads. Exit code 1 if Legato cannot
run a model or outputs differ.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from legato.bench.table import Row, Table
from tools.bench.entries import ENTRIES
from tools.bench.report import NAMES, add_markdown, footer, line, markdown, write_region
from tools.bench.row import Job, measured
from tools.models.sources import write

ENGINES = "legato-exact,onnxruntime,openvino,torch"
ORDER = {entry.name: place for place, entry in enumerate(ENTRIES)}


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--only", type=models, default=tuple(ORDER), metavar="MODELS", help="these models, with commas")
    parser.add_argument("--vs", type=engines, default=engines(ENGINES), metavar="ENGINES", help=f"default: {ENGINES}")
    parser.add_argument("--rounds", type=int, default=30, help="blocks of each engine in one mode; 0: measure nothing")
    parser.add_argument(
        "--max-rounds", type=int, default=600, help="until the ratio is known within 2 %% (default: 600)"
    )
    parser.add_argument("--block", type=float, default=0.05, help="seconds of each block (default: 0.05)")
    parser.add_argument("--threads", type=int, default=2, help="of every engine (default: 2)")
    parser.add_argument("--json", type=Path, metavar="F", help="write the table here; read for rows that are kept")
    add_markdown(parser)
    return parser.parse_args(given)


def models(text: str) -> tuple[str, ...]:
    """The models that `text` names."""
    return known("model", text, list(ORDER))


def engines(text: str) -> tuple[str, ...]:
    """The engines that `text` names."""
    return known("engine", text, [name for name in NAMES if name != "legato"])


def known(kind: str, text: str, there: Sequence[str]) -> tuple[str, ...]:
    """The names in `text`, all of which are `there`."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if unknown := [name for name in found if name not in there]:
        raise argparse.ArgumentTypeError(f"no {kind} {', '.join(unknown)}; there are {', '.join(there)}")
    return found


def joined(table: Table | None, alone: Table) -> Table:
    """The table with the row of another one; that alone where the rows would not compare."""
    if table is None or not table.fits(alone):
        return alone
    return replace(table.with_row(alone.rows[0], ORDER), versions={**table.versions, **alone.versions})


def save(table: Table, path: Path) -> None:
    """Write the table as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, (json.dumps(table.to_json(), indent=1) + "\n").encode())


def kept(path: Path | None, dropped: Sequence[str]) -> Table | None:
    """The table of an earlier run without the rows that are measured again; None where nothing is left."""
    if path is None or not path.exists():
        return None
    table = Table.from_json(json.loads(path.read_text()))
    rows = tuple(row for row in table.rows if row.name in ORDER and row.name not in dropped)
    return replace(table, rows=rows) if rows else None


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    args = arguments(given)
    chosen = [name for name in ORDER if args.rounds > 0 and name in args.only]
    table = kept(args.json, chosen)
    rows: list[Row] = []
    for name in chosen:
        alone = measured(Job(name, args.vs, args.rounds, args.max_rounds, args.block, args.threads))
        table = joined(table, alone)
        rows += alone.rows
        print(line(rows[-1]), flush=True)
        if args.json is not None:
            save(table, args.json)
    if table is not None:
        print(footer(table))
        if args.markdown is not None:
            write_region(args.markdown, markdown(table))
    return int(any(row.differ or "legato" in row.missing for row in rows))


if __name__ == "__main__":
    sys.exit(main())

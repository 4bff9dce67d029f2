"""Measures every model of the table in Legato, ONNX Runtime, OpenVINO and PyTorch: `python -m tools.bench`.

Rows are printed and written as they are ready. With --only, rows of other models that the JSON file holds are kept, if
they were measured on this machine with as many threads. Exit code 1 if Legato cannot run a model or outputs differ.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from legato.bench import Result, bench
from legato.bench.table import Row, Table, row_of
from tools.bench.entries import ENTRIES, Entry
from tools.bench.report import footer, line, markdown, write_region
from tools.models.sources import write

ENGINES = "legato-exact,onnxruntime,openvino,torch"
ORDER = {entry.name: place for place, entry in enumerate(ENTRIES)}


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--only", type=names, default=list(ORDER), metavar="MODELS", help="these models, with commas")
    parser.add_argument("--vs", default=ENGINES, metavar="ENGINES", help=f"default: {ENGINES}")
    parser.add_argument("--rounds", type=int, default=30, help="blocks of each engine in one mode; 0: measure nothing")
    parser.add_argument("--block", type=float, default=0.25, help="seconds of each block (default: 0.25)")
    parser.add_argument("--threads", type=int, default=2, help="of every engine (default: 2)")
    parser.add_argument("--json", type=Path, metavar="F", help="write the table here; read for rows that are kept")
    parser.add_argument("--markdown", type=Path, metavar="F", help="write the table between the markers of this file")
    return parser.parse_args(given)


def names(text: str) -> list[str]:
    """The models that `text` names."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in found if name not in ORDER]:
        raise argparse.ArgumentTypeError(f"no model {', '.join(unknown)}; there are {', '.join(ORDER)}")
    return found


def measured(entry: Entry, args: argparse.Namespace) -> Result:
    """One model in all engines; an engine that cannot run it is noted."""
    model = entry.model
    return bench(
        model.path(),
        vs=[name for name in args.vs.split(",") if name],
        others=entry.others(),
        threads=args.threads,
        shapes=model.static_shapes() if model.symbolic else None,
        inputs=model.cases()[0],
        rounds=args.rounds,
        block=args.block,
        lenient=True,
        progress=tell,
    )


def tell(what: str) -> None:
    """Progress, for whoever looks on."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="\r", file=sys.stderr, flush=True)


def joined(table: Table | None, entry: Entry, result: Result) -> Table:
    """The table with one more row; a new one where the rows would not compare."""
    row = row_of(result, entry.name, entry.title, entry.scored)
    alone = Table(result.machine, result.target, result.threads, result.versions, (row,))
    if table is None or not table.fits(alone):
        return alone
    return replace(table.with_row(row, ORDER), versions={**table.versions, **result.versions})


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
    chosen = [entry for entry in ENTRIES if args.rounds > 0 and entry.name in args.only]
    table = kept(args.json, [entry.name for entry in chosen])
    rows: list[Row] = []
    for entry in chosen:
        table = joined(table, entry, measured(entry, args))
        gc.collect()  # engines are large, and some are in cycles
        rows += [row for row in table.rows if row.name == entry.name]
        tell("")
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

"""Compiles, compares and times the architectures of the zoo: `python -m tools.zoo`.

Each is exported to ONNX once; the file is kept. Legato's outputs are compared with ONNX Runtime's and OpenVINO's, and
all three are timed in alternating blocks, on as many threads, in a process for each architecture. Those in which Legato
is slower than the faster of the two are listed with the kernel that loses most. Rows of others that the JSON file has
of this machine are kept. Exit code 1 where Legato cannot run one, or outputs differ.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from legato.base.target import cpu_name, host
from legato.bench.table import Table
from tools.bench.report import add_outputs, publish
from tools.models.record import cache
from tools.zoo.export import ExportError, exported
from tools.zoo.report import BEGIN, END, Figures, is_right, line, markdown
from tools.zoo.row import Found, Job, failed, measured
from tools.zoo.table import TABLE, Architecture

ROUNDS = 10


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tools.zoo", description=__doc__)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="PATTERN",
                        help="those in whose package.family.name this is found")  # fmt: skip
    parser.add_argument("--threads", type=int, default=2, help="of every engine (default: 2)")
    parser.add_argument(
        "--rounds",
        type=int,
        default=ROUNDS,
        help=f"blocks of each (default: {ROUNDS}); 0: compare with ONNX Runtime alone",
    )
    parser.add_argument("--block", type=float, default=0.05, help="seconds of each block (default: 0.05)")
    parser.add_argument("--folder", type=Path, default=cache() / "zoo", help="of the ONNX files (default: %(default)s)")
    add_outputs(parser, BEGIN, END)
    args = parser.parse_args(given)
    args.rows = [row for row in TABLE.values() if args.only.search(f"{row.package}.{row.family}.{row.name}")]
    if not args.rows:
        parser.error(f"--only: there is no {args.only.pattern!r} in any package.family.name")
    return args


def kept(path: Path | None, threads: int) -> Figures:
    """The figures of an earlier run, if they are of this machine; without rows where there are none."""
    new = Table(cpu_name(), host().name, threads, {})
    if path is not None and path.exists():
        old = Figures.from_json(json.loads(path.read_text("utf-8")))
        if old.table.fits(new):
            return old
    return Figures(new, {})


def found(row: Architecture, args: argparse.Namespace) -> Found:
    """What is found of one architecture."""
    try:
        path = exported(row, args.folder)
    except ExportError as error:
        return failed(row.name, f"it is not exported: {error}")
    return measured(Job(row.name, str(path), args.threads, args.rounds, args.block))


def main(given: Sequence[str] | None = None) -> int:
    """Make, compare, measure, print, write; the exit code."""
    args = arguments(given)
    figures, wrong = kept(args.json, args.threads), 0
    for row in args.rows:
        of = found(row, args)
        figures, wrong = figures.with_found(of), wrong + (not is_right(of.row))
        print(line(of.row), flush=True)
        if args.json is not None:  # the others take long
            args.json.write_text(json.dumps(figures.to_json(), indent=1) + "\n", "utf-8")
    publish(args, figures.to_json(), markdown(figures), BEGIN, END)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

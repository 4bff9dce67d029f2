"""Compiles architectures of the zoo from PyTorch's modules, and compares them with eager: `python -m tools.zoo.torch`.

Each is exported by `torch.export`, as its package defines it, compiled, and called; with --backend it is called through
`torch.compile(module, backend="legato")`. `torch.toml` says which, and which have symbolic axes: those are called at
several sizes. A row says the stage that was reached, and why not a later one. Rows of others, and of the other way,
that the JSON file has are kept. Exit code 1 where outputs differ, or fewer agree than must.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from tools.bench.report import add_outputs, write_region
from tools.zoo._torch_backend import backed
from tools.zoo._torch_export import checked
from tools.zoo._torch_plans import PLANS
from tools.zoo._torch_rows import Backed, Found, summary

__all__ = ["BEGIN", "END", "kept", "main", "paragraph"]

MUST: Final = 0.92  # the share of architectures that are to agree
BEGIN: Final = "<!-- architectures: written by `make torch-zoo` from docs/zoo_torch.json -->"
END: Final = "<!-- end of architectures -->"
ROWS: Final[Mapping[str, Any]] = {"rows": Found, "backend": Backed}  # of the JSON file: exported, and torch.compile's


def paragraph(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """What the page says of all rows."""
    exported, through = list(rows["rows"].values()), list(rows["backend"].values())
    text = f"Compiled ahead of time, {summary(exported)}."
    if through:
        whole = sum(row.native == row.operators and not row.breaks for row in through)
        native, operators = sum(row.native for row in through), sum(row.operators for row in through)
        again = sum(row.again for row in through)
        text += (
            f"\nThrough `torch.compile`, {summary(through)}."
            f"\n{whole} run without an operator in eager or a graph break; {native:,} of {operators:,} operators are in"
            f"\nLegato's programs, and {again} graphs were compiled again (most for a batch of one, as PyTorch has it)."
        )
    return text


def kept(path: Path | None) -> dict[str, dict[str, Any]]:
    """The rows of a JSON file, by how they were made and their names."""
    told = json.loads(path.read_text("utf-8")) if path is not None and path.exists() else {}
    rows = {way: {row["name"]: kind(**row) for row in told.get(way, ())} for way, kind in ROWS.items()}
    return {way: {name: row for name, row in of.items() if name in PLANS} for way, of in rows.items()}


def _write(args: argparse.Namespace, rows: Mapping[str, Mapping[str, Any]]) -> None:
    if args.json is not None:
        told = {way: [asdict(of[name]) for name in PLANS if name in of] for way, of in rows.items()}
        args.json.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    if args.markdown is not None:
        write_region(args.markdown, paragraph(rows), BEGIN, END)


def _parsed(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.zoo.torch", description=__doc__)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="PATTERN",
                        help="those in whose package.family.name this is found")  # fmt: skip
    parser.add_argument("--backend", action="store_true", help="through torch.compile, not exported")
    parser.add_argument("--import-only", action="store_true", help="compile nothing")
    parser.add_argument("--missing", action="store_true", help="those that do not agree in the JSON file")
    add_outputs(parser, BEGIN, END)
    args = parser.parse_args(given)
    if not any(map(partial(_is_asked, args), PLANS)):
        parser.error(f"--only {args.only.pattern}: found in no package.family.name")
    return args


def _is_asked(args: argparse.Namespace, name: str) -> bool:
    row = PLANS[name].row
    return args.only.search(f"{row.package}.{row.family}.{name}") is not None


def main(given: Sequence[str] | None = None) -> int:
    """Check, print, write; the exit code."""
    args = _parsed(given)
    warnings.simplefilter("ignore")  # of the packages, about themselves
    rows = kept(args.json)
    own, asked = rows["backend" if args.backend else "rows"], []
    for name, plan in PLANS.items():
        if not _is_asked(args, name):
            continue
        if args.missing and name in own and own[name].stage == "agrees":
            continue
        own[name] = backed(plan) if args.backend else checked(plan, import_only=args.import_only)
        asked.append(own[name])
        print(own[name], flush=True)
        _write(args, rows)
        gc.collect()
    _write(args, rows)
    every = list(own.values()) if len(own) == len(PLANS) else asked
    print(summary(every))
    agree = sum(row.stage == "agrees" for row in every)
    return int(any(row.stage == "compare" for row in every) or agree < MUST * len(every))


if __name__ == "__main__":
    sys.exit(main())

"""Picks faults, runs the tests of their areas, prints the score; see the package."""

from __future__ import annotations

import argparse
import ast
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

from tools.faults.judge import Judge, Try
from tools.faults.rules import Fault, faults_of
from tools.faults.suite import Suite, Tree

ROOT: Final = Path(__file__).parents[2]
AREAS: Final[Mapping[str, int]] = {  # folders of the package, and how many faults each gets
    "infer": 8, "transform": 10, "lower": 14, "te+tir": 10, "codegen": 4, "runtime": 6, "frontend": 5, "arith": 3,
}  # fmt: skip
LEFT_OUT: Final = (".git", ".venv", ".models", "out", ".hypothesis", ".*_cache")


def picked(areas: Mapping[str, int], seed: int, root: Path = ROOT) -> Iterator[Try]:
    """So many faults of each area: first a rule, then one of its faults, so that rare kinds come as often as others."""
    for area, count in areas.items():
        luck = random.Random(f"{seed} {area}")
        files = [p for part in area.split("+") for p in sorted((root / "src/legato" / part).rglob("*.py"))]
        texts = {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in files}
        by_rule: dict[str, list[tuple[str, Fault]]] = {}
        for file, text in texts.items():
            for fault in faults_of(text):
                by_rule.setdefault(fault.rule, []).append((file, fault))
        while count:
            found = by_rule[luck.choice(sorted(rule for rule, left in by_rule.items() if left))]
            file, fault = found.pop(luck.randrange(len(found)))
            if _is_another(fault.applied(texts[file]), texts[file]):
                count -= 1
                yield Try(area, file, fault, fault.shown(texts[file]))


def _is_another(new: str, old: str) -> bool:
    """Whether an edited text is a program, and not that which was there."""
    try:
        return ast.dump(ast.parse(new)) != ast.dump(ast.parse(old))
    except SyntaxError:
        return False


def tried(faults: Sequence[Try], jobs: int, seconds: float, say: Callable[[Try], None]) -> list[Try]:
    """The faults with their verdicts, area by area."""
    areas = [[f for f in faults if f.area == area] for area in dict.fromkeys(f.area for f in faults)]
    with tempfile.TemporaryDirectory(prefix="faults-") as name, ThreadPoolExecutor(jobs) as pool:

        def verdicts(own: Sequence[Try]) -> list[Try]:
            root = Path(name, own[0].area)
            shutil.copytree(ROOT, root, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
            return Judge(Suite(Tree(root), own[0].area, seconds), say).verdicts(own)

        return [one for found in pool.map(verdicts, areas) for one in found]


def scores(done: Sequence[Try]) -> dict[str, tuple[int, int]]:
    """How many faults of each area, and of all, the tests see, and how many there are."""
    areas = {area: [t for t in done if t.area == area] for area in dict.fromkeys(t.area for t in done)}
    own = {**areas, "all": done}
    return {area: (sum(t.verdict != "survived" for t in found), len(found)) for area, found in own.items()}


def _areas(text: str) -> dict[str, int]:
    pairs = [part.partition("=") for part in text.split(",")]
    if any(name not in AREAS or not count.isdigit() for name, _, count in pairs):
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted AREA=N, … of {', '.join(AREAS)}")
    return {name: int(count) for name, _, count in pairs}


def main(argv: Sequence[str] | None = None) -> None:
    """Prints each verdict as it comes, then the scores and what survived."""
    parser = argparse.ArgumentParser(prog="python -m tools.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--areas", type=_areas, default=AREAS, help="how many faults of which areas")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300, help="after which a test hangs")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true", help="only say which faults are picked")
    args = parser.parse_args(argv)
    chosen = list(picked(args.areas, args.seed))
    if args.list:
        print(*chosen, sep="\n")
        return
    done = tried(chosen, args.jobs, args.seconds, partial(print, flush=True))
    found = scores(done)
    print(*(f"{area:10s}{seen} of {count} are seen" for area, (seen, count) in found.items()), sep="\n")
    print(*(one for one in done if one.verdict == "survived"), sep="\n")
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({"seed": args.seed, "scores": found, "faults": [*map(asdict, done)]}, indent=1))


if __name__ == "__main__":
    main()

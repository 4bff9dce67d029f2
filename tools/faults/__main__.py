"""Picks faults, runs the tests of their areas, prints the score; see the package."""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from legato.base.dataclass import dataclass
from tools.faults.rules import Fault, faults_of

ROOT: Final = Path(__file__).parents[2]
AREAS: Final[Mapping[str, int]] = {  # folders of the package, and how many faults each gets
    "infer": 8, "transform": 10, "lower": 14, "te+tir": 10, "codegen": 4, "runtime": 6, "frontend": 5, "arith": 3,
}  # fmt: skip
LEFT_OUT: Final = (".git", ".venv", ".models", "out", ".hypothesis", ".*_cache")


@dataclass(frozen=True, slots=True)
class Try:
    """A fault in a file of an area (a path from the root), and what its tests said: killed, survived or hangs."""

    area: str
    file: str
    fault: Fault
    edit: str
    verdict: str = ""
    test: str = ""  # the first that sees it

    def __str__(self) -> str:
        seen = f"  [{self.test}]" if self.test else ""
        return f"{self.verdict:9s}{self.file}:{self.fault.line}: {self.fault.rule}: {self.edit}{seen}"


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


def suite(one: Try, root: Path) -> list[str]:
    """The files of tests of the area, those first that are most likely to see the fault: the mirror of the source's
    file, then those that name its module or lie in the mirror of its folder."""
    source = Path(one.file).relative_to("src/legato")
    mirror, module = source.with_name(f"test_{source.stem.lstrip('_')}.py"), ".".join(source.with_suffix("").parts)
    named = re.compile(rf"{re.escape(module)}\b|{re.escape(module).replace(r'.', '/')}|import .*\b{source.stem}\b")

    def distance(file: Path) -> tuple[bool, bool, bool, Path]:
        text = file.read_text(encoding="utf-8")
        own = file.relative_to(root / "tests")
        return own != mirror, named.search(text) is None, own.parent != source.parent, own

    files = (f for part in one.area.split("+") for f in (root / "tests" / part).rglob("test_*.py"))
    return [str(f.relative_to(root)) for f in sorted(files, key=distance)]


@dataclass(frozen=True, slots=True)
class Tests:
    """Tests in a copy of the tree, under a limit in seconds."""

    tree: Path
    seconds: float

    def verdict(self, *options: str) -> str:
        """What they say: survived where all pass, killed or hangs.

        Kernels are kept in a cache of this run's own: those of other sources are none of its business.
        """
        command = [sys.executable, "-m", "pytest", "-x", "-v", "--tb=no", "-m", "not models", *options]
        with tempfile.TemporaryDirectory(prefix="faults-") as name:
            own = {"PYTHONPATH": f"{self.tree / 'src'}:{self.tree}", "PYTHONDONTWRITEBYTECODE": "1"}
            environment = {**os.environ, **own, "TMPDIR": name, "LEGATO_CACHE_DIR": f"{name}/kernels"}
            with self.log.open("w") as out:
                quiet: dict[str, Any] = {"stdout": out, "stderr": out, "start_new_session": True}
                process = subprocess.Popen(command, cwd=self.tree, env=environment, **quiet)
                try:
                    code = process.wait(self.seconds)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    return "hangs"
        if code in (3, 4, 5):  # pytest's own: an internal error, a usage error, no tests
            raise RuntimeError(f"pytest ended with {code}:\n{self.log.read_text()[-2000:]}")
        return "killed" if code else "survived"

    @property
    def log(self) -> Path:
        return self.tree / "faults.log"

    @property
    def failed(self) -> str:
        """The test that failed, as pytest remembers; "" where the process ended, or was ended, before it could."""
        memory = self.tree / ".pytest_cache/v/cache/lastfailed"
        return str(next(iter(json.loads(memory.read_text())), "")) if memory.exists() else ""

    @property
    def ran(self) -> str:
        """The last test that began."""
        began = re.findall(r"^(tests/.*?)(?: (?:PASSED|FAILED|SKIPPED).*)?$", self.log.read_text(), re.MULTILINE)
        return str(began[-1]) if began else ""

    def forget(self) -> None:
        """No test failed before."""
        shutil.rmtree(self.tree / ".pytest_cache", ignore_errors=True)


def run(tree: Path, one: Try, seconds: float, broken: set[str]) -> Try:
    """The fault with the verdict of its tests, in a copy of the tree, which is as before afterwards.

    A test that fails without the fault as well says nothing of it: it is added to `broken`, and left out from then on.
    """
    path, tests = tree / one.file, Tests(tree, seconds)
    text = path.read_text(encoding="utf-8")
    while True:
        tests.forget()
        path.write_text(one.fault.applied(text), encoding="utf-8")
        try:
            verdict = tests.verdict(*(f"--deselect={test}" for test in broken), *suite(one, tree))
        finally:
            path.write_text(text, encoding="utf-8")
        failed, ran = tests.failed, tests.ran
        if verdict == "survived":
            return replace(one, verdict=verdict)
        if not failed or tests.verdict("--last-failed", failed.partition("::")[0]) == "survived":
            return replace(one, verdict=verdict, test=failed or ran)
        broken.add(failed)


def tried(faults: Sequence[Try], jobs: int, seconds: float, broken: set[str]) -> Iterator[Try]:
    """The faults with their verdicts, in order. Tests that fail without a fault are added to `broken`."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name, ThreadPoolExecutor(jobs) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for n in range(jobs):
            tree = Path(name, str(n))
            shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
            trees.put(tree)

        def verdict(one: Try) -> Try:
            tree = trees.get()
            try:
                return run(tree, one, seconds, broken)
            finally:
                trees.put(tree)

        yield from pool.map(verdict, faults)


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
    parser.add_argument("--seconds", type=float, default=1200, help="after which a fault hangs, and is seen")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true", help="only say which faults are picked")
    args = parser.parse_args(argv)
    chosen, done, broken = list(picked(args.areas, args.seed)), [], set[str]()
    for one in chosen if args.list else tried(chosen, args.jobs, args.seconds, broken):
        print(one, flush=True)
        done.append(one)
    if args.list:
        return
    found = scores(done)
    print(*(f"{area:10s}{seen} of {count} are seen" for area, (seen, count) in found.items()), sep="\n")
    print(*(one for one in done if one.verdict == "survived"), sep="\n")
    print(*(f"fails without a fault, too: {test}" for test in sorted(broken)), sep="\n")
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({"seed": args.seed, "scores": found, "faults": [*map(asdict, done)]}, indent=1))


if __name__ == "__main__":
    main()

"""This tree against another checkout of it: which kernels are other code, and how long calls take, side by side.

    python -m tools.bench.trees PATH [--only resnet50,gru] [--rounds 20] [--json F]

Each tree compiles and runs in a process of its own, its runtime built in place; calls alternate in blocks.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from legato.bench.statistics import ratio
from tools.bench.entries import TABLE, entry

ROOT = Path(__file__).parents[2]
BLOCK = 0.1  # seconds
WORKER = """
import json, sys, time
tree, model, inputs, shapes, threads = sys.argv[1:6]
sys.path.insert(0, tree + "/src")
import numpy as np, legato
start = time.perf_counter()
exe = legato.compile(model, shapes=json.loads(shapes), threads=int(threads))
print(time.perf_counter() - start, flush=True)
given = dict(np.load(inputs))
for line in sys.stdin:
    end, taken = time.perf_counter() + float(line), []
    while time.perf_counter() < end:
        begin = time.perf_counter()
        exe.run(given)
        taken.append(time.perf_counter() - begin)
    print(sorted(taken)[len(taken) // 2], flush=True)
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One model: its kernels, those whose code differs, seconds to compile and milliseconds of a call (the other tree
    first), the other tree's time divided by this one's, and the interval of that."""

    name: str
    kernels: int
    differing: tuple[str, ...]
    compile: tuple[float, float]
    milliseconds: tuple[float, float]
    ratio: float
    low: float
    high: float


def functions(text: str) -> dict[str, str]:
    """The machine code of each function of an assembly file, its constants before it; symbols and labels are numbers,
    in the order in which the function names them: what a function is called makes no difference."""
    parts = re.split(r"^\t\.size\t(\S+), .*$", text, flags=re.M)
    symbols = set(parts[1::2])

    def numbered(body: str) -> str:
        numbers: dict[str, str] = {}

        def number(found: re.Match[str]) -> str:
            name = found[0]
            known = name in symbols or name.startswith(".L")
            return numbers.setdefault(name, f"<{len(numbers)}>") if known else name

        return re.sub(r"[\w.$]+", number, body)

    return {name: numbered(body) for body, name in zip(parts[:-1:2], parts[1::2], strict=True)}


def assembly(tree: Path, model: Path, shapes: str) -> dict[str, str]:
    """The machine code of each function of a model's program as `tree` makes it."""
    code = (
        "import sys, json; sys.path.insert(0, sys.argv[1] + '/src')\n"
        "from legato.cli import main; sys.exit(main(sys.argv[2:]))"
    )
    given = [f"--shape={name}={','.join(map(str, dims))}" for name, dims in (json.loads(shapes) or {}).items()]
    command = [sys.executable, "-c", code, str(tree), "compile", str(model), *given, "--emit", "asm"]
    return functions(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


class Worker:
    """A process that runs a model compiled by one tree."""

    def __init__(self, tree: Path, *arguments: str) -> None:
        command = [sys.executable, "-c", WORKER, str(tree), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.compiled = self._answer()

    def _answer(self) -> float:
        assert self.process.stdout is not None
        return float(self.process.stdout.readline())

    def block(self) -> float:
        """The median time of a call in one block."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{BLOCK}\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        self.process.terminate()
        self.process.wait()


def measured(name: str, trees: Sequence[Path], rounds: int, threads: int) -> Row:
    """One model in both trees."""
    model = entry(name).model
    shapes = json.dumps(model.static_shapes() if model.symbolic else None)
    with tempfile.TemporaryDirectory(prefix="legato-trees-") as folder, ExitStack() as stack:
        inputs = Path(folder, "inputs.npz")
        np.savez(inputs, **model.cases()[0])  # type: ignore[arg-type]  # no array is called allow_pickle
        before, after = (assembly(tree, model.path(), shapes) for tree in trees)
        workers = [Worker(tree, str(model.path()), str(inputs), shapes, str(threads)) for tree in trees]
        for worker in workers:
            stack.callback(worker.close)
        times = np.array([[worker.block() for worker in workers] for _ in range(rounds)])
    known = set(before.values())
    found = ratio([[t] for t in times[:, 1]], [[t] for t in times[:, 0]])
    return Row(
        name, len(after), tuple(n for n, body in after.items() if body not in known),
        (workers[0].compiled, workers[1].compiled), (1e3 * median(times[:, 0]), 1e3 * median(times[:, 1])),
        found.median, found.low, found.high,
    )  # fmt: skip


def rows(names: Sequence[str], other: Path, rounds: int, threads: int) -> Iterator[Row]:
    """A row for each model, printed as it is known."""
    for name in names:
        row = measured(name, (other.resolve(), ROOT), rounds, threads)
        print(
            f"{row.name:20} {len(row.differing):3} of {row.kernels:3} differ   compile {row.compile[0]:.2f} "
            f"{row.compile[1]:.2f} s   {row.milliseconds[0]:8.3f} {row.milliseconds[1]:8.3f} ms   {row.ratio:.3f} "
            f"({row.low:.3f} to {row.high:.3f})", flush=True,
        )  # fmt: skip
        for kernel in row.differing:
            print(f"    {kernel}")
        yield row


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout of the code to compare with")
    parser.add_argument("--only", default=",".join(TABLE), help="names of models, with commas")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = list(rows(args.only.split(","), args.other, args.rounds, args.threads))
    mean = math.exp(sum(math.log(row.ratio) for row in found) / len(found))
    print(f"geometric mean {mean:.3f}")
    if args.json is not None:
        args.json.write_text(json.dumps({"mean": mean, "rows": [asdict(row) for row in found]}, indent=1))


if __name__ == "__main__":
    main()

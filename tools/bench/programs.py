"""Measures the programs of examples/ against PyTorch, operator by operator: `python -m tools.bench.programs`.

One thread each, in alternating blocks. A row is one call: all 20 random trees of 5 to 40 leaves for the TreeLSTM, 200
characters for the character network, 30 steps of four beams. Exit code 1 if outputs differ.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

import legato
from legato._version import __version__
from legato.bench.engines import Engine
from tools.bench.pair import compare, machine
from tools.bench.report import add_outputs, publish

__all__ = ["BEGIN", "END", "Row", "main", "markdown"]

EXAMPLES = Path(__file__).parents[2] / "examples"
BEGIN = "<!-- programs: written by `python -m tools.bench.programs` from docs/programs.json -->"
END = "<!-- end of programs -->"

Run = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """Milliseconds of one call, medians over blocks; how many times as fast Legato is, with the interval of that."""

    name: str
    legato: float
    torch: float
    ratio: float
    low: float
    high: float
    rounds: int


def programs() -> Iterator[tuple[str, Run, Run]]:
    """What is measured: its name, Legato's run and PyTorch's."""
    rng = np.random.default_rng(0)
    net = import_module("tree_lstm")
    layer = net.TreeLSTM().eval()
    trees = [net.random_tree(int(n), rng) for n in rng.integers(5, 41, 20)]
    inputs = [rng.standard_normal((net.size(tree), net.INPUT), np.float32) for tree in trees]
    theirs = [(tree, torch.from_numpy(xs)) for tree, xs in zip(trees, inputs, strict=True)]
    for name, passes in (("TreeLSTM", net.DEFAULT), ("TreeLSTM, inputs at once", net.HOISTED)):
        exe = legato.compile(layer.program(), threads=1, passes=passes)
        ours = [(net.value(exe, tree), xs) for tree, xs in zip(trees, inputs, strict=True)]
        yield name, partial(_each, exe, ours), lambda: [layer(*pair)[0] for pair in theirs]

    char = import_module("char_rnn").Trained(80)
    luck = rng.random(200, np.float32)
    exe = legato.compile(char.program(), threads=1)
    yield "CharRNN, 200 characters", partial(exe, np.int32(0), luck), lambda: char.generate(0, luck)

    decoder = import_module("beam_search").Decoder()
    state = torch.randn(1, 64)
    exe = legato.compile(decoder.program(4, 30), threads=1)
    yield "beam search", partial(exe, state.numpy()), lambda: decoder.search(state, 4, 30)


def _each(exe: Callable[..., Any], calls: list[Any]) -> list[Any]:
    return [exe(*call) for call in calls]


def _measured(name: str, ours: Run, theirs: Run, rounds: int) -> Row:
    engines = [Engine("legato", __version__, ours), Engine("torch", torch.__version__, theirs)]
    found = compare(engines, rounds)
    r = found.ratio
    return Row(name, found.first, found.second, r.median, r.low, r.high, found.rounds)


def _agree(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, list | tuple):
        return len(ours) == len(theirs) and all(_agree(a, b) for a, b in zip(ours, theirs, strict=True))
    return bool(np.allclose(ours, theirs, rtol=1e-4, atol=1e-5))


def markdown(figures: Mapping[str, Any]) -> str:
    """The rows that the JSON file holds as a table."""
    head = "| program | Legato | PyTorch, eager | ratio |\n| --- | --: | --: | --: |"
    rows = [Row(**row) for row in figures["rows"]]
    lines = [f"| {r.name} | {r.legato:.2f} | {r.torch:.1f} | {r.ratio:.1f}× ({r.low:.1f}–{r.high:.1f}) |" for r in rows]
    return "\n".join([head, *lines, "", f"Milliseconds on one thread of {figures['machine']}."])


def main() -> int:
    """Measures, prints and writes; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.programs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    add_outputs(parser, BEGIN, END)
    args = parser.parse_args()
    sys.path.insert(0, str(EXAMPLES))
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = list[Row]()
    with torch.inference_mode():
        for name, ours, theirs in programs():
            if not _agree(ours(), theirs()):
                print(f"{name}: the outputs differ", file=sys.stderr)
                return 1
            rows.append(_measured(name, ours, theirs, args.rounds))
            print(rows[-1], flush=True)
    figures = {"machine": machine(), "torch": torch.__version__, "rows": [asdict(r) for r in rows]}
    publish(args, figures, markdown(figures), BEGIN, END)
    return 0


if __name__ == "__main__":
    sys.exit(main())

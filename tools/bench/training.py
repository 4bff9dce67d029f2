"""One compiled training step against PyTorch's, eager and compiled: `python -m tools.bench.training`.

A step is the loss forward, its gradients, and SGD with momentum; two threads each, in alternating blocks of one run. A
row is measured in processes of its own: times, what a step needs beside parameters and batch (the most that the process
held, less what it held before), and how long compiling takes. Exit code 1 if losses differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

import legato
from legato import optim
from legato._version import __version__
from legato.base.errors import UnsupportedError
from legato.bench.engines import Engine
from legato.bench.measure import measure
from legato.bench.statistics import ratio
from tools.bench.pair import machine
from tools.bench.report import add_outputs, publish
from tools.bench.training_nets import NETS, Eager, batch, parameters

__all__ = ["BEGIN", "END", "Row", "main", "markdown"]

ROOT = Path(__file__).parents[2]
BEGIN = "<!-- training: written by `make bench-training` from docs/training.json -->"
END = "<!-- end of training -->"
NAMES = (*NETS, "tree_lstm")
ENGINES = ("legato", "torch", "torch.compile")
BLOCK = 0.2  # seconds
RATE, MOMENTUM = 1e-4, 0.9
NEAR = 1e-3  # how far losses of the first steps may differ, as a share

Step = Callable[[], float]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One network: milliseconds of a step by engine; PyTorch's, eager, divided by Legato's, with the interval; bytes of
    memory by engine; seconds to compile the loss and the step; why engines are missing."""

    name: str
    title: str
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    bytes: Mapping[str, int] = field(default_factory=dict)
    compile: tuple[float, float] = (0.0, 0.0)
    missing: Mapping[str, str] = field(default_factory=dict)
    differ: bool = False


# ------------------------------------------------------------------ steps


def legato_step(name: str, threads: int) -> Step:
    """A step of Legato. UnsupportedError where the network has no gradient yet."""
    if name == "tree_lstm":
        program, values, tree = _tree_program()
        trainer = optim.Trainer(program, optim.SGD(RATE, MOMENTUM), values, threads=threads)
        given = import_module("tree_lstm").value(trainer.executable, tree[0]), tree[1]
        return lambda: float(trainer.step(*given))
    net = NETS[name]
    trainer = optim.Trainer(net.program(), optim.SGD(RATE, MOMENTUM), parameters(net), threads=threads)
    found = batch(net)
    return lambda: float(trainer.step(**found))


def torch_step(name: str, threads: int, *, compiled: bool = False) -> Step:
    """A step of PyTorch."""
    torch.set_num_threads(threads)
    if name == "tree_lstm":
        return _torch_tree_step(compiled=compiled)
    net = NETS[name]
    params = {n: torch.tensor(value, requires_grad=True) for n, value in parameters(net).items()}
    given = [torch.from_numpy(value) for value in batch(net).values()]
    return _torch_step(list(params.values()), lambda *xs: net.loss(Eager(params), *xs), given, compiled=compiled)


def _torch_step(params: list[Any], loss: Callable[..., Any], given: list[Any], *, compiled: bool) -> Step:
    optimizer = torch.optim.SGD(params, RATE, MOMENTUM)
    forward = torch.compile(loss) if compiled else loss

    def step() -> float:
        optimizer.zero_grad()
        made = forward(*given)
        made.backward()
        optimizer.step()
        return float(made.item())

    return step


def _tree_program() -> tuple[Any, dict[str, Array], tuple[Any, Array]]:
    """The TreeLSTM of the examples with a loss, its parameters, and a tree of 39 words with their vectors."""
    module, net = import_module("tree_lstm"), _tree_net()
    states = module.PROGRAM.rindex("%node(%tree).0")
    text = f"{module.PROGRAM[:states]}let %h = %node(%tree).0;\n  sum(%h * %h)\n}}\n"
    weights = {"w": net.w.weight, "b": net.w.bias, "u": net.u.weight, "u_forget": net.u_forget.weight}
    return legato.parse(text), {n: value.detach().numpy() for n, value in weights.items()}, _tree(module)


def _tree_net() -> Any:
    torch.manual_seed(0)
    return import_module("tree_lstm").TreeLSTM()


def _tree(module: Any) -> tuple[Any, Array]:
    rng = np.random.default_rng(0)
    tree = module.random_tree(20, rng)
    return tree, rng.standard_normal((module.size(tree), module.INPUT), np.float32)


def _torch_tree_step(*, compiled: bool) -> Step:
    net = _tree_net()
    tree, xs = _tree(import_module("tree_lstm"))

    def loss(words: Any) -> Any:
        h = net(tree, words)[0]
        return (h * h).sum()

    return _torch_step(list(net.parameters()), loss, [torch.from_numpy(xs)], compiled=compiled)


def step_of(engine: str, name: str, threads: int) -> Step:
    """A step of one of the ENGINES."""
    if engine == "legato":
        return legato_step(name, threads)
    return torch_step(name, threads, compiled=engine == "torch.compile")


# ------------------------------------------------------------------ what is measured of them


def memory(engine: str, name: str, threads: int) -> int:
    """Bytes that steps need beside what the process held before: parameters, the batch, what is kept for parameters."""
    step = step_of(engine, name, threads)
    if engine == "torch.compile":
        step()  # compiles
    Path("/proc/self/clear_refs").write_text("5")  # the most so far is what there is now
    before = _status("VmRSS")
    for _ in range(3):
        step()
    return 1024 * (_status("VmHWM") - before)


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{key}:")))


def compile_seconds(name: str) -> tuple[float, float]:
    """Seconds to compile the loss alone, and the whole step, without kernels that are known already."""
    if name == "tree_lstm":
        program, params = _tree_program()[0], list(_tree_program()[1])
    else:
        program, params = NETS[name].program(), list(parameters(NETS[name]))
    begun = time.perf_counter()
    legato.compile(program)
    between = time.perf_counter()
    step = optim.training_step(program, optim.SGD(RATE, MOMENTUM), params)
    legato.compile(step.module, donate=step.held)
    return between - begun, time.perf_counter() - between


def times(name: str, rounds: int, threads: int, chosen: tuple[str, ...]) -> Row:
    """Milliseconds of steps, in alternating blocks."""
    title = NETS[name].title if name in NETS else "TreeLSTM, a tree of 39 words"
    steps, losses, missing = dict[str, Step](), dict[str, list[float]](), dict[str, str]()
    for engine in chosen:
        try:
            steps[engine] = step_of(engine, name, threads)
            losses[engine] = [steps[engine]() for _ in range(3)]
        except UnsupportedError as error:
            missing[engine] = error.message
        except Exception as error:  # whatever an engine fails with is told
            missing[engine] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            steps.pop(engine, None)
    first, *others = [*losses.values()] or [[]]
    differ = not all(np.allclose(other, first, rtol=NEAR) for other in others)
    engines = [Engine(engine, __version__, _listed(step)) for engine, step in steps.items() if engine in losses]
    found = measure(engines, rounds, BLOCK, lambda: 0.0, most=rounds) if engines else None
    ms, share = dict[str, float](), (0.0, 0.0, 0.0)
    for engine in losses if found is not None else ():
        blocks = list(found.blocks[engine].values())  # type: ignore[union-attr]
        ms[engine] = 1e3 * float(np.median([np.median(block) for block in blocks]))
    if found is not None and {"legato", "torch"} <= losses.keys():
        r = ratio(*found.pairs("legato", "torch", range(found.count)))
        share = r.median, r.low, r.high
    return Row(name, title, ms, *share, missing=missing, differ=differ)


def _listed(step: Step) -> Callable[[], list[Array]]:
    return lambda: [np.array(step())]


# ------------------------------------------------------------------ processes and tables


def measured(name: str, args: argparse.Namespace) -> Row:
    """A row, each of its parts in a process of its own, with a cache of kernels that is empty."""
    row = Row(**_process("times", name, args))
    sizes = {
        engine: int(found)
        for engine in row.milliseconds
        if isinstance(found := _process(f"memory:{engine}", name, args), int)
    }
    seconds = _process("compile", name, args) if "legato" in row.milliseconds else (0.0, 0.0)
    return Row(**{**asdict(row), "bytes": sizes, "compile": tuple(seconds)})


def _process(part: str, name: str, args: argparse.Namespace) -> Any:
    """What a process says of one part of a row."""
    with tempfile.TemporaryDirectory(prefix="legato-training-") as folder:
        output = Path(folder, "out.json")
        command = [sys.executable, "-m", "tools.bench.training", "--part", part, "--only", name, "--json", str(output),
                   "--rounds", str(args.rounds), "--threads", str(args.threads), "--vs", ",".join(args.vs)]  # fmt: skip
        environment = {**os.environ, "LEGATO_CACHE_DIR": str(Path(folder, "cache"))}
        code = subprocess.run(command, cwd=ROOT, env=environment).returncode
        if code == 0:
            return json.loads(output.read_text())
    if part == "times":
        return asdict(Row(name, name, missing={"legato": f"the process that measures it ended with code {code}"}))
    return None if part.startswith("memory") else (0.0, 0.0)


def part_of(part: str, name: str, args: argparse.Namespace) -> Any:
    """One part of a row, here and now."""
    if part == "times":
        return asdict(times(name, args.rounds, args.threads, args.vs))
    if part == "compile":
        return compile_seconds(name)
    return memory(part.partition(":")[2], name, args.threads)


def markdown(figures: Mapping[str, Any]) -> str:
    """The rows that the JSON file holds as a table."""
    head = (
        "| step | Legato | PyTorch, eager | torch.compile | eager / Legato | memory: Legato, eager, compiled "
        "| to compile: loss, step |\n| --- | --: | --: | --: | --: | --: | --: |"
    )
    lines = [_line(Row(**row)) for row in figures["rows"]]
    return "\n".join(
        [head, *lines, "", f"Milliseconds, MB, seconds; {figures['threads']} threads of {figures['machine']}."]
    )


def _line(row: Row) -> str:
    cells = [f"{row.milliseconds[e]:.1f}" if e in row.milliseconds else "–" for e in ENGINES]
    share = f"{row.ratio:.2f}× ({row.low:.2f}–{row.high:.2f})" if row.ratio else "–"
    sizes = ", ".join(f"{row.bytes[e] / 1e6:.0f}" if e in row.bytes else "–" for e in ENGINES)
    seconds = f"{row.compile[0]:.1f}, {row.compile[1]:.1f}" if row.compile[1] else "–"
    why = f" ({row.missing['legato']})" if "legato" in row.missing else ""
    return f"| {row.title}{why} | {' | '.join(cells)} | {share} | {sizes} | {seconds} |"


def main(given: list[str] | None = None) -> int:
    """Measures, prints and writes; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.training", description=__doc__)
    parser.add_argument("--only", default=",".join(NAMES), metavar="NETS", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--vs", default=",".join(ENGINES), metavar="ENGINES", help=f"of {', '.join(ENGINES)}")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    add_outputs(parser, BEGIN, END)
    args = parser.parse_args(given)
    names, args.vs = args.only.split(","), tuple(args.vs.split(","))
    if unknown := {*names} - {*NAMES} | {*args.vs} - {*ENGINES}:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    sys.path.insert(0, str(ROOT / "examples"))
    if args.part is not None:
        args.json.write_text(json.dumps(part_of(args.part, names[0], args)))
        return 0
    rows = list[Row]()
    for name in names:
        rows.append(measured(name, args))
        print(rows[-1], flush=True)
    figures = {
        "machine": machine(), "torch": torch.__version__, "threads": args.threads, "rows": [asdict(r) for r in rows]
    }  # fmt: skip
    publish(args, figures, markdown(figures), BEGIN, END)
    return int(any(row.differ or "legato" in row.missing for row in rows))


if __name__ == "__main__":
    sys.exit(main())

"""Measures what each pass is worth: `python -m tools.bench.ablation`.

A model is compiled with the passes that code needs alone, then with one more of `legato.pipelines.OPTIONAL` at a time,
in their order there, and last with buffer layouts assigned as well. The programs run in alternating blocks, in one
process, on as many threads. A step that makes the program that there was before is not measured. Passes that make a
model slower by more than 3 % are named. Exit code 1 if outputs differ by more than rounding. Models that the JSON file
has of this machine are kept where they are not measured again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

import legato
from legato._version import __version__
from legato.base.dataclass import dataclass
from legato.base.target import host
from legato.bench.engines import Engine, legato_engine
from legato.bench.measure import Rounds, measure
from legato.bench.statistics import ratio
from legato.compare.report import nearness
from legato.driver import CompileOptions, compile_module, load_model
from legato.pipelines import DEFAULT, OPTIONAL, without
from legato.transform.pass_ import Pass
from tools.bench.ablation_page import BEGIN, END, LAYOUTS, Figures, Model, Step, chart, markdown, slower
from tools.bench.entries import entry
from tools.bench.pair import machine
from tools.bench.report import add_outputs, publish

__all__ = ["MODELS", "Stage", "main", "measured", "stack"]

MODELS: Final = ("resnet18", "mobilenet_v2", "vgg16", "inception_v3", "dqn", "lstm", "bert_base")


@dataclass(frozen=True, slots=True)
class Stage:
    """How a program of the stack is compiled, by the name of what the one before lacks."""

    name: str
    passes: tuple[Pass, ...]
    assign_layouts: bool = False


def stack() -> tuple[Stage, ...]:
    """What is compiled, one thing more in each."""
    names = ["none", *(kind.name for kind in OPTIONAL)]
    stages = [Stage(name, without(DEFAULT, OPTIONAL[n:])) for n, name in enumerate(names)]
    return (*stages, Stage(LAYOUTS, DEFAULT, assign_layouts=True))


@dataclass(frozen=True, slots=True)
class _Program:
    """A program in a file, and the stages that make it."""

    path: Path
    digest: str
    kernels: int


def _compiled(name: str, stage: Stage, path: Path) -> _Program:
    model = entry(name).model
    mod = load_model(model.path(), shapes=model.static_shapes() if model.symbolic else None)
    options = CompileOptions(host(), passes=stage.passes, assign_layouts=stage.assign_layouts)
    exe = compile_module(mod, options).executable
    exe.save(path)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return _Program(path, digest, len(exe.kernels))


def _programs(name: str, stages: Sequence[Stage], folder: Path) -> list[_Program]:
    """The program of each stage; stages that make the same have the same one."""
    known: dict[str, _Program] = {}
    found: list[_Program] = []
    for n, stage in enumerate(stages):
        made = _compiled(name, stage, folder / f"{n}.legato")
        if made.digest in known:
            made.path.unlink()
        found.append(known.setdefault(made.digest, made))
    return found


def measured(name: str, rounds: int, block: float, threads: int, stages: Sequence[Stage]) -> Model | None:
    """A model's figures for every stage; None where outputs differ."""
    feeds = entry(name).model.cases()[0]
    with TemporaryDirectory(prefix="legato-ablation-") as folder:
        programs = _programs(name, stages, Path(folder))
        distinct = {p.digest: p for p in programs}
        engines = [
            legato_engine(legato.load(p.path, threads=threads), feeds, __version__, digest)
            for digest, p in distinct.items()
        ]
        if not _agree(engines):
            return None
        found = measure(engines, rounds, block, lambda: 0.0)
    steps = [_step(stages, programs, n, found) for n in range(len(stages))]
    return Model(name, entry(name).title, found.count, tuple(steps))


def _agree(engines: Sequence[Engine]) -> bool:
    """Whether all outputs are near those of the first engine."""
    first, *others = ([np.copy(a) for a in engine.call()] for engine in engines)
    near = engines[0].near
    return all(nearness(a, b, near)[1] for other in others for a, b in zip(first, other, strict=True))


def _step(stages: Sequence[Stage], programs: Sequence[_Program], n: int, found: Rounds) -> Step:
    own, first, before = programs[n], programs[0], programs[max(n - 1, 0)]
    numbers = range(found.count)
    seconds = [float(np.median(block)) for block in found.of(own.digest, numbers)]
    to_before = None if own is before else ratio(*found.pairs(own.digest, before.digest, numbers))
    to_first = None if own is first else ratio(*found.pairs(own.digest, first.digest, numbers))
    return Step(stages[n].name, 1e3 * float(np.median(seconds)), own.kernels, to_before, to_first)


def _kept(path: Path | None, threads: int) -> Figures:
    """What an earlier run on this machine has written; without models where there is none."""
    data: dict[str, Any] = json.loads(path.read_text("utf-8")) if path is not None and path.exists() else {}
    found = Figures.from_json(data) if data else None
    if found is None or (found.machine, found.threads) != (machine(), threads):
        return Figures(machine(), threads, ())
    return found


def _models(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, text.split(",")))
    if unknown := [name for name in names if name not in MODELS]:
        raise argparse.ArgumentTypeError(f"no model {', '.join(unknown)}; there are {', '.join(MODELS)}")
    return names


def main(given: Sequence[str] | None = None) -> int:
    """Measures, prints and writes; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.ablation", description=__doc__)
    parser.add_argument("--only", type=_models, default=MODELS, metavar="MODELS", help="these models, with commas")
    parser.add_argument("--rounds", type=int, default=30, help="blocks of each program; 0: measure nothing")
    parser.add_argument("--block", type=float, default=0.05, help="seconds of each block (default: 0.05)")
    parser.add_argument("--threads", type=int, default=2, help="of every program (default: 2)")
    parser.add_argument("--svg", type=Path, metavar="F", help="draw the gains here")
    add_outputs(parser, BEGIN, END)
    args = parser.parse_args(given)
    figures, stages = _kept(args.json, args.threads), stack()
    for name in args.only if args.rounds else ():
        model = measured(name, args.rounds, args.block, args.threads, stages)
        if model is None:
            print(f"{name}: the outputs differ", file=sys.stderr)
            return 1
        figures = figures.with_model(model, MODELS)
        if args.json is not None:  # the others may take long
            args.json.write_text(json.dumps(figures.to_json(), indent=2) + "\n", "utf-8")
        print(f"{model.title}: {', '.join(f'{s.name} {s.milliseconds:.3f}' for s in model.steps)} ms", flush=True)
        for line in slower(model):
            print(f"  {line}", flush=True)
    publish(args, figures.to_json(), markdown(figures), BEGIN, END)
    if args.svg is not None:
        args.svg.write_text(chart(figures), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

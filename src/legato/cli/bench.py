"""how fast a model runs, and against other engines

All engines get the same threads and run in alternating blocks with a pause before each; outputs are compared; a ratio
is printed only where it is outside the noise. All figures are of rounds with about the same fork-join time: the cores
of a virtual machine are sometimes near each other and sometimes far apart. Compiling and loading are timed in fresh
processes. Exit code 1 if the engines' outputs do not agree, but for one that the interpreter says is off."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from legato.cli import _arguments
from legato.cli._answer import NO, YES, Answer, Tell, counted, rows, seconds
from legato.cli._files import write_text
from legato.cli._on import add_on, done_there

if TYPE_CHECKING:
    from legato.bench import Result

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """F, the engines to compare with, inputs, and how long to measure."""
    parser.add_argument("model", type=Path, metavar="F", help="a model, or a .legato file (which only Legato reads)")
    parser.add_argument(
        "--vs",
        default="",
        metavar="ENGINES",
        help="onnxruntime, openvino, openvino-bf16, legato-exact, legato-fast, legato-bfloat16; several with commas",
    )
    _arguments.add_inputs(parser, fill="random")
    _arguments.add_compile(parser)
    parser.add_argument(
        "--rounds",
        type=_arguments.positive,
        default=30,
        help="blocks of each engine while cores are equally near (default: 30)",
    )
    parser.add_argument(
        "--max-rounds",
        type=_arguments.positive,
        metavar="N",
        help="go on up to N rounds until the ratio to the fastest other engine is known within 2 %% (default: 10 times "
        "--rounds)",
    )
    parser.add_argument("--block", type=_arguments.duration, default=0.05, help="seconds of each block (default: 0.05)")
    parser.add_argument("-o", "--output", type=Path, help="write the result as JSON to this file, too")
    add_on(parser)


def run(args: argparse.Namespace, tell: Tell) -> Answer:
    """Measures and compares."""
    from legato.bench import bench

    _arguments.require_use_of_inputs(args)
    if args.on is not None:
        return _there(args, tell)
    if _arguments.is_artifact(args.model):
        _arguments.refuse(args, f"{args.model} is compiled already", *_arguments.OF_MODELS)
    with _file(args) as model:
        result = bench(
            model,
            vs=[name.strip() for name in args.vs.split(",") if name.strip()],
            threads=args.threads,
            target=args.target,
            shapes=_arguments.shapes(args),
            constants=_arguments.constants(args),
            ops=_arguments.operators(args),
            custom=_arguments.custom(args),
            inputs=None if args.input is None else _arguments.read_arrays(args.input),
            dims=dict(args.dim),
            how=args.fill,
            seed=args.seed,
            rounds=args.rounds,
            max_rounds=args.max_rounds,
            block=args.block,
            precision=args.precision,
            progress=tell,
        )
    result = replace(result, model=str(args.model))
    data = result.to_json()
    _write(args, data)
    return Answer(data, _text(result), YES if result.is_right else NO)


def _write(args: argparse.Namespace, data: dict[str, Any]) -> None:
    if args.output is not None:
        import json

        write_text(args.output, json.dumps(data, indent=2) + "\n")


def _there(args: argparse.Namespace, tell: Tell) -> Answer:
    """How fast the program runs on another machine: as many rounds as are asked for, without a judgement of their
    modes, for nobody is there to compare it with."""
    from legato.bench.statistics import times

    _arguments.refuse(args, "--on measures Legato alone, which is what is sent there", "vs", "max_rounds")
    reply, where = done_there(args, tell, rounds=args.rounds, block=args.block)
    found, facts = times(reply.facts["blocks"]), reply.facts
    data = {
        "model": str(args.model), **where, "threads": facts["threads"], "inputs": facts["inputs"],
        "mapped": facts["mapped"], "rounds": args.rounds, "engines": {"legato": asdict(found)},
    }  # fmt: skip
    _write(args, data)
    head = [
        ("model", str(args.model)),
        ("inputs", ", ".join(facts["inputs"])),
        ("machine", f"{where['on']}: {where['machine']}, {where['target']}, {counted(facts['threads'], 'thread')}"),
        ("mapped", seconds(facts["mapped"])),
    ]
    table = [
        ("engine", "median", "P90", "P99", "calls"),
        ("legato", seconds(found.median), seconds(found.p90), seconds(found.p99), str(found.calls)),
    ]
    return Answer(data, "\n".join([rows(head), "", rows(table, right=(1, 2, 3, 4))]))


@contextmanager
def _file(args: argparse.Namespace) -> Iterator[Path]:
    """The file of the model. What code made has one while it is measured: fresh processes read it."""
    made = _arguments.program(args)
    if isinstance(made, Path):
        yield made
        return
    from legato.ir.files import save_json_file

    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{args.model.stem}.json"
        save_json_file(made, path)
        yield path


def _fork_join(r: Result) -> str:
    is_measured = r.threads == 1 or any(r.fork_joins)
    return seconds(r.fork_join) if is_measured else "not measured, which takes the compiler"


def _text(r: Result) -> str:
    head = [
        ("model", r.model),
        ("inputs", ", ".join(r.inputs)),
        ("machine", f"{r.machine}, {r.target}, {r.threads} threads"),
        ("fork-join", f"{_fork_join(r)}, in {r.within} of {counted(r.rounds, 'round')}"),
    ]
    if r.startup is not None:
        if r.startup.cold is not None and r.startup.cached is not None:
            told = f"{seconds(r.startup.cold)} cold, {seconds(r.startup.cached)} from the kernel cache"
            head.append(("compile", told))
        head.append(("load", seconds(r.startup.load)))
    table = [("engine", "version", "median", "P90", "P99", "calls")]
    for name, t in r.engines.items():
        table.append((name, r.versions[name], seconds(t.median), seconds(t.p90), seconds(t.p99), str(t.calls)))
    parts = [rows(head), "", rows(table, right=(2, 3, 4, 5))]
    for name, ratio in r.ratios.items():
        agreement = r.agreement[name]
        same = f"outputs agree within {agreement.distance:.1g} of their range"
        parts.append(f"\nspeed against {name}: {ratio}")
        side = {None: "", True: f": {name} is off, says the interpreter in float64", False: ": Legato is off"}[
            agreement.ours
        ]
        parts.append(same if agreement.agrees else f"OUTPUTS DIFFER by {agreement.distance:.3g} of their range{side}")
    return "\n".join(parts)

"""runs a compiled program, or a model, once

Inputs come from a .npz file (arrays by name) or are made up by --fill; outputs go to a .npz file, or are described.
--dump writes every tensor that a model computes on its way, too: the result of each operator."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legato.base.errors import CompileError, RunError
from legato.cli import _arguments
from legato.cli._answer import Answer, Tell, counted, rows, seconds
from legato.cli._files import write_arrays
from legato.cli._generators import add_generators, take_generators
from legato.cli._on import add_on, done_there

if TYPE_CHECKING:
    import numpy as np

    from legato.runtime.datatypes import ObjectInfo
    from legato.runtime.executable import Executable
    from legato.runtime.values import Data

__all__ = ["add_arguments", "run"]

_SHOWN = 8  # strings of an output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """F, inputs and outputs."""
    parser.add_argument("model", type=Path, metavar="F", help="a .legato file, or a model to compile first")
    _arguments.add_inputs(parser, fill=None)
    parser.add_argument("-o", "--output", type=Path, help="the .npz file for the outputs")
    parser.add_argument(
        "--dump",
        type=Path,
        metavar="DIR",
        help="write every tensor of a model into this new folder, one .npy file each",
    )
    _arguments.add_compile(parser)
    add_generators(parser)
    add_on(parser)


def run(args: argparse.Namespace, tell: Tell) -> Answer:
    """Runs, writes the outputs, describes them."""
    from legato.runtime.datatypes import ObjectInfo

    _arguments.require_use_of_inputs(args)
    if args.on is not None:
        return _there(args, tell)
    if args.dump is not None:
        return _dump(args, tell)
    exe = _arguments.executable(args, tell, take_generators(args))
    arrays = _inputs(args, exe)
    tell("running")
    start = time.perf_counter()
    outputs = exe.run(arrays)
    taken = time.perf_counter() - start
    values = {r.name: r for r in exe.results if isinstance(r, ObjectInfo)}
    if args.output is not None and values:
        raise RunError(f"{args.output} cannot hold values of data types: {', '.join(map(str, values.values()))}")
    return _answer(args, outputs, taken, values)


def _answer(
    args: argparse.Namespace, outputs: dict[str, Any], taken: float, values: Mapping[str, ObjectInfo]
) -> Answer:
    """Writes the outputs, and describes them; `values` are those that are of data types."""
    if args.output is not None:
        write_arrays(args.output, outputs)
    facts = [_value(values[name], v) if name in values else _describe(name, v) for name, v in outputs.items()]
    data = {"output": None if args.output is None else str(args.output), "seconds": taken, "outputs": facts}
    table = rows([_row(f) for f in facts])
    where = f"\nwritten  {args.output}" if args.output is not None else ""
    return Answer(data, f"{table}{where}\ntime  {seconds(taken)}")


def _there(args: argparse.Namespace, tell: Tell) -> Answer:
    """The same on another machine."""
    _arguments.refuse(args, "--on calls a program as it is", "dump", "generators")
    if args.input is None and args.fill is None:
        raise RunError("no inputs\n  hint: -i FILE.npz, or --fill random")
    reply, where = done_there(args, tell)
    found = _answer(args, dict(reply.outputs), reply.facts["seconds"], {})
    data = {**found.data, **where, "threads": reply.facts["threads"]}
    threads = counted(data["threads"], "thread")
    return Answer(data, f"{found.text}, on {where['on']} ({where['machine']}, {where['target']}, {threads})")


def _inputs(args: argparse.Namespace, exe: Executable) -> dict[str, Any]:
    """The inputs of the call by name: from the file, or made up."""
    from legato.runtime.fill import feeds

    if args.input is None and args.fill is None and exe.inputs:
        raise RunError(f"no inputs; wanted {', '.join(map(str, exe.arguments))}\n  hint: -i FILE.npz, or --fill random")
    given = None if args.input is None else _arguments.read_arrays(args.input)
    return feeds(exe.program.functions[exe.function], given, args.fill, dims=dict(args.dim), seed=args.seed)


def _dump(args: argparse.Namespace, tell: Tell) -> Answer:
    """Compiles the model so that every operator's result is kept, runs it, and writes all tensors."""
    from dataclasses import replace

    from legato.compare.dump import MANIFEST, require_new, write_dump
    from legato.compare.tensors import UNFUSED, every_tensor

    if _arguments.is_artifact(args.model):
        hint = "give the model, which is compiled so that it keeps every tensor"
        raise CompileError(f"{args.model} is compiled, and computes only what its outputs need", hint=hint)
    _arguments.refuse(args, "--dump writes the outputs as well", "output")
    _arguments.refuse(args, "--dump has each operator compiled alone", "generators")
    require_new(args.dump)
    whole = every_tensor(_arguments.module(args), replace(_arguments.options(args, tell), passes=UNFUSED))
    arrays = _inputs(args, whole.executable)
    tell("running")
    outputs, tensors = whole(arrays)
    tell("writing")
    entries = write_dump(args.dump, arrays, whole.steps, tensors, outputs)
    table = [(e["file"], e["name"], e["type"], ", ".join(e["operators"]), e["place"]) for e in entries]
    data = {"dump": str(args.dump), "tensors": entries}
    return Answer(data, f"{rows(table)}\nwritten  {args.dump / MANIFEST}, and {counted(len(entries), 'tensor')}")


def _row(fact: dict[str, Any]) -> tuple[str, ...]:
    if "value" in fact:
        return fact["name"], fact["type"], fact["value"]
    return fact["name"], fact["type"], *(f"{name} {fact[name]:.6g}" for name in ("min", "max", "mean"))


def _value(info: ObjectInfo, value: Data) -> dict[str, Any]:
    """A value of a data type: its beginning as text."""
    return {"name": info.name, "type": info.type, "value": repr(value)}


def _describe(name: str, array: np.ndarray) -> dict[str, Any]:
    import numpy as np

    from legato.base.codes import decode
    from legato.base.dtype import dtype

    if array.dtype.kind == "O":
        return {"name": name, "type": f"string{list(array.shape)}", "value": str(array.ravel()[:_SHOWN].tolist())}
    wide = decode(array).astype(np.float64)
    with np.errstate(all="ignore"):  # infinities have a mean, too, or none
        low, high, mean = (float(f(wide)) if wide.size else 0.0 for f in (np.min, np.max, np.mean))
    return {"name": name, "type": f"{dtype(array.dtype)}{list(array.shape)}", "min": low, "max": high, "mean": mean}

"""a model as one file: code, weights, the program as text

The file is complete or is not written. --emit writes text instead: ir (the program with its kernels as loops), llvm
or asm. Exit code 1 if the model cannot be compiled."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legato.base.errors import CompileError
from legato.cli import _arguments
from legato.cli._answer import Answer, Tell, counted, rows, seconds, size
from legato.cli._artifacts import memory_line, memory_of
from legato.cli._files import require_artifact_or_nothing, write_text
from legato.cli._generators import add_generators, take_generators

if TYPE_CHECKING:
    from legato.driver import Compiled

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """MODEL, -o and how to compile."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an .onnx, .pt2, .pt, .relay or .relax file")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the file to write (default: MODEL.legato in this folder, where there is none yet; with --emit: standard "
        "output)",
    )
    _arguments.add_compile(parser)
    add_generators(parser)
    parser.add_argument("--emit", choices=("ir", "llvm", "asm"), help="write text in place of a compiled program")


def run(args: argparse.Namespace, tell: Tell) -> Answer:
    """Compiles, writes, and says what it cost."""
    if args.emit:
        _arguments.refuse(args, "text is not run", "threads", "generators")
        return _emit(args, tell)
    if _arguments.is_artifact(args.model):
        raise CompileError(f"{args.model} is compiled already", hint="compile the model that it is made of")
    output = args.output or _default_output(args.model)
    require_artifact_or_nothing(output)
    from legato.driver import compile_module, split_shapes

    start = time.perf_counter()
    tell(f"reading {args.model}")
    generators = take_generators(args)
    shapes, sizes = split_shapes(_arguments.program(args), _arguments.shapes(args))
    mod = _arguments.loaded(args, shapes)
    read = time.perf_counter() - start
    compiled = compile_module(mod, replace(_arguments.options(args, tell), sizes=sizes, generators=generators))
    tell(f"writing {output}")
    if args.output is None:
        _default_output(args.model)  # somebody else may have written it since
    compiled.executable.save(output)
    data = _facts(output, compiled, time.perf_counter() - start, {"read": read, **compiled.seconds})
    return Answer(data, _text(data))


def _default_output(model: Path) -> Path:
    """The file that is written where none is named: `MODEL.legato` in this folder; CompileError where it is there."""
    output = Path(f"{model.stem}.legato")
    if os.path.lexists(output):
        hint = f"-o {output} replaces it, if it is a compiled program; -o FILE writes another one"
        raise CompileError(f"{output} is there already: it is not replaced unless it is named", hint=hint)
    return output


def _facts(output: Path, compiled: Compiled, total: float, stages: dict[str, float]) -> dict[str, Any]:
    exe = compiled.executable
    return {
        "output": str(output),
        "bytes": output.stat().st_size,
        "weight_bytes": exe.weight_bytes,
        "target": exe.target,
        "precision": exe.precision.value,
        "threads": exe.threads,
        "inputs": [str(leaf) for leaf in exe.arguments],
        "outputs": [str(leaf) for leaf in exe.results],
        **memory_of(exe),
        "kernels": exe.stats["kernels"],
        "compiled": compiled.compiled,
        "by_reference": [op.op for op in exe.program.host_ops],
        "seconds": total,
        "stages": stages,
    }


def _text(data: dict[str, Any]) -> str:
    stages = ", ".join(f"{name} {seconds(value)}" for name, value in data["stages"].items())
    slow = data["by_reference"]
    by_reference = f"{counted(len(slow), 'operator')} run by their reference"
    by_reference += f" ({', '.join(dict.fromkeys(slow))})" if slow else ""
    return rows([
        ("written", f"{data['output']}: {size(data['bytes'])}, of which weights {size(data['weight_bytes'])}"),
        *(("inputs" if not n else "", text) for n, text in enumerate(data["inputs"])),
        *(("outputs" if not n else "", text) for n, text in enumerate(data["outputs"])),
        ("memory", memory_line(data)),
        ("kernels", f"{data['kernels']} for {data['target']}, precision {data['precision']}; {by_reference}"),
        ("time", f"{seconds(data['seconds'])}  ({stages})"),
    ])  # fmt: skip


def _emit(args: argparse.Namespace, tell: Tell) -> Answer:
    text = _emitted(args, tell)
    data = {"emit": args.emit, "output": None if args.output is None else str(args.output)}
    if args.output is None:
        return Answer({**data, "text": text}, text)
    write_text(args.output, text)
    return Answer({**data, "bytes": len(text)}, f"written  {args.output}: {size(len(text.encode()))}")


def _emitted(args: argparse.Namespace, tell: Tell) -> str:
    import numpy as np

    from legato.codegen.compile import assembly
    from legato.driver import llvm_modules, lower_module
    from legato.runtime.parts import constant_offsets
    from legato.transform.pass_ import Observer, run

    options = _arguments.options(args, tell, ["tir"])
    observer = Observer(keep=options.keep, progress=lambda name: tell(f"passes: {name}"))
    tell(f"reading {args.model}")
    mod = run(_arguments.module(args), options.pipeline, observer)
    tell("lower")
    _, program = lower_module(mod, options, observer)
    if args.emit == "ir":
        return str(observer.kept["tir"])
    constants = [(name, np.asarray(node.data)) for name, node in program.constants.items()]
    modules = llvm_modules(program, options.target, constant_offsets(constants))
    if args.emit == "llvm":
        return "\n".join(modules)
    tell("codegen")
    return "\n".join(assembly(text, options.target) for text in modules)

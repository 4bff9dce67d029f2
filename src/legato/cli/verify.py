"""whether a model, compiled, computes what it means

Compares with the interpreter in float64. An output holds if its error is at most twice the peer's own, or 1e-5 of its
range, and it is within 1e-3 of its range of ONNX Runtime's; the peer is ONNX Runtime, or the interpreter in the
program's precision. Where ONNX Runtime is far from the interpreter, too, that is told, and the output is judged without
it. Exit code 1 if an output does not hold. For a .legato file: whether it is as it was written."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legato.base.errors import CompileError
from legato.cli import _arguments
from legato.cli._answer import NO, YES, Answer, Tell, counted, rows
from legato.cli._files import require_apart, write_arrays
from legato.cli._generators import add_generators, take_generators
from legato.cli._passes import add_passes, take_passes

if TYPE_CHECKING:
    from legato.compare import Culprit, Report

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """MODEL, inputs, the peer, and what to do where an output does not hold."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an .onnx, .pt2, .pt, .relay, .relax or .legato file")
    _arguments.add_inputs(parser, fill="random")
    _arguments.add_compile(parser)
    add_generators(parser)
    add_passes(parser, "what is done to the model before it is compiled (default: default); may be given several times")
    parser.add_argument(
        "--against", choices=("interpreter", "onnxruntime"), help="the peer (default: the best there is)"
    )
    parser.add_argument("--bounds", action="store_true", help="test every access to memory while the program runs")
    parser.add_argument("--bisect", action="store_true", help="find the node or pass that is to blame")
    parser.add_argument("-o", "--output", type=Path, help="with --bisect: a .relay file for the reproducer")


def run(args: argparse.Namespace, tell: Tell) -> Answer:
    """Compares, and looks for the culprit where that is asked for."""
    if _arguments.is_artifact(args.model):
        rest = ("input", "fill", "seed", "dim", "threads", "against", "bounds", "bisect", "output", "generators", "ops",
                "passes", "use")  # fmt: skip
        _arguments.refuse(args, "of a .legato file its bytes are checked", *_arguments.OF_MODELS, *rest)
        return _artifact(args.model)
    _arguments.require_use_of_inputs(args)
    if not args.bisect:
        _arguments.refuse(args, "without --bisect there is no reproducer", "output")
    if not args.passes:
        _arguments.refuse(args, "without -p no pass is named", "use")
    if args.output is not None and args.output.suffix != ".relay":
        raise CompileError(f"the reproducer is a .relay file; -o names {args.output}")
    if args.output is not None:
        require_apart(args.output.with_suffix(".npz"), args)
    import legato

    generators = take_generators(args)
    report = legato.verify(
        _arguments.program(args),
        None if args.input is None else _arguments.read_arrays(args.input),
        shapes=_arguments.shapes(args),
        constants=_arguments.constants(args),
        ops=_arguments.operators(args),
        custom=_arguments.custom(args),
        dims=dict(args.dim),
        how=args.fill,
        seed=args.seed,
        target=args.target,
        precision=args.precision,
        threads=args.threads,
        against=args.against,
        bisect=args.bisect,
        bounds=args.bounds or None,
        passes=take_passes(args) if args.passes else None,
        progress=tell,
        generators=generators,
    )
    data = {"model": str(args.model), **report.to_json(), "reproducer": None}
    lines = _lines(report)
    if report.culprit is not None:
        lines += ["", f"to blame: {report.culprit}", *_reproducer(report.culprit, args.output, data)]
    return Answer(data, "\n".join(lines), YES if report.holds else NO)


def _lines(report: Report) -> list[str]:
    peer = "ONNX Runtime" if report.peer == "onnxruntime" else "interpreter"
    table = [("", "output", "error", f"{peer}'s", "allowed", "range")]
    for o in report.outputs:
        error, theirs, allowed, span = (f"{value:.2e}" for value in (o.error, o.peer_error, o.allowed, o.range))
        table.append(("holds" if o.holds else "WRONG", f"{o.name}: {o.type}", error, theirs, allowed, span))
    lines = [rows(table, right=(2, 3, 4, 5))]
    lines += [f"{o.name} at {o.at}" for o in report.outputs if o.at]
    lines += [f"note: {report.note}"] if report.note else []
    lines += [f"note: {report.peer_off}"] if report.peer_off else []
    if report.host_operators:
        lines.append(f"{counted(report.host_operators, 'operator')} run by their reference: for them this says nothing")
    return lines


def _reproducer(culprit: Culprit, output: Path | None, data: dict[str, Any]) -> list[str]:
    if output is None:
        return ["(-o FILE.relay writes the smallest program that shows it)"]
    from legato.ir.files import save_text

    save_text(culprit.program, output)
    arrays = output.with_suffix(".npz")
    write_arrays(arrays, culprit.inputs)
    data["reproducer"] = {"program": str(output), "inputs": str(arrays)}
    return [f"to see it again: legato verify {output} -i {arrays}"]


def _artifact(path: Path) -> Answer:
    from legato.runtime.artifact import verify_file

    sections = verify_file(path)
    text = rows([(name, digest) for name, digest in sections.items()])
    return Answer({"model": str(path), "holds": True, "sha256": sections}, f"{text}\nEvery byte is as it was written.")

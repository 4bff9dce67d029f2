"""runs passes over a model, and prints what becomes of it

Passes are named in their order, with options in braces: -p "fold-constant, fuse{max-ops=32}". Before the first of them
types are inferred; after each the program is verified, and an error names the pass. --list shows all passes, their
options, and the lists of passes that are named as one. --use FILE.py runs a file that makes passes of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from legato.base.errors import CompileError
from legato.cli import _arguments
from legato.cli._answer import Answer, Tell, rows, size
from legato.cli._code import passes_of_code
from legato.cli._modules import FORMS, add_forms, require_form, shown, text_of, write_module
from legato.cli._passes import add_passes, take_passes

if TYPE_CHECKING:
    from legato.ir.module import Module
    from legato.transform.pass_ import Observer, Pass

__all__ = ["add_arguments", "run"]

_OF_RUNS: Final = (
    "model", "passes", "print_after", "print_before", "dump", "time", "rules", "output", *FORMS, "shape", "constant",
    "ops", "trust",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """MODEL, the passes, what to tell of them, and where the program goes."""
    parser.add_argument(
        "model", nargs="?", type=Path, metavar="MODEL", help="an .onnx, .pt2, .pt, .relay or .relax file"
    )
    add_passes(parser, "what to run; may be given several times")
    parser.add_argument("--list", action="store_true", help="all passes, their options and defaults")
    parser.add_argument(
        "--print-after", action="append", default=[], metavar="PASS",
        help="print the program after this pass, or after all, to standard error; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--print-before", action="append", default=[], metavar="PASS", help="the same, before this pass, or each"
    )
    parser.add_argument("--dump", type=Path, metavar="DIR", help="write the program after each pass to a file there")
    parser.add_argument("--time", action="store_true", help="print the time of each pass to standard error")
    parser.add_argument(
        "--rules", action="store_true", help="print to standard error how often each rule was applied, and its line"
    )
    parser.add_argument("-o", "--output", type=Path, help="a .relay, .relax or .json file for the program")
    add_forms(parser)
    _arguments.add_model(parser)


def run(args: argparse.Namespace, tell: Tell) -> Answer:
    """The program after the passes, or the list of them."""
    if args.list:
        _arguments.refuse(args, "--list runs nothing", *_OF_RUNS)
        return _listed(passes_of_code(args.use))
    if args.model is None or not args.passes:
        args.parser.error("MODEL and -p are required, or --list")
    if _arguments.is_artifact(args.model):
        raise CompileError(f"{args.model} is compiled already", hint="run passes over the model that it is made of")
    if args.output is not None:
        _arguments.refuse(args, "the name of the file says what is written", *FORMS)
        require_form(args.output)
    passes = take_passes(args)
    observer = _observer(args, passes)
    tell("reading")
    mod = _run(_arguments.module(args), passes, observer, tell)
    return _answer(mod, passes, observer, args)


def _observer(args: argparse.Namespace, passes: Sequence[Pass]) -> Observer:
    """What verifies, prints and times. CompileError for a pass to print before or after that is not run."""
    from legato.base.config import config
    from legato.base.tally import Tally
    from legato.transform.pass_ import Observer

    names = [*dict.fromkeys(step.name for step in passes)]
    for option in ("print_after", "print_before"):
        for name in getattr(args, option):
            if name not in (*names, "all"):
                message = f"--{option.replace('_', '-')}: no pass {name} is run"
                raise CompileError(message, hint=f"one of {', '.join(names)}, all")
    own = config()
    return Observer(
        replace(
            own,
            verify=True,
            time_passes=args.time or own.time_passes,
            print_after=_names(args.print_after) or own.print_after,
            print_before=_names(args.print_before) or own.print_before,
            dump_dir=own.dump_dir if args.dump is None else str(args.dump),
        ),
        rules=Tally() if args.rules else None,
    )


def _names(given: Sequence[str]) -> str:
    return "all" if "all" in given else ",".join(given)


def _run(mod: Module, passes: Sequence[Pass], observer: Observer, tell: Tell) -> Module:
    """`mod` after the passes; an error of the program's says in which."""
    from legato.transform.pass_ import run

    at = ""

    def progress(name: str) -> None:
        nonlocal at
        at = name
        tell(name)

    observer.progress = progress
    try:
        return run(mod, passes, observer)
    except CompileError as error:
        error.details = (*error.details, f"in pass {at}")
        raise


def _answer(mod: Module, passes: Sequence[Pass], observer: Observer, args: argparse.Namespace) -> Answer:
    from legato.transform._text import show_pass

    if observer.rules is not None:
        print(rows(observer.rules.lines()), file=sys.stderr)
    data = {
        "model": str(args.model),
        "passes": [show_pass(step) for step in passes],
        "seconds": observer.times,
        **({} if observer.rules is None else {"rules": observer.rules.to_json()}),
        "output": None if args.output is None else str(args.output),
    }
    if args.output is None:
        text = text_of(mod, args)
        return Answer({**data, "text": text}, shown(text, args))
    write_module(mod, args.output)
    return Answer(data, f"written  {args.output}: {size(args.output.stat().st_size)}")


def _listed(used: Mapping[str, type[Pass]]) -> Answer:
    from legato.pipelines import BY_PRECISION
    from legato.transform import table
    from legato.transform._options import options
    from legato.transform._text import show_pass, show_value, summary

    passes: list[dict[str, Any]] = []
    lines: list[tuple[str, str]] = []
    for name, of in {**table(), **used}.items():
        own = {option.name: show_value(option.default) for option in options(of).values()}
        passes.append({"name": name, "summary": summary(of), "options": own})
        lines.append((name, summary(of)))
        lines += [("", f"{{{', '.join(f'{o}={default}' for o, default in own.items())}}}")] if own else []
    lists = {name: [show_pass(step) for step in steps] for name, steps in BY_PRECISION.items()}
    lines += [(name, f"All {len(steps)} passes of precision {name}.") for name, steps in lists.items()]
    return Answer({"passes": passes, "lists": lists}, rows(lines))

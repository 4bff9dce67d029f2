"""a model as text, at any stage

Without --after: as it was imported. Stages are the passes in their order, then lower (calls of loop programs) and tir
(the loop programs). A .legato file shows the program that it was compiled from, or a stage that it was told to keep."""

from __future__ import annotations

import argparse
from pathlib import Path

from legato.base.errors import CompileError
from legato.cli import _arguments
from legato.cli._answer import Answer, Tell
from legato.cli._modules import FORMS, add_forms, shown, text_of

__all__ = ["add_arguments", "run"]

BELOW = ("lower", "tir")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """MODEL, the stage, and what to show of it."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an .onnx, .pt2, .pt, .relay, .relax or .legato file")
    parser.add_argument("--after", metavar="STAGE", help="the name of a pass, lower or tir; a wrong one lists them")
    add_forms(parser)
    _arguments.add_compile(parser, threads=False)


def run(args: argparse.Namespace, tell: Tell) -> Answer:
    """The text of the module after the stage."""
    text = _artifact(args) if _arguments.is_artifact(args.model) else _stage(args, tell)
    return Answer({"model": str(args.model), "after": args.after, "text": text}, shown(text, args))


def _artifact(args: argparse.Namespace) -> str:
    import legato

    _arguments.refuse(args, "a .legato file holds text as it is", *_arguments.OF_MODELS, "ops", *FORMS)
    exe = legato.load(args.model)
    return exe.program.source if args.after is None else exe.module_after(args.after)


def _stage(args: argparse.Namespace, tell: Tell) -> str:
    from legato.driver import lower_module
    from legato.transform.pass_ import Observer, run

    if args.after is None:
        _arguments.refuse(args, "a model as it was imported is for no machine yet", "target", "precision")
    options = _arguments.options(args, tell, [] if args.after is None else [args.after])
    passes = options.pipeline
    stages = [*dict.fromkeys(p.name for p in passes), *BELOW]
    if args.after is not None and args.after not in stages:
        raise CompileError(f"there is no stage {args.after!r}", hint=f"one of {', '.join(stages)}")
    tell("reading")
    mod = _arguments.module(args)
    if args.after is None:
        return text_of(mod, args)
    observer = Observer(keep=options.keep, progress=tell)
    last = max((n for n, p in enumerate(passes) if p.name == args.after), default=len(passes) - 1)
    mod = run(mod, passes[: last + 1], observer)
    if args.after in BELOW:
        lower_module(mod, options, observer)
    return text_of(observer.kept[args.after], args)

"""a model as text or as a picture, at any stage; what a compiled file holds

Without --after: as it was imported. Stages are the passes in their order, then lower (calls of loop programs) and tir
(the loop programs). Instead of the text: a tree of functions, fused groups and operators (--tree), the graph in the
language of Graphviz (--dot) or as an SVG (--svg), or one page with the graph and text of all stages (--html). A .legato
file is described; --text shows the program that it was compiled from, --after a stage that it was told to keep."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from legato.base.errors import CompileError
from legato.cli import _arguments
from legato.cli._answer import Answer, Tell
from legato.cli._artifacts import describe
from legato.cli._modules import FORMS, add_forms, shown, text_of
from legato.cli._pictures import OF_PROFILES, PICTURES, add_pictures, drawn, require_one_picture

if TYPE_CHECKING:
    from legato.ir.module import Module

__all__ = ["add_arguments", "run"]

BELOW = ("lower", "tir")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """MODEL, the stage, and what to show of it."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an .onnx, .pt2, .pt, .relay, .relax or .legato file")
    parser.add_argument("--after", metavar="STAGE", help="the name of a pass, lower or tir; a wrong one lists them")
    parser.add_argument("--text", action="store_true", help="of a .legato file: the program that it was compiled from")
    add_pictures(parser)
    add_forms(parser)
    _arguments.add_compile(parser, threads=False)
    _arguments.add_inputs(parser, fill="random")


def run(args: argparse.Namespace, tell: Tell) -> Answer:
    """The text of the module after the stage, or a picture of it."""
    if not args.profile:
        _arguments.refuse(args, "nothing is run without --profile", *OF_PROFILES)
    if _arguments.is_artifact(args.model):
        return _artifact(args)
    _arguments.refuse(args, "a model is shown as text in any case", "text")
    picture = require_one_picture(args)
    if picture is not None:
        _arguments.refuse(args, f"--{picture} is no text", *FORMS)
    if picture == "html":
        from legato.cli._page import write_page

        return write_page(args, tell)
    _arguments.refuse(args, "shares of time stand in the page alone", "profile")
    mod = _stage(args, tell)
    if picture is not None:
        return drawn(mod, picture, args)
    text = text_of(mod, args)
    return Answer({"model": str(args.model), "after": args.after, "text": text}, shown(text, args))


def _artifact(args: argparse.Namespace) -> Answer:
    from legato.runtime import artifact
    from legato.runtime.facts import Contents

    of_models = (*_arguments.OF_MODELS, "ops")
    _arguments.refuse(args, "a .legato file holds text as it is", *of_models, *FORMS, *PICTURES, "profile")
    if args.text:
        _arguments.refuse(args, "--text shows the program before all stages", "after")
    found = Contents(artifact.read(args.model, mapped=True, anywhere=True))
    if not args.text and args.after is None:
        return describe(found, args.model)
    text = found.program.source if args.after is None else found.module_after(args.after)
    return Answer({"model": str(args.model), "after": args.after, "text": text}, shown(text, args))


def _stage(args: argparse.Namespace, tell: Tell) -> Module:
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
        return mod
    observer = Observer(keep=options.keep, progress=tell)
    last = max((n for n, p in enumerate(passes) if p.name == args.after), default=len(passes) - 1)
    mod = run(mod, passes[: last + 1], observer)
    if args.after in BELOW:
        lower_module(mod, options, observer)
    return observer.kept[args.after]

"""The page of `legato show --html`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from legato.base.errors import CompileError
from legato.cli import _arguments
from legato.cli._answer import Answer, Tell, counted, size
from legato.cli._files import write_text

if TYPE_CHECKING:
    from legato.ir.module import Module
    from legato.viz.graph import Graph
    from legato.viz.stages import Stage

__all__ = ["write_page"]

SECONDS = 1.0  # how long --profile runs


def write_page(args: argparse.Namespace, tell: Tell) -> Answer:
    """Runs all passes, and writes what became of the program after each that changed it."""
    from legato.viz import page, stages

    _arguments.require_use_of_inputs(args)
    options = _arguments.options(args, tell)
    tell("reading")
    mod = _arguments.module(args)
    found = stages(mod, options, progress=tell)
    shares = _shares(mod, args, tell) if args.profile else None
    default = "fuse" if args.profile else found.stages[0].name
    start = _start(found.stages, args.after or default, is_asked=args.after is not None)
    tell("drawing")
    write_text(args.html, page(args.model.name, found.stages, note=found.note, start=start, shares=shares))
    names = [stage.name for stage in found.stages]
    data = {
        "model": str(args.model),
        "after": args.after,
        "output": str(args.html),
        "stages": names,
        "note": found.note,
    }
    text = f"written  {args.html}: {size(args.html.stat().st_size)}, {counted(len(names), 'stage')}"
    return Answer(data, f"{text}\n{found.note}" if found.note else text)


def _start(stages: list[Stage], wanted: str, *, is_asked: bool) -> int:
    """The number of the last stage called so; CompileError where one is asked for that the page does not have."""
    found = [n for n, stage in enumerate(stages) if stage.name.partition(" ")[0] == wanted]
    if is_asked and not found:
        names = ", ".join(stage.name for stage in stages)
        raise CompileError(f"the page has no stage {wanted!r}", hint=f"these changed the program: {names}")
    return found[-1] if found else 0


def _shares(mod: Module, args: argparse.Namespace, tell: Tell) -> Callable[[Graph], Graph]:
    from legato.driver import compile_module
    from legato.profile import profile
    from legato.runtime.fill import feeds
    from legato.viz.times import shares_of

    exe = compile_module(mod, _arguments.options(args, tell)).executable
    arrays = None if args.input is None else _arguments.read_arrays(args.input)
    given = feeds(exe.program.functions[exe.function], arrays, args.fill, dims=dict(args.dim), seed=args.seed)
    return shares_of(profile(exe, given, seconds=SECONDS, best=True, progress=tell))

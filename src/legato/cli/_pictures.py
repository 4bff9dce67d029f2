"""Pictures of a module: which, and in which file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from legato.base.errors import CompileError
from legato.cli._answer import Answer, size
from legato.cli._files import write_text

if TYPE_CHECKING:
    from legato.ir.module import Module

__all__ = ["OF_PROFILES", "PICTURES", "add_pictures", "drawn", "require_one_picture"]

PICTURES: Final = ("tree", "dot", "svg", "html")  # the arguments of `add_pictures`, but for `profile`
OF_PROFILES: Final = ("input", "fill", "seed", "dim")


def add_pictures(parser: argparse.ArgumentParser) -> None:
    """Which picture is drawn instead of the text."""
    parser.add_argument("--tree", action="store_true", help="functions, fused groups and operators with their types")
    parser.add_argument("--dot", type=Path, metavar="FILE", help="write the graph for Graphviz; - is standard output")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the graph as a picture; - is standard output")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one HTML file: graph and text of all stages")
    parser.add_argument("--profile", action="store_true", help="with --html: run it, and show where the time goes")


def require_one_picture(args: argparse.Namespace) -> str | None:
    """The picture that is asked for, None for none; CompileError for several."""
    given = [name for name in PICTURES if getattr(args, name)]
    if len(given) > 1:
        names = " and ".join(f"--{name}" for name in given)
        raise CompileError(f"{names} at once", hint="one of them, or run it again for each")
    return given[0] if given else None


def drawn(mod: Module, picture: str, args: argparse.Namespace) -> Answer:
    """The picture as an answer, or in its file."""
    from legato.viz import dot, graph_of, svg, tree

    text = {"tree": tree, "dot": dot, "svg": svg}[picture](graph_of(mod))
    data = {"model": str(args.model), "after": args.after}
    path = getattr(args, picture)
    if picture == "tree" or str(path) == "-":
        return Answer({**data, "text": text}, text.rstrip("\n"))
    write_text(path, text)
    return Answer({**data, "output": str(path)}, f"written  {path}: {size(path.stat().st_size)}")

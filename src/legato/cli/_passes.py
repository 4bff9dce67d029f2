"""Passes on the command line: their names, with options, and files that make passes of one's own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from legato.cli._code import passes_of_code

if TYPE_CHECKING:
    from legato.transform.pass_ import Pass

__all__ = ["add_passes", "take_passes"]


def add_passes(parser: argparse.ArgumentParser, what: str) -> None:
    """The passes, `what` they are for, and files that make some."""
    parser.add_argument("-p", "--passes", action="append", default=[], metavar="PASSES", help=what)
    parser.add_argument(
        "--use", action="append", default=[], type=Path, metavar="FILE.py", help="code to run: passes of your own"
    )


def take_passes(args: argparse.Namespace) -> tuple[Pass, ...]:
    """The passes that --passes names, in their order, those of --use among them."""
    from legato.pipelines import BY_PRECISION
    from legato.transform._text import read_passes

    own = passes_of_code(args.use)
    return tuple(step for text in args.passes for step in read_passes(text, BY_PRECISION, own))

"""Modules as text: which form, and in which file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from legato.base.errors import CompileError
from legato.base.scripts import coloured
from legato.cli import _arguments

if TYPE_CHECKING:
    from legato.ir.module import Module

__all__ = ["FORMS", "add_forms", "require_form", "shown", "text_of", "write_module"]

FORMS: Final = ("script", "types", "spans", "brief")  # the arguments of `add_forms`
_FILES: Final = (".relay", ".relax", ".json")


def add_forms(parser: argparse.ArgumentParser) -> None:
    """How a module is shown."""
    parser.add_argument(
        "--script", action="store_true", help="as a script in Python's syntax, which a .relax file holds"
    )
    parser.add_argument("--types", action="store_true", help="with the type of every expression, as comments")
    parser.add_argument("--spans", action="store_true", help="with the place that it comes from, as comments")
    parser.add_argument("--brief", action="store_true", help="without the values of constants")


def text_of(mod: Module, args: argparse.Namespace) -> str:
    """The module in the form that the arguments ask for."""
    from legato.ir.printer import show

    if args.script:
        _arguments.refuse(args, "a script has no comments", "types", "spans")
        return mod.script({} if args.brief else None)
    return show(mod, types=args.types, spans=args.spans, metadata=not args.brief)


def shown(text: str, args: argparse.Namespace) -> str:
    """The text as an answer: a script in colours, if somebody is there to see them."""
    return (coloured(text) if args.script and not args.json else text).rstrip("\n")


def require_form(path: Path) -> None:
    """CompileError for the name of a file that no module is written into."""
    if path.suffix not in _FILES:
        raise CompileError(f"a program is written into a {', '.join(_FILES[:-1])} or {_FILES[-1]} file, not {path}")


def write_module(mod: Module, path: Path) -> None:
    """Writes a module as the name of the file says, with its large constants in a file beside."""
    from legato import script
    from legato.ir.files import save_json_file, save_text

    {".relay": save_text, ".relax": script.save, ".json": save_json_file}[path.suffix](mod, path)

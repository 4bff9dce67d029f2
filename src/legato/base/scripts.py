"""What `.script()`, `.show()` and pictures of modules and functions are: `legato.script` and `legato.viz`, which lie
above them, make these."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from importlib import import_module
from typing import Any

__all__ = ["coloured", "picture_of", "print_script", "script_of"]


def script_of(program: object, constants: MutableMapping[str, Any] | None = None) -> str:
    """`program` as a script; see `legato.script.show`."""
    show = import_module("legato.script").show  # by name: it lies above, and is imported on use
    return str(show(program, constants))


def print_script(program: object) -> None:
    """Prints `program` as a script: in colours on a terminal, unless NO_COLOR is set."""
    print(coloured(script_of(program)), end="")


def coloured(script: str) -> str:
    """A script with the colours of Python's syntax where standard output is a terminal that has them; else as it is."""
    if sys.stdout is None or not sys.stdout.isatty():
        return script
    from rich.console import Console
    from rich.syntax import Syntax

    console = Console()
    if console.no_color:
        return script
    with console.capture() as captured:
        console.print(Syntax(script, "python", theme="ansi_dark").highlight(script), soft_wrap=True, end="")
    return captured.get()


def picture_of(program: object) -> str:
    """`program` as notebooks show it; see `legato.viz.notebook_html`."""
    draw = import_module("legato.viz").notebook_html  # likewise
    return str(draw(program))

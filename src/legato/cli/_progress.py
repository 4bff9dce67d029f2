"""What is being done, for whoever waits: one line that changes on a terminal, plain lines elsewhere."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Final, TextIO

from legato.cli._answer import Tell

__all__ = ["Lines", "progress"]

_COUNT: Final = re.compile(r"(\d+) of (?:at most )?(\d+)")
_PARTS: Final = 4  # lines about what is counted


@contextmanager
def progress(name: str, *, quiet: bool, plain: bool) -> Iterator[Tell]:
    """Says on standard error what the program `name` is doing, unless `quiet`: in one line that changes on a terminal,
    and in `plain` lines, where that is asked for, to a pipe or a file."""
    if quiet or sys.stderr is None:
        yield _nothing
    elif sys.stderr.isatty() and find_spec("rich") is not None:
        from rich.console import Console
        from rich.text import Text

        with Console(stderr=True).status("starting") as status:
            yield lambda what: status.update(Text(what))  # as it is: names of files may look like rich's markup
    else:
        yield Lines(name, sys.stderr) if plain or sys.stderr.isatty() else _nothing


def _nothing(what: str) -> None:
    """Says nothing."""


class Lines:
    """A line for each stage. What is said behind the stage's name ("passes: simplify") is for terminals, but for every
    quarter of what is counted ("codegen: 10 of 40")."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name, self._stream = name, stream
        self._stage, self._part = "", 0

    def __call__(self, what: str) -> None:
        count = _COUNT.search(what)
        stage = what.partition(": ")[0] if count is None else re.split("[:,] ", what, maxsplit=1)[0]
        part = 0 if count is None else _PARTS * int(count[1]) // max(1, int(count[2]))
        if stage != self._stage or part > self._part:
            with suppress(OSError, ValueError):  # whoever read it has left: the work goes on
                print(f"{self._name}: {stage if count is None else what}", file=self._stream, flush=True)
        self._stage, self._part = stage, part

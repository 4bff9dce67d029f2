"""Every error that Legato raises on purpose. `legato.errors` has the tree of them, and is what programs import."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from legato.base.span import Span

__all__ = [
    "ArtifactError",
    "CompileError",
    "GeneratorError",
    "ImportModelError",
    "InternalError",
    "InterruptError",
    "LegatoError",
    "MissingError",
    "PackedError",
    "ParseError",
    "PlatformError",
    "RunError",
    "ScheduleError",
    "TypeCheckError",
    "UnsupportedError",
    "VerifyError",
    "no_room",
    "no_stack",
    "quoting",
]

_QUOTED: Final = 1000  # characters of a line that an error quotes


class LegatoError(Exception):
    """Base of all errors raised on purpose.

    `begun`, of a call of a program: it had begun to run, and donated arrays hold anything. `lacks_memory`: this machine
    had no room for it, which another time it may have.
    """

    begun: bool = False
    lacks_memory: bool = False


class CompileError(LegatoError):
    """A fault of the program or model, with its place and, where one is known, its repair.

    `details` are further lines (got, wanted); `source_line` is the text of the span's line, rendered with a caret.
    `others` are further faults, independent of this one, that were found in the same run.
    """

    kind = "error"

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        hint: str | None = None,
        details: Sequence[str] = (),
        source_line: str | None = None,
        others: Sequence[CompileError] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint
        self.details = tuple(details)
        self.source_line = source_line
        self.others = tuple(others)

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.message}"]
        if self.span is not None:
            lines.append(f"  at {self.span}")
            if self.source_line is not None and self.span.column:
                lines.append(f"  | {self.source_line}")
                lines.append("  | " + " " * (self.span.column - 1) + "^" * max(1, self._caret_width()))
        lines += [f"  {line}" for line in self.details]
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return "\n".join([*lines, *map(str, self.others)])

    @property
    def reason(self) -> str:
        """What is wrong and what would work, in one line of a list."""
        return self.message if self.hint is None else f"{self.message} ({self.hint})"

    def with_others(self, others: Sequence[CompileError]) -> Self:
        """A copy of this error that tells of `others`, too."""
        new = copy.copy(self)
        new.others = tuple(others)
        return new

    def quote(self, text: str, source: str) -> None:
        """Fills in the line that the span points at, where it lies in `text`, the text called `source`."""
        for error in (self, *self.others):
            if error.source_line is None and error.span is not None and error.span.source == source:
                error.source_line = _line(text, error.span.line)

    def _caret_width(self) -> int:
        assert self.span is not None
        if self.span.end_line != self.span.line:
            return 1
        return self.span.end_column - self.span.column


def _line(text: str, number: int) -> str | None:
    """Line `number` (1-based) of a text; None where there is none, or it is absurdly long."""
    start = 0
    for _ in range(number - 1):
        start = text.find("\n", start) + 1
        if not start:
            return None
    end = text.find("\n", start)
    line = text[start : len(text) if end < 0 else end]
    return line if number > 0 and len(line) <= _QUOTED else None


def no_room(message: str) -> RunError:
    """The error of a call that this machine has no room for now."""
    error = RunError(message)
    error.lacks_memory = True
    return error


def no_stack(what: str) -> UnsupportedError:
    """The error of what has run out of Python's stack: of no bug, but of a depth, or of a call from deep inside."""
    hint = "sys.setrecursionlimit(…) allows more; or make it of parts that nest less"
    return UnsupportedError(f"{what} takes more of Python's stack than is left (RecursionError)", hint=hint)


@contextmanager
def quoting(text: str | Path, source: str = "<text>") -> Iterator[None]:
    """Errors raised inside quote the lines of `text` that they point at, as those of the parser do.

    The nodes of a program know their places, not the text: who has read it, as `source`, puts what follows under this.
    `text` may be the path of its file.
    """
    try:
        yield
    except CompileError as error:
        with suppress(OSError, UnicodeError):  # the file may have changed since
            error.quote(text.read_text(encoding="utf-8") if isinstance(text, Path) else text, source)
        raise


class ParseError(CompileError):
    """Text that is not in the grammar."""

    kind = "parse error"


class TypeCheckError(CompileError):
    """An ill-typed program."""

    kind = "type error"


class VerifyError(CompileError):
    """Ill-formed IR or tir."""

    kind = "malformed program"


class ImportModelError(CompileError):
    """A model file that cannot be read."""

    kind = "import error"


class UnsupportedError(CompileError):
    """A valid program that Legato cannot compile; `details` lists every reason at once."""

    kind = "unsupported"


class ScheduleError(CompileError):
    """A schedule primitive whose precondition does not hold; the program is unchanged."""

    kind = "schedule error"


class RunError(LegatoError):
    """A call with wrong inputs, or a failure while running; the executable stays usable."""


class PackedError(RunError):
    """A packed function that is not given, is not what the program calls, fails, or gives something else."""


class GeneratorError(RunError):
    """A code generator that is not given or not wanted, that fails, or whose engine gives something else than its
    function's type says."""


class ArtifactError(LegatoError):
    """A damaged, foreign or incompatible artifact file."""


class PlatformError(LegatoError):
    """An operating system, CPU or toolchain that Legato does not support."""


class MissingError(LegatoError, ImportError):
    """A package that is wanted is not installed; the message says how to install it. `name` is that of a module."""


class InternalError(LegatoError):
    """A bug in Legato. The message says what invariant broke; please report it."""


class InterruptError(KeyboardInterrupt):
    """Ctrl-C during a call; the executable stays usable."""


# Tracebacks name the module that users import them from.
for _name in __all__:
    if isinstance(_found := globals()[_name], type):
        _found.__module__ = "legato.errors"
del _name, _found

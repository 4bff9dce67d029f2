"""How messages write options: as arguments of Python's functions or, on the command line, as its own.

written("shapes", "x", (1, None, "w:32.."))     shapes={'x': (1, None, 'w:32..')}     --shape x=1,?,w:32..
written("constants", "k", "…")                  constants={'k': …}                    --constant k=…
option("shapes", "x")                           shapes['x']                           --shape x
converters(["Op"])                              custom={"Op": function}               --ops FILE.py that has …
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["ELLIPSIS", "command_line", "converters", "option", "several", "written"]

ELLIPSIS: Final = "…"  # a value that is left to the reader

_NAMED: Final = 3  # operators in a hint

Item = int | str | None
_ARGUMENTS: Final = {
    "shapes": "--shape",
    "constants": "--constant",
    "dims": "--dim",
    "generators": "--generators",
    "ops": "--ops",
}  # what the command line has

_is_on_command_line: ContextVar[bool] = ContextVar("is_on_command_line", default=False)


@contextmanager
def command_line() -> Iterator[None]:
    """Messages that are made inside write options as the command line has them."""
    token = _is_on_command_line.set(True)
    try:
        yield
    finally:
        _is_on_command_line.reset(token)


def option(name: str, of: str | None = None) -> str:
    """An option, or what it says of `of`, an input or a dim."""
    if _is_on_command_line.get() and name in _ARGUMENTS:
        return _ARGUMENTS[name] if of is None else f"{_ARGUMENTS[name]} {of}"
    return name if of is None else f"{name}[{of!r}]"


def several(name: str) -> str:
    """An option that takes several of something, as messages say that it shall be given."""
    return f"{_ARGUMENTS[name]} {ELLIPSIS}" if _is_on_command_line.get() else f"{name}=[{ELLIPSIS}]"


def converters(operators: Iterable[str], function: str = "") -> str:
    """How converters of one's own are given for operators, or for the first few of many; `function` is Python's that
    takes them."""
    names = list(dict.fromkeys(operators))
    own = ", ".join(f'"{name}": function' for name in names[:_NAMED]) + (f", {ELLIPSIS}" if len(names) > _NAMED else "")
    if _is_on_command_line.get():
        return f"--ops FILE.py that has custom = {{{own}}}"
    return f"{function}(…, custom={{{own}}})" if function else f"custom={{{own}}}"


def written(name: str, of: str, value: Item | Sequence[object]) -> str:
    """An option that gives `of`, an input or a dim, a value: a tuple is a shape, a list sizes, or shapes of parts.

    Where the command line has no such option, or no such value, it is Python's, and says so.
    """
    python = f"{name}={{{of!r}: {_python(value)}}}"
    if not _is_on_command_line.get():
        return python
    items = value if isinstance(value, tuple | list) else [value]
    if name not in _ARGUMENTS or any(isinstance(item, tuple) for item in items):
        return f"in Python, {python}"
    return f"{_ARGUMENTS[name]} {of}={','.join('?' if item is None else str(item) for item in items)}"


def _python(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_python, value))}{',' * (len(value) == 1)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_python, value))}]"
    return ELLIPSIS if value == ELLIPSIS else repr(value)

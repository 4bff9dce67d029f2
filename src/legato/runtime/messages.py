"""What programs print, and what their assertions say: values as text, put into a format.

A format has a field `{}` for each value in order, or `{0}` by number, and `{{` for a brace; without one, values stand
side by side. The text of a value is the same whatever the caller has told NumPy of printing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from string import Formatter
from typing import Final

import numpy as np

from legato.base.codes import decode
from legato.base.errors import RunError

__all__ = ["check", "format_fault", "formatted", "show"]

_SHOWN: Final = 80  # characters of a format in an error


def format_fault(format: str, count: int) -> str | None:
    """What is wrong with a format for so many values, in words; None if nothing."""
    shown = repr(format if len(format) <= _SHOWN else f"{format[:_SHOWN]}…")
    try:
        fields = _fields(format)
    except ValueError as error:
        return f"the format {shown}: {error}"
    if format and sorted(fields) != list(range(count)):
        return f"the format {shown}: wanted one field for each value, got {len(fields)} for {count}"
    return None


def _fields(format: str) -> list[int]:
    """Which values a format names, in order; ValueError where it is none."""
    found: list[int] = []
    numbered: set[bool] = set()
    for _, name, spec, conversion in Formatter().parse(format):
        if name is None:
            continue
        if spec or conversion or not (name == "" or (name.isascii() and name.isdigit() and len(name) < 4)):
            raise ValueError("a field is {} or {0}, with nothing in it but a number")
        numbered.add(name != "")
        found.append(int(name) if name else len(found))
    if len(numbered) > 1:
        raise ValueError("some fields have numbers, and some have none")
    return found


def formatted(format: str, values: Sequence[object]) -> str:
    """`values`, arrays, numbers and tuples of them, as text."""
    with _printing():
        texts = [_text(v) for v in values]
    return format.format(*texts) if format else " ".join(texts)


def _printing() -> AbstractContextManager[object]:
    """How arrays are printed, whatever the caller has told NumPy."""
    return np.printoptions(
        precision=8, threshold=1000, edgeitems=3, linewidth=75, suppress=False, nanstr="nan", infstr="inf",
        formatter={}, sign="-", floatmode="maxprec", legacy=False,
    )  # fmt: skip


def _text(value: object) -> str:
    if isinstance(value, tuple):
        inside = ", ".join(map(_text, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, np.ndarray):
        return np.array2string(value if value.dtype.names is None else decode(value))
    return str(value)


def show(format: str, values: Sequence[object]) -> None:
    """Writes the text of `values`, and a new line, to Python's standard output; RunError where it cannot."""
    text = formatted(format, values)
    try:
        print(text, file=sys.stdout)
    except Exception as error:
        raise RunError(f"print: nothing can be written to the standard output: {error}") from error


def check(condition: object, format: str, values: Sequence[object]) -> None:
    """RunError, with the text of `values`, where the condition is false."""
    if not condition:
        said = formatted(format, values)
        raise RunError(f"assertion failed: {said}" if said else "assertion failed")

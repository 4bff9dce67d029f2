"""What a verb answers, and the exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from legato.base.dataclass import dataclass

__all__ = ["BUG", "FAULT", "INTERRUPTED", "NO", "YES", "Answer", "Tell", "counted", "rows", "seconds", "size"]

YES: Final = 0  # done; the answer is yes
NO: Final = 1  # the answer is no: cannot be compiled, does not hold, does not agree
FAULT: Final = 2  # wrong usage, or input that cannot be used
BUG: Final = 3  # a bug in Legato
INTERRUPTED: Final = 130  # Ctrl-C, as shells have it

Tell = Callable[[str], None]  # progress: what is being done


@dataclass(frozen=True, slots=True)
class Answer:
    """`data` is printed with --json (its keys are stable), `text` without; `code` is the exit code."""

    data: dict[str, Any]
    text: str
    code: int = YES


def rows(table: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Lines with aligned columns; those numbered in `right` to the right."""
    lines = [list(row) for row in table]
    widths = [
        max((len(row[n]) for row in lines if n < len(row)), default=0) for n in range(max(map(len, lines), default=0))
    ]
    shown = (
        "  ".join(cell.rjust(widths[n]) if n in right else cell.ljust(widths[n]) for n, cell in enumerate(row))
        for row in lines
    )
    return "\n".join(line.rstrip() for line in shown)


def counted(number: int, noun: str) -> str:
    """`1 kernel`, `2 kernels`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size(count: int) -> str:
    """Bytes as people write them: `512 B`, `6.2 MB`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def seconds(value: float) -> str:
    """A time as people write it: `65 µs`, `1.23 ms`, `2.10 s`."""
    if value < 1e-3:
        return f"{value * 1e6:.1f} µs"
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"

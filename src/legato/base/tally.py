"""Which rules were applied, and how often.

with counting() as counts:
    rewrite(rules, expr)
for rule, count in counts.items(): …            # rule.name, rule.at: the line of source that makes it
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from types import CodeType
from typing import Any

__all__ = ["Tally", "count", "counting", "line_of"]

_counts: ContextVar[dict[Any, int] | None] = ContextVar("legato.base.tally", default=None)


@contextmanager
def counting() -> Iterator[dict[Any, int]]:
    """Counts the replacements of each rule that this thread applies within, by rule. A context within another counts
    for itself."""
    counts: dict[Any, int] = {}
    token = _counts.set(counts)
    try:
        yield counts
    finally:
        _counts.reset(token)


def count(rule: Any, times: int) -> None:
    """Notes that a rule was applied, if anybody counts."""
    counts = _counts.get()
    if counts is not None and times:
        counts[rule] = counts.get(rule, 0) + times


def line_of(function: object) -> str:
    """Where the source of a function begins, as file:line; empty for one that is not Python's."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if isinstance(code, CodeType) else ""


class Tally:
    """Counts by pass: `begin` before it runs and `end` after it, in the same thread; passes may run others within.

    rows: (pass, rule, how often), in the order in which passes end.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[str, Any, int]] = []
        self._open: list[tuple[ExitStack, dict[Any, int]]] = []

    def begin(self) -> None:
        """A pass begins."""
        stack = ExitStack()
        self._open.append((stack, stack.enter_context(counting())))

    def end(self, name: str) -> None:
        """The pass that began last has ended."""
        if self._open:
            stack, counts = self._open.pop()
            stack.close()
            self.rows += [(name, rule, times) for rule, times in counts.items()]

    def close(self) -> None:
        """Passes that failed count no more."""
        while self._open:
            self._open.pop()[0].close()

    def lines(self) -> list[tuple[str, ...]]:
        """A table: times, pass, rule, line of source; the rules applied most often first."""
        rows = sorted(self.rows, key=lambda row: -row[2])
        return [(f"{times}×", name, rule.name, rule.at) for name, rule, times in rows]

    def to_json(self) -> list[dict[str, Any]]:
        """The rows as JSON data."""
        return [{"pass": name, "rule": rule.name, "at": rule.at, "times": times} for name, rule, times in self.rows]

"""Tables of patterns, by the names of code generators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato.generators import Composite
from legato.relay._external import table_of, with_table

__all__ = ["get_pattern_table", "register_pattern_table"]


def register_pattern_table(compiler: str, table: Any = None) -> Any:
    """Registers the patterns of a generator, a list of (name, pattern) or (name, pattern, check), or what gives one;
    without `table`, a decorator."""

    def register(given: Callable[[], Sequence[Composite]] | Sequence[Composite]) -> Any:
        with_table(compiler, given() if callable(given) else given)
        return given

    return register if table is None else register(table)


def get_pattern_table(compiler: str) -> list[Composite] | None:
    """The patterns of a generator; None where there are none."""
    found = table_of(compiler)
    return None if found is None else list(found)

"""Spans, and nodes as text."""

from __future__ import annotations

from typing import Any

from legato.base.span import Span as Place
from legato.ir.printer import show, show_type
from legato.ir.types import Type
from legato.relay._names import Named

__all__ = ["SourceName", "Span", "astext", "pretty_print"]


class Span(Place, metaclass=Named):
    """`Span(source, line, end_line, column, end_column)`: a place in a text, counted from 1."""

    @staticmethod
    def build(source: str, line: int = 0, end_line: int = 0, column: int = 0, end_column: int = 0) -> Place:
        return Place(source, line, column, end_line, end_column)


SourceName = str


def astext(obj: Any, show_meta_data: bool = True, annotate: Any = None) -> str:
    """An expression, type or module as text, with all its constants unless `show_meta_data` is False.

    `annotate` gives a comment for an expression, or "".
    """
    if isinstance(obj, Type):
        return show_type(obj)
    return show(getattr(obj, "module", obj), metadata=show_meta_data, annotate=annotate, inline=None)


def pretty_print(obj: Any) -> str:
    """An expression, type or module as text, without metadata."""
    return astext(obj, show_meta_data=False)

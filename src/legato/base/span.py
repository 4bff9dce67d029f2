"""Source positions, carried by program nodes from text and importers to error messages."""

from __future__ import annotations

from legato.base.dataclass import dataclass

__all__ = ["Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a source: a text file (line and column are 1-based) or a node of an imported model (line 0)."""

    source: str
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source

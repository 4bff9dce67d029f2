"""Programs of operators are small and many: they are compiled as those of `tests/lower` are."""

from __future__ import annotations

from tests.lower.conftest import compile_here

__all__ = ["compile_here"]

"""The official cases that do not pass, and why: the entries of `misses.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Miss", "miss", "misses"]

PATH = Path(__file__).with_name("misses.toml")


@dataclass(frozen=True, slots=True)
class Miss:
    """Why some cases do not pass: those in whose names `cases` is found. `differs`: with other results, on purpose."""

    cases: str
    reason: str
    differs: bool = False


@cache
def misses() -> Sequence[Miss]:
    """All entries."""
    return tuple(Miss(**entry) for entry in tomllib.loads(PATH.read_text(encoding="utf-8"))["miss"])


@cache
def miss(name: str) -> Miss | None:
    """Why a case does not pass; None where it does."""
    return next((entry for entry in misses() if re.search(entry.cases, name)), None)

"""The official cases that do not pass, and why: the entries of `misses.toml`, and of `named.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["MISSES", "NAMED", "Miss", "miss", "misses"]

MISSES = Path(__file__).with_name("misses.toml")
NAMED = Path(__file__).with_name("named.toml")  # further ones where every extent of an input has a name


@dataclass(frozen=True, slots=True)
class Miss:
    """Why some cases do not pass: those in whose names `cases` is found. `differs`: with other results, on purpose;
    `called`: not refused before they are called."""

    cases: str
    reason: str
    differs: bool = False
    called: bool = False


@cache
def misses(path: Path = MISSES) -> Sequence[Miss]:
    """All entries of a file."""
    return tuple(Miss(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["miss"])


@cache
def miss(name: str, path: Path = MISSES) -> Miss | None:
    """Why a case does not pass; None where it does."""
    return next((entry for entry in misses(path) if re.search(entry.cases, name)), None)

"""Files that appear complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

__all__ = ["write_arrays", "write_text"]


def write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8; OSError where that fails."""
    _replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a .npz file (under exactly this name); OSError where that fails."""
    import numpy as np

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    _replace(path, write)


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

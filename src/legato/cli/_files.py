"""What verbs write: files that appear complete or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from legato.base.files import replace_file

if TYPE_CHECKING:
    import numpy as np

__all__ = ["write_arrays", "write_text"]


def write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8; OSError where that fails."""
    replace_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a .npz file (under exactly this name); OSError where that fails."""
    import numpy as np

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    replace_file(path, write)

"""`tempdir()`, where scripts keep the libraries that they export."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Self

__all__ = ["TempDirectory", "tempdir"]


class TempDirectory:
    """A new folder, which goes with this object, at the latest with the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="legato-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    @property
    def temp_dir(self) -> str:
        """Where it is."""
        return str(self.path)

    def relpath(self, name: str) -> str:
        """The path of a file in it."""
        return str(self.path / name)

    def listdir(self) -> list[str]:
        """The names of what is in it."""
        return sorted(entry.name for entry in self.path.iterdir())

    def remove(self) -> None:
        """Removes it, and what is in it."""
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def tempdir() -> TempDirectory:
    """A new folder."""
    return TempDirectory()

"""The part of this package that runs programs, as one archive: what is sent to a machine that has no Legato."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

__all__ = ["archive"]

_PARTS: Final = ("__init__.py", "_version.py", "base", "remote", "runtime")
_ENDS: Final = (".py", ".so")
_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the same files make the same archive


def archive() -> bytes:
    """The archive, which Python imports from. The same code gives the same bytes."""
    root, out = files("legato"), io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for part in _PARTS:
            for name, file in sorted(_files(root / part, f"legato/{part}"), key=lambda found: found[0]):
                made.writestr(zipfile.ZipInfo(name, _TIME), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _files(place: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    if place.is_dir():
        for inside in place.iterdir():
            yield from _files(inside, f"{name}/{inside.name}")
    elif name.endswith(_ENDS):
        yield name, place

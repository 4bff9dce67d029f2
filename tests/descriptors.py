"""The files that this process holds open."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

LISTING = "/proc/self/fd"


def is_open(path: Path) -> bool:
    """Whether a descriptor of this process leads to the file. Other descriptors come and go with the collector."""
    for descriptor in os.listdir(LISTING):
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            if os.path.samefile(f"{LISTING}/{descriptor}", path):
                return True
    return False

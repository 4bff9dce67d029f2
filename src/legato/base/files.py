"""Files that appear complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import get_ident

__all__ = ["replace_file"]


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Puts what `write` writes at the path it is given in the place of `path`, at once; OSError where that fails, and
    then `path` is as it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{get_ident()}")
    try:
        write(temporary)
        temporary.replace(path)
    except OSError as error:
        if error.filename is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error  # the name that the caller knows
    finally:
        temporary.unlink(missing_ok=True)

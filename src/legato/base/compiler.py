"""The packages that the compiler needs. To import this module is a MissingError where one is not installed.

`pip install legato` brings NumPy alone, with which compiled programs are loaded and run. Packages of the compiler
import this first, so that whoever asks for one is told what to install, not which import failed.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from legato.base.errors import MissingError

__all__ = ["NEEDED"]

NEEDED: Final = ("llvmlite", "ml_dtypes", "onnx", "safetensors", "rich")  # the extra `compiler`, as modules


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:  # of whoever else decides about imports in this process
        return False


def _require() -> None:
    absent = [name for name in NEEDED if not _is_there(name)]
    if absent:
        raise MissingError(
            f"this takes Legato's compiler, which needs {', '.join(absent)}: not installed\n"
            '  hint: pip install "legato[compiler]"; compiled programs are loaded and run without it',
            name=absent[0],
        )


_require()

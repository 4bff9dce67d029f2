"""Machine code: tir → LLVM → objects → one image. The one user of llvmlite."""

from __future__ import annotations

from legato.base import compiler as _compiler  # noqa: F401  # a MissingError where its packages are not

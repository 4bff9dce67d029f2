"""How much a file of PyTorch may cost; PyTorch is not needed to know."""

from __future__ import annotations

from typing import Final

__all__ = ["MAX_ENTRIES", "MAX_JSON", "MAX_MEMORY", "MAX_NODES", "MAX_SECONDS"]

MAX_ENTRIES: Final = 100_000  # of a .pt2 archive
MAX_JSON: Final = 256 << 20  # bytes of the description of a graph in it
MAX_SECONDS: Final = 600  # to read and import a module of TorchScript
MAX_MEMORY: Final = 64 << 30  # bytes of addresses of the process that does
MAX_NODES: Final = 100_000  # of TorchScript, after loops are unrolled

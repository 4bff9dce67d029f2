"""Ways to write programs in Relax's names."""

from __future__ import annotations

from legato.relax.frontend import nn

__all__ = ["nn"]

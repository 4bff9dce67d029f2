"""The effects of nodes under the name that they had among passes (`ir.effects`)."""

from __future__ import annotations

from legato.ir.effects import Effect, Effects, brought_dims, is_sure

__all__ = ["Effect", "Effects", "brought_dims", "is_sure"]

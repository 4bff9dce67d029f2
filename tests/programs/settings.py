"""How many programs a property tries."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

__all__ = ["examples"]

FUZZ = int(os.environ.get("LEGATO_FUZZ", "0"))


def examples(count: int, *, fuzz: bool = True) -> Any:
    """Settings of a property that tries `count` programs, or as many as LEGATO_FUZZ says."""
    return settings(max_examples=(fuzz and FUZZ) or count, suppress_health_check=list(HealthCheck))

"""How many programs a property tries."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.heavy import HEAVY

__all__ = ["examples"]

FUZZ = int(os.environ.get("LEGATO_FUZZ", "0"))


def examples(count: int, *, fuzz: bool = True, heavy: int = 0) -> Callable[[Any], Any]:
    """Settings of a property that tries `count` programs, `heavy` in `make heavy`, or as many as LEGATO_FUZZ says."""
    found = settings(
        max_examples=(fuzz and FUZZ) or (HEAVY and heavy) or count, suppress_health_check=list(HealthCheck)
    )
    return (lambda test: pytest.mark.sized(found(test))) if heavy else found

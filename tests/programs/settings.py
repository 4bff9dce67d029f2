"""How many programs a property tries."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.heavy import amount

__all__ = ["examples"]

FUZZ = int(os.environ.get("LEGATO_FUZZ", "0"))


def examples(count: int, *, fuzz: bool = True, heavy: int = 0) -> Callable[[Any], Any]:
    """Settings of a property that tries `count` programs in `make heavy`, half as many by default, or as many as
    LEGATO_FUZZ says. With `heavy`: that many in `make heavy`, and `count` by default."""
    wanted = amount(count if heavy else max(count // 2, min(count, 4)), heavy or count)
    found = settings(max_examples=(fuzz and FUZZ) or wanted, suppress_health_check=list(HealthCheck))
    return lambda test: pytest.mark.sized(found(test))

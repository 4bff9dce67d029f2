"""How many random programs a property tries: a few dozen, or as many as LEGATO_FUZZ says (`make fuzz`)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

__all__ = ["tries"]

FUZZ = int(os.environ.get("LEGATO_FUZZ", "0"))


def tries(count: int) -> settings:
    """Settings of a property that tries `count` programs, or as many as LEGATO_FUZZ says."""
    return settings(
        max_examples=FUZZ or count, deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck)
    )

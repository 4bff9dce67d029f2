"""The targets that tests compile for. What this machine cannot run is a skip that says so, not a parameter less."""

from __future__ import annotations

from typing import Any, Final

import pytest

from legato.base.target import TARGETS, Target, missing_features

__all__ = ["EVERY", "EVERY_NAME", "LEVELS", "each"]

LEVELS: Final = [t for t in TARGETS.values() if not missing_features(t)]  # those that random programs are drawn for


def each(*targets: Target) -> list[Any]:
    """The targets as parameters, called by their names; those whose code does not run here are skipped."""

    def parameter(target: Target) -> Any:
        missing = missing_features(target)
        reason = f"this CPU lacks {', '.join(missing)}, which {target.name} has"
        return pytest.param(target, id=target.name, marks=pytest.mark.skipif(bool(missing), reason=reason))

    return [parameter(target) for target in targets]


EVERY: Final = each(*TARGETS.values())
EVERY_NAME: Final = [pytest.param(p.id, id=p.id, marks=p.marks) for p in EVERY]

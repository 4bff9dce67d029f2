"""Passes over the quantised dialect."""

from __future__ import annotations

from legato.relay._passes import Pass
from legato.relay._steps import of_steps
from legato.transform.canonicalize_qnn import CanonicalizeQnn

__all__ = ["CanonicalizeOps", "Legalize"]


def CanonicalizeOps() -> Pass:
    """Calls of quantised operators become integer arithmetic. Compiling does this first by itself."""
    return of_steps("QnnCanonicalize", 1, (CanonicalizeQnn(),))


def Legalize() -> Pass:
    """Nothing: every quantised operator means the same on every target, so there is nothing to rewrite for one."""
    return of_steps("QnnLegalize", 1, ())

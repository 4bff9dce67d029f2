"""Differentiation of programs: functions from programs to programs (docs/gradients.md)."""

from __future__ import annotations

from legato.autodiff.forward import jvp
from legato.autodiff.reverse import grad, value_and_grad, vjp

__all__ = ["grad", "jvp", "value_and_grad", "vjp"]

"""Differentiation of programs: functions from programs to programs (docs/gradients.md)."""

from __future__ import annotations

from legato.autodiff.finite import check_finite
from legato.autodiff.forward import jvp
from legato.autodiff.matrices import hessian, jacobian
from legato.autodiff.reverse import grad, value_and_grad, vjp
from legato.base import compiler as _compiler  # noqa: F401  # a MissingError where its packages are not

__all__ = ["check_finite", "grad", "hessian", "jacobian", "jvp", "value_and_grad", "vjp"]

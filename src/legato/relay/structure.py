"""Equality of programs up to the names of what they bind."""

from __future__ import annotations

from typing import Any

from legato.base.errors import VerifyError
from legato.ir import equal
from legato.ir.expr import Expr, Function
from legato.ir.visit import free_vars

__all__ = ["assert_structural_equal", "structural_equal", "structural_hash"]


def _value(x: Any) -> Any:
    return getattr(x, "module", x)


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two expressions, types or modules are the same up to renaming of what they bind.

    map_free_vars: free variables may be renamed as well, one to one; otherwise they must be the same.
    """
    return equal.alpha_equal(_value(lhs), _value(rhs), map_free_vars=map_free_vars)


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """VerifyError, which shows both, unless `structural_equal`. (TVM raised a ValueError.)"""
    if not structural_equal(lhs, rhs, map_free_vars):
        raise VerifyError("the two programs differ", details=[f"left : {lhs}", f"right : {rhs}"])


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A number that is the same for programs that are structurally equal.

    map_free_vars: also where free variables of an expression have other names, as in `structural_equal`.
    """
    value = _value(node)
    if map_free_vars and isinstance(value, Expr):
        value = Function(free_vars(value), value)
    return equal.structural_hash(value)

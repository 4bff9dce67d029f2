"""What a module is before it is differentiated."""

from __future__ import annotations

from legato.infer.infer import infer
from legato.ir.module import Module
from legato.transform.expand_calls import ExpandCalls
from legato.transform.to_a_normal import ToANormal

__all__ = ["prepared"]


def prepared(mod: Module) -> Module:
    """`mod`, typed, in A-normal form. Calls of operators that have no gradient and are made of others are these: the
    numbers of `dyn.X` are dims, and X has a gradient."""
    return ToANormal()(ExpandCalls(ungraded=True)(ExpandCalls(known=True)(infer(mod))))

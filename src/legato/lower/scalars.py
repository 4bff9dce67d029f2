"""Primitive functions of scalars: they become no kernels, but expressions inside host functions."""

from __future__ import annotations

from legato.ir import expr as ir
from legato.lower.group import Group, stages, te_group, tensor_types
from legato.te.tensor import Stage

__all__ = ["scalar_group"]


def scalar_group(func: ir.Function) -> Group | None:
    """The stages of primitive function `func` if it takes and gives scalars, and has no loop inside; else None."""
    types = [t for e in (*func.params, func.body) for t in tensor_types(e.ty)]
    if any(t.rank for t in types):
        return None
    group = te_group(func)
    for t in stages(group.outputs):
        if t.rank or not isinstance(t.stage, Stage) or t.stage.reduction is not None:
            return None
    return group

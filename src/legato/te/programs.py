"""Tensor programs of stages, as somebody calls them: with dims of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from legato.arith.expr import Expr, Var, fresh
from legato.arith.substitute import substitute as substitute_dim
from legato.arith.substitute import variables
from legato.te.lower import to_tir
from legato.te.tensor import Tensor
from legato.tir.buffer import Buffer
from legato.tir.stmt import Func
from legato.tir.walk import bound_vars, copy_buffer, replace_buffer, substitute, vars_used

__all__ = ["program"]


def program(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> tuple[Func, tuple[Var, ...]]:
    """The loop program that computes `outputs` from `inputs`, and the values of the dims that it has behind these."""
    made = to_tir(outputs, inputs, name)
    buffers = [p for p in made.params if isinstance(p, Buffer)]
    bound = set(bound_vars(made))
    used = (*variables(*(d for b in buffers for d in b.shape)), *vars_used(made))
    dims = tuple(v for v in dict.fromkeys(used) if v not in bound)
    own: dict[Var, Var] = {v: fresh(v.name, v.lo, v.hi) for v in dims}
    values: dict[Var, Expr] = {**own}
    new = {b: copy_buffer(b, shape=tuple(substitute_dim(d, values) for d in b.shape)) for b in buffers}
    body = substitute(replace_buffer(made.body, new), values)
    return replace(made, params=(*new.values(), *own.values()), body=body), dims

"""Tensors and what they are computed from."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from legato.arith.substitute import nodes
from legato.te.tensor import Loops, Tensor
from legato.tir.expr import Load

__all__ = ["in_order", "reads"]


def reads(tensor: Tensor) -> tuple[Tensor, ...]:
    """The tensors that the stage of `tensor` reads, each once; none for an input."""
    stage = tensor.stage
    if stage is None:
        return ()
    if isinstance(stage, Loops):
        return stage.inputs
    init = () if stage.reduction is None or stage.reduction.init is None else (stage.reduction.init,)
    found = dict.fromkeys(e.buffer for e in nodes(stage.body, *init) if isinstance(e, Load))
    return tuple(b for b in found if isinstance(b, Tensor))


def in_order(roots: Iterable[Tensor], boundary: Collection[Tensor] = ()) -> list[Tensor]:
    """The tensors that `roots` are computed from, and themselves, producers first, each once; those of `boundary`, and
    what only they are computed from, are left out."""
    order: list[Tensor] = []
    done = set(boundary)
    stack = [(t, False) for t in reversed(tuple(roots))]
    while stack:
        tensor, is_ready = stack.pop()
        if is_ready:
            order.append(tensor)
        elif tensor not in done:
            done.add(tensor)
            stack.append((tensor, True))
            stack += [(t, False) for t in reversed(reads(tensor))]
    return order

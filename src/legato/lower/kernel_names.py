"""What kernels are called: people look for the product or convolution of a fused group, wherever it stands in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from legato.base.node import post_order
from legato.ir._names import identifier
from legato.ir.expr import Call, Function
from legato.ir.op import Fusion, Op

__all__ = ["kernel_names", "operators_of"]

_WEIGHT: Final = {Fusion.CONTRACTION: 3, Fusion.OPAQUE: 2, Fusion.REDUCE: 1}  # of others: 0


def operators_of(func: Function) -> tuple[str, ...]:
    """The names of the operators of a primitive function, each once."""
    return tuple(dict.fromkeys(op.name for op, _ in _calls(func)))


def kernel_names(func: Function, names: Sequence[str]) -> tuple[str, ...]:
    """The names of the kernels of a primitive function, whose last stages are called `names`: the last kernel, which
    makes the result, is called like the main operator, and those before it, too, with what they make behind it."""
    main = _main_operator(func)
    return tuple(names) if main is None else (*(f"{main}_{name}" for name in names[:-1]), main)


def _main_operator(func: Function) -> str | None:
    """The first contraction; else the first that is never fused, or reduces; else the last operator."""
    calls = _calls(func)
    if not calls:
        return None
    weights = [_WEIGHT.get(op.fuses(attrs), 0) for op, attrs in calls]
    most = max(weights)
    op, _ = calls[weights.index(most) if most else -1]
    return identifier(op.name.rpartition(".")[2], "kernel")


def _calls(func: Function) -> list[tuple[Op, object]]:
    """The operators that a primitive function calls, with attributes, in order."""
    calls = (node for node in post_order([func.body]) if isinstance(node, Call))
    return [(call.op, call.attrs) for call in calls if isinstance(call.op, Op)]

"""Floats of Python that depend on sizes (PyTorch's SymFloat): computed in float64 when the program runs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from legato.base.dtype import float64
from legato.frontend.torch.emitter import Emitter, Float
from legato.ir.expr import Expr

__all__ = ["FLOATS", "float_of"]

_Rule = Callable[..., Expr]


def _same(b: Emitter, x: Expr) -> Expr:
    return x


FLOATS: Final[Mapping[Any, _Rule]] = {
    operator.add: lambda b, x, y: b.add(x, y),
    operator.sub: lambda b, x, y: b.subtract(x, y),
    operator.mul: lambda b, x, y: b.multiply(x, y),
    operator.truediv: lambda b, x, y: b.divide(x, y),
    operator.pow: lambda b, x, y: b.power(x, y),
    operator.neg: lambda b, x: b.negative(x),
    torch.sym_float: _same,
    torch.sym_max: lambda b, x, y: b.maximum(x, y),
    torch.sym_min: lambda b, x, y: b.minimum(x, y),
    math.sqrt: lambda b, x: b.sqrt(x),
    torch._sym_sqrt: lambda b, x: b.sqrt(x),  # type: ignore[attr-defined]
}


def float_of(b: Emitter, target: Any, args: Sequence[Any]) -> Float:
    """A function of numbers, one of which is a float that depends on sizes, or that makes one of integers."""
    return Float(FLOATS[target](b, *(b.operand(a, float64) for a in args)))

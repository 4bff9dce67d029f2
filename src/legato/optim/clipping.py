"""Bounds of gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Expr
from legato.ir.types import TensorType
from legato.optim.schedules import is_number, require

__all__ = ["ByNorm", "ByValue", "Clipping"]


class Clipping(ABC):
    """A bound of the gradients of a step."""

    __slots__ = ()

    @abstractmethod
    def apply(self, b: Builder, gradients: Sequence[Expr]) -> list[Expr]:
        """The gradients that are used in place of these, with their types."""


def _require_bound(value: object) -> None:
    require(is_number(value) and value > 0, f"the bound is {value!r}", "a positive number")


@dataclass(frozen=True, slots=True)
class ByNorm(Clipping):
    """All gradients, multiplied by the same number, so that the norm of all of them together is at most `bound`.

    The factor is min(1, bound / (norm + 1e-6)), as PyTorch has it. The norm is computed in float32 where the gradients
    are of smaller floats.
    """

    bound: float

    def __post_init__(self) -> None:
        _require_bound(self.bound)

    def apply(self, b: Builder, gradients: Sequence[Expr]) -> list[Expr]:
        if not gradients:
            return []
        widest = "float64" if any(_dtype(g) is dt.float64 for g in gradients) else "float32"
        wide = [_as(b, g, widest) for g in gradients]
        norm = b.sqrt(reduce(b.add, [b.sum(b.multiply(g, g)) for g in wide]))
        factor = b.let("factor", b.minimum(b.divide(b.constant(self.bound, widest), b.add(norm, 1e-6)), 1.0))
        return [
            _as(b, b.multiply(g, factor), _dtype(given).name) for g, given in zip(wide, gradients, strict=True)
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ByValue(Clipping):
    """Every element between -`bound` and `bound`."""

    bound: float

    def __post_init__(self) -> None:
        _require_bound(self.bound)

    def apply(self, b: Builder, gradients: Sequence[Expr]) -> list[Expr]:
        return [b.clip(g, a_min=-self.bound, a_max=self.bound) for g in gradients]


def _dtype(x: Expr) -> dt.DType:
    assert isinstance(x.ty, TensorType)
    return x.ty.dtype


def _as(b: Builder, x: Expr, dtype: str) -> Expr:
    return x if _dtype(x).name == dtype else b.cast(x, dtype=dtype)

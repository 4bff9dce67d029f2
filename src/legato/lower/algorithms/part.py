"""Part of what a reduction makes, over axes of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from legato.arith.expr import Expr, Var
from legato.base.dataclass import dataclass
from legato.te.tensor import Axis, Reduction

__all__ = ["Part"]


@dataclass(frozen=True, slots=True)
class Part:
    """The elements at `index` (of the old axes' variables, in those of `axes`): the sum of `body` over `reduction`.

    There is one of `axes` for each dimension; where that is looped over by several, `cut` has these, outermost first.
    """

    index: Mapping[Var, Expr]
    axes: tuple[Axis, ...]
    body: Expr
    reduction: Reduction
    cut: Mapping[Var, tuple[Axis, ...]] = field(default_factory=dict)

    def loops(self, dims: Sequence[int]) -> list[Axis]:
        """The axes to loop over for dimensions `dims`, in that order."""
        return [loop for d in dims for loop in self.cut.get(self.axes[d].var, (self.axes[d],))]

"""Scales of channels move into the weights of contractions that come before them, through what is between.

multiply(nn.relu(add(conv(x, W), c)), s)      =>      nn.relu(add(conv(x, W·s), c·s))            where s > 0
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.node import post_order, rebuild
from legato.ir.effects import Effects
from legato.ir.expr import Call, Constant, Expr, Function, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType
from legato.ops.binary import add, subtract
from legato.runtime.floats import float_environment
from legato.transform._scales import Scale, behind, contraction, scale_of, scaled, shift_of, with_shift, with_weight
from legato.transform.pass_ import FunctionPass

__all__ = ["FoldScaleBackward"]

FURTHEST: Final = 32  # operators that a scale moves through or into


@dataclass(frozen=True, slots=True)
class FoldScaleBackward(FunctionPass):
    """Typed module → typed module. Constants move where what they become is finite and normal, or 0.

    computed: weights and scales that are no constants, too; products of theirs may overflow where those of the data
    did not. A value that something else uses as well is not scaled.
    """

    name = "fold-scale-backward"
    rounds = True
    computed: bool = False

    def function(self, func: Function, mod: Module) -> Function:
        order = list(post_order([func.body]))
        uses = Counter(id(c) for node in order for c in node.children())
        fold, effects = _Fold(self.computed, set()), Effects(func, mod)
        new: dict[int, Expr] = {}
        with float_environment():
            for node in order:
                done = rebuild(node, new)
                done = done if effects.inside(done) else fold.folded(done)  # factors would be evaluated elsewhere
                new[id(node)] = done
                if uses[id(node)] > 1:
                    fold.shared.add(id(done))
        body = new[id(func.body)]
        return func if body is func.body else replace(func, body=body)


@dataclass(slots=True)
class _Fold:
    """shared: nodes with several users. left: how many operators the scale at hand may still go through."""

    computed: bool
    shared: set[int]
    left: int = 0

    def folded(self, node: Expr) -> Expr:
        """`node`, or what it scales with that scale inside."""
        found = scale_of(node, self.computed)
        if found is None:
            return node
        assert isinstance(node, Call)
        self.left = FURTHEST
        new = self.absorbed(node.args[found[0]], found[1])
        return node if new is None else new

    def absorbed(self, x: Expr, scale: Scale) -> Expr | None:
        """x·s by other weights; None where that is not to be had."""
        if not isinstance(x, Call) or not isinstance(x.op, Op) or id(x) in self.shared or self.left == 0:
            return None
        self.left -= 1
        if contraction(x) is not None:
            weight = scaled(x, scale, of_result=True, computed=self.computed)
            return None if weight is None else with_weight(x, x.args[0], weight)
        shift = shift_of(x)
        if shift is not None and self.stays(shift):
            inner = self.absorbed(x.args[0], scale)
            return None if inner is None else with_shift(x, inner, scale, inverse=False)
        if (x.op is add or x.op is subtract) and all(a.ty == x.ty for a in x.args) and x.args[0] is not x.args[1]:
            return self.both(x, scale)
        path = behind(x, scale.axis)
        if path is None or (path.positive and not scale.is_positive):
            return None
        if not isinstance(x.args[0].ty, TensorType):
            return None
        inner = self.absorbed(x.args[0], scale.along(path.axis, x.args[0].ty.rank))
        return None if inner is None else replace(x, args=(inner, *x.args[1:]))

    def stays(self, shift: Expr) -> bool:
        """Whether what is added is multiplied where it is: a constant, or a variable."""
        return isinstance(shift, Constant) or (self.computed and isinstance(shift, Var))

    def both(self, x: Call, scale: Scale) -> Expr | None:
        """The sum of two scaled operands."""
        sides: list[Expr] = []
        for arg in x.args:
            side = self.absorbed(arg, scale)
            if side is None:
                return None
            sides.append(side)
        return replace(x, args=tuple(sides))

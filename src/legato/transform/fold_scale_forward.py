"""Scales of channels move into the weights of contractions that come behind them, through what is between.

conv(nn.relu(add(multiply(x, s), c)), W)      =>      conv(nn.relu(add(x, c/s)), W·s)            where s > 0
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.node import post_order, rebuild
from legato.ir.effects import Effects
from legato.ir.expr import Call, Constant, Expr, Function, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType
from legato.runtime.floats import float_environment
from legato.transform._scales import (
    Scale,
    ahead,
    contraction,
    scale_of,
    scaled,
    shift_of,
    with_shift,
    with_weight,
)
from legato.transform.pass_ import FunctionPass

__all__ = ["FoldScaleForward"]


@dataclass(frozen=True, slots=True)
class FoldScaleForward(FunctionPass):
    """Typed module → typed module. Constants move where what they become is finite and normal, or 0.

    computed: weights and scales that are no constants, too; products of theirs may overflow where those of the data
    did not. What is between a scale and its contractions has no other users, or the scale stays.
    """

    name = "fold-scale-forward"
    rounds = True
    computed: bool = False

    def function(self, func: Function, mod: Module) -> Function:
        body, effects = func.body, Effects(func, mod)
        with float_environment():
            while (
                new := _Fold(body, self.computed, effects).run()
            ) is not body:  # a scale may come to be next to another one
                body = new
        return func if body is func.body else replace(func, body=body)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A node is `scale` times something else, which is made of that of its operand `data`; of that itself if `fresh`.

    shift: for a sum, the operation on something else.
    """

    scale: Scale
    data: int
    fresh: bool = False
    shift: Expr | None = None


class _Fold:
    """A function's nodes, producers first."""

    def __init__(self, body: Expr, computed: bool, effects: Effects) -> None:
        self.order = list(post_order([body]))
        self.uses = Counter(id(c) for node in self.order for c in node.children())
        self.computed, self.effects = computed, effects
        self.pending: dict[int, _Pending] = {}
        self.weights: dict[int, Expr] = {}  # of contractions that take the scale of their data
        self.bare: dict[int, Expr] = {}  # nodes without their scales, where nobody needs them with these

    def run(self) -> Expr:
        """The body with scales in weights; the same object where there are none."""
        for node in self.order:
            if isinstance(node, Call):
                self.note(node)
        if not self.weights:
            return self.order[-1]
        free = self.without_other_users()
        new: dict[int, Expr] = {}
        for node in self.order:
            whole = rebuild(node, new)
            if isinstance(node, Call) and isinstance(whole, Call):
                self.strip(node, whole, free)
                data = self.bare.get(id(node.args[0])) if id(node) in self.weights else None
                whole = whole if data is None else with_weight(whole, data, self.weights[id(node)])
            new[id(node)] = whole
        return new[id(self.order[-1])]

    def note(self, node: Call) -> None:
        """Whether `node` is something times a scale, or takes that of its data."""
        if self.effects.inside(node):
            return  # factors would be evaluated elsewhere
        found = scale_of(node, self.computed)
        if found is not None:
            self.pending[id(node)] = self.joined(node, *found)
        elif isinstance(node.op, Op) and node.args and (known := self.pending.get(id(node.args[0]))) is not None:
            if contraction(node) is not None:
                weight = scaled(node, known.scale, of_result=False, computed=self.computed)
                if weight is not None:
                    self.weights[id(node)] = weight
            elif (passed := self.passed(node, known.scale)) is not None:
                self.pending[id(node)] = passed

    def joined(self, node: Call, data: int, scale: Scale) -> _Pending:
        """A product; of a product, which nothing else uses, that of both scales."""
        x = node.args[data]
        known = self.pending.get(id(x))
        product = known.scale.times(scale) if known is not None and self.uses[id(x)] == 1 else None
        return _Pending(scale, data, fresh=True) if product is None else _Pending(product, data)

    def passed(self, node: Call, scale: Scale) -> _Pending | None:
        """What gives s·f(x) for s·x."""
        shift = shift_of(node)
        if shift is not None:
            stays = isinstance(shift, Constant) or (self.computed and isinstance(shift, Var))
            sum_ = with_shift(node, node.args[0], scale, inverse=True) if stays else None
            return None if sum_ is None else _Pending(scale, 0, shift=sum_)
        path = ahead(node, scale.axis)
        if path is None or (path.positive and not scale.is_positive) or not isinstance(node.ty, TensorType):
            return None
        return _Pending(scale.along(path.axis, node.ty.rank), 0)

    def without_other_users(self) -> set[int]:
        """The nodes with scales that are used only by what takes these."""
        taken: Counter[int] = Counter()
        free: set[int] = set()
        for node in reversed(self.order):
            known = self.pending.get(id(node))
            if known is not None and taken[id(node)] == self.uses[id(node)] > 0:
                free.add(id(node))
            if id(node) in self.weights or (known is not None and not known.fresh and id(node) in free):
                assert isinstance(node, Call)
                taken[id(node.args[0 if known is None else known.data])] += 1
        return free

    def strip(self, node: Call, whole: Call, free: set[int]) -> None:
        """Notes `node` without its scale, if that is to be had without computing anything twice."""
        known = self.pending.get(id(node))
        if known is None:
            return
        if known.fresh:
            self.bare[id(node)] = whole.args[known.data]
            return
        data = self.bare.get(id(node.args[known.data]))
        if data is None or id(node) not in free:
            return
        if scale_of(node, self.computed) is not None:
            self.bare[id(node)] = data
        else:
            like = whole if known.shift is None else known.shift
            assert isinstance(like, Call)
            self.bare[id(node)] = replace(like, args=(data, *like.args[1:]))

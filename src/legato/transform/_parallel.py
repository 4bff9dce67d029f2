"""Calls of one operator on the same data, side by side, become one call."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import replace

from legato.arith.expr import Const, const
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.blocks import shared_by_blocks
from legato.ir.expr import Call, Expr, Function, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import operands
from legato.ir.types import Dim, TensorType
from legato.transform._effects import Effects
from legato.transform._values import with_operands
from legato.transform.pass_ import FunctionPass
from legato.transform.to_graph import ToGraph

__all__ = ["CombineParallel", "slices", "weight_type"]


@dataclass(frozen=True, slots=True)
class CombineParallel(FunctionPass):
    """Typed module → module in graph form with fewer, larger calls.

    Calls are combined where at least `min_branches` have the same first operand, one block computes them, and none of
    them needs another.
    """

    rounds = True
    min_branches: int = 3

    @abstractmethod
    def key(self, call: Call) -> Hashable | None:
        """What calls that can be combined have in common, first operands aside; None for other calls."""

    @abstractmethod
    def combined(self, calls: Sequence[Call]) -> Sequence[Expr]:
        """What gives the results of `calls`, which are alike, from one call."""

    def __call__(self, mod: Module) -> Module:
        """Calls are seen through lets in graph form; the module itself where nothing is combined."""
        graph = ToGraph()(mod)
        new = FunctionPass.__call__(self, graph)
        return mod if new is graph else new

    def function(self, func: Function, mod: Module) -> Function:
        groups = self._groups(func, Effects(func, mod))
        group_of = {id(call): group for group in groups for call in group}
        new: dict[int, Expr] = {}
        stack = [func.body] if groups else []
        while stack:
            node = stack[-1]
            group: Sequence[Expr] = group_of.get(id(node), (node,))
            pending = [kid for member in group for kid in operands(member) if id(kid) not in new]
            if id(node) in new or not pending:
                stack.pop()
            if id(node) in new:
                continue
            if pending:
                stack += reversed(pending)
                continue
            made = [with_operands(member, [new[id(kid)] for kid in operands(member)]) for member in group]
            new.update(zip(map(id, group), made if len(group) == 1 else self._replaced(made), strict=True))
        body = new.get(id(func.body), func.body)
        return func if body is func.body else replace(func, body=body)

    def _groups(self, func: Function, effects: Effects) -> list[list[Call]]:
        """The calls to combine. A call that needs another one has a higher level."""
        shared = shared_by_blocks(func.body)
        level: dict[int, int] = {}
        groups: dict[Hashable, list[Call]] = {}
        for node in shared.order:
            own = max((level[id(kid)] for kid in operands(node)), default=0)
            key = self.key(node) if isinstance(node, Call) and id(node) in shared.at else None
            if isinstance(node, Call) and key is not None and not effects.inside(node):
                data = node.args[0]
                ident = data if isinstance(data, Var) else id(data)
                groups.setdefault((key, ident, own, id(shared.at[id(node)])), []).append(node)
                own += 1
            level[id(node)] = own
        return [group for group in groups.values() if len(group) >= max(self.min_branches, 2)]

    def _replaced(self, made: Sequence[Expr]) -> Sequence[Expr]:
        calls = [call for call in made if isinstance(call, Call)]
        results = self.combined(calls)
        # extents that are not proven to be the same stay as they are
        return results if [r.ty for r in results] == [c.ty for c in calls] else calls


def weight_type(call: Call, op: Op) -> TensorType | None:
    """The type of the second operand of a call of `op`; None for other calls."""
    if call.op is not op or not isinstance(call.ty, TensorType) or not isinstance(call.args[0].ty, TensorType):
        return None
    ty = call.args[1].ty
    return ty if isinstance(ty, TensorType) else None


def slices(b: Builder, whole: Expr, axis: int, calls: Sequence[Call]) -> list[Expr]:
    """The parts of `whole`, one after the other along `axis`, each as wide there as the result of its call."""
    found: list[Expr] = []
    begin: Dim = const(0)
    for call in calls:
        assert isinstance(call.ty, TensorType)
        width = call.ty.shape[axis]
        bounds = (*(0,) * axis, _number(begin)), (*(-1,) * axis, _number(width))
        steps = (1,) * (axis + 1)
        found.append(b.op("strided_slice")(whole, begin=bounds[0], end=bounds[1], strides=steps, slice_mode="size"))
        begin = simplify(begin + width)
    return found


def _number(d: Dim) -> Dim | int:
    return int(d.value) if isinstance(d, Const) else d

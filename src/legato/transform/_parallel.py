"""Calls of one operator on the same data, side by side, become one call; so do equal elementwise operators behind."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from legato.arith.expr import Const, const
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.blocks import shared_by_blocks
from legato.ir.effects import Effects
from legato.ir.expr import Call, Expr, Function, Var
from legato.ir.module import Module
from legato.ir.op import Fusion, Op
from legato.ir.scope import operands
from legato.ir.types import Dim, TensorType
from legato.transform._values import with_operands
from legato.transform.pass_ import FunctionPass
from legato.transform.to_graph import ToGraph

__all__ = ["CombineParallel", "Concatenate", "shape_of", "total", "weight_type"]

Branch = list[Call]  # a call, and the elementwise calls behind it, each the only use of the one before
Uses = Mapping[int, Sequence[tuple[Expr, int]]]  # by id: who uses a node, as which operand


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
    def whole(self, b: Builder, calls: Sequence[Call]) -> Expr:
        """The one call for `calls`, which are alike."""

    @abstractmethod
    def operand(self, b: Builder, args: Sequence[Expr], before: Sequence[Call], first: Call) -> Expr | None:
        """What stands beside the one call, where `args` stand beside the results `before`; None where nothing can.
        first: of the calls."""

    @abstractmethod
    def parts(self, b: Builder, whole: Expr, calls: Sequence[Call], first: Call) -> Sequence[Expr]:
        """What gives the results of `calls`, which are behind the first ones, from that of the one call."""

    def __call__(self, mod: Module) -> Module:
        """Calls are seen through lets in graph form; the module itself where nothing is combined."""
        graph = ToGraph()(mod)
        new = FunctionPass.__call__(self, graph)
        return mod if new is graph else new

    def function(self, func: Function, mod: Module) -> Function:
        groups = _Groups(self, func, Effects(func, mod)).found
        group_of = {id(branch[-1]): group for group in groups for branch in group}
        new: dict[int, Expr] = {}
        stack = [func.body] if groups else []
        while stack:
            node = stack[-1]
            group = group_of.get(id(node))
            needed = operands(node) if group is None else _inputs(group)
            pending = [] if id(node) in new else [kid for kid in needed if id(kid) not in new]
            if pending:
                stack += reversed(pending)
                continue
            stack.pop()
            if id(node) not in new and group is not None:
                new.update(zip((id(branch[-1]) for branch in group), self._results(group, new), strict=True))
            elif id(node) not in new:
                new[id(node)] = with_operands(node, [new[id(kid)] for kid in needed])
        body = new.get(id(func.body), func.body)
        return func if body is func.body else replace(func, body=body)

    def _results(self, group: Sequence[Branch], new: Mapping[int, Expr]) -> Sequence[Expr]:
        made = [_rebuilt(branch, new) for branch in group]
        b, calls = Builder(span=made[0][0].span), [branch[0] for branch in made]
        whole = self.whole(b, calls)
        for followers in zip(*(branch[1:] for branch in made), strict=True):
            whole = self._behind(b, whole, calls, followers, made[0][0])
            calls = list(followers)
        results = self.parts(b, whole, calls, made[0][0])
        # extents that are not proven to be the same stay as they are
        return results if [r.ty for r in results] == [c.ty for c in calls] else calls

    def _behind(self, b: Builder, whole: Expr, calls: Sequence[Call], followers: Sequence[Call], first: Call) -> Expr:
        """The one call for `followers`, which are elementwise, of the one for `calls`."""
        op, args = followers[0].op, list[Expr]()
        for n, arg in enumerate(followers[0].args):
            other = whole if arg is calls[0] else self.operand(b, [f.args[n] for f in followers], calls, first)
            assert other is not None
            args.append(other)
        assert isinstance(op, Op)
        return b.call_op(op, args, followers[0].attrs)


def _inputs(group: Sequence[Branch]) -> list[Expr]:
    """The operands of the calls in branches that are none of these calls."""
    inside = {id(call) for branch in group for call in branch}
    return [kid for branch in group for call in branch for kid in operands(call) if id(kid) not in inside]


def _rebuilt(branch: Branch, new: Mapping[int, Expr]) -> Branch:
    made: Branch = []
    own: dict[int, Expr] = {}
    for call in branch:
        again = with_operands(call, [own[id(kid)] if id(kid) in own else new[id(kid)] for kid in operands(call)])
        assert isinstance(again, Call)
        own[id(call)] = again
        made.append(again)
    return made


class _Groups:
    """The branches in `func` that are combined. A call that needs another one, or its branch, has a higher level."""

    def __init__(self, p: CombineParallel, func: Function, effects: Effects) -> None:
        self._pass, self._effects = p, effects
        self._level: dict[int, int] = {}
        self._uses: dict[int, list[tuple[Expr, int]]] = {id(func.body): [(func, 0)]}
        groups: dict[Hashable, list[Call]] = {}
        shared = shared_by_blocks(func.body)
        for node in shared.order:
            for n, kid in enumerate(operands(node)):
                self._uses.setdefault(id(kid), []).append((node, n))
            level = max((self._level[id(kid)] for kid in operands(node)), default=0)
            key = p.key(node) if isinstance(node, Call) and id(node) in shared.at else None
            if isinstance(node, Call) and key is not None and not effects.inside(node):
                data = node.args[0]
                ident = data if isinstance(data, Var) else id(data)
                groups.setdefault((key, ident, level, id(shared.at[id(node)])), []).append(node)
                level += 1
            self._level[id(node)] = level
        self.found = [self._branches(group) for group in groups.values() if len(group) >= max(p.min_branches, 2)]

    def _branches(self, calls: Sequence[Call]) -> list[Branch]:
        branches = [[call] for call in calls]
        level = self._level[id(calls[0])] - 1
        while (followers := self._followers([branch[-1] for branch in branches], level, calls[0])) is not None:
            for branch, call in zip(branches, followers, strict=True):
                branch.append(call)
        return branches

    def _followers(self, calls: Sequence[Call], level: int, first: Call) -> list[Call] | None:
        """Equal elementwise calls, each the only use of one of `calls`, whose other operands need none of these."""
        uses = [found[0] for call in calls if len(found := self._uses[id(call)]) == 1]
        followers = [node for node, _ in uses if isinstance(node, Call)]
        if len(followers) < len(calls) or len(set(map(id, followers))) < len(calls):
            return None
        # 0.0 equals -0.0, but is another attribute
        kinds = {(f.op, f.attrs, repr(f.attrs), len(f.args), n) for f, (_, n) in zip(followers, uses, strict=True)}
        if len(kinds) > 1 or not _is_elementwise(followers[0]):
            return None
        if not all(_keeps(f, c) for f, c in zip(followers, calls, strict=True)):
            return None
        others = [[f.args[n] for f in followers] for n in range(len(followers[0].args)) if n != uses[0][1] - 1]
        if any(self._level[id(a)] > level or self._effects.inside(a) for args in others for a in args):
            return None
        b = Builder()
        return None if any(self._pass.operand(b, args, calls, first) is None for args in others) else followers


def _is_elementwise(call: Call) -> bool:
    """Whether an operator is elementwise, its operands broadcast by their last dims."""
    if not isinstance(call.op, Op) or not isinstance(call.ty, TensorType):
        return False
    if len(call.args) == 1:
        return call.op.fuses(call.attrs) == Fusion.ELEMWISE
    return call.op.fuses(call.attrs) <= Fusion.BROADCAST and call.attrs is None


def _keeps(call: Call, operand: Call) -> bool:
    """Whether the dims of an operand are the last ones of the result."""
    shape = shape_of(operand)
    return shape_of(call)[-len(shape) :] == shape


@dataclass(frozen=True, slots=True)
class Concatenate(CombineParallel):
    """Calls whose results follow each other along one dim of that of the one call.

    repeats: operands beside them that are the same all along it are repeated; calls with such stay otherwise.
    """

    repeats: ClassVar[bool] = False

    @abstractmethod
    def last(self, first: Call) -> int:
        """That dim, from behind: 1 is the last one."""

    def operand(self, b: Builder, args: Sequence[Expr], before: Sequence[Call], first: Call) -> Expr | None:
        """`args` one after the other."""
        return _beside(b, args, before, self.last(first), repeats=self.repeats)

    def parts(self, b: Builder, whole: Expr, calls: Sequence[Call], first: Call) -> Sequence[Expr]:
        """Slices."""
        return _slices(b, whole, self.last(first), calls)


def shape_of(e: Expr) -> tuple[Dim, ...]:
    """The shape of a tensor."""
    assert isinstance(e.ty, TensorType)
    return e.ty.shape


def weight_type(call: Call, op: Op) -> TensorType | None:
    """The type of the second operand of a call of `op`; None for other calls."""
    if call.op is not op or not isinstance(call.ty, TensorType) or not isinstance(call.args[0].ty, TensorType):
        return None
    ty = call.args[1].ty
    return ty if isinstance(ty, TensorType) else None


def total(calls: Sequence[Call], last: int) -> int | None:
    """The extents of dim `last`, from behind, of all results together; None where they are not all known."""
    found = [shape_of(c)[-last] for c in calls]
    known = [int(d.value) for d in found if isinstance(d, Const)]
    return sum(known) if len(known) == len(found) else None


def _beside(b: Builder, args: Sequence[Expr], before: Sequence[Call], last: int, *, repeats: bool) -> Expr | None:
    """`args` one after the other along dim `last`, from behind, along which the results `before` will be; None where
    they are not as wide there, or differ elsewhere. repeats: an operand that is the same all along is repeated."""
    wide = []
    for arg, call in zip(args, before, strict=True):
        if not isinstance(arg.ty, TensorType):
            return None
        width = shape_of(call)[-last]
        if repeats and isinstance(width, Const):
            arg = _repeated(b, arg, int(width.value), last)
        if len(shape_of(arg)) < last or shape_of(arg)[-last] != width:
            return None
        wide.append(arg)
    axis = len(shape_of(wide[0])) - last
    around = {(a.ty.dtype, a.ty.shape[:axis], a.ty.shape[axis + 1 :]) for a in wide if isinstance(a.ty, TensorType)}
    return b.op("concatenate")(wide, axis=axis) if len(around) == 1 else None


def _repeated(b: Builder, arg: Expr, width: int, last: int) -> Expr:
    """An operand that is the same all along dim `last`, from behind, as wide there."""
    x = b.op("expand_dims")(arg, axis=-1) if not shape_of(arg) else arg
    rank = len(shape_of(x))
    if rank < last or width == 1 or shape_of(x)[-last] != const(1):
        return x
    return b.op("repeat")(x, repeats=width, axis=rank - last)


def _slices(b: Builder, whole: Expr, last: int, calls: Sequence[Call]) -> list[Expr]:
    """The parts of `whole`, one after the other along dim `last`, from behind, each as wide as the result of its
    call."""
    found: list[Expr] = []
    begin: Dim = const(0)
    axis = len(shape_of(whole)) - last
    for call in calls:
        width = shape_of(call)[-last]
        bounds = (*(0,) * axis, _number(begin)), (*(-1,) * axis, _number(width))
        steps = (1,) * (axis + 1)
        found.append(b.op("strided_slice")(whole, begin=bounds[0], end=bounds[1], strides=steps, slice_mode="size"))
        begin = simplify(begin + width)
    return found


def _number(d: Dim) -> Dim | int:
    return int(d.value) if isinstance(d, Const) else d

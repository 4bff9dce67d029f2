"""Cheap values that live long are computed again where they are needed, so that less memory is in use at once.

    let %t = exp(%x); let %a = nn.dense(%t, W); …; let %z = multiply(%t, %y)
        =>
    let %t = exp(%x); let %a = nn.dense(%t, W); …; let %u = exp(%x); let %z = multiply(%u, %y)

To be run before fusion. What memory is in use is estimated on the fused program: the tensors that are
live between its groups, without results and parameters, which are the caller's. Where most is in use, a value that is
not needed just then, and that operators make which give each element of few, is computed again for the uses behind,
if the estimate falls. Every bit stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from legato.arith.expr import Const
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from legato.ir.let import Binding, chain, lets
from legato.ir.module import Module
from legato.ir.op import Fusion, Op
from legato.ir.scope import post_order
from legato.ir.types import TensorType, TupleType, Type
from legato.ir.updates import UPDATES
from legato.ir.visit import free_vars, substitute
from legato.transform.fuse import Fuse
from legato.transform.pass_ import FunctionPass
from legato.transform.to_a_normal import ToANormal

__all__ = ["Rematerialize"]

TRIED: Final = 4  # of the values that live where most memory is in use, the largest
AGAIN: Final = 64  # operators that are computed again, at most


@dataclass(frozen=True, slots=True)
class Rematerialize(FunctionPass):
    """Typed module → module in A-normal form. Functions are left alone that have tensors without literal extents, or
    that update some in place.

    extra: how much of the function's work may be done again, as a share of it.
    """

    name = "rematerialize"
    extra: float = 0.1

    def check_options(self) -> None:
        if not 0 <= self.extra < float("inf"):
            raise CompileError(f"extra is {self.extra}, wanted a share of the work: 0.1, say")

    def prepared(self, mod: Module) -> Module:
        """A-normal form: it says in what order values are made."""
        return ToANormal()(mod)

    def function(self, func: Function, mod: Module) -> Function:
        bindings, result = chain(func.body)
        if not bindings or not _is_fit(func):
            return func
        new, lives = bindings, _Lives(_fused(func, bindings, result))
        while (better := _improved(func, new, result, lives, self.extra)) is not None:
            new, lives = better
        return func if new is bindings else replace(func, body=lets(new, result))


def _is_fit(func: Function) -> bool:
    """Whether all tensors have literal extents and none is updated in place."""
    for node in post_order(func.body):
        if isinstance(node, Call) and node.op in UPDATES:
            return False
        if isinstance(node.ty, TensorType) and not node.ty.is_static:
            return False
    return True


def _fused(func: Function, bindings: Sequence[Binding], result: Expr) -> Expr:
    return Fuse().function(replace(func, body=lets(bindings, result)), Module({})).body


def _improved(
    func: Function, bindings: list[Binding], result: Expr, lives: _Lives, extra: float
) -> tuple[list[Binding], _Lives] | None:
    """The bindings with something computed again, and what lives then; None where nothing helps or nothing is left."""
    spent, total, count = _repeated(bindings)
    for var in lives.candidates()[:TRIED]:
        made = _recomputed(var, lives)
        if made is None or count + len(made) > AGAIN or spent + _work(v for _, v in made) > extra * total:
            continue
        for new in _choices(bindings, var, made, lives):
            now = _Lives(_fused(func, new, result))
            if now.measure < lives.measure:
                return new, now
    return None


def _choices(bindings: list[Binding], var: Var, made: list[Binding], lives: _Lives) -> Iterator[list[Binding]]:
    """The bindings, in which the uses of `var` behind the peak, or from it on, are of a value that is made again."""
    positions = {v: n for n, (v, _) in enumerate(bindings)}
    for at in (lives.at, lives.at - 1):
        start = positions[lives.bindings[at][0]] + 1
        first = next((n for n in range(start, len(bindings)) if var in free_vars(bindings[n][1])), None)
        if first is not None and lives.bindings[at][0] is not var:
            new = {var: made[-1][0]}
            behind = ((v, substitute(value, dict(new))) for v, value in bindings[first:])
            yield [*bindings[:first], *made, *behind]


def _recomputed(var: Var, lives: _Lives) -> list[Binding] | None:
    """The operators of a group once more, as bindings, behind those of groups whose results it reads and nobody does
    later. None where one is not cheap, or is no operator."""
    order: list[Var] = []
    seen: set[Var] = set()
    stack = [(var, False)]
    while stack:
        at, is_done = stack.pop()
        if is_done:
            order.append(at)
        elif at not in seen:
            seen.add(at)
            stack.append((at, True))
            stack += [(v, False) for v in free_vars(lives.groups[at]) if lives.is_gone(v)]
        if len(seen) > AGAIN:
            return None
    made: list[Binding] = []
    new: dict[Expr, Expr] = {}
    for at in order:
        part = _again(lives.groups[at], new)
        if part is None:
            return None
        made += part
        new[at] = made[-1][0]
    return made


def _again(group: Expr, known: Mapping[Expr, Expr]) -> list[Binding] | None:
    """The operators of one group, as bindings; `known` stand for operands."""
    if not isinstance(group, Call) or not isinstance(group.op, Op | Function):
        return None
    new = dict(known)
    nodes: list[Expr] = [group]
    if isinstance(group.op, Function):
        new |= zip(group.op.params, (known.get(a, a) for a in group.args), strict=True)
        nodes = [n for n in post_order(group.op.body) if not isinstance(n, Var | Constant | Op)]
    made: list[Binding] = []
    for node in nodes:
        if not isinstance(node, Call) or not _is_cheap(node):
            return None
        value = replace(node, args=tuple(new.get(a, a) for a in node.args))
        made.append((Var("again", ty=node.ty, span=node.span), value))
        new[node] = made[-1][0]
    return made or None


def _is_cheap(call: Call) -> bool:
    """Whether each element of the result comes of few, of tensors."""
    op = call.op
    if not isinstance(op, Op) or op.stateful or op.compute is None or op.fuses(call.attrs) > Fusion.INJECTIVE:
        return False
    return isinstance(call.ty, TensorType) and not any(isinstance(a, Tuple) for a in call.args)


# ---------------------------------------------------------------------- work


def _work(values: Iterable[Expr]) -> int:
    """Arithmetic operations, of those operators that say; else one for each element."""
    return sum(_operations(v) for v in values if isinstance(v, Call))


def _operations(call: Call) -> int:
    cost = call.op.cost if isinstance(call.op, Op) else None
    types = [a.ty for a in call.args if isinstance(a.ty, TensorType)]
    if cost is not None and call.ty is not None and len(types) == len(call.args):
        flops = cost(types, call.ty, call.attrs).flops
        if isinstance(flops, Const):
            return int(flops.value)
    return _elements(call.ty)


def _repeated(bindings: Sequence[Binding]) -> tuple[int, int, int]:
    """The work of values that have been computed before, that of all others, and how many the first are."""
    numbers: dict[object, int] = {}
    known: dict[Var, int] = {}
    spent = total = count = 0
    for var, value in bindings:
        key: object = value
        if isinstance(value, Call) and isinstance(value.op, Op) and not value.op.stateful:
            key = (value.op, value.attrs, *(known.get(a, a) if isinstance(a, Var) else id(a) for a in value.args))
        work = _work([value])
        spent, total, count = (spent + work, total, count + 1) if key in numbers else (spent, total + work, count)
        known[var] = numbers.setdefault(key, len(numbers))
    return spent, total, count


# ---------------------------------------------------------------------- memory


class _Lives:
    """What lives when in a fused program: at most so many bytes, first at binding `at`.

    measure: these bytes, and at how many bindings so many live.
    """

    def __init__(self, body: Expr) -> None:
        self.bindings, result = chain(body)
        end = len(self.bindings)
        self.groups = dict(self.bindings)
        self.born = {var: n for n, (var, _) in enumerate(self.bindings)}
        self.uses: dict[Var, list[int]] = {var: [] for var in self.born}
        parts: dict[Var, tuple[Var, ...]] = {}
        for n, (var, value) in enumerate([*self.bindings, (None, result)]):
            read = tuple(v for v in free_vars(value) if v in self.born)
            whole = {v for r in read for v in (r, *parts.get(r, ()))}
            if var is not None and isinstance(value, Var | Tuple | TupleGetItem):
                parts[var] = tuple(whole)  # it holds these, and has no memory of its own
            for v in whole:
                self.uses[v].append(n)
        given = {v for v, at in self.uses.items() if at and at[-1] == end}
        self.sizes = {v: 0 if v in given or v in parts else _bytes(v.ty) for v in self.born}
        change = [0] * (end + 2)
        for var, size in self.sizes.items():
            change[self.born[var]] += size
            change[max([self.born[var], *self.uses[var][-1:]]) + 1] -= size
        live = list(accumulate(change[:end]))
        peak = max(live)
        self.measure, self.at = (peak, live.count(peak)), live.index(peak)

    def is_gone(self, var: Var) -> bool:
        """Whether `var` has memory of its own that is free behind the peak."""
        return bool(self.sizes.get(var)) and max(self.uses[var], default=0) <= self.at

    def candidates(self) -> list[Var]:
        """What lives at the peak, has been made before and is needed later, or there but not just made: the largest
        first."""
        late = {var: max(self.uses[var], default=0) for var, _ in self.bindings[: self.at] if self.sizes[var]}
        found = [v for v, last in late.items() if last > self.at or (last == self.at and self.born[v] + 1 < self.at)]
        return sorted(found, key=lambda var: -self.sizes[var])


def _elements(ty: Type | None) -> int:
    """Of all tensors in a type."""
    if isinstance(ty, TupleType):
        return sum(map(_elements, ty.fields))
    total = 1
    for d in ty.shape if isinstance(ty, TensorType) else (Const(0),):
        total *= int(d.value) if isinstance(d, Const) else 0
    return total


def _bytes(ty: Type | None) -> int:
    if isinstance(ty, TupleType):
        return sum(map(_bytes, ty.fields))
    return _elements(ty) * ty.dtype.bytes if isinstance(ty, TensorType) else 0

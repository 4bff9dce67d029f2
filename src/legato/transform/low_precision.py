"""Matrix products and convolutions of bfloat16, in programs of float32.

    nn.dense(nn.relu(%x), W)  =>  nn.dense(cast(nn.relu(%x), "bfloat16"), W16, out_dtype="float32")

Operators whose records say that they sum up products get their operands in bfloat16 and keep float32 for their sums.
What they read is held in memory as bfloat16 only: everybody else who reads it converts it back where it is read, so
that both conversions become part of the kernels around them. Operators that only move elements move the narrow ones.
Parameters, results, and what control flow hands on stay as they are.

Runs on the graph before A-normal form: each use has a conversion of its own, which no later pass may merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.base.node import post_order, rebuild
from legato.ir.expr import Call, Constant, Expr, Function, Tuple, tuple_of
from legato.ir.module import Module
from legato.ir.op import Narrow, Op
from legato.ir.types import TupleType
from legato.transform._narrow import in_dtype, is_float32, narrowed, widened
from legato.transform.pass_ import FunctionPass

__all__ = ["LowPrecision"]

NARROW = dt.bfloat16


@dataclass(frozen=True, slots=True)
class LowPrecision(FunctionPass):
    """Module → module whose contractions of float32 are contractions of bfloat16 with float32 sums."""

    name = "low-precision"
    rounds = True

    def function(self, func: Function, mod: Module) -> Function:
        order = list(post_order([func.body]))
        if not any(_contracts(node) for node in order):
            return func
        body = _Narrowed(order).run()
        return func if body is func.body else replace(func, body=body)


class _Narrowed:
    """The nodes of a function, producers first, rewritten: `wide` has each in float32, `narrow` some in bfloat16."""

    def __init__(self, order: Sequence[Expr]) -> None:
        self.order = order
        self.wanted, self.moved = _wanted(order)
        self.kept = _kept(order)
        self.wide: dict[int, Expr] = {}
        self.narrow: dict[int, Expr] = {}

    def run(self) -> Expr:
        for node in self.order:
            if _contracts(node):
                assert isinstance(node, Call)
                args = tuple(self._narrow(a) for a in node.args)
                self.wide[id(node)] = replace(node, args=args, attrs=replace(node.attrs, out_dtype=dt.float32))
            elif id(node) in self.moved:
                assert isinstance(node, Call)
                args = tuple(self._narrow(a) for a in node.args)
                self.narrow[id(node)] = replace(node, args=args, ty=narrowed(node.ty, NARROW))
            else:
                self.wide[id(node)] = rebuild(node, {id(c): self._wide(c) for c in node.children()})
        return self._wide(self.order[-1])

    def _wide(self, node: Expr) -> Expr:
        """`node` in its own dtype, for one use of it."""
        if id(node) in self.moved or (id(node) in self.wanted and id(node) not in self.kept):
            return in_dtype(self._narrow(node), dt.float32)
        return self.wide[id(node)]

    def _narrow(self, node: Expr) -> Expr:
        """`node` with its tensors of float32 as bfloat16."""
        if isinstance(node, Tuple):
            return replace(tuple_of(self._narrow(f) for f in node.fields), span=node.span)
        if not is_float32(node.ty):
            return self._wide(node)
        found = self.narrow.get(id(node))
        if found is None:
            found = self.narrow[id(node)] = self._converted(node)
        return found

    def _converted(self, node: Expr) -> Expr:
        value = node if isinstance(node, Constant) else self.wide[id(node)]
        found = widened(value, NARROW)
        return in_dtype(value, NARROW) if found is None else found


def _wanted(order: Sequence[Expr]) -> tuple[set[int], set[int]]:
    """The tensors that are read as bfloat16, and those of them that are moved there from others."""
    wanted: set[int] = set()
    moved: set[int] = set()
    for node in reversed(order):
        moves = id(node) in wanted and _kind(node) is Narrow.MOVES and _operands(node) is not None
        if moves:
            moved.add(id(node))
        if moves or _contracts(node):
            wanted.update(id(x) for x in _operands(node) or ())
    return wanted, moved


def _kept(order: Sequence[Expr]) -> set[int]:
    """What is held in float32 anyway: constants, and what others than operators make or read."""
    by_call: set[int] = set()
    for node in order:
        if isinstance(node, Call) and isinstance(node.op, Op):
            by_call |= {id(a) for a in node.args if isinstance(a, Tuple)}
    kept = {id(order[-1])}
    for node in order:
        if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.compute is None:
            kept.add(id(node))
        if not (isinstance(node, Call) and isinstance(node.op, Op)) and id(node) not in by_call:
            kept.update(id(c) for c in node.children())
    return kept


def _kind(node: Expr) -> Narrow:
    if not isinstance(node, Call) or not isinstance(node.op, Op) or not is_float32(node.ty):
        return Narrow.NEVER
    narrow = node.op.narrow
    return narrow if isinstance(narrow, Narrow) else narrow(node.attrs)


def _contracts(node: Expr) -> bool:
    """True for a contraction of float32 tensors into one."""
    if _kind(node) is not Narrow.CONTRACTS:
        return False
    assert isinstance(node, Call)
    assert isinstance(node.op, Op)
    if not hasattr(node.attrs, "out_dtype"):
        raise CompileError(
            f"operator {node.op.name} is recorded as a contraction of narrow operands but has no attribute out_dtype",
            span=node.span,
            hint="add the attribute: it names the dtype in which sums are formed",
        )
    return all(is_float32(a.ty) for a in node.args)


def _operands(node: Expr) -> tuple[Expr, ...] | None:
    """The float32 tensors that a call reads, fields of tuples one by one; None if there is a tuple that is no Tuple."""
    assert isinstance(node, Call)
    found: list[Expr] = []
    for arg in node.args:
        if isinstance(arg.ty, TupleType) and not isinstance(arg, Tuple):
            return None
        found += [x for x in _leaves(arg) if is_float32(x.ty)]
    return tuple(found)


def _leaves(arg: Expr) -> Iterator[Expr]:
    return iter(arg.fields) if isinstance(arg, Tuple) else iter((arg,))

"""Operator fusion: groups of operators that become one kernel each.

Works on straight-line blocks in A-normal form. Within a block, uses form a graph; an operator joins the group of its
immediate post-dominator when every path between the two consists of operators that can be computed along:

    contraction or reduction  →  elementwise operators of the same shape        (the epilogue)
    elementwise, injective    →  elementwise, injective or a reduction          (computed where it is read)

A group has at most one contraction and one output, its last operator. It becomes a call of a primitive function:

    let %x1 = nn.dense(%x, %w); let %x2 = nn.relu(%x1); …
    =>  let %x2 = fn (%p0, %p1, Primitive=1) { nn.relu(nn.dense(%p0, %p1)) }(%x, %w); …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from legato.base.node import post_order
from legato.ir.expr import Call, Constant, Expr, Function, If, Match, Tuple, Var
from legato.ir.let import Binding, chain, lets
from legato.ir.module import Module
from legato.ir.op import Fusion, Op
from legato.ir.types import FuncType, TensorType, Type
from legato.transform.pass_ import FunctionPass

__all__ = ["Fuse"]


@dataclass(frozen=True, slots=True)
class Fuse(FunctionPass):
    """A-normal form → A-normal form whose operator calls are calls of primitive functions."""

    name = "fuse"
    max_ops: int = 48  # operators in one group: bounds the time to compile a kernel

    def function(self, func: Function, mod: Module) -> Function:
        body = self._block(func.body)
        return func if body is func.body else replace(func, body=body)

    def _block(self, body: Expr) -> Expr:
        old, result = chain(body)
        bindings = [(var, self._nested(value)) for var, value in old]
        new = _Block(bindings, result, self.max_ops).fused()
        same = len(new) == len(old) and all(a is b for (_, a), (_, b) in zip(new, old, strict=True))
        return body if same else lets(new, result)

    def _nested(self, value: Expr) -> Expr:
        """Blocks inside a binding: branches, clauses and closures. Their nesting is shallow: it is written by hand."""
        match value:
            case If() | Match():
                first, *blocks = value.children()
                new = [self._block(b) for b in blocks]
                same = all(a is b for a, b in zip(new, blocks, strict=True))
                return value if same else value.with_children((first, *new))
            case Function() if "Primitive" not in value.attrs:
                body = self._block(value.body)
                return value if body is value.body else replace(value, body=body)
            case _:
                return value


@dataclass(slots=True, eq=False)
class _Node:
    """A binding as a vertex of the use graph."""

    position: int
    kind: Fusion
    shape: tuple[object, ...] | None  # None: not a single tensor
    users: list[int] = field(default_factory=list)
    escapes: bool = False  # used by the block's result or by something that cannot be fused
    dominator: int = -1  # immediate post-dominator; the number of nodes stands for the block's end
    depth: int = 0

    @property
    def is_anchor(self) -> bool:
        return self.kind in (Fusion.REDUCE, Fusion.CONTRACTION)


def _kind(value: Expr) -> Fusion:
    if isinstance(value, Call) and isinstance(value.op, Op) and value.op.compute is not None and not value.op.stateful:
        return value.op.fusion
    return Fusion.OPAQUE


def _shape(ty: Type | None) -> tuple[object, ...] | None:
    return ty.shape if isinstance(ty, TensorType) else None


class _Block:
    def __init__(self, bindings: Sequence[Binding], result: Expr, max_ops: int) -> None:
        self.bindings, self.result, self.max_ops = bindings, result, max_ops
        self.position = {var: n for n, (var, _) in enumerate(bindings)}
        self.nodes = [_Node(n, _kind(v), _shape(v.ty)) for n, (_, v) in enumerate(bindings)]
        self.parent = list(range(len(bindings)))
        self.size = [1] * len(bindings)
        self.anchored = [n.is_anchor for n in self.nodes]  # by group root: does the group have its anchor?
        self._add_uses()
        self._find_dominators()

    def _add_uses(self) -> None:
        for n, (_, value) in enumerate(self.bindings):
            for used in {self.position[v] for v in _variables(value) if v in self.position}:
                self.nodes[used].users.append(n)
        for v in _variables(self.result):
            if v in self.position:
                self.nodes[self.position[v]].escapes = True

    def _find_dominators(self) -> None:
        end = len(self.nodes)
        for node in reversed(self.nodes):
            users = [end] if node.escapes or not node.users else node.users
            dominator = users[0]
            for user in users[1:]:
                dominator = self._meet(dominator, user)
            node.dominator = dominator
            node.depth = 1 if dominator == end else self.nodes[dominator].depth + 1

    def _meet(self, a: int, b: int) -> int:
        end = len(self.nodes)
        while a != b:
            if a == end or b == end:
                return end
            if self.nodes[a].depth >= self.nodes[b].depth:
                a = self.nodes[a].dominator
            else:
                b = self.nodes[b].dominator
        return a

    def _root(self, n: int) -> int:
        while self.parent[n] != n:
            self.parent[n] = self.parent[self.parent[n]]
            n = self.parent[n]
        return n

    def _between(self, start: int, stop: int) -> list[int] | None:
        """The nodes on paths from `start` to `stop`, both left out; None if they are too many for a group."""
        found: set[int] = set()
        stack = [u for u in self.nodes[start].users if u != stop]
        while stack:
            if len(found) > self.max_ops:
                return None
            n = stack.pop()
            if n not in found:
                found.add(n)
                stack += [u for u in self.nodes[n].users if u != stop]
        return sorted(found)

    def fused(self) -> list[Binding]:
        for anchors in (True, False):
            for node in self.nodes:
                if node.is_anchor is anchors:
                    self._try(node)
        return self._rewritten()

    def _try(self, node: _Node) -> None:
        """Joins `node` with its post-dominator, and goes on from there, while that is allowed."""
        at = node
        while at.dominator != len(self.nodes) and at.kind <= Fusion.CONTRACTION:
            sink = self.nodes[at.dominator]
            between = self._between(at.position, sink.position)
            if between is None or not self._allowed(node, sink, between):
                return
            if not self._join(at.position, [*between, sink.position]):
                return
            if not node.is_anchor:
                return  # the sink's own turn decides how far the group reaches
            at = sink

    def _allowed(self, node: _Node, sink: _Node, between: Sequence[int]) -> bool:
        path = [self.nodes[n] for n in between]
        if node.is_anchor or self.anchored[self._root(node.position)]:
            epilogue = (*path, sink)
            return all(n.kind <= Fusion.BROADCAST and n.shape == node.shape is not None for n in epilogue)
        if node.kind <= Fusion.BROADCAST and any(
            n.kind <= Fusion.BROADCAST and n.shape != node.shape for n in (*path, sink)
        ):
            return False  # computed once per element here, it would be computed once per element of a larger shape
        inner = all(n.kind <= Fusion.INJECTIVE for n in path)
        return inner and node.shape is not None and sink.kind <= Fusion.REDUCE

    def _join(self, start: int, others: Sequence[int]) -> bool:
        roots = {self._root(n) for n in (start, *others)}
        if sum(self.size[r] for r in roots) > self.max_ops or sum(self.anchored[r] for r in roots) > 1:
            return False
        target = max(roots)
        for r in roots - {target}:
            self.parent[r] = target
            self.size[target] += self.size[r]
            self.anchored[target] = self.anchored[target] or self.anchored[r]
        return True

    def _rewritten(self) -> list[Binding]:
        members: dict[int, list[int]] = {}
        for n, node in enumerate(self.nodes):
            if node.kind is not Fusion.OPAQUE or _kind_of_call(self.bindings[n][1]):
                members.setdefault(self._root(n), []).append(n)
        last = {max(group): group for group in members.values()}
        inside = {n for group in members.values() for n in group}
        out: list[Binding] = []
        for n, (var, value) in enumerate(self.bindings):
            if n in last:
                out.append((var, self._call(last[n])))
            elif n not in inside:
                out.append((var, value))
        return out

    def _call(self, group: Sequence[int]) -> Call:
        """The call of the primitive function that computes `group`; its arguments are what the group reads."""
        inner: dict[Var, Expr] = {}
        params: dict[object, Var] = {}
        args: list[Expr] = []

        def operand(e: Expr) -> Expr:
            if isinstance(e, Tuple):
                return replace(e, fields=tuple(operand(f) for f in e.fields))
            if isinstance(e, Var) and e in inner:
                return inner[e]
            if not isinstance(e, Var | Constant) or (isinstance(e, Constant) and e.data.ndim == 0):
                return e
            key: object = e if isinstance(e, Var) else id(e)
            if key not in params:
                params[key] = Var(f"p{len(args)}", ty=e.ty)
                args.append(e)
            return params[key]

        for n in group:
            var, value = self.bindings[n]
            assert isinstance(value, Call)
            inner[var] = replace(value, args=tuple(operand(a) for a in value.args))
        body = inner[self.bindings[group[-1]][0]]
        assert body.ty is not None
        types = tuple(p.ty for p in params.values() if p.ty is not None)
        func = Function(
            tuple(params.values()), body, body.ty, attrs={"Primitive": 1}, ty=FuncType(types, body.ty), span=body.span
        )
        return Call(func, tuple(args), ty=body.ty, span=body.span)


def _kind_of_call(value: Expr) -> bool:
    """True for calls of operators that have a loop definition but are never fused: a group of their own."""
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.compute is not None


def _variables(expr: Expr) -> Iterator[Var]:
    return (e for e in post_order([expr]) if isinstance(e, Var))

"""Operator fusion: groups of operators that become one kernel each.

Works on straight-line blocks in A-normal form. Within a block, uses form a graph; an operator joins the group of its
immediate post-dominator when every path between the two consists of operators that can be computed along:

    contraction or reduction  →  elementwise operators of the same shape        (the epilogue)
    elementwise, injective    →  elementwise, injective or a reduction          (computed where it is read)
    flattening of a result    →  product with constant weights                  (summed as the result lies in memory)

Besides, two batched contractions of data join where all that is between them runs along rows of the first one's result:

    contraction  →  reductions and elementwise operators along rows  →  contraction         (attention)

and with them what only rearranges or scales their operands, and what only rearranges their result. Such a chain needs
no more of the first result at a time than a few rows. Otherwise a group has at most one contraction. Its one output is
its last operator. It becomes a call of a primitive function:

    let %x1 = nn.dense(%x, %w); let %x2 = nn.relu(%x1); …
    =>  let %x2 = fn (%p0, %p1, Primitive=1) { nn.relu(nn.dense(%p0, %p1)) }(%x, %w); …
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from heapq import heappop, heappush

from legato.arith.bounds import bounds
from legato.arith.expr import Const
from legato.arith.expr import Expr as Dim
from legato.arith.expr import const as dim
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.ir.dominators import DominatorTree
from legato.ir.expr import Call, Constant, Expr, Function, Tuple, Var
from legato.ir.let import Binding, chain
from legato.ir.module import Module
from legato.ir.op import Fusion, Op
from legato.ir.types import FuncType, TensorType, Type
from legato.ops.linalg import dense
from legato.ops.reshape import reshape
from legato.ops.transpose import transpose
from legato.transform._blocks import with_bindings, with_blocks
from legato.transform.pass_ import FunctionPass
from legato.transform.to_a_normal import ToANormal

__all__ = ["Fuse"]


@dataclass(frozen=True, slots=True)
class Fuse(FunctionPass):
    """Module → A-normal form whose operator calls are calls of primitive functions."""

    name = "fuse"
    max_ops: int = 128  # operators in one group, each an instruction of the kernel where all are elementwise
    max_mixed: int = 48  # where others are among them, around which kernels are built: bounds the time to compile one
    max_row: int = 4096  # elements in a row of a chain, a few rows of which stay in a core's cache
    max_reads: int = 144  # of operands in one group: what is read at several indices is computed at each of them

    @property
    def most_mixed(self) -> int:
        """How many operators a group has at most that are not all elementwise."""
        return min(self.max_ops, self.max_mixed)

    def prepared(self, mod: Module) -> Module:
        """A-normal form: in graphs, blocks share nodes."""
        return ToANormal()(mod)

    def function(self, func: Function, mod: Module) -> Function:
        body = self._block(func.body)
        return func if body is func.body else replace(func, body=body)

    def _block(self, body: Expr) -> Expr:
        old, result = chain(body)
        bindings = [(var, with_blocks(value, self._block)) for var, value in old]
        return with_bindings(body, old, _Block(bindings, result, self).fused(), result)


@dataclass(slots=True, eq=False)
class _Node:
    """A binding as a vertex of the use graph."""

    position: int
    kind: Fusion
    shape: tuple[Dim, ...] | None  # None: not a single tensor
    users: list[int] = field(default_factory=list)
    escapes: bool = False  # used by the block's result or by something that cannot be fused
    dominator: int = -1  # immediate post-dominator; the number of nodes stands for the block's end

    @property
    def is_anchor(self) -> bool:
        return self.kind in (Fusion.REDUCE, Fusion.CONTRACTION)


def _kind(value: Expr) -> Fusion:
    if isinstance(value, Call) and isinstance(value.op, Op) and value.op.compute is not None and not value.op.stateful:
        return value.op.fuses(value.attrs)
    return Fusion.OPAQUE


def _shape(ty: Type | None) -> tuple[Dim, ...] | None:
    return ty.shape if isinstance(ty, TensorType) else None


class _Block:
    def __init__(self, bindings: Sequence[Binding], result: Expr, limits: Fuse) -> None:
        self.bindings, self.result, self.limits = bindings, result, limits
        self.position = {var: n for n, (var, _) in enumerate(bindings)}
        self.nodes = [_Node(n, _kind(v), _shape(v.ty)) for n, (_, v) in enumerate(bindings)]
        self.parent = list(range(len(bindings)))
        self.members = [[n] for n in range(len(bindings))]  # by group root
        self.anchored = [n.is_anchor for n in self.nodes]  # by group root: does the group have its anchor?
        self.elementwise = [n.kind <= Fusion.BROADCAST for n in self.nodes]  # by group root: is all of it?
        self.operands = [len(self._operands(n)) for n in range(len(bindings))]  # by group root: of all its members
        self._add_uses()
        self._find_dominators()

    def _add_uses(self) -> None:
        for n, (_, value) in enumerate(self.bindings):
            for used in {self.position[v] for v in _variables(value) if v in self.position}:
                if used != n:  # a recursive closure
                    self.nodes[used].users.append(n)
        for v in _variables(self.result):
            if v in self.position:
                self.nodes[self.position[v]].escapes = True

    def _find_dominators(self) -> None:
        tree = DominatorTree(reversed(self.nodes), lambda n: () if n.escapes else (self.nodes[u] for u in n.users))
        for node in self.nodes:
            found = tree.parent(node)
            node.dominator = len(self.nodes) if found is None else found.position

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
            if len(found) > self.limits.most_mixed:
                return None
            n = stack.pop()
            if n not in found:
                found.add(n)
                stack += [u for u in self.nodes[n].users if u != stop]
        return sorted(found)

    def fused(self) -> list[Binding]:
        for node in self.nodes:
            if node.is_anchor:
                self._try(node)
        for node in self.nodes:
            if node.kind is Fusion.CONTRACTION:
                self._chain(node)
        for node in self.nodes:
            if not node.is_anchor:
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
        if any(self._spreads(n, (node.position, *between)) for n in (*between, sink.position)):
            return False  # so it would be here
        inner = all(n.kind <= Fusion.INJECTIVE for n in path)
        if sink.kind is Fusion.CONTRACTION:
            return not path and self._flattens(node, sink)
        return inner and node.shape is not None and sink.kind <= Fusion.REDUCE

    def _flattens(self, node: _Node, sink: _Node) -> bool:
        """True if `node` only puts dimensions of a result of this block into one, over which contraction `sink` sums
        with constant weights: it can as well sum over the dimensions as they lie in memory."""
        (var, value), (_, product) = self.bindings[node.position], self.bindings[sink.position]
        assert isinstance(value, Call)
        assert isinstance(product, Call)
        if value.op is not reshape or product.op is not dense or product.args[0] is not var:
            return False
        ty = value.args[0].ty
        if not isinstance(ty, TensorType) or not isinstance(product.args[1], Constant) or not self._only_moves(node):
            return False
        is_flat = node.shape is not None and len(node.shape) == 2 < ty.rank and node.shape[0] == ty.shape[0]
        return is_flat and all(isinstance(d, Const) for d in ty.shape[1:])

    def _only_moves(self, node: _Node) -> bool:
        """True if the group of `node` only rearranges a result of this block. Anything that it computed would be
        computed once per element that a sum reads."""
        members, root, at = 0, self._root(node.position), node.position
        while self._root(at) == root:
            value = self.bindings[at][1]
            if not isinstance(value, Call) or value.op not in (reshape, transpose):
                return False
            source = value.args[0]
            if not isinstance(source, Var) or source not in self.position:
                return False
            at = self.position[source]
            members += 1
        return members == len(self.members[root])

    def _join(self, start: int, others: Sequence[int]) -> bool:
        roots = {self._root(n) for n in (start, *others)}
        is_elementwise = all(self.elementwise[r] for r in roots)
        most = self.limits.max_ops if is_elementwise else self.limits.most_mixed
        if sum(self.anchored[r] for r in roots) > 1 or sum(len(self.members[r]) for r in roots) > most:
            return False
        if not self._reads_few(roots, is_elementwise):
            return False
        self._unite(roots)
        return True

    def _reads_few(self, roots: Iterable[int], is_elementwise: bool) -> bool:
        """Whether a kernel of these groups reads no more operands than it may."""
        if is_elementwise and sum(self.operands[r] for r in roots) <= self.limits.max_reads:
            return True  # without a look at each member, at each of which a chain grows
        members = [n for r in roots for n in self.members[r]]
        reads = self._reads_outside(members) if is_elementwise else self._reads(members)
        return reads <= self.limits.max_reads

    def _reads_outside(self, members: Iterable[int]) -> int:
        """How many operands a kernel of elementwise operators reads: each once, and their own results not at all."""
        inside = {self.bindings[n][0] for n in members}
        return len({id(v) for n in members for v in self._operands(n) if v not in inside})

    def _reads(self, members: Iterable[int]) -> int:
        """How many operands a kernel of `members` reads, where each is computed at every index at which it is read.

        Elementwise operators read all their operands at one index, others every operand at one of its own.
        """
        copies: dict[int, int] = {}
        reads = 0
        for n in sorted(members, reverse=True):
            alike, other = 0, 0
            for user in self.nodes[n].users:
                if user not in copies:
                    continue
                if self.nodes[user].kind <= Fusion.BROADCAST:
                    alike = max(alike, copies[user])
                else:
                    other += copies[user] * sum(v is self.bindings[n][0] for v in self._operands(user))
            copies[n] = alike + other or 1
            reads += copies[n] * len(self._operands(n))
        return reads

    def _spreads(self, n: int, among: Sequence[int]) -> bool:
        """Whether a binding reads one of those `among` at several places for each of its elements."""
        value = self.bindings[n][1]
        if not isinstance(value, Call) or not isinstance(value.op, Op) or value.op.places is None:
            return False
        pairs = zip(self._operands(n), value.op.places(value.attrs), strict=True)
        return any(k > 1 and isinstance(v, Var) and self.position.get(v) in among for v, k in pairs)

    def _operands(self, n: int) -> list[Expr]:
        """What a binding reads, the fields of tuples one by one."""
        value = self.bindings[n][1]
        args = value.args if isinstance(value, Call) else ()
        return [f for a in args for f in (a.fields if isinstance(a, Tuple) else (a,))]

    def _unite(self, roots: set[int]) -> None:
        target = max(roots)
        for r in roots - {target}:
            self.parent[r] = target
            self.members[target] += self.members[r]
            self.anchored[target] = self.anchored[target] or self.anchored[r]
            self.elementwise[target] = self.elementwise[target] and self.elementwise[r]
            self.operands[target] += self.operands[r]

    # Chains

    def _chain(self, first: _Node) -> None:
        """Joins contraction `first` with the one behind it, if all that is between runs along rows of its result."""
        found = self._rows_behind(first)
        if found is None:
            return
        rows, last = found
        roots = {self._root(n) for n in (first.position, *rows, last.position)}
        if sum(len(self.members[r]) for r in roots) > self.limits.most_mixed:
            return
        self._unite(roots)
        self._add_operands({first.position, last.position})
        self._add_moves(last)

    def _rows_behind(self, first: _Node) -> tuple[list[int], _Node] | None:
        """What is between `first` and the next contraction, which comes second; None where they are not a chain."""
        if first.shape is None or not self._has_short_rows(first.shape) or not self._is_of_data(first):
            return None
        rows: list[int] = []
        at = first
        while at.dominator != len(self.nodes):
            sink = self.nodes[at.dominator]
            between = self._between(at.position, sink.position)
            if between is None:
                return None
            is_last = sink.kind is Fusion.CONTRACTION
            rows += between if is_last else [*between, sink.position]
            if not all(_runs_along(self.nodes[n], first.shape) for n in rows):
                return None
            if is_last:
                reduced = any(self.nodes[n].kind is Fusion.REDUCE for n in rows)
                return (rows, sink) if reduced and self._is_of_data(sink) else None
            at = sink
        return None

    def _has_short_rows(self, shape: tuple[Dim, ...]) -> bool:
        most = bounds(shape[-1]).hi if len(shape) > 1 else None
        return most is not None and most <= self.limits.max_row

    def _is_of_data(self, node: _Node) -> bool:
        """True if no operand may be weights, which are packed, and each part of them is best used for all rows: neither
        a constant, nor a matrix without a batch."""
        operands = self._operands(node.position)
        batched = all(isinstance(a.ty, TensorType) and a.ty.rank > 2 for a in operands)
        return batched and not any(isinstance(a, Constant) for a in operands)

    def _add_operands(self, readers: set[int]) -> None:
        """Joins what only computes operands of the contractions `readers`, each element once."""
        group = self._root(max(readers))
        todo = sorted(-n for n in self._read_by(readers))  # a heap: what comes last has no readers that are not known
        seen = set(todo)
        while todo:
            node = self.nodes[-heappop(todo)]
            if node.kind > Fusion.INJECTIVE or node.escapes or not readers.issuperset(node.users):
                continue
            users = [self.nodes[u] for u in node.users]
            once = all(u.kind is Fusion.CONTRACTION or _same_size(node, u) for u in users)
            root = self._root(node.position)
            alone = root != group and not self.anchored[root] and len(self.members[root]) == 1
            if alone and (once or node.kind is Fusion.INJECTIVE) and len(self.members[group]) < self.limits.most_mixed:
                self._unite({root, group})
                readers.add(node.position)
                for n in self._read_by([node.position]):
                    if -n not in seen:
                        seen.add(-n)
                        heappush(todo, -n)

    def _read_by(self, readers: Iterable[int]) -> set[int]:
        """The bindings of this block that `readers` read."""
        read = {v for n in readers for v in _variables(self.bindings[n][1])}
        return {self.position[v] for v in read if v in self.position}

    def _add_moves(self, node: _Node) -> None:
        """Joins what only rearranges the result of `node` and its epilogue."""
        group = self._root(node.position)
        at = node
        while at.dominator != len(self.nodes):
            sink = self.nodes[at.dominator]
            if self._root(sink.position) != group:
                moves = sink.kind is Fusion.INJECTIVE and _same_size(at, sink)
                is_full = len(self.members[group]) >= self.limits.most_mixed
                if not moves or is_full or self._between(at.position, sink.position):
                    return
                self._unite({self._root(sink.position), group})
                group = self._root(sink.position)
            at = sink

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
            if not isinstance(e, Var | Constant) or (isinstance(e, Constant) and _is_number(e)):
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


def _is_number(node: Constant) -> bool:
    """True for a scalar that kernels have as a literal; which number a string is, programs tell."""
    return node.data.ndim == 0 and node.data.dtype.kind != "O"


def _runs_along(node: _Node, shape: tuple[Dim, ...]) -> bool:
    """True if `node` has an element for each element, or for each row, of a tensor of `shape`."""
    if node.kind not in (Fusion.ELEMWISE, Fusion.BROADCAST, Fusion.REDUCE):
        return False
    return node.shape in (shape, shape[:-1], (*shape[:-1], dim(1)))


def _same_size(a: _Node, b: _Node) -> bool:
    """True if the tensors of both have the same number of elements."""
    if a.shape is None or b.shape is None:
        return False
    if a.shape == b.shape:
        return True
    sizes: list[Dim] = [dim(1), dim(1)]
    for n, shape in enumerate((a.shape, b.shape)):
        for d in shape:
            sizes[n] = sizes[n] * d
    difference = simplify(sizes[0] - sizes[1])
    return isinstance(difference, Const) and difference.value == 0


def _kind_of_call(value: Expr) -> bool:
    """True for calls of operators that have a loop definition but are never fused: a group of their own."""
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.compute is not None


def _variables(expr: Expr) -> Iterator[Var]:
    return (e for e in post_order([expr]) if isinstance(e, Var))

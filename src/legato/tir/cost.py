"""What a kernel does, counted from its loops: arithmetic, loads, stores, and the bytes it has to move.

All counts are integers or index expressions over the kernel's dims. Nothing is run: a loop counts as often as its
extent says, a guard `v*16 + l < n` as often as it holds. A branch that depends on data counts as if it always happened,
a loop whose length does as if it ran once. An expression is counted where code generation computes it: outside the
loops that it does not depend on, unless it reads memory that they may change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import field

from legato.arith.expr import Binary, Const, Expr, Op, Var
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.tir._count import Count, plus, size_of, smaller, times
from legato.tir._iterations import Frame, Frames
from legato.tir._traffic import Access, Traffic
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Call, Load
from legato.tir.intrinsics import INTRINSICS
from legato.tir.stmt import Alloc, Barrier, For, Func, If, Let, LoopKind, Stmt, Store

__all__ = ["BufferCost", "Cost", "Count", "kernel_cost"]

_ARITHMETIC = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MIN, Op.MAX, Op.FLOORDIV, Op.FLOORMOD})
_CHEAP = frozenset({"neg", "abs", "floor", "ceil", "trunc", "round", "isnan", "isinf", "bitnot"})  # one instruction
_NARROW_DIVISION = frozenset({Op.FLOORDIV, Op.FLOORMOD})


@dataclass(frozen=True, slots=True)
class BufferCost:
    """The bytes of a buffer parameter that a kernel reads and writes, each counted once however often it is used."""

    name: str
    read: Count
    written: Count


@dataclass(slots=True)
class Cost:
    """The counts of one kernel.

    flops:    operations on numbers (a fused multiply-add is two); intrinsics such as exp are apart, in `calls`, where
              each is one more (of dot2, the other three are here).
    slots:    the bytes of vector registers that arithmetic fills with results, a fused multiply-add once.
    masked, narrow, scalar: bytes beyond these that are computed for nothing: lanes that a guard turns off, lanes that a
              vector narrower than a register does not have, and those beside an operation on a single number.
    loads, stores: instructions that touch memory; a gather is one for each lane.
    gathered: those of `loads` that are lanes of gathers.
    divisions: lanes of index arithmetic that divide, inside vector loops.
    parallel: iterations of the longest loop that is divided among threads, 0 if the kernel runs on one.
    past_l1, past_l2: bytes that are touched again when a first or second level cache of nominal size has lost them.
    stepped:  bytes that come again from beyond the first cache whatever the order of the loops: steps that wait for the
              one before (there is a barrier in them) touch more than it holds.
    step:     bytes that one of these steps touches, of the largest.
    """

    flops: Count = 0
    slots: Count = 0
    masked: Count = 0
    narrow: Count = 0
    scalar: Count = 0
    loads: Count = 0
    gathered: Count = 0
    stores: Count = 0
    divisions: Count = 0
    parallel: Count = 0
    past_l1: Count = 0
    past_l2: Count = 0
    stepped: Count = 0
    step: Count = 0
    calls: dict[str, Count] = field(default_factory=dict)
    buffers: tuple[BufferCost, ...] = ()

    @property
    def bytes(self) -> Count:
        """Bytes read and written."""
        total: Count = 0
        for b in self.buffers:
            total = plus(total, plus(b.read, b.written))
        return total


def kernel_cost(func: Func, vector_bytes: int, caches: tuple[int, int] = (32 << 10, 1 << 20)) -> Cost:
    """The counts of kernel `func`, compiled for vectors of `vector_bytes`; `caches`: bytes of the first two levels."""
    counting = _Counting(func, vector_bytes)
    cost = counting.run()
    traffic = Traffic(counting.frames, counting.accesses)
    cost.past_l1, cost.past_l2 = (traffic.again(size) for size in caches)
    cost.stepped, cost.step = traffic.stepped(counting.steps, caches[0])
    return cost


class _Counting:
    def __init__(self, func: Func, vector_bytes: int) -> None:
        self.func, self.vector_bytes = func, vector_bytes
        self.frames = Frames()
        self.cost = Cost()
        self.written_in = _stored(func.body)
        self.written = self.written_in[func.body]
        self.params = {p for p in func.params if isinstance(p, Buffer)}
        self.touched: dict[tuple[Buffer, bool], Count] = {}
        self.accesses: list[Access] = []
        self.pairs: dict[Expr, bool] = {}  # operands of `pair`, and whether they are the first of the two
        self.seen: set[tuple[object, ...]] = set()  # accesses whose bytes are counted
        self.plain: dict[Frame, dict[Expr, Frame]] = {}  # by where it is used, what costs nothing: where it is computed
        self.steps: set[Frame] = set()  # loops around barriers: an iteration waits for the one before
        # How many there are in each frame, counted before they are multiplied by how often it runs: operations by their
        # flops and width, vector loads, gathers. Frames are few, and products of formulas take long.
        self.operations: Counter[tuple[Frame, int, int]] = Counter()
        self.loads: Counter[Frame] = Counter()
        self.gathers: Counter[Frame] = Counter()

    def run(self) -> Cost:
        stack: list[tuple[Stmt, Frame]] = [(self.func.body, self.frames.root)]
        while stack:
            stmt, frame = stack.pop()
            stack += reversed(self._visit(stmt, frame))
        for (at, flops, width), n in self.operations.items():
            self._operate(at, flops, width, n)
        for at, n in self.loads.items():
            self.cost.loads = plus(self.cost.loads, times(n, at.instructions))
        for at, n in self.gathers.items():
            self.cost.loads = plus(self.cost.loads, times(n, at.started))
            self.cost.gathered = plus(self.cost.gathered, times(n, at.started))
        self.cost.buffers = tuple(self._buffer(p) for p in self.func.params if isinstance(p, Buffer))
        return self.cost

    def _visit(self, stmt: Stmt, frame: Frame) -> list[tuple[Stmt, Frame]]:
        """Counts a statement without those inside; they are returned with their frames."""
        match stmt:
            case For(var, extent, body, kind):
                inner = self.frames.loop(frame, var, extent, kind is LoopKind.VECTOR, self.written_in[stmt])
                if kind is LoopKind.PARALLEL:
                    self.cost.parallel = _larger(self.cost.parallel, self.frames.extents[var])
                return [(body, inner)]
            case If(cond, then, orelse):
                self._operands((cond,), frame)
                parts = [(then, self.frames.guard(frame, cond, holds=True))]
                if orelse is not None:
                    parts.append((orelse, self.frames.guard(frame, cond, holds=False)))
                return parts
            case Let(var, value, body):
                self._operands((value,), frame)
                self.frames.let(var, value)
                return [(body, frame)]
            case Alloc(_, body):
                return [(body, frame)]
            case Barrier():
                self._step(frame)
                return []
            case Store(buffer, indices, value):
                self._operands((*indices, value), frame)
                self._store(buffer, indices, frame)
                return []
            case _:
                self._operands(stmt.exprs(), frame)
                return [(child, frame) for child in stmt.children()]

    def _step(self, frame: Frame) -> None:
        at: Frame | None = frame.loop
        while at is not None and at.outer is not None:
            self.steps.add(at)
            at = at.outer.loop

    # ---------------------------------------------------------------------------------------------- expressions

    def _operands(self, roots: tuple[Expr, ...], frame: Frame) -> None:
        """Counts the operations of each distinct node under `roots`, where it is computed."""
        place: dict[Expr, Frame] = {}
        plain = self.plain.setdefault(frame, {})
        stack = list(roots)
        while stack:
            node = stack[-1]
            if node in place:
                stack.pop()
                continue
            if node in plain:
                place[node] = plain[node]
                stack.pop()
                continue
            kids = node.children()
            pending = [k for k in kids if k not in place]
            if pending:
                if type(node) is Call and node.name == "pair":
                    self.pairs[kids[0]], self.pairs[kids[1]] = True, False
                stack += pending
                continue
            place[node] = self._place(node, [place[k] for k in kids], frame)
            if _is_plain(node, plain):
                plain[node] = place[node]
            else:
                self._node(node, place[node])
            stack.pop()

    def _place(self, node: Expr, kids: list[Frame], frame: Frame) -> Frame:
        """The innermost loop whose iterations `node` may differ in."""
        if type(node) is Var:
            return self.frames.of.get(node, self.frames.root)
        deepest = max(kids, key=lambda f: f.depth, default=self.frames.root)
        if type(node) is Load and node.buffer in self.written:
            changes = self.frames.changing(node.buffer, frame)
            deepest = changes if changes.depth > deepest.depth else deepest
        return frame if deepest is frame.loop else deepest

    def _node(self, node: Expr, at: Frame) -> None:
        kind = type(node)
        if kind is Binary:
            assert isinstance(node, Binary)
            if node.dtype is dt.index:
                if node.op in _NARROW_DIVISION and at.lanes is not None and self._varies(node, at):
                    self.cost.divisions = plus(self.cost.divisions, at.total)
            elif node.op in _ARITHMETIC and not node.dtype.is_bool:
                self._operation(node, at, 1)
        elif kind is Load:
            assert isinstance(node, Load)
            self._load(node, at)
        elif kind is Call:
            assert isinstance(node, Call)
            if node.name == "fma":
                self._operation(node, at, 2)
            elif node.name in _CHEAP:
                self._operation(node, at, 1)
            elif node.name != "pair" and not INTRINSICS[node.name].bits:  # which say how memory is read
                self._call(node, at)

    def _varies(self, node: Expr, at: Frame) -> bool:
        """True if `node` differs from lane to lane."""
        return at.vector is not None and at.vector in self.frames.vars(node)

    def _call(self, node: Call, at: Frame) -> None:
        calls = self.cost.calls
        calls[node.name] = plus(calls.get(node.name, 0), at.total)
        if node.name == "dot2":
            self.cost.flops = plus(self.cost.flops, times(3, at.total))
            self._waste(at, node.dtype.bytes, 1)

    def _operation(self, node: Expr, at: Frame, flops: int) -> None:
        self.operations[at, flops, node.dtype.bytes] += 1

    def _operate(self, at: Frame, flops: int, width: int, n: int) -> None:
        """Counts `n` operations in a frame."""
        self.cost.flops = plus(self.cost.flops, times(n * flops, at.total))
        self.cost.slots = plus(self.cost.slots, times(n * width, at.total))
        self._waste(at, width, n)

    def _waste(self, at: Frame, width: int, n: int) -> None:
        """Counts what is computed beside the results of `n` operations."""
        cost = self.cost
        lanes = max(1, self.vector_bytes // width)
        if at.lanes is None:
            cost.scalar = plus(cost.scalar, times(n * (lanes - 1) * width, at.total))
            return
        if at.started is not at.total:
            cost.masked = plus(cost.masked, times(n * width, plus(at.started, times(-1, at.total))))
        missing = -at.lanes % lanes
        if missing:
            cost.narrow = plus(cost.narrow, times(n * missing * width, at.instructions))

    # ---------------------------------------------------------------------------------------------- memory

    def _load(self, node: Load, at: Frame) -> None:
        if node.buffer.scope is Scope.REGISTER:
            return
        self._touch(node.buffer, node.indices, at, False)
        leads = self.pairs.get(node)
        if leads is False:
            return  # comes along with its neighbour
        where = node.buffer, node.indices, at
        is_vector = leads is None and at.lanes is not None
        is_gather = is_vector and self._is_gather(*where) and not self._is_within_vector(*where)
        (self.gathers if is_gather else self.loads)[at] += 1

    def _store(self, buffer: Buffer, indices: tuple[Expr, ...], at: Frame) -> None:
        if buffer.scope is Scope.REGISTER:
            return
        is_scatter = at.lanes is not None and self._is_gather(buffer, indices, at)
        self.cost.stores = plus(self.cost.stores, at.started if is_scatter else at.instructions)
        self._touch(buffer, indices, at, True)

    def _is_gather(self, buffer: Buffer, indices: tuple[Expr, ...], at: Frame) -> bool:
        """True if the lanes of the vector loop around do not touch neighbours, nor all the same element."""
        varying = [d for d, i in enumerate(indices) if self._varies(i, at)]
        if not varying:
            return False
        assert at.vector is not None
        return (
            len(varying) > 1
            or self.frames.step(indices[varying[0]], at.vector) != 1
            or not _is_innermost(buffer, varying[0])
        )

    def _is_within_vector(self, buffer: Buffer, indices: tuple[Expr, ...], at: Frame) -> bool:
        """True if the lanes touch elements at literal distances within one vector: a load and a shuffle get them."""
        *others, last = (indices[d] for d in buffer.layout.order)
        if any(self._varies(i, at) for i in others):
            return False
        assert at.vector is not None
        assert at.lanes is not None
        places = self.frames.distances(last, at.vector, at.lanes)
        return places is not None and max(places) - min(places) < at.lanes

    def _touch(self, buffer: Buffer, indices: tuple[Expr, ...], at: Frame, is_store: bool) -> None:
        if buffer not in self.params:
            return
        key = (buffer, is_store, indices, at)
        if key in self.seen:
            return
        self.seen.add(key)
        variables = frozenset[Var]().union(*(self.frames.vars(i) for i in indices))
        self.accesses.append(Access(buffer, indices, variables, at))
        elements = at.points(variables)
        where = (buffer, is_store)
        self.touched[where] = plus(self.touched.get(where, 0), elements)

    def _buffer(self, buffer: Buffer) -> BufferCost:
        size = size_of(buffer.shape)
        read, written = (
            times(buffer.dtype.bytes, smaller(size, self.touched.get((buffer, is_store), 0)))
            for is_store in (False, True)
        )
        return BufferCost(buffer.name, read, written)


def _is_plain(node: Expr, known: Container[Expr]) -> bool:
    """True if `node` counts as nothing: a variable, a literal, or sums and products of such `known` ones."""
    if type(node) is Binary:
        return node.dtype is dt.index and node.op not in _NARROW_DIVISION and node.a in known and node.b in known
    return type(node) is Var or type(node) is Const


def _larger(a: Count, b: Count) -> Count:
    """The larger of two counts, if that can be told, else the first that is not 0."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else a or b


def _is_innermost(buffer: Buffer, dim: int) -> bool:
    """True if neighbours along dimension `dim` are neighbours in memory."""
    order = buffer.layout.order
    inner = order[order.index(dim) + 1 :]
    extents = [buffer.shape[d] for d in inner]
    is_one = all(isinstance(e, Const) and e.value == 1 for e in extents)
    return is_one and all(buffer.layout.is_dense_along(d) for d in inner)


def _stored(body: Stmt) -> dict[Stmt, frozenset[Buffer]]:
    """The buffers that each statement under `body` stores to, those inside it included."""
    found: dict[Stmt, frozenset[Buffer]] = {}
    for stmt in post_order([body]):
        own = (stmt.buffer,) if isinstance(stmt, Store) else ()
        found[stmt] = frozenset(own).union(*(found[child] for child in stmt.children()))
    return found

"""Loop programs as tensor expressions: what each buffer of a kernel holds in the end, as stages.

    for i in 0..n: for j in 0..m: Y[i, j] = 0                              Y[i, j] = sum(k: X[i, k] * W[k, j])
    for i in 0..n: for j in 0..m: for k in 0..p:                =>         Z[i, j] = Y[i, j] + B[j]
      Y[i, j] = Y[i, j] + X[i, k] * W[k, j]
    for i in 0..n: for j in 0..m: Z[i, j] = Y[i, j] + B[j]

The program is followed statement by statement. What a statement changes is an update (`te.updates`); a loop's is found
from that of one iteration, where its iterations

    store at places of their own, and read what others store nowhere             v becomes the place's own iteration
    or add to the same place (+, *, max, min), which nobody else reads           a reduction over v
    or store to the same place what does not depend on it                        the last iteration's value

and from nothing else: a program with any other loop is not read. What is in memory before it is stored is 0, as tensor
programs have it. Sums and products are formed in another order than the loops', as everywhere in tensor expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from legato.arith.expr import Const, Expr, Op, Var, const, le, lt, max_, select
from legato.arith.prove import prove, prove_all_equal, prove_equal
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, rewrite, substitute, variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import VerifyError
from legato.te.access import Proof, accesses
from legato.te.fused_loops import unfused
from legato.te.iterations import Turn, with_one_pin
from legato.te.sums import combiner_of, without_neutral
from legato.te.tensor import COMBINERS, Axis, Reduction, Stage, Tensor
from legato.te.tidy import element, tidied
from legato.te.updates import Pin, Ranges, Unreadable, Update, linear, merged
from legato.tir.buffer import Buffer
from legato.tir.expr import Load, identity
from legato.tir.prove_access import prove_accesses
from legato.tir.sealed import sealed
from legato.tir.stmt import Alloc, Block, For, Func, FuncKind, If, Let, Prefetch, Stmt, Store
from legato.tir.walk import bound_buffers, buffers_written, has_load, statements

__all__ = ["Stages", "read_back"]

_DEPTH = 128  # statements in each other
_MOST = 200  # statements that store
_LARGEST = 1 << 14  # nodes of an expression, as a graph
_NAMES = {op: name for name, op in COMBINERS.items()}


@dataclass(frozen=True, eq=False, slots=True)
class Stages:
    """A kernel as tensor expressions: its inputs, its outputs (also where nothing is stored to them) and its dims."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    dims: tuple[Var, ...]


def read_back(func: Func, outputs: int) -> Stages | str:
    """The stages of `func`, whose last `outputs` buffers are its results; why there are none, in words."""
    try:
        return _Reader(sealed(func), outputs).stages()
    except Unreadable as reason:
        return str(reason)
    except VerifyError as error:
        return error.message


@dataclass(eq=False, slots=True)
class _Scope:
    """What buffers hold at a point: `updates` since the scope began, when those of `marks` held what these stand for;
    buffers that are `own` begin here with zeros, others hold what `outer` says."""

    outer: _Scope | None
    marks: Mapping[Buffer, Buffer] = field(default_factory=dict)
    own: set[Buffer] = field(default_factory=set)
    updates: dict[Buffer, Update] = field(default_factory=dict)


class _Reader:
    def __init__(self, func: Func, outputs: int) -> None:
        self.func = func
        buffers = [p for p in func.params if isinstance(p, Buffer)]
        self.results = buffers[len(buffers) - outputs :]
        given = buffers[: len(buffers) - outputs]
        sizes = {d for b in buffers for d in b.shape}
        self.dims = {
            p: Var(p.name, p.dtype, 0 if p in sizes else p.lo, p.hi) for p in func.params if isinstance(p, Var)
        }
        self.held: dict[Buffer, Tensor] = {b: Tensor(b.name, self._shape(b), b.dtype) for b in given}
        self.inputs = tuple(self.held[b] for b in given)
        self.sizes = tuple(dict.fromkeys(d for b in buffers for d in self._shape(b)))  # 0 or more
        self.index: dict[Buffer, tuple[Var, ...]] = {}
        self.extents: dict[Var, Expr] = {}  # of loops, and of subscripts
        self.loops: list[Var] = []  # around
        self.lets: dict[Var, Expr] = dict(self.dims)
        self.made: dict[Buffer, Buffer] = {}  # for which buffer

    @property
    def ranges(self) -> Ranges:
        return Ranges(self.extents)

    def _shape(self, b: Buffer) -> tuple[Expr, ...]:
        return tuple(substitute(d, self.dims) for d in b.shape)

    def stages(self) -> Stages:
        func = self.func
        buffers = (*(p for p in func.params if isinstance(p, Buffer)), *bound_buffers(func))
        if func.kind is not FuncKind.KERNEL or any(not b.layout.is_row_major for b in buffers):
            raise Unreadable("it is no kernel of buffers that are dense, the last dimension innermost")
        if any(v.dtype is not dt.index for v in self.dims):
            raise Unreadable("it takes numbers that are no dims")
        if _depth(func.body) > _DEPTH:
            raise Unreadable(f"more than {_DEPTH} statements are in each other")
        if sum(isinstance(s, Store) for s in statements(func)) > _MOST:
            raise Unreadable(f"more than {_MOST} statements store")
        unproven = next((f for f in prove_accesses(func) if f.reason is not None), None)
        if unproven is not None:
            raise Unreadable(f"an access of {unproven.access.buffer.name} is not shown to be inside: {unproven.reason}")
        negative = [b.name for b in bound_buffers(func) for d in self._shape(b) if not prove(le(const(0), d))]
        if negative:
            raise Unreadable(f"the size of {negative[0]} may be negative")
        self._top(func.body)
        outputs = tuple(self._final(b) for b in self.results)
        tidied(outputs)
        self._require_proven(outputs)
        return Stages(func.name, self.inputs, outputs, tuple(self.dims.values()))

    def _final(self, b: Buffer) -> Tensor:
        if b not in self.held:
            self.held[b] = self._tensor(b, self._index(b), const(0, b.dtype))
        return self.held[b]

    @staticmethod
    def _require_proven(outputs: Sequence[Tensor]) -> None:
        for access in accesses(outputs):
            if access.proof not in (Proof.PROVEN, Proof.CLAMPED):
                raise Unreadable(f"{access.load} is not shown to be inside: {access}")

    # ------------------------------------------------------------------ statements

    def _top(self, body: Stmt) -> None:
        """The statements outside of loops: what each changes becomes a stage."""
        todo = [body]
        while todo:
            s = todo.pop()
            if isinstance(s, Block):
                todo += reversed(s.stmts)
            elif isinstance(s, Alloc):
                todo.append(s.body)
            elif isinstance(s, Let):
                self.lets[s.var] = self._value(s.value, _Scope(None))
                todo.append(s.body)
            else:
                scope = _Scope(None)
                self._run(s, scope)
                new = {b: self._whole(u, scope) for b, u in scope.updates.items()}
                self.held.update(new)

    def _whole(self, u: Update, scope: _Scope) -> Tensor:
        freed = u.freed(range(len(u.pins)), lambda at: self._start(u.buffer, at, scope), self.ranges)
        return self._tensor(u.buffer, u.index, freed.value)

    def _run(self, s: Stmt, scope: _Scope) -> None:
        match s:
            case Block():
                for inner in s.stmts:
                    self._run(inner, scope)
            case Store():
                self._store(s, scope)
            case For():
                self._loop(s, scope)
            case If():
                self._branch(s, scope)
            case Let():
                self.lets[s.var] = self._value(s.value, scope)
                self._run(s.body, scope)
            case Alloc():
                scope.own.add(s.buffer)
                self._run(s.body, scope)
                scope.updates.pop(s.buffer, None)
            case Prefetch():
                pass
            case _:
                raise Unreadable(f"it has a {type(s).__name__.lower()}")

    def _store(self, s: Store, scope: _Scope) -> None:
        index = self._index(s.buffer)
        places = [self.ranges.simple(self._value(i, scope)) for i in s.indices]
        if any(has_load(i) for i in places):
            raise Unreadable(f"data decides where {s.buffer.name} is stored")
        value = self._value(s.value, scope)
        self._put(Update(s.buffer, index, tuple(map(Pin, places)), value), scope)

    def _branch(self, s: If, scope: _Scope) -> None:
        cond = self._value(s.cond, scope)
        sides = [_Scope(scope), _Scope(scope)]
        for inner, body in zip(sides, (s.then, s.orelse), strict=True):
            if body is not None:
                self._run(body, inner)
        changed = {b: u for inner in sides for b, u in inner.updates.items()}
        new = [self._either(cond, u, [inner.updates.get(b) for inner in sides], scope) for b, u in changed.items()]
        for u in new:
            self._put(u, scope)

    def _either(self, cond: Expr, like: Update, sides: Sequence[Update | None], scope: _Scope) -> Update:
        """What a buffer holds behind a branch of which one of the sides changes it."""

        def before(at: tuple[Expr, ...]) -> Expr:
            return self._read(like.buffer, at, scope)

        same = Update(like.buffer, like.index, like.pins, before(like.place))
        then, orelse = (u or same for u in sides)
        return merged(orelse, then, before, self.ranges, cond)

    # ------------------------------------------------------------------ what is in memory

    def _index(self, b: Buffer) -> tuple[Var, ...]:
        if b not in self.index:
            self.index[b] = tuple(Var(f"x{n}", dt.index, 0) for n in range(b.rank))
            self.extents.update(zip(self.index[b], self._shape(b), strict=True))
        return self.index[b]

    def _value(self, e: Expr, scope: _Scope) -> Expr:
        """`e` in terms of tensors, marks, loops and dims."""

        def step(node: Expr) -> Expr | None:
            if isinstance(node, Var):
                return self.lets.get(node)
            return self._read(node.buffer, node.indices, scope) if isinstance(node, Load) else None

        return rewrite(e, step)

    def _put(self, u: Update, scope: _Scope) -> None:
        old = scope.updates.get(u.buffer)
        if old is not None:
            u = merged(old, u, lambda at: self._start(u.buffer, at, scope), self.ranges)
        if sum(1 for _ in nodes(u.value)) > _LARGEST:
            raise Unreadable(f"what {u.buffer.name} holds is too large an expression")
        scope.updates[u.buffer] = u

    def _read(self, b: Buffer, at: Sequence[Expr], scope: _Scope) -> Expr:
        u = scope.updates.get(b)
        if u is None:
            return self._start(b, at, scope)
        u = scope.updates[b] = self._settled(u)
        inside = u.reaches(at, self.ranges)
        return select(inside, u.at(at), self._start(b, at, scope))

    def _start(self, b: Buffer, at: Sequence[Expr], scope: _Scope) -> Expr:
        """What `b` held where the scope began."""
        if b in scope.own:
            return const(0, b.dtype)
        if b in scope.marks:
            return Load(scope.marks[b], tuple(at))
        if scope.outer is not None:
            return self._read(b, at, scope.outer)
        held = self.held.get(b)
        if held is None:
            return const(0, b.dtype)
        stage = held.stage
        if isinstance(stage, Stage) and stage.reduction is None and isinstance(stage.body, Const):
            return stage.body
        return Load(held, tuple(at))

    def _settled(self, u: Update) -> Update:
        """`u` with its value as a stage of its own, where it is one: it is about to be read."""
        if not u.value.children():
            return u
        if isinstance(u.value, Load) and isinstance(u.value.buffer, Tensor):
            return u
        pinned = {x for x, p in zip(u.index, u.pins, strict=True) if p is not None}
        used = self._axes(u.index, u.value)
        if used is None or pinned & set(used):
            return u
        return Update(u.buffer, u.index, u.pins, self._tensor(u.buffer, used, u.value)[used])

    # ------------------------------------------------------------------ loops

    def _loop(self, s: For, scope: _Scope) -> None:
        split = unfused(s)
        if split is not None:
            self._loop(split, scope)
            return
        extent = self._value(s.extent, scope)
        if has_load(extent):
            raise Unreadable(f"data decides how often the loop over {s.var.name} runs")
        if not any(prove_equal(extent, d) for d in self.sizes) and not self.ranges.holds(le(const(0), extent)):
            extent = max_(extent, const(0))
        inside = set(bound_buffers(s.body))
        marks = {b: Buffer(b.name, self._shape(b), b.dtype) for b in buffers_written(s.body) if b not in inside}
        self.extents[s.var] = extent
        self.loops.append(s.var)
        body = _Scope(scope, marks)
        self._run(s.body, body)
        turn = Turn(
            s.var,
            extent,
            {b: with_one_pin(u, s.var, marks[b], self.ranges) for b, u in body.updates.items()},
            marks,
            self.ranges,
            lambda b, at: self._read(b, at, scope),
            lambda u, op, term: self._reduced(u, op, term, s.var, extent),
        )
        new = [turn.all(u) for u in turn.updates.values()]
        self.loops.pop()
        for u in new:
            self._put(u, scope)

    def _axes(self, index: Iterable[Var], e: Expr) -> tuple[Var, ...] | None:
        """The loops and subscripts that `e` uses; None where it is no value of theirs alone."""
        used = set(variables(e))
        order = tuple(v for v in (*self.loops, *index) if v in used)
        is_told = used <= {*order, *self.dims.values()} and all(self._is_dim(self.extents[v]) for v in order)
        return order if is_told and all(isinstance(x.buffer, Tensor) for x in nodes(e) if isinstance(x, Load)) else None

    def _most(self, e: Expr) -> Expr:
        """What `e`, an extent, is at most, whatever the loops around: an expression of dims, where that is found."""
        most = e
        for v in reversed(self.loops):
            parts = linear(most, v)
            if parts is not None and isinstance(parts[0], Const):
                most = substitute(most, {v: self.extents[v] - 1 if parts[0].value > 0 else const(0)})
        most = simplify(max_(most, const(0)))
        return most if self.ranges.holds(le(e, most)) else e

    def _is_dim(self, e: Expr) -> bool:
        return not has_load(e) and set(variables(e)) <= set(self.dims.values())

    # ------------------------------------------------------------------ stages

    def _tensor(self, b: Buffer, index: Sequence[Var], value: Expr, reduction: Reduction | None = None) -> Tensor:
        """The tensor for `b` with `value` at `index`: that which is read there, if it is one made for `b` alone."""
        value = without_neutral(self.ranges.simple(value))
        shape = tuple(self.extents[v] for v in index)
        new = {v: Var(f"i{n}", dt.index, 0) for n, v in enumerate(index)}
        if isinstance(value, Load) and reduction is None and value.indices == tuple(index):
            read = value.buffer
            if isinstance(read, Tensor) and self.made.get(read) is b and prove_all_equal(read.shape, shape):
                return read
        axes = tuple(Axis(new[v], d) for v, d in zip(index, shape, strict=True))
        made = Tensor(b.name, shape, value.dtype, Stage(axes, substitute(value, new), reduction))
        self.made[made] = b
        return made

    def _reduced(self, u: Update, op: Op, value: Expr, v: Var, extent: Expr) -> Expr:
        """The `op` of `value` over all `v`, as an element of a stage of its own."""
        if not self._is_dim(extent):
            value = select(lt(v, extent), value, identity(op, value.dtype))
            extent = self._most(extent)
        axes: tuple[Axis, ...] = (Axis(Var("r", dt.index, 0), extent),)
        value = substitute(value, {v: axes[0].var})
        if isinstance(value, Load) and self.made.get(value.buffer) is u.buffer and combiner_of(value) is op:
            assert isinstance(value.buffer, Tensor)
            assert isinstance(value.buffer.stage, Stage)
            value, inner = element(value.buffer.stage, value.indices)
            assert inner is not None
            axes += inner.axes
        summed = {a.var: a.extent for a in axes}
        self.extents |= summed
        value = self.ranges.simple(value)
        index = self._axes((*u.index, *summed), value)
        if index is None or not self._is_dim(extent):
            raise Unreadable(f"what is summed into {u.buffer.name} depends on more than loops of fixed extents")
        kept = tuple(w for w in index if w not in summed)
        return self._tensor(u.buffer, kept, value, Reduction(_NAMES[op], axes))[kept]


def _depth(body: Stmt) -> int:
    """How many statements are in each other."""
    deepest, todo = 0, [(body, 1)]
    while todo:
        s, depth = todo.pop()
        deepest = max(deepest, depth)
        todo += [(child, depth + 1) for child in s.children()]
    return deepest

"""Loops of ONNX as functions that call themselves last.

    let %loop = fn (%i: int64, %state…, %stack…) {
      if (%i < %count) { %loop(%i + 1, next state…, next stack…) } else { (%state…, %stack…) } };
    %loop(0, initial…)

What every round yields is collected in a tensor, a *stack*. Where the number of rounds is a dim, the tensor is made
before the loop, and each round writes its part; else it grows by a part in each round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from legato.arith.expr import Var as DimVar
from legato.arith.expr import const, fresh
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.frames import Captures
from legato.infer.holes import dim_vars
from legato.infer.replace import replace_vars
from legato.ir.expr import Expr, Var
from legato.ir.let import Binding, lets
from legato.ir.types import Dim, FuncType, TensorType, TupleType, Type

__all__ = ["Loop", "Stack"]


@dataclass(frozen=True, slots=True)
class Stack:
    """Where what rounds yield is collected, along `axis`; `size`: how many parts, None if that is unknown.

    With `reverse` the first round writes the last part. `own` are dims of the parts that every round has anew, and that
    must be the same in all. Before the first one they are what is `declared` of the parts, else 0.
    """

    size: Dim | None
    axis: int = 0
    reverse: bool = False
    own: frozenset[DimVar] = frozenset()
    declared: Sequence[int] = ()

    def start(self, b: Emitter, part: TensorType) -> Expr:
        """The tensor before the first round, its parts along axis 0."""
        size = const(0) if self.size is None else self.size
        declared = self.declared if len(self.declared) == part.rank else [0] * part.rank
        shape = (const(n) if self._is_own(d) else d for d, n in zip(part.shape, declared, strict=True))
        return b.full(b.nothing(part.dtype), shape=(size, *shape), dtype=part.dtype)

    def _is_own(self, d: Dim) -> bool:
        return not self.own.isdisjoint(variables(d))

    def held(self, start: TensorType, part: TensorType, free: set[DimVar]) -> TensorType:
        """The type of the tensor in the loop; dims of it that rounds change join `free`."""
        is_free = [self.size is None, *map(self._is_own, part.shape)]
        shape = tuple(fresh("n", 0) if yes else d for yes, d in zip(is_free, start.shape, strict=True))
        free.update(d for yes, d in zip(is_free, shape, strict=True) if yes and isinstance(d, DimVar))
        return TensorType(shape, start.dtype)

    def put(self, b: Emitter, stack: Expr, part: Expr, i: Expr) -> Expr:
        """The tensor after round `i`, which yields `part`."""
        row = b.expand_dims(part, axis=0)
        if any(map(self._is_own, b.dims_of(part))):
            before = b.match_cast(stack, TensorType((b.dims_of(stack)[0], *b.dims_of(part)), b.dtype(part)))
            more = b.concatenate((row, before) if self.reverse else (before, row), axis=0)
            any_shape = [TensorType(tuple(fresh("n", 0) for _ in b.dims_of(row)), b.dtype(part)) for _ in range(2)]
            is_first = b.equal(i, b.constant(0, dt.int64))
            return b.if_(is_first, b.match_cast(row, any_shape[0]), b.match_cast(more, any_shape[1]))
        if self.size is None:
            return b.concatenate((row, stack) if self.reverse else (stack, row), axis=0)
        at = b.subtract(b.extent(self.size - 1, dt.int64), i) if self.reverse else i
        return b.scatter_nd(stack, b.reshape(at, newshape=(1, 1)), row)

    def done(self, b: Emitter, stack: Expr) -> Expr:
        """The tensor after the last round, its parts along `axis`."""
        rank = b.rank(stack)
        axis = b.axis(self.axis, rank)
        order = (*range(1, axis + 1), 0, *range(axis + 1, rank))
        return b.transpose(stack, axes=order) if axis else stack


@dataclass(slots=True)
class Loop:
    """A loop being built. `i` counts its rounds, `state` is what each round makes anew, `free` are the dims in it that
    differ from round to round, `outside` those that no round changes.

    There are at most `limit` rounds (None: any number); `go` says whether there is another (None: only the limit does).
    """

    b: Emitter
    name: str
    state: Sequence[Var]
    free: set[DimVar]
    captures: Captures
    limit: Expr | None
    i: Var
    go: Var | None = None
    outside: Collection[DimVar] = ()

    def close(
        self,
        after: Sequence[Expr],
        go: Expr | None,
        parts: Sequence[tuple[Stack, Expr]],
        initial: Sequence[Expr],
        first: Expr | None,
        bound: Sequence[Binding] = (),
    ) -> list[Expr]:
        """The loop's results: the last state, and the stacks.

        `after` is the state after a round, `go` whether another follows, `parts` what the round yields, all of it
        inside the lets `bound`; `initial` and `first` are state and `go` before the first round.
        """
        b, free = self.b, set(self.free)
        parts = [(_with_own(b, stack, part, self.outside), part) for stack, part in parts]
        starts = [stack.start(b, b.type_of(part)) for stack, part in parts]
        held = [
            b.var(f"ys{n}", stack.held(b.type_of(start), b.type_of(part), free))
            for n, (start, (stack, part)) in enumerate(zip(starts, parts, strict=True))
        ]
        nexts = [stack.put(b, var, part, self.i) for var, (stack, part) in zip(held, parts, strict=True)]
        with_go = [] if self.go is None else [self.go]
        params = [self.i, *with_go, *self.state, *held]
        ty = _type(params, [*self.state, *held], free)
        fn = Var(self.name, ty=ty)
        again = [b.add(self.i, b.constant(1, dt.int64)), *_there(go, with_go), *after, *nexts]
        body = b.if_(self._condition(), lets(bound, b.apply(fn, again)), b.tuple_([*self.state, *held]))
        made = b.closed(params, body, ty, free)
        call = b.apply(fn, [b.constant(0, dt.int64), *_there(first, with_go), *initial, *starts])
        whole = lets([*self.captures.bound, (fn, made)], call)
        results = [b.get(whole, n) for n in range(len(self.state) + len(held))]
        stacks = results[len(self.state) :]
        return [*results[: len(self.state)], *(s.done(b, r) for (s, _), r in zip(parts, stacks, strict=True))]

    def _condition(self) -> Expr:
        """Whether there is another round."""
        b = self.b
        if self.limit is None:
            return b.constant(True, dt.bool_) if self.go is None else self.go
        below = b.less(self.i, self.limit)
        return below if self.go is None else b.logical_and(below, self.go)


def _there(value: Expr | None, wanted: Sequence[Var]) -> list[Expr]:
    if not wanted:
        return []
    assert value is not None
    return [value]


def _with_own(b: Emitter, stack: Stack, part: Expr, outside: Collection[DimVar]) -> Stack:
    """The stack for a part of which rounds may change the dims that are not `outside`."""
    own = frozenset(d for d in variables(*b.dims_of(part)) if d not in outside)
    return replace(stack, size=None, own=own) if own else stack


def _type(params: Iterable[Var], results: Iterable[Var], free: set[DimVar]) -> FuncType:
    """The type of the loop's function: polymorphic in the dims `free`, of which the results have others."""
    types = tuple(_known(p.ty) for p in params)
    ret: Type = TupleType(tuple(_known(r.ty) for r in results))
    ret = replace_vars(ret, {}, {d: fresh(d.name, 0) for d in free})
    own = dict.fromkeys(v for ty in types for v in dim_vars(ty) if v in free)
    return FuncType(types, ret, tuple(own))


def _known(ty: Type | None) -> Type:
    assert ty is not None
    return ty

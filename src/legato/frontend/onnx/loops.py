"""Loops of ONNX as functions that call themselves last.

    let %loop = fn (%i: int64, %state…, %stack…) {
      if (%i < %count) { %loop(%i + 1, next state…, next stack…) } else { (%state…, %stack…) } };
    %loop(0, initial…)

What every round yields is collected in a tensor, a *stack*. Where the number of rounds is a dim, the tensor is made
before the loop, and each round writes its part; else it grows by a part in each round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from legato.arith.expr import Var as DimVar
from legato.arith.expr import const, fresh
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
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

    With `reverse` the first round writes the last part.
    """

    size: Dim | None
    axis: int = 0
    reverse: bool = False

    def start(self, b: Emitter, part: TensorType) -> Expr:
        """The tensor before the first round, its parts along axis 0."""
        size = const(0) if self.size is None else self.size
        return b.full(b.constant(0, part.dtype), shape=(size, *part.shape), dtype=part.dtype)

    def put(self, b: Emitter, stack: Expr, part: Expr, i: Expr) -> Expr:
        """The tensor after round `i`, which yields `part`."""
        row = b.expand_dims(part, axis=0)
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
    differ from round to round.

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
        changing = {d for _, value in bound if value.ty is not None for d in dim_vars(value.ty)} | free
        for _, part in parts:
            if changing & set(variables(*b.dims_of(part))):
                raise UnsupportedError(f"what each round of it yields has a shape that rounds change: {part.ty}")
        starts = [stack.start(b, b.type_of(part)) for stack, part in parts]
        held = [
            b.var(f"ys{n}", _held(b.type_of(start), stack, free))
            for n, (start, (stack, _)) in enumerate(zip(starts, parts, strict=True))
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


def _held(start: TensorType, stack: Stack, free: set[DimVar]) -> TensorType:
    """The type of a stack in the loop."""
    if stack.size is not None:
        return start
    size = fresh("n", 0)
    free.add(size)
    return TensorType((size, *start.shape[1:]), start.dtype)


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

"""Random loop programs, and what it means that a schedule preserves them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from legato.arith.expr import Const, Expr, Op, Var, binary, const, fresh, land, le, lt, select
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.interp import run
from legato.tir.stmt import Alloc, For, Func, Stmt, Store, block

REDUCERS = (Op.ADD, Op.MUL, Op.MIN, Op.MAX, Op.BITXOR)


@dataclass(frozen=True, slots=True)
class Program:
    """A function, its array arguments, and values for its scalar ones."""

    func: Func
    arrays: tuple[np.ndarray[Any, Any], ...]
    scalars: tuple[int, ...] = ()

    def outputs(self, func: Func | None = None, backwards: bool = False) -> list[np.ndarray[Any, Any]]:
        """The arrays after running `func` (default: the program's own)."""
        arrays = [a.copy() for a in self.arrays]
        assert run(func or self.func, [*arrays, *self.scalars], backwards=backwards) == 0
        return arrays


def assert_same(program: Program, func: Func, rtol: float = 0.0) -> None:
    """`func` computes what the program does, in whatever order parallel iterations run."""
    for backwards in (False, True):
        for got, want in zip(program.outputs(func, backwards), program.outputs(), strict=True):
            if rtol:
                np.testing.assert_allclose(got, want, rtol=rtol)
            else:
                np.testing.assert_array_equal(got, want)


def buffer(name: str, shape: tuple[Expr | int, ...], dtype: DType = dt.int32) -> Buffer:
    """A row-major buffer."""
    return Buffer(name, tuple(const(d) if isinstance(d, int) else d for d in shape), dtype)


def nest(loops: list[tuple[Var, Expr]], body: Stmt) -> Stmt:
    """`body` in serial loops, outermost first."""
    for var, extent in reversed(loops):
        body = For(var, extent, body)
    return body


class Builder:
    """Draws a pipeline of stages: inputs, then stages that read earlier ones, the last of them the outputs."""

    def __init__(self, draw: Any, symbolic: bool, dtype: DType) -> None:
        self.draw, self.symbolic, self.dtype = draw, symbolic, dtype
        self.scalars: list[tuple[Var, int]] = []
        self.inputs: list[Buffer] = []
        self.stages: list[tuple[Buffer, list[Stmt]]] = []

    def extent(self) -> Expr:
        if self.symbolic and self.draw(st.booleans()):
            var = fresh(f"n{len(self.scalars)}")
            self.scalars.append((var, self.draw(st.integers(0, 6))))
            return var
        return const(self.draw(st.integers(1, 6)))

    def value_of(self, e: Expr) -> int:
        return int(e.value) if isinstance(e, Const) else dict(self.scalars)[e]  # type: ignore[index]

    def index(self, loops: list[tuple[Var, Expr]], extent: Expr) -> tuple[Expr, Expr | None]:
        """A subscript for a dimension, and the guard that it needs."""
        if not loops:
            return const(0), le(const(1), extent) if not isinstance(extent, Const) else None
        var, size = self.draw(st.sampled_from(loops))
        shift = self.draw(st.sampled_from([0, 0, 0, 1, -1]))
        scale = self.draw(st.sampled_from([1, 1, 1, 2]))
        e = var * scale + shift
        if self.draw(st.booleans()) and len(loops) > 1:
            e = e + self.draw(st.sampled_from(loops))[0]
        if shift == 0 and e is var and size is extent:
            return e, None
        return e, land(le(const(0), e), lt(e, extent))

    def literal(self, lo: int, hi: int) -> Expr:
        """A small value; floats are positive, so that sums do not cancel."""
        value = self.draw(st.integers(lo, hi))
        return const(abs(value) if self.dtype.is_float else value, self.dtype)

    def load(self, loops: list[tuple[Var, Expr]]) -> Expr:
        source = self.draw(st.sampled_from([*self.inputs, *(b for b, _ in self.stages)]))
        parts = [self.index(loops, d) for d in source.shape]
        value: Expr = Load(source, tuple(i for i, _ in parts))
        for _, guard in parts:
            if guard is not None:
                value = select(guard, value, self.literal(-2, 2))
        return value

    def body(self, loops: list[tuple[Var, Expr]]) -> Expr:
        value = self.load(loops)
        for _ in range(self.draw(st.integers(0, 2))):
            op = self.draw(st.sampled_from([Op.ADD, Op.MUL, Op.MAX] + ([] if self.dtype.is_float else [Op.SUB])))
            value = binary(op, value, self.load(loops))
        return value

    def stage(self, name: str) -> None:
        shape = [self.extent() for _ in range(self.draw(st.integers(1, 3)))]
        axes = [(Var(f"{name}{d}", dt.index, 0), e) for d, e in enumerate(shape)]
        out = buffer(name, tuple(shape), self.dtype)
        kind = self.draw(st.sampled_from([self.map, self.map, self.reduction, self.reduction, self.scan, self.pair]))
        kind(out, axes)

    def map(self, out: Buffer, axes: list[tuple[Var, Expr]]) -> None:
        """Every element on its own."""
        place = tuple(v for v, _ in axes)
        self.stages.append((out, [nest(axes, Store(out, place, self.body(axes)))]))

    def previous(self, out: Buffer, axes: list[tuple[Var, Expr]]) -> Expr:
        """The element before, along one of the dimensions; a literal at the start."""
        d = self.draw(st.integers(0, len(axes) - 1))
        before = tuple(v - 1 if n == d else v for n, (v, _) in enumerate(axes))
        return select(lt(const(0), axes[d][0]), Load(out, before), self.literal(0, 2))

    def scan(self, out: Buffer, axes: list[tuple[Var, Expr]]) -> None:
        """Every element from the one before: the order matters."""
        place = tuple(v for v, _ in axes)
        value = self.body(axes) - self.previous(out, axes) if not self.dtype.is_float else self.previous(out, axes)
        self.stages.append((out, [nest(axes, Store(out, place, value))]))

    def pair(self, out: Buffer, axes: list[tuple[Var, Expr]]) -> None:
        """Two results of one nest; the second reads the first, of this iteration or the one before."""
        place = tuple(v for v, _ in axes)
        first = buffer(f"{out.name}a", out.shape, self.dtype)
        read = self.previous(first, axes) if self.draw(st.booleans()) else Load(first, place)
        value = self.body(axes)
        both = block(Store(first, place, value), Store(out, place, read + self.literal(0, 2)))
        self.stages += [(first, []), (out, [nest(axes, both)])]

    def reduction(self, out: Buffer, axes: list[tuple[Var, Expr]]) -> None:
        """A reduction with its start value in the same nest or one of its own."""
        place = tuple(v for v, _ in axes)
        red = [(Var(f"{out.name}r{d}", dt.index, 0), self.extent()) for d in range(self.draw(st.integers(1, 2)))]
        op = self.draw(st.sampled_from([r for r in REDUCERS if r is not Op.BITXOR or not self.dtype.is_float]))
        total, value = Load(out, place), self.body([*axes, *red])
        ordered = not self.dtype.is_float and self.draw(st.integers(0, 3)) == 0
        update = Store(out, place, value - total if ordered else binary(op, total, value))
        init = Store(out, place, self.literal(-1, 1))
        if self.draw(st.booleans()):
            self.stages.append((out, [nest(axes, block(init, nest(red, update)))]))
        else:
            again = [(Var(v.name, dt.index, 0), e) for v, e in axes]
            moved = tuple(v for v, _ in again)
            self.stages.append((out, [nest(again, Store(out, moved, init.value)), nest([*axes, *red], update)]))

    def program(self, stages: int) -> Program:
        for n in range(2):
            shape = tuple(self.extent() for _ in range(self.draw(st.integers(1, 2))))
            self.inputs.append(buffer(f"x{n}", shape, self.dtype))
        for n in range(stages):
            self.stage(f"s{n}")
        last = self.stages[-1][0]
        body: Stmt = block(*(s for _, stmts in self.stages for s in stmts))
        for b, _ in reversed(self.stages[:-1]):
            body = Alloc(b, body)
        func = Func("f", (*self.inputs, last, *(v for v, _ in self.scalars)), body)
        rng = np.random.default_rng(self.draw(st.integers(0, 99)))
        arrays = []
        for b in (*self.inputs, last):
            shape = tuple(self.value_of(d) for d in b.shape)
            values = rng.uniform(0.5, 1.5, shape) if self.dtype.is_float else rng.integers(-9, 10, shape)
            arrays.append(values.astype(self.dtype.numpy))
        return Program(func, tuple(arrays), tuple(n for _, n in self.scalars))


@st.composite
def programs(draw: Any, stages: int = 2, dtype: DType = dt.int32) -> Program:
    """A pipeline of up to `stages` stages, some of them reductions, with guards, shifts, strides, symbolic extents."""
    return Builder(draw, draw(st.booleans()), dtype).program(draw(st.integers(1, stages)))

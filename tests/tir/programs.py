"""Random loop programs that are well-formed and whose accesses are in bounds."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from legato.arith.expr import Expr, Op, Var, binary, const, fresh, land, lor, lt, select
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.expr import Address, Load, Tag, call, cast, nullary
from legato.tir.objects import Object, Open, Release, Retain
from legato.tir.stmt import (
    Alloc,
    Check,
    For,
    Func,
    FuncKind,
    HostOp,
    If,
    Invoke,
    Launch,
    Let,
    LoopKind,
    Stmt,
    Store,
    Switch,
    View,
    While,
    block,
)

N = fresh("n", 1, 5)
INTEGER_OPS = (Op.ADD, Op.SUB, Op.MUL, Op.MIN, Op.MAX, Op.FLOORDIV, Op.FLOORMOD, Op.BITXOR)
FLOAT_OPS = (Op.ADD, Op.SUB, Op.MUL, Op.MIN, Op.MAX, Op.DIV)


class Generator:
    """Makes one program."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.n = fresh("n", 1, 5)
        r = self.r
        layout = Layout((1, 0), ((1, 1), (0, 2)), float(r.choice([0, -3])), r.choice([(), (0, 3), (3, 2)]))
        wide = Layout((0, 1), ((0, 0), (2, 1)), r.choice([0.5, float("-inf")]))
        self.inputs = [
            Buffer("a", (self.n, const(6)), dt.int32, r.choice([None, layout])),
            Buffer("x", (const(5), const(4)), dt.float32, r.choice([None, wide])),
        ]
        self.outputs = [
            Buffer("b", (self.n, const(6)), dt.int32, r.choice([None, Layout((1, 0))])),
            Buffer("y", (const(8),), dt.float32),
        ]
        self.readable = [*self.inputs, *self.outputs]
        self.writable = list(self.outputs)
        self.indices: list[Var] = [self.n]
        self.scalars: list[Var] = []

    def index(self, depth: int = 2) -> Expr:
        """An index expression."""
        r = self.r
        if not depth or r.random() < 0.3:
            return r.choice([*self.indices, const(r.randint(-3, 9))])
        op = r.choice([Op.ADD, Op.SUB, Op.MUL, Op.MIN, Op.MAX, Op.FLOORDIV, Op.FLOORMOD])
        if op in (Op.FLOORDIV, Op.FLOORMOD):
            return binary(op, self.index(depth - 1), const(r.choice([1, 2, 3, 4, 8])))
        if r.random() < 0.1:
            return select(self.condition(), self.index(depth - 1), self.index(depth - 1))
        return binary(op, self.index(depth - 1), self.index(depth - 1))

    def condition(self) -> Expr:
        """A condition over index expressions."""
        r = self.r
        one = binary(r.choice([Op.LT, Op.LE, Op.EQ, Op.NE]), self.index(1), self.index(1))
        if r.random() < 0.3:
            return r.choice([land, lor])(one, lt(self.index(1), 3))
        return one

    def place(self, buffer: Buffer) -> tuple[Expr, ...]:
        """Subscripts within `buffer`."""
        return tuple(self.index() % d for d in buffer.shape)

    def value(self, dtype: DType, depth: int = 3) -> Expr:
        """A value of int32 or float32."""
        r = self.r
        leaves: list[Expr] = [v for v in self.scalars if v.dtype == dtype]
        if not depth or r.random() < 0.25:
            buffers = [b for b in self.readable if b.dtype == dtype]
            leaves.append(const(r.randint(-9, 9), dtype))
            if r.random() < 0.6:
                buffer = r.choice(buffers)
                return Load(buffer, self.place(buffer))
            return r.choice(leaves)
        if r.random() < 0.15:
            return select(self.condition(), self.value(dtype, depth - 1), self.value(dtype, depth - 1))
        if r.random() < 0.15:
            return self._odd(dtype, depth)
        ops = FLOAT_OPS if dtype.is_float else INTEGER_OPS
        a = self.value(dtype, depth - 1)
        return binary(r.choice(ops), a, a if r.random() < 0.1 else self.value(dtype, depth - 1))

    def _odd(self, dtype: DType, depth: int) -> Expr:
        if self.r.random() < 0.5:
            return cast(self.index(1), dtype)
        inner = self.value(dtype, depth - 1)
        return call(self.r.choice(["exp", "abs", "neg"]), inner) if dtype.is_float else call("bitnot", inner)

    def stmt(self, depth: int) -> Stmt:
        """A statement."""
        r = self.r
        kind = r.random()
        if not depth or kind < 0.25:
            buffer = r.choice(self.writable)
            return Store(buffer, self.place(buffer), self.value(buffer.dtype))
        if kind < 0.5:
            return self._loop(depth)
        if kind < 0.62:
            return If(self.condition(), self.stmt(depth - 1), self.stmt(depth - 1) if r.random() < 0.5 else None)
        if kind < 0.75:
            return self._let(depth)
        if kind < 0.85:
            return self._alloc(depth)
        if kind < 0.88:
            return self._turns(depth)
        return block(*(self.stmt(depth - 1) for _ in range(r.randint(0, 3))))

    def _loop(self, depth: int) -> Stmt:
        r = self.r
        var = fresh(r.choice("ijk"))
        kind = r.choice([LoopKind.SERIAL, LoopKind.SERIAL, LoopKind.UNROLL])
        extent: Expr = r.choice([const(r.randint(0, 4)), self.n, self.n // 2])
        self.indices.append(var)
        body = self.stmt(depth - 1)
        self.indices.remove(var)
        return For(var, extent, body, kind)

    def _let(self, depth: int) -> Stmt:
        if self.r.random() < 0.5:
            var, value = Var("m", dt.index), self.index()
            self.indices.append(var)
            body = self.stmt(depth - 1)
            self.indices.remove(var)
            return Let(var, value, body)
        dtype = self.r.choice([dt.int32, dt.float32])
        var, value = Var("v", dtype), self.value(dtype)
        self.scalars.append(var)
        body = self.stmt(depth - 1)
        self.scalars.remove(var)
        return Let(var, value, body)

    def _alloc(self, depth: int) -> Stmt:
        dtype = self.r.choice([dt.int32, dt.float32])
        buffer = Buffer("t", (self.n + 1,), dtype, scope=Scope.LOCAL)
        i = fresh("i")
        fill = For(i, self.n + 1, Store(buffer, (i,), const(7, dtype)))
        self.readable.append(buffer)
        self.writable.append(buffer)
        body = self.stmt(depth - 1)
        self.readable.remove(buffer)
        self.writable.remove(buffer)
        return Alloc(buffer, block(fill, body))

    def _turns(self, depth: int) -> Stmt:
        """A While of a few turns, which a cell counts."""
        cell = Buffer("turns", (), dt.int64, scope=self.r.choice([Scope.LOCAL, Scope.REGISTER]))
        count = Load(cell, ())
        body = block(self.stmt(depth - 1), Store(cell, (), count + const(1, dt.int64)))
        loop = While(lt(count, const(self.r.randint(0, 3), dt.int64)), body)
        return Alloc(cell, block(Store(cell, (), const(0, dt.int64)), loop))

    def kernel(self) -> Func:
        """A kernel that reads a and x, and writes b and y."""
        body = block(*(self.stmt(4) for _ in range(self.r.randint(1, 3))))
        return Func("k", (*self.inputs, *self.outputs, self.n), body)

    def host(self) -> Func:
        """A host function with every statement there is; it may not be runnable."""
        r = self.r
        weights = Buffer("w", (const(6),), dt.float32)
        view = Buffer("part", (const(2),), dt.float32)
        base = self.inputs[1]
        inner = [
            Launch((view, self.outputs[1], self.index()), "k"),
            Invoke((weights, self.n + 1), "other function"),
            HostOp((*self.outputs, self.n), r.randint(0, 9)),
            While(self.condition(), self.stmt(2)),
            Check(self.condition(), r.randint(0, 300), r.choice(["", 'a "quoted"\nmessage'])),
            self._object(),
            self.stmt(3),
        ]
        r.shuffle(inner)
        body = block(self.stmt(2), View(view, base, self.n * 8, block(*inner)), *([self.stmt(1)] * r.randint(0, 1)))
        params = (*self.inputs, *self.outputs, self.n)
        return Func(r.choice(["main", "odd name"]), params, body, FuncKind.HOST, ((weights, "w.0"),))

    def _object(self) -> Stmt:
        """Statements about objects: a new one, an open one, a case for every tag."""
        r = self.r
        held, cell = Buffer("h", (), dt.handle, scope=Scope.REGISTER), Buffer("cell", (const(3),), dt.int64)
        opened, field = Buffer("cell", (const(2), const(3)), dt.float32), Buffer("field", (), dt.handle)
        handle: Expr = Load(held, ())
        cases = tuple((n, self.stmt(1)) for n in range(r.randint(0, 3)))
        body = block(
            Store(held, (), r.choice([Address(cell), nullary(r.randint(0, 9)), const(0, dt.handle)])),
            View(field, cell, const(8), Store(field, (), handle)),
            Switch(Tag(handle), cases, r.choice([None, self.stmt(1)])),
            Open(opened, handle, self.stmt(1)),
            r.choice([Retain, Release])(handle),
            Invoke((held, Address(cell), self.index()), "f"),
        )
        return Alloc(held, Object(cell, r.randint(0, 9), r.randint(0, 3), body))


kernels = st.integers(0, 1 << 30).map(lambda seed: Generator(seed).kernel())
functions = st.one_of(kernels, st.integers(0, 1 << 30).map(lambda seed: Generator(seed).host()))

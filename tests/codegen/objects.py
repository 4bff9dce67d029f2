"""Random host functions that make, share, take apart and release objects, each reference counted right."""

from __future__ import annotations

import random

from legato.arith.expr import Expr, Var, const, eq, lt, select
from legato.base import dtype as dt
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Address, Load, Tag, cast, nullary
from legato.tir.objects import Object, Open, Release, Retain
from legato.tir.stmt import Alloc, Check, For, Func, FuncKind, If, Invoke, Let, Stmt, Store, Switch, View, While, block

HANDLES, NUMBERS = 4, 2
CELL = 10  # the tag of a cell with n pointers is CELL + n; what has no object behind it has a tag below
MOST = 3  # pointers
ONE = const(1, dt.int64)
LONG = 100  # elements of a tensor


def register(name: str, dtype: dt.DType) -> Buffer:
    """A scalar of a host function."""
    return Buffer(name, (), dtype, scope=Scope.REGISTER)


def held(b: Buffer) -> Expr:
    """What a scalar holds."""
    return Load(b, ())


class Generator:
    """Makes one function `f(out: int64[3], n)`. Each of its handles always owns a reference."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.n = Var("n", dt.index, 0, 20)
        self.out = Buffer("out", (const(3),), dt.int64)
        self.handles = [register(f"h{i}", dt.handle) for i in range(HANDLES)]
        self.numbers = [register(f"i{i}", dt.int64) for i in range(NUMBERS)]
        self.weight = register("w", dt.float32)

    def number(self) -> Expr:
        """An int64."""
        r, base = self.r, held(self.r.choice(self.numbers))
        return r.choice([base, base * const(r.randint(-5, 5), dt.int64) + ONE, const(r.randint(-99, 99), dt.int64),
                         cast(self.n, dt.int64), cast(Tag(held(r.choice(self.handles))), dt.int64)])  # fmt: skip

    def condition(self) -> Expr:
        """A condition on a number or a tag."""
        handle = held(self.r.choice(self.handles))
        is_cell = lt(const(CELL - 1, dt.int32), Tag(handle))
        guarded = lt(select(eq(handle, nullary(1)), ONE, cast(Tag(handle), dt.int64)), self.number())
        return self.r.choice([is_cell, guarded, eq(self.number() % const(2, dt.int64), ONE)])

    def assign(self, target: Buffer, value: Expr) -> Stmt:
        """target = value, a reference more; what the target owned is released."""
        new = Var("new", dt.handle)
        return Let(new, value, block(Retain(new), Release(held(target)), Store(target, (), new)))

    def cell(self) -> Stmt:
        """A new cell, whose pointers are shared with other handles."""
        r, target, pointers = self.r, self.r.choice(self.handles), self.r.randint(0, MOST)
        payload = Buffer("cell", (const(pointers + 1),), dt.int64)
        steps: list[Stmt] = [Store(payload, (const(pointers),), self.number())]
        for i in range(pointers):
            field, value = Buffer("field", (), dt.handle), held(r.choice(self.handles))
            steps += [Retain(value), View(field, payload, const(8 * i), Store(field, (), value))]
        steps += [Release(held(target)), Store(target, (), Address(payload))]
        return Object(payload, CELL + pointers, pointers, block(*steps))

    def tensor(self) -> Stmt:
        """A new tensor, of which something is added to the weight, and which ends or replaces a handle."""
        payload, i = Buffer("tensor", (self.n + LONG,), dt.float32), Var("i", dt.index, 0)
        fill = For(i, self.n + LONG, Store(payload, (i,), cast(i, dt.float32)))
        read = Store(self.weight, (), held(self.weight) + Load(payload, (self.n + 3,)))
        target = self.r.choice(self.handles)
        replace = block(Release(held(target)), Store(target, (), Address(payload)))
        end = Release(Address(payload))
        return Object(payload, 1, 0, block(fill, read, self.r.choice([replace, end])))

    def take(self) -> Stmt:
        """Takes a handle apart: what is done depends on its tag."""
        subject = self.r.choice(self.handles)
        cases = [(CELL + p, self._opened(subject, p)) for p in range(MOST + 1) if self.r.random() < 0.8]
        return Switch(Tag(held(subject)), tuple(cases), self.r.choice([None, self.stmt(0)]))

    def _opened(self, subject: Buffer, pointers: int) -> Stmt:
        r, payload = self.r, Buffer("open", (const(pointers + 1),), dt.int64)
        place = (const(pointers),)
        number = r.choice(self.numbers)
        steps: list[Stmt] = [Store(number, (), held(number) + Load(payload, place))]
        if r.random() < 0.3:
            steps.append(Store(payload, place, self.number()))
        if pointers:
            field = Buffer("field", (), dt.handle)
            at = const(8 * r.randrange(pointers))
            steps.append(View(field, payload, at, self.assign(r.choice(self.handles), Load(field, ()))))
        return Open(payload, held(subject), block(*steps))

    def loop(self, depth: int) -> Stmt:
        """A While that counts in a register, or a For."""
        if self.r.random() < 0.4:
            return For(Var("j", dt.index, 0), self.r.choice([self.n, const(3)]), self.stmt(depth - 1))
        counter = register("c", dt.int32)
        step = Store(counter, (), held(counter) + const(1, dt.int32))
        limit = const(self.r.choice([0, 1, 4, 30]), dt.int32)
        body = While(lt(held(counter), limit), block(self.stmt(depth - 1), step))
        return Alloc(counter, block(Store(counter, (), const(0, dt.int32)), body))

    def stmt(self, depth: int) -> Stmt:
        """A statement."""
        r, kind = self.r, self.r.random()
        if depth and kind < 0.45:
            more = [
                self.loop,
                lambda d: If(self.condition(), self.stmt(d - 1), self.stmt(d - 1) if r.random() < 0.6 else None),
                lambda d: block(*(self.stmt(d - 1) for _ in range(r.randint(2, 5)))),
            ]
            return r.choice(more)(depth)
        if kind > 0.98:
            return Check(lt(self.number(), const(500, dt.int64)), 3)
        target = r.choice(self.handles)
        return r.choice([
            self.cell, self.cell, self.cell, self.take if depth else self.cell, self.tensor, self.deeper,
            lambda: self.assign(target, nullary(r.randint(0, 4))),
            lambda: self.assign(target, held(r.choice(self.handles))),
            self._count, self._count,
        ])()  # fmt: skip

    def _count(self) -> Stmt:
        target = self.r.choice(self.numbers)
        return Store(target, (), held(target) * const(3, dt.int64) + self.number())

    def deeper(self) -> Stmt:
        """A call of `chain`, which is recursive: it puts cells around a handle."""
        target, result = self.r.choice(self.handles), register("result", dt.handle)
        call = Invoke((held(target), self.r.choice([const(3), self.n]), result), "chain")
        return Alloc(result, block(call, Release(held(target)), Store(target, (), held(result))))

    def func(self) -> Func:
        """The function."""
        start = [Store(h, (), nullary(i)) for i, h in enumerate(self.handles)]
        start += [Store(b, (), const(7 * i + 1, dt.int64)) for i, b in enumerate(self.numbers)]
        start.append(Store(self.weight, (), const(0, dt.float32)))
        ends = [Release(held(h)) for h in self.handles]
        results = [Store(self.out, (const(i),), held(b)) for i, b in enumerate(self.numbers)]
        results.append(Store(self.out, (const(2),), cast(held(self.weight), dt.int64)))
        body = block(*start, *(self.stmt(4) for _ in range(self.r.randint(4, 12))), *results, *ends)
        for b in (*self.handles, *self.numbers, self.weight):
            body = Alloc(b, body)
        return Func("f", (self.out, self.n), body, FuncKind.HOST)


def chain() -> Func:
    """`chain(inner, n, result)`: n cells around `inner`, which is borrowed."""
    inner, n, result = Var("inner", dt.handle), Var("n", dt.index, 0), Buffer("result", (), dt.handle)
    rest, cell, field = (
        register("rest", dt.handle),
        Buffer("cell", (const(2),), dt.int64),
        Buffer("field", (), dt.handle),
    )
    link = block(
        View(field, cell, const(0), Store(field, (), held(rest))),
        Store(cell, (const(1),), cast(n, dt.int64)),
        Store(result, (), Address(cell)),
    )
    some = Alloc(rest, block(Invoke((inner, n - 1, rest), "chain"), Object(cell, CELL + 1, 1, link)))
    done = block(Retain(inner), Store(result, (), inner))
    return Func("chain", (inner, n, result), If(lt(const(0), n), some, done), FuncKind.HOST)

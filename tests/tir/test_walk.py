"""Walkers of loop programs."""

from __future__ import annotations

from legato.arith.expr import const, fresh
from legato.base import dtype as dt
from legato.tir import walk
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, For, Launch, Let, Store, View, block


def _copy_loop(a: Buffer, b: Buffer) -> For:
    i = fresh("i")
    return For(i, a.shape[0], Store(b, (i,), Load(a, (i,))))


def test_buffers_read_and_written_are_in_order() -> None:
    a, b, c = (Buffer(x, (const(8),), dt.float32) for x in "abc")
    stmt = block(_copy_loop(a, b), _copy_loop(b, c))
    assert walk.buffers_read(stmt) == (a, b)
    assert walk.buffers_written(stmt) == (b, c)


def test_a_call_reads_and_writes_its_buffers() -> None:
    a = Buffer("a", (const(8),), dt.float32)
    assert walk.buffers_read(Launch((a,), "k")) == walk.buffers_written(Launch((a,), "k")) == (a,)


def test_substitute_reaches_loads_extents_and_shapes_of_local_buffers() -> None:
    n = fresh("n")
    a, t = Buffer("a", (n,), dt.float32), Buffer("t", (n + 1,), dt.float32, scope=Scope.LOCAL)
    i = fresh("i")
    stmt = Alloc(t, For(i, n, Store(t, (i + n,), Load(a, (i + n,)))))
    new = walk.substitute(stmt, {n: const(4)})
    assert isinstance(new, Alloc)
    assert new.buffer.shape == (const(5),)
    assert isinstance(new.body, For)
    assert new.body.extent is const(4)
    store = new.body.body
    assert isinstance(store, Store)
    assert store.buffer is new.buffer
    assert store.value is Load(a, (i + 4,))
    assert walk.substitute(stmt, {fresh("m"): const(1)}) is stmt


def test_replace_buffer_everywhere() -> None:
    a, b, new = (Buffer(x, (const(8),), dt.float32) for x in ("a", "b", "new"))
    view = Buffer("v", (const(2),), dt.float32)
    stmt = block(_copy_loop(a, b), View(view, a, const(0), Launch((view, a), "k")))
    out = walk.replace_buffer(stmt, {a: new})
    assert walk.buffers_read(out) == (view, new)
    assert walk.buffers_used(out) == (view, new, b)
    assert walk.replace_buffer(stmt, {new: a}) is stmt


def test_deep_nests_do_not_recurse() -> None:
    a = Buffer("a", (const(8),), dt.float32)
    v = fresh("v")
    stmt: Let | Store = Store(a, (v,), Load(a, (v,)))
    for _ in range(20_000):
        stmt = Let(fresh("v"), v, stmt)
    out = walk.substitute(stmt, {v: const(3)})
    assert walk.vars_used(out) == ()

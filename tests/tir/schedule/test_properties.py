"""Every primitive, alone and in random sequences, preserves the meaning of a program, or refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato.arith.expr import Var
from legato.base import dtype as dt
from legato.base.errors import ScheduleError
from legato.tir import schedule as s
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.simplify import simplify
from legato.tir.stmt import Block, For, Func, LoopKind, Stmt
from legato.tir.verify import verify
from legato.tir.walk import bound_buffers, buffers_written, loads, loops, transform
from tests.tir.schedule.programs import Program, assert_same, programs

Draw = Callable[[Any], Any]
Primitive = Callable[[Func, Draw], Func]


def _loop(func: Func, draw: Draw) -> Any:
    return draw(st.sampled_from(list(loops(func)))).var


def _split(func: Func, draw: Draw) -> Func:
    return s.split(func, _loop(func, draw), draw(st.integers(1, 4)))[0]


def _split_peeled(func: Func, draw: Draw) -> Func:
    return s.split_peeled(func, _loop(func, draw), draw(st.integers(1, 4)))[0]


def _split_balanced(func: Func, draw: Draw) -> Func:
    return s.split_balanced(func, _loop(func, draw), draw(st.integers(1, 4)))[0]


def _reorder(func: Func, draw: Draw) -> Func:
    chain = [draw(st.sampled_from(list(loops(func))))]
    while draw(st.integers(0, 3)):
        inner = list(loops(chain[-1].body))
        if not inner:
            break
        chain.append(inner[0])
    return s.reorder(func, draw(st.permutations([f.var for f in chain])), reassociate=draw(st.booleans()))


def _fuse(func: Func, draw: Draw) -> Func:
    outer = draw(st.sampled_from(list(loops(func))))
    inner = next(loops(outer.body), outer)
    return s.fuse(func, outer.var, inner.var)[0]


def _unroll(func: Func, draw: Draw) -> Func:
    return s.unroll(func, _loop(func, draw))


def _vectorize(func: Func, draw: Draw) -> Func:
    return s.vectorize(func, _loop(func, draw))


def _parallel(func: Func, draw: Draw) -> Func:
    return s.parallel(func, _loop(func, draw))


def _fission(func: Func, draw: Draw) -> Func:
    blocks = [f for f in loops(func) if isinstance(f.body, Block)]
    if not blocks:
        raise ScheduleError("none")
    inner = draw(st.sampled_from(blocks))
    assert isinstance(inner.body, Block)
    outer = draw(st.sampled_from([f for f in loops(func) if inner in list(loops(f))]))
    at = draw(st.integers(1, max(1, len(inner.body.stmts) - 1)))
    return s.fission(func, [outer.var, inner.var] if inner is not outer else inner.var, at)[0]


def _buffer(func: Func, draw: Draw) -> Buffer:
    """A buffer of the function, an allocated one rather than a parameter."""
    inside = list(bound_buffers(func))
    return draw(st.sampled_from(inside + [p for p in func.params if isinstance(p, Buffer)]))


def _inner_buffer(func: Func, draw: Draw) -> Buffer:
    inside = list(bound_buffers(func))
    if not inside:
        raise ScheduleError("none")
    return draw(st.sampled_from(inside))


def _readers(func: Func, buffer: Buffer) -> list[Var]:
    """Loops that read `buffer` and do not store to it."""
    found = [f for f in loops(func) if any(x.buffer is buffer for x in loads(f))]
    readers = [f.var for f in found if buffer not in buffers_written(f)]
    if not readers:
        raise ScheduleError("none")
    return readers


def _compute_at(func: Func, draw: Draw) -> Func:
    buffer = _inner_buffer(func, draw)
    return s.compute_at(func, buffer, draw(st.sampled_from(_readers(func, buffer))))[0]


def _compute_at_each(func: Func, draw: Draw) -> Func:
    buffer = _inner_buffer(func, draw)
    several = st.lists(st.sampled_from(_readers(func, buffer)), min_size=1, max_size=2, unique=True)
    return s.compute_at_each(func, buffer, draw(several))[0]


def _inline(func: Func, draw: Draw) -> Func:
    return s.inline(func, _inner_buffer(func, draw))


def _set_scope(func: Func, draw: Draw) -> Func:
    return s.set_scope(func, _inner_buffer(func, draw), draw(st.sampled_from([Scope.LOCAL, Scope.REGISTER])))[0]


def _set_layout(func: Func, draw: Draw) -> Func:
    buffer = _buffer(func, draw)
    order = draw(st.permutations(range(buffer.rank)))
    pad = tuple(draw(st.integers(0, 2)) for _ in order)
    return s.set_layout(func, buffer, Layout(tuple(order), pad=pad))[0]


def _cache_read(func: Func, draw: Draw) -> Func:
    buffer = _buffer(func, draw)
    return s.cache_read(func, buffer, draw(st.sampled_from(_readers(func, buffer))))[0]


def _cache_write(func: Func, draw: Draw) -> Func:
    where = draw(st.booleans()) and _loop(func, draw)
    return s.cache_write(func, _buffer(func, draw), where or None)[0]


def _lift_alloc(func: Func, draw: Draw) -> Func:
    return s.lift_alloc(func, _inner_buffer(func, draw), _loop(func, draw))


def _sink_alloc(func: Func, draw: Draw) -> Func:
    return s.sink_alloc(func, _inner_buffer(func, draw), _loop(func, draw))


def _rfactor(func: Func, draw: Draw) -> Func:
    return s.rfactor(func, _loop(func, draw))[0]


def _partition(func: Func, draw: Draw) -> Func:
    return s.partition(func, _loop(func, draw), draw(st.integers(-1, 7)))[0]


def _overlap_tail(func: Func, draw: Draw) -> Func:
    return s.overlap_tail(func, _loop(func, draw), draw(st.integers(1, 4)))[0]


def _simplify(func: Func, draw: Draw) -> Func:
    simple = simplify(func)
    if not list(loops(simple)):
        raise ScheduleError("nothing is left to schedule")
    return simple


PRIMITIVES: list[Primitive] = [
    _split, _split_peeled, _split_balanced, _reorder, _fuse, _unroll, _vectorize, _parallel, _fission, _compute_at,
    _compute_at_each, _inline, _set_scope, _set_layout, _cache_read, _cache_write, _lift_alloc, _sink_alloc, _rfactor,
    _partition, _overlap_tail, _simplify,
]  # fmt: skip
RELAXED = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def _schedule(program: Program, data: st.DataObject) -> Func | None:
    """The program after a few random primitives; None if all of them refused."""
    func, applied = program.func, False
    for _ in range(data.draw(st.integers(1, 7))):
        primitive = data.draw(st.sampled_from(PRIMITIVES))
        try:
            func, applied = primitive(func, data.draw), True
        except ScheduleError:
            continue
    return func if applied else None


@RELAXED
@given(programs(), st.data())
def test_integer_programs_keep_every_bit(program: Program, data: st.DataObject) -> None:
    func = _schedule(program, data)
    if func is not None:
        verify(_without_threads(func))
        assert_same(program, func)


@RELAXED
@given(programs(dtype=dt.float32), st.data())
def test_float_programs_stay_within_a_bound(program: Program, data: st.DataObject) -> None:
    func = _schedule(program, data)
    if func is not None:
        assert_same(program, func, rtol=1e-5)


@settings(RELAXED, max_examples=20)
@given(data=st.data())
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda p: p.__name__.strip("_"))
def test_each_primitive_alone(primitive: Primitive, data: st.DataObject) -> None:
    program = data.draw(programs())
    try:
        func = primitive(program.func, data.draw)
    except ScheduleError:
        return
    verify(_without_threads(func))
    assert_same(program, func)


def _without_threads(func: Func) -> Func:
    """`func` with serial loops for parallel ones: what may be parallel together is known only when a schedule ends."""

    def step(stmt: Stmt) -> Stmt | None:
        parallel = isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL
        return replace(stmt, kind=LoopKind.SERIAL) if parallel else None

    return func.with_body(transform(func.body, step))

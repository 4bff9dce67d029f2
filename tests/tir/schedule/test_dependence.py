"""Nests whose iterations depend on each other in random ways: whoever changes their order must see it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Expr, Op, Var, binary, const
from legato.base import dtype as dt
from legato.base.errors import ScheduleError
from legato.tir import schedule as s
from legato.tir.buffer import Buffer
from legato.tir.expr import Load, cast
from legato.tir.stmt import Block, Func, Stmt, Store, block
from legato.tir.walk import loops
from tests.tir.schedule.programs import Program, assert_same, buffer, nest

SIZE = 48  # of each dimension: no subscript that is drawn here leaves it
ORIGIN = 10


@st.composite
def nests(draw: Any) -> Program:
    """Two or three loops around one to three stores to one or two buffers, at random affine subscripts."""
    vars = [Var(name, dt.index, 0) for name in "ijk"[: draw(st.integers(2, 3))]]
    axes = [(v, const(draw(st.integers(2, 4)))) for v in vars]
    buffers = [buffer(name, (SIZE,) * draw(st.integers(1, 2))) for name in "ab"[: draw(st.integers(1, 2))]]

    def place(b: Buffer) -> tuple[Expr, ...]:
        return tuple(subscript() for _ in range(b.rank))

    def subscript() -> Expr:
        e: Expr = const(ORIGIN + draw(st.integers(-1, 1)))
        for v in vars:
            e = e + v * draw(st.sampled_from([0, 0, 1, 1, 1, -1, 2, 4]))
        return draw(st.sampled_from([e, e, e, e // 2, e % 4]))

    def store() -> Stmt:
        target, source = draw(st.sampled_from(buffers)), draw(st.sampled_from(buffers))
        where = place(target)
        same = draw(st.booleans())
        value: Expr = Load(target, where) if same else Load(source, place(source))
        other = cast(draw(st.sampled_from(vars)), dt.int32) * 7 + draw(st.integers(0, 5))
        op = draw(st.sampled_from([Op.ADD, Op.SUB, Op.MUL]))
        return Store(target, where, binary(op, value, other) if draw(st.booleans()) else binary(op, other, value))

    body = block(*(store() for _ in range(draw(st.integers(1, 3)))))
    rng = np.random.default_rng(0)
    arrays = tuple(rng.integers(-9, 10, [SIZE] * b.rank).astype(np.int32) for b in buffers)
    return Program(Func("f", tuple(buffers), nest(axes, body)), arrays)


def _vectorize(func: Func, draw: Any) -> Func:
    return s.vectorize(func, draw(st.sampled_from(list(loops(func)))).var)


def _parallel(func: Func, draw: Any) -> Func:
    return s.parallel(func, draw(st.sampled_from(list(loops(func)))).var)


def _reorder(func: Func, draw: Any) -> Func:
    return s.reorder(func, draw(st.permutations([f.var for f in loops(func)])))


def _fission(func: Func, draw: Any) -> Func:
    *_, last = loops(func)
    count = len(last.body.stmts) if isinstance(last.body, Block) else 1
    outer = draw(st.sampled_from(list(loops(func))))
    chain = [outer.var, last.var] if outer is not last else [last.var]
    return s.fission(func, chain, draw(st.integers(1, max(1, count - 1))))[0]


def _fuse(func: Func, draw: Any) -> Func:
    first, second = list(loops(func))[:2]
    func, var = s.fuse(func, first.var, second.var)
    return s.parallel(func, var)


def _tile(func: Func, draw: Any) -> Func:
    first, second = list(loops(func))[:2]
    func, outer, inner = s.split(func, second.var, draw(st.integers(1, 3)))
    return s.reorder(func, [outer, first.var, inner])


def _overlap_tail(func: Func, draw: Any) -> Func:
    return s.overlap_tail(func, draw(st.sampled_from(list(loops(func)))).var, 2)[0]


def _cache_write(func: Func, draw: Any) -> Func:
    target = draw(st.sampled_from([p for p in func.params if isinstance(p, Buffer)]))
    return s.cache_write(func, target, draw(st.sampled_from(list(loops(func)))).var)[0]


def _cache_read(func: Func, draw: Any) -> Func:
    source = draw(st.sampled_from([p for p in func.params if isinstance(p, Buffer)]))
    return s.cache_read(func, source, draw(st.sampled_from(list(loops(func)))).var)[0]


@given(program=nests(), data=st.data())
@pytest.mark.parametrize(
    "primitive",
    [_vectorize, _parallel, _reorder, _fission, _fuse, _tile, _overlap_tail, _cache_write, _cache_read],
    ids=lambda p: p.__name__.strip("_"),
)
def test_dependences_are_kept(primitive: Any, program: Program, data: st.DataObject) -> None:
    try:
        func = primitive(program.func, data.draw)
    except ScheduleError:
        return
    assert_same(program, func)

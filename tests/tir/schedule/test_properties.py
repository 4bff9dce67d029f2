"""Every primitive, alone and in random sequences, preserves the meaning of a program, or refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato.base.errors import ScheduleError
from legato.tir import schedule as s
from legato.tir.stmt import Block, Func
from legato.tir.walk import loops
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
    return s.reorder(func, draw(st.permutations([f.var for f in chain])))


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
    loop = draw(st.sampled_from(list(loops(func))))
    inner = draw(st.sampled_from([loop, *loops(loop.body)]))
    count = len(inner.body.stmts) if isinstance(inner.body, Block) else 1
    return s.fission(
        func, [loop.var, inner.var] if inner is not loop else loop.var, draw(st.integers(1, max(1, count - 1)))
    )[0]


PRIMITIVES: list[Primitive] = [_split, _split_peeled, _split_balanced, _reorder, _fuse, _unroll, _vectorize, _parallel,
                               _fission]  # fmt: skip
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@RELAXED
@given(programs(), st.data())
def test_sequences_preserve_meaning(program: Program, data: st.DataObject) -> None:
    func = program.func
    applied = 0
    for _ in range(data.draw(st.integers(1, 7))):
        primitive = data.draw(st.sampled_from(PRIMITIVES))
        try:
            func = primitive(func, data.draw)
            applied += 1
        except ScheduleError:
            continue
    if applied:
        assert_same(program, func)

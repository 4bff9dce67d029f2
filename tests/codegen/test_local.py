"""Local buffers at variable offsets: masked and unmasked accesses of one place, aligned and not, of every kind of
address. Compiled = interpreted, bit for bit, for every target that this machine runs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Expr, Var, const, land, le, lt, select
from legato.arith.substitute import nodes
from legato.base import dtype as dt
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import cast
from legato.tir.stmt import Alloc, Func, If, Stmt, block
from legato.tir.walk import substitute
from tests.codegen.programs import at, buffer, index, loop, put
from tests.codegen.running import check
from tests.programs.settings import examples

ROWS, SIZE, STEPS = 3, 40, 3
DTYPES = (dt.float32, dt.float64, dt.int8, dt.int32, dt.float16, dt.bfloat16)


@st.composite
def offsets(draw: st.DrawFn, lane: Var, lanes: int, bases: tuple[tuple[Expr, int], ...]) -> tuple[Expr, bool]:
    """A place in a local buffer, another one in each lane or the same in all, affine in the lane and in variables below
    small limits; whether all lanes are inside."""
    stride = draw(st.sampled_from([0, 1, 1, 1, 2, 3, 4, -1, -2]))
    base, limit = draw(st.sampled_from([*bases, (const(0), 1)]))
    scale = draw(st.sampled_from([1, 2, 4, 5, 8]))
    ends = [scale * b + stride * n for b in (0, limit - 1) for n in (0, lanes - 1)]
    room = SIZE - 1 - max(ends) + min(ends)
    start = draw(st.integers(-2, 6)) if room < 0 else draw(st.integers(0, room)) - min(ends)
    return base * scale + lane * stride + start, room >= 0


@st.composite
def kernels(draw: st.DrawFn) -> Func:
    dtype, lanes = draw(st.sampled_from(DTYPES)), draw(st.sampled_from([3, 4, 5, 8, 16]))
    n, row, step, lane, i, chunk = Var("n", dt.index, 0), *(index(name) for name in "rklic")
    source, out = buffer("x", (ROWS, SIZE), dtype), buffer("y", (ROWS, 8, 16), dtype)
    t = buffer("t", (SIZE,), dtype, scope=Scope.LOCAL)
    bases = ((step, STEPS), (n, 4), (row, ROWS))
    places = [draw(offsets(lane, lanes, bases)) for _ in range(2)]
    mask = lt(lane, draw(st.integers(0, lanes)))
    body: list[Stmt] = []
    for slot in range(draw(st.integers(1, 5))):
        place, is_inside = draw(st.sampled_from([places[0], *places]))
        inside = land(le(const(0), place), lt(place, SIZE))
        kinds = ["load", "masked", "chosen", *(["store", "masked store"] if lane in nodes(place) else [])]
        guard = land(mask, const(True, dt.bool_) if is_inside else inside)
        unguarded = const(True, dt.bool_) if is_inside else inside
        one = _statement(draw(st.sampled_from(kinds)), (t, place), (out, slot), source, (row, lane), (unguarded, guard))
        fresh_lane = index("l")
        one = substitute(one, {lane: fresh_lane})
        body.append(loop(fresh_lane, lanes, one, draw(st.sampled_from(["vector", "vector", "serial"]))))
    fill: Stmt = loop(i, SIZE, put(t, (i,), at(source, row, i)))
    if draw(st.booleans()):
        wide = put(t, (chunk * 8 + i,), at(source, row, chunk * 8 + i))
        fill = loop(chunk, SIZE // 8, loop(i, 8, wide, "vector"))
    return Func(
        "f", (n, source, out), loop(row, ROWS, Alloc(t, block(fill, loop(step, STEPS, block(*body)))), "parallel")
    )


def _statement(
    kind: str,
    place: tuple[Buffer, Expr],
    target: tuple[Buffer, int],
    source: Buffer,
    at_: tuple[Var, Var],
    conditions: tuple[Expr, Expr],
) -> Stmt:
    """A load from a place or a store to it, where all lanes do it that may, or some."""
    (t, offset), (out, slot), (row, lane), (inside, guard) = place, target, at_, conditions
    old, given, one = at(out, row, slot, lane), at(source, row, lane), cast(const(1, dt.int32), t.dtype)
    match kind:
        case "load":
            return put(out, (row, slot, lane), old + select(inside, at(t, offset), one))
        case "masked":
            return If(guard, put(out, (row, slot, lane), old + at(t, offset)))
        case "chosen":
            return put(out, (row, slot, lane), old + select(guard, at(t, offset), one))
        case "store":
            return If(inside, put(t, (offset,), given + one))
        case _:
            return If(guard, put(t, (offset,), given))


@examples(60, fuzz=False)
@given(kernels(), st.integers(0, 3), st.integers(0, 1000))
def test_compiled_is_interpreted(func: Func, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [
        rng.integers(-9, 9, [int(d.value) for d in p.shape]).astype(p.dtype.numpy)  # type: ignore[attr-defined]
        for p in func.params
        if isinstance(p, Buffer)
    ]
    check(func, [n, *arrays], threads=2)

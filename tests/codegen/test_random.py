"""Random small kernels: compiled = interpreted, bit for bit, for every target that this machine runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Expr, Op, Var, binary, const, floordiv, floormod, lnot, select
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import InternalError
from legato.runtime.violation import AccessInfo, violation
from legato.tir import interp
from legato.tir.bounds import WORDS, AccessTests, checked
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import call, cast
from legato.tir.stmt import Alloc, Func, If, Let, Stmt, block
from tests.codegen import running
from tests.codegen.programs import at, buffer, index, loop, put
from tests.codegen.running import RUNNABLE, check, copies
from tests.programs.settings import examples

H, W = 3, 16
TYPES = (dt.int8, dt.int32, dt.uint8, dt.int64, dt.float32, dt.float64)
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Scopes:
    """What an expression may mention: index variables in scope, buffers of each dtype, scalars."""

    vars: tuple[Var, ...]
    buffers: tuple[Buffer, ...]
    lets: tuple[Var, ...] = ()
    wild: bool = False  # places may be out of bounds

    def having(self, *variables: Var) -> Scopes:
        return replace(self, vars=(*self.vars, *variables))


def index_expr(draw: Draw, s: Scopes, depth: int) -> Expr:
    """An index expression of any value, small in size."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from([*s.vars, const(draw(st.integers(-3, 20)))]))
    a = index_expr(draw, s, depth - 1)
    match draw(st.integers(0, 7)):
        case 0:
            return a + index_expr(draw, s, depth - 1)
        case 1:
            return a - index_expr(draw, s, depth - 1)
        case 2:
            return a * const(draw(st.integers(-3, 5)))
        case 3:
            return floordiv(a, const(draw(st.sampled_from([1, 2, 3, 4, 7, -2]))))
        case 4:
            return floormod(a, const(draw(st.sampled_from([1, 2, 3, 4, 7, -2]))))
        case 5:
            op = draw(st.sampled_from([Op.MIN, Op.MAX]))
            return binary(op, a, index_expr(draw, s, depth - 1))
        case 6:
            return select(condition(draw, s, depth - 1), a, index_expr(draw, s, depth - 1))
        case _:
            ints = [b for b in s.buffers if b.dtype is dt.int32 and b.scope is Scope.GLOBAL]
            return cast(load(draw, s, draw(st.sampled_from(ints)), depth - 1), dt.index)


def place(draw: Draw, s: Scopes, target: Buffer, depth: int) -> tuple[Expr, ...]:
    """Indices that are in bounds whatever the variables are, or hardly ever out of them."""
    if s.wild and draw(st.integers(0, 9)) == 0:
        return tuple([index_expr(draw, s, depth) for _ in target.shape])
    return tuple([floormod(index_expr(draw, s, depth), d) for d in target.shape])


def load(draw: Draw, s: Scopes, source: Buffer, depth: int) -> Expr:
    return at(source, *place(draw, s, source, depth))


def condition(draw: Draw, s: Scopes, depth: int) -> Expr:
    op = draw(st.sampled_from([Op.LT, Op.LE, Op.EQ, Op.NE]))
    cond: Expr
    if draw(st.booleans()):
        cond = binary(op, index_expr(draw, s, depth), index_expr(draw, s, depth))
    else:
        dtype = draw(st.sampled_from(TYPES))
        cond = binary(op, scalar(draw, s, dtype, depth), scalar(draw, s, dtype, depth))
    if depth and draw(st.integers(0, 3)) == 0:
        cond = binary(draw(st.sampled_from([Op.AND, Op.OR])), cond, condition(draw, s, depth - 1))
    return lnot(cond) if draw(st.integers(0, 4)) == 0 else cond


INT_OPS = [Op.ADD, Op.SUB, Op.MUL, Op.FLOORDIV, Op.FLOORMOD, Op.MIN, Op.MAX, Op.BITAND, Op.BITXOR, Op.SHL, Op.SHR]
FLOAT_OPS = [Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MIN, Op.MAX]


def scalar(draw: Draw, s: Scopes, dtype: DType, depth: int) -> Expr:
    """An expression of `dtype`."""
    choice = draw(st.integers(0, 8)) if depth else draw(st.integers(0, 2))
    own = [b for b in s.buffers if b.dtype is dtype]
    if choice == 0 or (choice in (1, 8) and not own):
        value = draw(st.integers(0 if dtype.kind == "uint" else -9, 9))
        return const(value / 2 if dtype.is_float else value, dtype)
    if choice == 1:
        return load(draw, s, draw(st.sampled_from(own)), max(0, depth - 1))
    if choice == 2:
        lets = [v for v in s.lets if v.dtype is dtype]
        return draw(st.sampled_from(lets)) if lets else cast(index_expr(draw, s, depth), dtype)
    if choice <= 5:
        op = draw(st.sampled_from(FLOAT_OPS if dtype.is_float else INT_OPS))
        return binary(op, scalar(draw, s, dtype, depth - 1), scalar(draw, s, dtype, depth - 1))
    if choice == 6:
        return cast(scalar(draw, s, draw(st.sampled_from(TYPES)), depth - 1), dtype)
    if choice == 7:
        return call(draw(st.sampled_from(["neg", "abs"])), scalar(draw, s, dtype, depth - 1))
    # A guard: the load is out of bounds unless its condition holds.
    source = draw(st.sampled_from(own))
    if source.scope is Scope.REGISTER:
        return load(draw, s, source, 0)
    where = index_expr(draw, s, 1)
    inside = binary(Op.AND, binary(Op.LE, const(0), where), binary(Op.LT, where, source.shape[-1]))
    guarded = at(source, *([0] * (source.rank - 1)), where)
    return select(inside, guarded, scalar(draw, s, dtype, depth - 1))


def statement(draw: Draw, s: Scopes, outs: tuple[Buffer, ...], row: Expr, column: Expr, depth: int) -> Stmt:
    """A statement that writes only elements (row, column) of `outs`, which no expression reads."""
    choice = draw(st.integers(0, 5)) if depth else 0
    if choice <= 1:
        out = draw(st.sampled_from(outs))
        return put(out, (row, column), scalar(draw, s, out.dtype, 2))
    if choice == 2:
        other = statement(draw, s, outs, row, column, depth - 1) if draw(st.booleans()) else None
        return If(condition(draw, s, 1), statement(draw, s, outs, row, column, depth - 1), other)
    if choice == 3:
        var = Var("v", draw(st.sampled_from(TYPES)))
        value = scalar(draw, s, var.dtype, 2)
        inner = replace(s, lets=(*s.lets, var))
        return Let(var, value, statement(draw, inner, outs, row, column, depth - 1))
    if choice == 4:
        k = index("k")
        extent = draw(st.sampled_from([const(2), const(3), s.vars[0]]))
        return loop(k, extent, statement(draw, s.having(k), outs, row, column, depth - 1))
    return block(*(statement(draw, s, outs, row, column, depth - 1) for _ in range(2)))


def accumulation(draw: Draw, s: Scopes, out: Buffer, row: Expr, column: Expr) -> Stmt:
    """A register or a lane's own array, summed over a loop."""
    scope = draw(st.sampled_from([Scope.REGISTER, Scope.LOCAL]))
    acc = buffer("acc", (2,), out.dtype, scope=scope)
    k, j = index("k"), index("j")
    start = loop(j, 2, put(acc, (j,), scalar(draw, s, out.dtype, 1)), "unroll")
    slot = draw(st.integers(0, 1))
    step: Stmt = put(acc, (slot,), at(acc, slot) + scalar(draw, s.having(k), out.dtype, 1))
    if draw(st.booleans()):
        step = If(condition(draw, s.having(k), 1), step)
    finish = put(out, (row, column), at(acc, 0) - at(acc, 1))
    return Alloc(acc, block(start, loop(k, draw(st.sampled_from([const(3), s.vars[0]])), step), finish))


@st.composite
def kernels(draw: Draw, *, wild: bool = False) -> Func:
    n = Var("n", dt.index, 0, 5)
    ins = tuple([buffer(f"x{k}", (H, W) if k % 2 else (W,), t) for k, t in enumerate(TYPES)])
    outs = tuple([buffer(f"y{k}", (H, W), t) for k, t in enumerate(TYPES)])
    y, x, lane = index("y"), index("x"), index("l")
    body: list[Stmt] = []
    for _ in range(draw(st.integers(1, 2))):
        lanes = draw(st.sampled_from([1, 3, 4, 5, 8, 16]))
        column = x * lanes + lane
        s = Scopes((n, y, x, lane), ins, wild=wild)
        inner = statement(draw, s, outs, y, column, 3)
        if draw(st.booleans()):
            inner = block(inner, accumulation(draw, s, draw(st.sampled_from(outs)), y, column))
        kind = draw(st.sampled_from(["vector", "vector", "serial", "unroll"]))
        body.append(loop(x, W // lanes, loop(lane, lanes, inner, kind), draw(st.sampled_from(["serial", "unroll"]))))
        x, lane = index("x"), index("l")
    return Func("f", (n, *ins, *outs), loop(y, H, block(*body), draw(st.sampled_from(["parallel", "serial"]))))


def arguments(func: Func, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    result: list[Any] = []
    for p in func.params:
        if isinstance(p, Var):
            result.append(int(rng.integers(0, 6)))
            continue
        shape = tuple(int(d.value) for d in p.shape)  # type: ignore[attr-defined]  # literals all
        values = rng.integers(0 if p.dtype.kind == "uint" else -20, 20, shape)
        result.append((values / 2 if p.dtype.is_float else values).astype(p.dtype.numpy))
    return result


@examples(60, fuzz=False)
@given(kernels(), st.integers(0, 1000), st.integers(1, 3))
def test_compiled_is_interpreted(func: Func, seed: int, threads: int) -> None:
    check(func, arguments(func, seed), threads=threads)


@examples(25, fuzz=False)
@given(kernels(wild=True), st.integers(0, 1000), st.integers(1, 3))
def test_tested_kernels_fail_where_an_access_is_out_of_bounds(func: Func, seed: int, threads: int) -> None:
    tests, args = AccessTests(0), arguments(func, seed)
    tested, report = checked(func, tests, {}), np.full(WORDS, -1)
    if _stays_inside(func, args):
        check(tested, [*args, report], threads=threads)
        assert report[0] == -1
        return
    for run in (interp.run, partial(running.run, target=RUNNABLE[-1], threads=threads)):
        assert run(tested, [*copies(args), report])
        error = violation([AccessInfo(t.message, t.is_ours) for t in tests.found], int(report[0]), report.tolist())
        assert isinstance(error, InternalError)
        assert "?" not in str(error)


def _stays_inside(func: Func, args: Sequence[Any]) -> bool:
    try:
        interp.run(func, copies(args))
    except InternalError as error:
        if "out of bounds" not in str(error):
            raise
        return False
    return True

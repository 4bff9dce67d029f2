"""Host functions under the real runtime: allocation, views, launches, calls, loops, constants, failures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Expr, Var, const, eq, lt, ne
from legato.base import dtype as dt
from legato.base.errors import InternalError
from legato.base.target import host
from legato.codegen.emit import emit_module
from legato.codegen.host import recursive
from legato.tir import interp
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import cast
from legato.tir.stmt import (
    Alloc,
    Barrier,
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
    View,
    While,
    block,
)
from tests.codegen.programs import at, buffer, index, loop, put
from tests.codegen.running import build

N = 24
LG_MEMORY, LG_HOST_OP, LG_DEPTH, LG_CHECK = 1, 3, 4, 256


def scaled(name: str, factor: float, kind: str = "parallel") -> Func:
    """out = x · factor + s."""
    x, out, s, i = buffer("x", (N,)), buffer("out", (N,)), Var("s", dt.index), index()
    return Func(
        name, (x, out, s), loop(i, N, put(out, (i,), at(x, i) * const(factor, dt.float32) + cast(s, dt.float32)), kind)
    )


def host_func(name: str, params: tuple[Any, ...], body: Stmt, **more: Any) -> Func:
    return Func(name, params, body, FuncKind.HOST, **more)


def run_both(
    funcs: list[Func], args: list[Any], *, host_op: Any = None, constants: dict[str, np.ndarray] | None = None
) -> int:
    """Runs the last of `funcs` compiled and interpreted, compares arrays and status, and returns the status."""
    main, named = funcs[-1], constants or {}
    offsets, total = {}, 0
    for name, value in named.items():
        offsets[name] = total
        total += -(-value.nbytes // 64) * 64
    segment = np.zeros(total + 64, np.uint8)
    base = -segment.ctypes.data % 64
    for name, value in named.items():
        segment[base + offsets[name] :][: value.nbytes] = value.view(np.uint8).ravel()
    mine = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    words = np.array([a.ctypes.data if isinstance(a, np.ndarray) else a for a in mine], np.int64)
    status = build(funcs, host(), offsets).run_host(main.name, words, segment[base:], host_op and host_op.native)
    functions = {f.name: f for f in funcs}
    wanted = interp.run(main, args, functions=functions, constants=named, host_op=host_op and host_op.python)
    assert status == wanted
    for actual, expected in zip(mine, args, strict=True):
        np.testing.assert_array_equal(actual, expected)
    return status


def test_launches_views_and_workspace() -> None:
    x, out, n = buffer("x", (N,)), buffer("out", (N,)), Var("n", dt.index)
    arena = buffer("arena", (4 * N * 2 + 64,), dt.uint8)
    a, b = buffer("a", (N,)), buffer("b", (N,))
    steps = block(Launch((x, a, n), "double"), Launch((a, b, n + 1), "triple"), Launch((b, out, const(0)), "double"))
    body = Alloc(arena, View(a, arena, const(0), View(b, arena, n * 0 + 128, steps)))
    main = host_func("main", (x, out, n), body)
    funcs = [scaled("double", 2.0), scaled("triple", 3.0, "serial"), main]
    assert run_both(funcs, [np.arange(N, dtype=np.float32), np.zeros(N, np.float32), 5]) == 0


def test_constants_and_calls() -> None:
    w, v = buffer("w", (N,)), buffer("v", (N,))
    x, out = buffer("x", (N,)), buffer("out", (N,))
    y = buffer("y", (N,))
    callee = host_func("callee", (y,), block(Launch((v, y, const(1)), "double")), constants=((v, "second"),))
    tmp, i = buffer("tmp", (N,)), index()
    total = For(i, const(N), put(out, (i,), at(w, i) + at(tmp, i) + at(x, i)))
    main = host_func("main", (x, out), Alloc(tmp, block(Invoke((tmp,), "callee"), total)), constants=((w, "first"),))
    constants = {"first": np.arange(N, dtype=np.float32), "second": np.full(N, 7, np.float32)}
    args = [np.ones(N, np.float32), np.zeros(N, np.float32)]
    assert run_both([scaled("double", 2.0), callee, main], args, constants=constants) == 0


def test_while_reads_what_the_body_wrote() -> None:
    out, state = buffer("out", (1,), dt.int64), buffer("state", (2,), dt.int64)
    one = const(1, dt.int64)
    step = block(put(state, (0,), at(state, 0) + one), put(state, (1,), at(state, 1) * const(3, dt.int64)))
    again = While(lt(at(state, 0), const(10, dt.int64)), step)
    body = block(put(state, (0,), one), put(state, (1,), one), again, put(out, (0,), at(state, 1)))
    assert run_both([host_func("main", (out,), Alloc(state, body))], [np.zeros(1, np.int64)]) == 0


def test_while_carries_registers() -> None:
    out, acc = buffer("out", (1,), dt.int64), buffer("acc", (2,), dt.int64, scope=Scope.REGISTER)
    one = const(1, dt.int64)
    step = block(put(acc, (0,), at(acc, 0) + one), put(acc, (1,), at(acc, 1) + at(acc, 0)))
    again = While(ne(at(acc, 0), const(100, dt.int64)), step)
    body = block(put(acc, (0,), const(0, dt.int64)), put(acc, (1,), one), again, put(out, (0,), at(acc, 1)))
    assert run_both([host_func("main", (out,), Alloc(acc, body))], [np.zeros(1, np.int64)]) == 0


def test_a_kernel_without_arguments_asks_whether_to_end() -> None:
    """The call of the program is behind its arguments, of which there are none."""
    count, one = buffer("count", (1,), dt.int64, scope=Scope.REGISTER), const(1, dt.int64)
    turns = While(lt(at(count, 0), const(5000, dt.int64)), put(count, (0,), at(count, 0) + one))
    kernel = Func("turns", (), Alloc(count, block(put(count, (0,), const(0, dt.int64)), turns)))
    assert run_both([kernel, host_func("main", (), Launch((), "turns"))], []) == 0


def test_dynamic_sizes_and_branches() -> None:
    n, out = Var("n", dt.index, 0), buffer("out", (1,))
    tmp, i, j = buffer("tmp", (n * 2,)), index(), index()
    fill = For(i, n * 2, put(tmp, (i,), cast(i, dt.float32)))
    total = For(j, n * 2, put(out, (0,), at(out, 0) + at(tmp, j)))
    size = Var("size", dt.index)
    body = Let(
        size, n * 2, If(lt(size, const(9)), Alloc(tmp, block(fill, total)), put(out, (0,), const(-1.0, dt.float32)))
    )
    for count in (0, 3, 4, 5):
        assert run_both([host_func("main", (n, out), body)], [count, np.zeros(1, np.float32)]) == 0


class _Doubles:
    """Operator 2 doubles its first argument into its second and fails for a negative third."""

    @staticmethod
    def python(op: int, args: Any) -> int | None:
        assert op == 2
        args[1][...] = args[0] * 2
        return LG_HOST_OP if args[2] < 0 else None

    @staticmethod
    def native(op: int, words: Any) -> int:
        x, out = (np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * N).from_address(words[k])) for k in (0, 1))
        return _Doubles.python(op, [x, out, words[2]]) or 0


@pytest.mark.parametrize(("n", "status"), [(1, 0), (-1, LG_HOST_OP)])
def test_host_operators(n: int, status: int) -> None:
    x, out, tmp, size = buffer("x", (N,)), buffer("out", (N,)), buffer("tmp", (N,)), Var("n", dt.index)
    body = Alloc(tmp, block(HostOp((x, tmp, size), 2), Launch((tmp, out, const(0)), "double")))
    args = [np.arange(N, dtype=np.float32), np.zeros(N, np.float32), n]
    assert run_both([scaled("double", 2.0), host_func("main", (x, out, size), body)], args, host_op=_Doubles) == status


def test_failures_leave_every_level() -> None:
    n, x, out, s = Var("n", dt.index), buffer("x", (N,)), buffer("out", (N,)), Var("s", dt.index)
    i = index()
    kernel = Func("k", (x, s), block(Check(lt(s, const(3)), 5), loop(i, N, put(x, (i,), const(1.0, dt.float32)))))
    inner = host_func("inner", (x, s), block(Check(ne(s, 1), 4), Launch((x, s), "k")))
    tmp = buffer("tmp", (N,))
    main = host_func(
        "main", (out, n), Alloc(tmp, block(Invoke((tmp, n), "inner"), put(out, (0,), const(1.0, dt.float32))))
    )
    for value, status in ((0, 0), (1, LG_CHECK + 4), (3, LG_CHECK + 5)):
        assert run_both([kernel, inner, main], [np.zeros(N, np.float32), value]) == status


def sums_down(depth_cost: bool) -> Func:
    """down(out, n): out[0] += n; down(out, n − 1) unless n = 0."""
    out, n = buffer("out", (1,), dt.int64), Var("n", dt.index, 0)
    more = If(eq(n, 0), block(), Invoke((out, n - 1), "down"))
    body: Stmt = block(put(out, (0,), at(out, 0) + cast(n, dt.int64)), more)
    return host_func("down", (out, n), Alloc(buffer("tmp", (64,)), body) if depth_cost else body)


@pytest.mark.parametrize("depth_cost", [True, False])
def test_recursion(depth_cost: bool) -> None:
    assert run_both([sums_down(depth_cost)], [np.zeros(1, np.int64), 100]) == 0


def test_endless_recursion_is_an_error() -> None:
    out, n = buffer("out", (1,), dt.int64), Var("n", dt.index, 0)
    forever = host_func("forever", (out, n), Invoke((out, n + 1), "forever"))
    words = np.array([np.zeros(1, np.int64).ctypes.data, 0], np.int64)
    assert build([forever], host()).run_host("forever", words) == LG_DEPTH


def test_too_much_memory_is_an_error() -> None:
    n, tmp = Var("n", dt.index, 0), Buffer("tmp", (Var("m", dt.index),), dt.float32)
    tmp = Buffer("tmp", (n,), dt.float32)
    main = host_func("main", (n,), Alloc(tmp, put(tmp, (0,), const(1.0, dt.float32))))
    assert build([main], host()).run_host("main", np.array([1 << 40], np.int64)) == LG_MEMORY


def test_a_host_function_with_thousands_of_steps() -> None:
    x, out = buffer("x", (N,)), buffer("out", (N,))
    arena = buffer("arena", (1000 * 4 * N,), dt.uint8)
    views = [buffer(f"t{k}", (N,)) for k in range(1000)]
    steps = [Launch((a, b, const(1)), "keep") for a, b in zip([x, *views], [*views, out], strict=True)]
    body = block(*steps)
    for k, view in enumerate(views):
        body = View(view, arena, const(k * 4 * N), body)
    text = emit_module([host_func("main", (x, out), Alloc(arena, body))], host(), {}, {"keep": True})
    assert text.count('@"f.keep", ptr %words, i64 1)') == 1001


def test_kernels_of_other_objects_must_be_known() -> None:
    main = host_func("main", (), Launch((), "elsewhere"))
    with pytest.raises(InternalError, match="launch of the unknown kernel 'elsewhere'"):
        emit_module([main], host(), {})
    assert "i64 0)" in emit_module([main], host(), {}, {"elsewhere": False})


def test_host_statements_have_no_place_in_kernels() -> None:
    with pytest.raises(InternalError, match="Launch has no place in a kernel"):
        emit_module([Func("k", (), Launch((), "other"))], host(), {})


def test_a_serial_loop_runs_its_body_in_order() -> None:
    out, i = buffer("out", (5,), dt.int64), index()
    value: Expr = cast(i * i, dt.int64)
    body = For(i, const(5), put(out, (i,), value), LoopKind.SERIAL)
    assert run_both([host_func("main", (out,), body)], [np.zeros(5, np.int64)]) == 0


def relay(steps: int) -> Func:
    """For so many steps, all of `a`'s copies take what their neighbour had before."""
    a, t, p = buffer("a", (2, N)), index("t"), index("p")
    value = at(a, t % 2, (p + 1) % N) * const(0.5, dt.float32) + const(1, dt.float32)
    body = loop(p, N, put(a, (1 - t % 2, p), value), "parallel")
    return Func("relay", (a,), loop(t, steps, block(body, Barrier())))


@pytest.mark.parametrize("steps", [0, 1, 50])
def test_threads_meet_at_barriers(steps: int) -> None:
    a = buffer("a", (2, N))
    values = np.random.default_rng(0).standard_normal((2, N)).astype(np.float32)
    for _ in range(5):
        assert run_both([relay(steps), host_func("main", (a,), Launch((a,), "relay"))], [values.copy()]) == 0


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=8))
def test_recursive_functions(calls: list[list[int]]) -> None:
    """Those that reach themselves; a function that nobody knows may call all that are known."""
    known = {str(n): frozenset(map(str, targets)) for n, targets in enumerate(calls)}
    reach = known
    for _ in known:
        reach = {n: t.union(*(reach.get(k, frozenset(known)) for k in t)) for n, t in reach.items()}
    assert recursive(known) == {n for n, t in reach.items() if n in t}


def test_a_long_chain_of_calls_is_looked_at_once() -> None:
    looked = 0

    class Targets(frozenset[str]):
        def __iter__(self) -> Iterator[str]:
            nonlocal looked
            looked += 1
            return super().__iter__()

    assert not recursive({str(n): Targets([str(n + 1)]) for n in range(5_000)} | {"5000": Targets()})
    assert looked <= 2 * 5_001

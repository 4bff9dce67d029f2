"""Loops, masks, memory and registers of kernels: compiled = interpreted, on every target that this machine runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato.arith.expr import Expr, Var, add, const, floormod, ge, land, lor, lt, max_, min_, mul, ne, select
from legato.base import dtype as dt
from legato.base.errors import InternalError
from legato.base.target import target
from legato.codegen.compile import assembly
from legato.codegen.emit import emit_module
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.expr import Load, call, cast
from legato.tir.stmt import Alloc, Check, Func, If, Let, Prefetch, Stmt, block
from tests.codegen.programs import at, buffer, index, loop, put
from tests.codegen.running import check

L = 8
REGISTER, LOCAL = Scope.REGISTER, Scope.LOCAL


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-50, 50, shape).astype(np.float32)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def ints(*shape: int, high: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, shape)


# ------------------------------------------------------------------------------------------------------- vector access


@pytest.mark.parametrize(
    "source",
    [
        lambda i: i,
        lambda i: i + 5,
        lambda i: i * 2,
        lambda i: i * 3 + 1,
        lambda i: i * 7,
        lambda i: 23 - i,
        lambda i: i // 2,
        lambda i: i // 3 + 4,
        lambda i: floormod(i, const(4)),
        lambda i: const(9),
        lambda i: (i * 5) // 2,
        lambda i: min_(i, const(3)),
        lambda i: floormod(i * 3, const(8)),
        lambda i: i * i,
    ],
)
def test_lanes_read_any_literal_pattern(source: Any) -> None:
    x, out, i = buffer("x", (64,)), buffer("out", (L,)), index()
    check(Func("f", (x, out), loop(i, L, put(out, (i,), at(x, source(i))), "vector")), [numbers(64), zeros(L)])


@pytest.mark.parametrize(
    "place",
    [lambda i: i, lambda i: 7 - i, lambda i: i * 3, lambda i: floormod(i * 5, const(8)), lambda i: i // 2 + i],
)
def test_lanes_write_any_literal_pattern(place: Any) -> None:
    x, out, i = buffer("x", (L,)), buffer("out", (32,)), index()
    check(Func("f", (x, out), loop(i, L, put(out, (place(i),), at(x, i)), "vector")), [numbers(L), zeros(32)])


@pytest.mark.parametrize("lanes", [1, 2, 3, 5, 7, 8, 16, 17, 32, 64])
def test_any_width(lanes: int) -> None:
    x, out, i, o = buffer("x", (4, lanes)), buffer("out", (4, lanes)), index(), index()
    value = at(x, o, i) * const(2.0, dt.float32) + cast(i, dt.float32)
    body = loop(o, 4, loop(i, lanes, put(out, (o, i), value), "vector"))
    check(Func("f", (x, out), body), [numbers(4, lanes), zeros(4, lanes)])


def test_gather_and_scatter_with_data_dependent_indices() -> None:
    x, where = buffer("x", (40,)), buffer("where", (2 * L,), dt.int64)
    got, sent = buffer("got", (2 * L,)), buffer("sent", (40,))
    i, o = index(), index()
    j = o * L + i
    place = cast(at(where, j), dt.index)
    body = loop(o, 2, loop(i, L, block(put(got, (j,), at(x, place)), put(sent, (place,), at(x, j))), "vector"))
    perm = np.random.default_rng(1).permutation(40)[: 2 * L]
    check(Func("f", (x, where, got, sent), body), [numbers(40), perm, zeros(2 * L), zeros(40)])


def masked_gather(dtype: dt.DType) -> Func:
    """out[i] = x[where[i]] where that is inside."""
    x, where, out, i = buffer("x", (10,), dtype), buffer("where", (L,), dt.int64), buffer("out", (L,), dtype), index()
    safe = land(ge(at(where, i), 0), lt(at(where, i), 10))
    body = loop(i, L, If(safe, put(out, (i,), at(x, cast(at(where, i), dt.index)))), "vector")
    return Func("f", (x, where, out), body)


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.float16, dt.int16, dt.uint8])
def test_masked_gather_reads_active_lanes_only(dtype: dt.DType) -> None:
    wild = np.array([0, 2**40, 3, -(2**40), 9, 1, 10, 5])
    check(masked_gather(dtype), [numbers(10).astype(dtype.numpy), wild, zeros(L).astype(dtype.numpy)])


@pytest.mark.parametrize("dtype", [dt.float32, dt.float16, dt.int16, dt.uint8])
def test_masked_gather_does_not_branch(dtype: dt.DType) -> None:
    machine = target("x86-64-v4")
    assert "\n.LBB" not in assembly(emit_module([masked_gather(dtype)], machine, {}), machine)


def test_symbolic_strides() -> None:
    n, m = Var("n", dt.index, 0), Var("m", dt.index, 0)
    x, out = buffer("x", (n, m)), buffer("out", (m, n))
    i, j = index(), index()
    inner = loop(i, L, put(out, (j, i), at(x, i, j)), "vector")
    check(Func("f", (x, out, n, m), loop(j, m, inner)), [numbers(L, 5), zeros(5, L), L, 5])


def test_layouts_with_halo_order_and_padding() -> None:
    halo = Layout((0, 2, 3, 1), ((0, 0), (0, 0), (1, 1), (1, 2)), 3.0, pad=(0, 5, 2, 1))
    x, out = buffer("x", (2, L, 4, 5), layout=halo), buffer("out", (2, L, 4, 5), layout=Layout((3, 1, 0, 2)))
    n, c, h, w, kh, kw = (index() for _ in range(6))
    acc = buffer("acc", (L,), scope=REGISTER)
    start = loop(c, L, put(acc, (c,), const(0.0, dt.float32)), "vector")
    c2, c3 = index(), index()
    tap = put(acc, (c2,), at(acc, c2) + at(x, n, c2, h + kh - 1, w + kw - 1))
    window = loop(kh, 3, loop(kw, 3, loop(c2, L, tap, "vector")))
    store = loop(c3, L, put(out, (n, c3, h, w), at(acc, c3)), "vector")
    body = loop(n, 2, loop(h, 4, loop(w, 5, Alloc(acc, block(start, window, store)))))
    check(Func("f", (x, out), body), [numbers(2, L, 4, 5), zeros(2, L, 4, 5)])


# ------------------------------------------------------------------------------------------------------- masks


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 16, 21])
def test_tails_by_masks(n: int) -> None:
    size = Var("n", dt.index, 0)
    x, out, o, i = buffer("x", (size,)), buffer("out", (size,)), index(), index()
    j = o * L + i
    body = loop(o, (size + (L - 1)) // L, loop(i, L, If(lt(j, size), put(out, (j,), at(x, j) + at(x, j))), "vector"))
    check(Func("f", (x, out, size), body), [numbers(n), zeros(n), n])


@pytest.mark.parametrize("dtype", dt.ALL_DTYPES, ids=str)
@pytest.mark.parametrize("literal", [True, False])
def test_masked_copies_of_every_dtype(dtype: dt.DType, literal: bool) -> None:
    n = const(13) if literal else Var("n", dt.index, 0)
    x, out, i = buffer("x", (16,), dtype), buffer("out", (16,), dtype), index()
    body = loop(i, 16, If(lt(i, n), put(out, (i,), at(x, i)), put(out, (i,), at(x, 15 - i))), "vector")
    values = ints(16, high=2 if dtype.is_bool else 100).astype(dtype.numpy)
    check(
        Func("f", (x, out, *([] if literal else [n])), body),
        [values, np.zeros(16, dtype.numpy), *([] if literal else [5])],
    )


def test_masks_nest_and_combine_with_uniform_branches() -> None:
    x, out, n, i = buffer("x", (L,)), buffer("out", (L,)), Var("n", dt.index, 0), index()
    small = lt(at(x, i), const(10.0, dt.float32))
    inner = If(lt(i, const(6)), put(out, (i,), at(x, i)), put(out, (i,), const(-1.0, dt.float32)))
    uniform = If(lt(n, const(3)), inner, put(out, (i,), const(-2.0, dt.float32)))
    body = loop(i, L, If(lor(small, lt(i, n)), uniform, put(out, (i,), const(-3.0, dt.float32))), "vector")
    for size in (0, 2, 3, 8):
        check(Func("f", (x, out, n), body), [numbers(L), zeros(L), size])


def test_guards_protect_loads() -> None:
    n = Var("n", dt.index, 0)
    x, y, out, i, o = buffer("x", (n,)), buffer("y", (3,)), buffer("out", (4, L)), index(), index()
    j = o * L + i
    zero = const(0.0, dt.float32)
    value = select(lt(j, n), at(x, j), select(lt(j - n, const(3)), at(y, j - n), zero))
    uniform = select(lt(o, const(3)), at(y, o), zero)
    body = loop(o, 4, loop(i, L, put(out, (o, i), value + uniform), "vector"))
    for size in (0, 1, 8, 20):
        check(Func("f", (x, y, out, n), body), [numbers(size), numbers(3), zeros(4, L), size])


def test_scalar_guards_protect_loads() -> None:
    n = Var("n", dt.index, 0)
    x, out, i = buffer("x", (n,)), buffer("out", (10,)), index()
    value = select(land(ge(i, 3), lt(i - 3, n)), at(x, i - 3), const(7.0, dt.float32))
    for size in (0, 4):
        check(Func("f", (x, out, n), loop(i, 10, put(out, (i,), value))), [numbers(size), zeros(10), size])


@pytest.mark.parametrize("kind", ["vector", "serial"])
def test_guards_protect_loads_in_conditions(kind: str) -> None:
    n = Var("n", dt.index, 0)
    x, out, i = buffer("x", (n,)), buffer("out", (L,)), index()
    one, two = const(1.0, dt.float32), const(2.0, dt.float32)
    value = select(lt(i, n), select(lt(const(0.0, dt.float32), at(x, i)), one, two), one)
    func = Func("f", (x, out, n), loop(i, L, put(out, (i,), value), kind))
    assert "@llvm.masked.load" in emit_module([func], target("x86-64-v3"), {})
    for size in (0, 3, L):
        check(func, [numbers(size), zeros(L), size])


def test_a_long_chain_of_guards() -> None:
    parts = [buffer(f"x{k}", (1,)) for k in range(400)]
    out, i, lane = buffer("out", (400,)), index(), index()
    j = i * L + lane
    value: Expr = const(0.0, dt.float32)
    for k in reversed(range(len(parts))):
        value = select(lt(j, const(k + 1)), at(parts[k], j - k), value)
    func = Func("f", (*parts, out), loop(i, 50, loop(lane, L, put(out, (j,), value), "vector")))
    assert emit_module([func], target("x86-64-v3"), {})


def test_uniform_store_of_the_last_active_lane() -> None:
    x, out, i, n = buffer("x", (L,)), buffer("out", (1,)), index(), Var("n", dt.index, 0)
    body = loop(i, L, If(lt(i, n), put(out, (0,), at(x, i))), "vector")
    for size in (0, 1, 5):
        check(Func("f", (x, out, n), body), [numbers(L), zeros(1), size])


def test_loops_whose_extent_differs_between_lanes() -> None:
    counts, x, out, i, k = buffer("c", (L,), dt.int64), buffer("x", (9,)), buffer("out", (L,)), index(), index()
    acc = buffer("acc", (1,), scope=REGISTER)
    inner = loop(k, cast(at(counts, i), dt.index), put(acc, (0,), at(acc, 0) + at(x, k)))
    body = Alloc(acc, block(put(acc, (0,), const(0.0, dt.float32)), inner, put(out, (i,), at(acc, 0))))
    check(Func("f", (counts, x, out), loop(i, L, body, "vector")), [ints(L, high=9), numbers(9), zeros(L)])


# ------------------------------------------------------------------------------------------------------- registers


def gemm(m: int, n: int, k: int, mr: int, nv: int, unroll: int) -> Func:
    """C = max(A·B, 0) with an mr × nv·L register tile; B is packed [n/(nv·L)][k][nv·L]."""
    nr = nv * L
    a, b, c = buffer("A", (m, k)), buffer("B", (n // nr, k, nr)), buffer("C", (m, n))
    acc = buffer("acc", (mr, nr), scope=REGISTER)
    nb, mb, ko, ku = (index() for _ in range(4))

    def tile(body: Any) -> Stmt:
        i, j, lane = index(), index(), index()
        return loop(i, mr, loop(j, nv, loop(lane, L, body(i, j * L + lane), "vector"), "unroll"), "unroll")

    r = ko * unroll + ku
    zero = const(0.0, dt.float32)
    start = tile(lambda i, j: put(acc, (i, j), zero))
    step = tile(lambda i, j: put(acc, (i, j), call("fma", at(a, mb * mr + i, r), at(b, nb, r, j), at(acc, i, j))))
    store = tile(lambda i, j: put(c, (mb * mr + i, nb * nr + j), max_(at(acc, i, j), zero)))
    reduction = loop(ko, k // unroll, loop(ku, unroll, step, "unroll"))
    body = Alloc(acc, block(start, reduction, store))
    return Func("gemm", (a, b, c), loop(nb, n // nr, loop(mb, m // mr, body), "parallel"))


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_gemm(threads: int) -> None:
    func = gemm(12, 96, 8, 6, 4, 4)
    check(func, [numbers(12, 8), numbers(3, 8, 32), zeros(12, 96)], threads=threads)


def test_registers_of_other_widths_than_the_access() -> None:
    out, acc, i, k, v = buffer("out", (3,)), buffer("acc", (2 * L,), scope=REGISTER), index(), index(), index()
    x = buffer("x", (2 * L,))
    fill = loop(k, 2, loop(i, L, put(acc, (k * L + i,), at(x, k * L + i)), "vector"), "unroll")
    total = buffer("total", (1,), scope=REGISTER)
    add_up = loop(v, 2 * L, put(total, (0,), at(total, 0) + at(acc, v)), "unroll")
    i2 = index()
    shifted = loop(i2, L, put(acc, (i2 + 3,), at(acc, i2 + 5) * const(2.0, dt.float32)), "vector")
    change = block(put(acc, (3,), const(100.0, dt.float32)), shifted)
    results = [put(out, (0,), at(total, 0)), put(out, (1,), at(acc, 3)), put(out, (2,), at(acc, 10))]
    body = block(put(total, (0,), const(0.0, dt.float32)), fill, change, add_up, *results)
    check(Func("f", (x, out), Alloc(acc, Alloc(total, body))), [numbers(2 * L), zeros(3)])


def test_registers_through_loops_and_branches() -> None:
    n, x, out = Var("n", dt.index, 0), buffer("x", (8,)), buffer("out", (2,))
    acc, i, j = buffer("acc", (2,), scope=REGISTER), index(), index()
    zero = const(0.0, dt.float32)
    larger = lt(at(acc, 0), at(x, i))
    step = If(larger, put(acc, (0,), at(x, i)), If(ne(i, 2), put(acc, (1,), at(acc, 1) + at(x, i))))
    inner = loop(j, n, put(acc, (1,), at(acc, 1) + const(1.0, dt.float32)))
    body = block(put(acc, (0,), zero), put(acc, (1,), zero), loop(i, n, block(step, inner)))
    results = [put(out, (k,), at(acc, k)) for k in (0, 1)]
    for size in (0, 1, 5, 8):
        check(Func("f", (n, x, out), Alloc(acc, block(body, *results))), [size, numbers(8), zeros(2)])


@pytest.mark.parametrize("scope", [REGISTER, LOCAL])
def test_every_lane_has_its_own_array(scope: Scope) -> None:
    x, out, i, k = buffer("x", (L, 4)), buffer("out", (L, 4)), index(), index()
    mine = buffer("mine", (4,), scope=scope)
    fill = loop(k, 4, put(mine, (k,), at(x, i, k)), "unroll")
    k2 = index()
    back = loop(k2, 4, put(out, (i, k2), at(mine, 3 - k2) + at(mine, 0)), "unroll")
    body = loop(i, L, Alloc(mine, block(fill, back)), "vector")
    check(Func("f", (x, out), body), [numbers(L, 4), zeros(L, 4)])


def test_local_arrays() -> None:
    x, out, o, i, j = buffer("x", (3, 20)), buffer("out", (3, 20)), index(), index(), index()
    row = buffer("row", (20,), scope=LOCAL)
    fill = loop(i, 20, put(row, (i,), at(x, o, 19 - i)))
    j1, j2 = index(), index()
    back = loop(j1, 5, loop(j2, 4, put(out, (o, j1 * 4 + j2), at(row, j1 * 4 + j2) + at(row, j)), "vector"))
    body = loop(o, 3, Alloc(row, block(fill, loop(j, 2, back))), "parallel")
    check(Func("f", (x, out), body), [numbers(3, 20), zeros(3, 20)], threads=2)


def test_register_indices_must_be_literals() -> None:
    acc, out, i = buffer("acc", (4,), scope=REGISTER), buffer("out", (4,)), index()
    func = Func("f", (out,), Alloc(acc, loop(i, 4, put(acc, (i,), const(0.0, dt.float32)))))
    with pytest.raises(InternalError, match="an index of the register buffer acc is not a literal after unrolling"):
        emit_module([func], target("x86-64-v3"), {})


# ------------------------------------------------------------------------------------------------------- memory order


def test_stores_are_seen_by_later_loads() -> None:
    x, i = buffer("x", (9,)), index()
    k = index()
    step = block(put(x, (i + 1,), at(x, i) + at(x, i + 1)), put(x, (0,), at(x, i + 1) - at(x, 0)))
    twice = loop(k, 2, block(loop(i, 8, step), put(x, (3,), at(x, 2) + at(x, 3))))
    check(Func("f", (x,), twice), [numbers(9)])


def test_what_is_fetched_ahead_may_lie_outside() -> None:
    x, out, i = buffer("x", (L,)), buffer("out", (L,)), index()
    body = block(Prefetch(x, (i + 100_000,)), put(out, (i,), at(x, i) * 2.0))
    check(Func("f", (x, out), loop(i, L, body, "vector")), [numbers(L), zeros(L)])


def test_lets_and_checks() -> None:
    n, x, out, i = Var("n", dt.index, 0), buffer("x", (L,), dt.int32), buffer("out", (L,), dt.int32), index()
    v, w = Var("v", dt.int32), Var("w", dt.index)
    body = Let(v, at(x, i) * const(3, dt.int32), Let(w, i * n, put(out, (i,), v + cast(w, dt.int32))))
    guarded = block(Check(lt(n, const(5)), 7), loop(i, L, body, "vector"))
    for size, status in ((2, 0), (5, 256 + 7)):
        args = [size, ints(L, high=9).astype(np.int32), np.zeros(L, np.int32)]
        assert check(Func("f", (n, x, out), guarded), args) == status


def test_checks_of_single_lanes() -> None:
    n, x, out, i = Var("n", dt.index, 0), buffer("x", (L,), dt.int32), buffer("out", (1,)), index()
    test = Check(lt(at(x, i), const(5, dt.int32)), 3)
    body = block(loop(i, L, If(lt(i, n), test), "vector"), put(out, (0,), const(1.0, dt.float32)))
    values = np.array([0, 1, 2, 9, 0, 0, 0, 0], np.int32)
    for size, status in ((3, 0), (4, 259)):
        assert check(Func("f", (n, x, out), body), [size, values.copy(), zeros(1)]) == status


def test_vector_inside_vector_and_odd_nests() -> None:
    x, out = buffer("x", (4, L)), buffer("out", (4, L))
    i, j, k = index(), index(), index()
    inner = loop(j, L, put(out, (i, j), at(x, i, j) + cast(mul(i, j), dt.float32)), "vector")
    check(Func("f", (x, out), loop(i, 4, inner, "vector")), [numbers(4, L), zeros(4, L)])
    serial = loop(j, 4, put(out, (j, i), at(x, j, i) * at(x, add(j, const(0)), i)))
    check(Func("f", (x, out), loop(k, 1, loop(i, L, serial, "vector"))), [numbers(4, L), zeros(4, L)])


def test_scalar_kernel_of_rank_0() -> None:
    x, out = Buffer("x", (), dt.float32), Buffer("out", (), dt.float32)
    check(Func("f", (x, out), put(out, (), Load(x, ()) + Load(x, ()))), [np.full((), 3, np.float32), zeros().copy()])


@pytest.mark.parametrize("scope", [REGISTER, LOCAL])
@pytest.mark.parametrize("own", [True, False])
def test_arrays_inside_vector_loops_of_which_each_lane_uses_its_part(scope: Scope, own: bool) -> None:
    x, out, i, k, k2 = buffer("x", (3, L)), buffer("out", (3, L)), index(), index(), index()
    mine = buffer("mine", (3, L), scope=scope)
    fill = loop(k, 3, put(mine, (k, i), at(x, k, i)), "unroll")
    # Without `own` a lane writes and reads an element of its copy that is another lane's in theirs.
    spoil = put(mine, (0, 2), at(x, 0, i) * const(3.0, dt.float32))
    value = at(mine, 2 - k2, i) + (at(mine, 1, i) if own else at(mine, 0, 2))
    body = block(fill, *([] if own else [spoil]), loop(k2, 3, put(out, (k2, i), value), "unroll"))
    check(Func("f", (x, out), loop(i, L, Alloc(mine, body), "vector")), [numbers(3, L), zeros(3, L)])


@pytest.mark.parametrize("divisor", [1, 3, 5, 15, 16, 100])
def test_lanes_are_divided_by_literals(divisor: int) -> None:
    n = Var("n", dt.index)
    out, i, k = buffer("out", (2, 40), dt.int64), index(), index()
    position = n + k * 8 - i * 3
    stores = [put(out, (0, k * 8 + i), cast(position // divisor, dt.int64)),
              put(out, (1, k * 8 + i), cast(floormod(position, const(divisor)), dt.int64))]  # fmt: skip
    for start in (-40, 0, 7, 2**40, -(2**40)):
        body = loop(k, 5, loop(i, 8, block(*stores), "vector"))
        check(Func("f", (n, out), body), [start, np.zeros((2, 40), np.int64)])


@pytest.mark.parametrize("groups", [2, 3, 4])
def test_lanes_of_registers_are_shuffled(groups: int) -> None:
    """Any lanes of a register buffer are put together by shuffles: nothing goes through memory."""
    x, out = buffer("x", (groups, L)), buffer("out", (groups * L,))
    parts, i = buffer("parts", (groups, L), scope=REGISTER), index()
    reads = [loop(i, L, put(parts, (r, i), at(x, r, i)), "vector") for r in range(groups)]
    places = [i + j * L for j in range(groups)]
    writes = [loop(i, L, put(out, (p,), at(parts, floormod(p, const(groups)), p // groups)), "vector") for p in places]
    body = Alloc(parts, block(*reads, *writes))
    func = Func("f", (x, out), body)
    check(func, [numbers(groups, L), zeros(groups * L)])
    text = emit_module([func], target("x86-64-v3"), {})
    assert text.count("shufflevector") == groups * (groups - 1)
    assert "alloca" not in text
    assert "extractelement" not in text

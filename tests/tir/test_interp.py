"""The interpreter's equations: machine arithmetic, memory, control flow and calls, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith import expr as ar
from legato.arith.expr import Expr, Op, Var, const, fresh
from legato.base import dtype as dt
from legato.base.errors import InternalError
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.expr import Cast, Load, call, cast
from legato.tir.interp import run, source
from legato.tir.stmt import (
    FIRST_CHECK,
    Alloc,
    Block,
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
    Store,
    View,
    While,
    block,
)

I8 = [-128, -127, -7, -1, 0, 1, 2, 7, 100, 127]


def buffer(name: str, *shape: int | Expr, dtype: dt.DType = dt.float32, layout: Layout | None = None) -> Buffer:
    return Buffer(name, tuple(ar.expr(s) for s in shape), dtype, layout)


def binary_func(op: Op, dtype: dt.DType, out: dt.DType) -> Func:
    n = fresh("n")
    a, b, c = (Buffer(name, (n,), t) for name, t in (("a", dtype), ("b", dtype), ("c", out)))
    i = fresh("i")
    return Func("f", (a, b, c, n), For(i, n, Store(c, (i,), ar.binary(op, Load(a, (i,)), Load(b, (i,))))))


def pairs(values: list[Any], dtype: dt.DType) -> tuple[np.ndarray, np.ndarray]:
    grid = np.array([(x, y) for x in values for y in values], dtype.numpy)
    return grid[:, 0].copy(), grid[:, 1].copy()


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (Op.ADD, np.add),
        (Op.SUB, np.subtract),
        (Op.MUL, np.multiply),
        (Op.MIN, np.minimum),
        (Op.MAX, np.maximum),
        (Op.FLOORDIV, lambda a, b: np.where(b == 0, 0, a // np.where(b == 0, 1, b)).astype(np.int8)),
        (Op.FLOORMOD, lambda a, b: np.where(b == 0, 0, a % np.where(b == 0, 1, b)).astype(np.int8)),
        (Op.SHL, lambda a, b: a << (b & 7)),
        (Op.SHR, lambda a, b: a >> (b & 7)),
        (Op.BITAND, np.bitwise_and),
        (Op.BITOR, np.bitwise_or),
        (Op.BITXOR, np.bitwise_xor),
        (Op.LT, np.less),
        (Op.LE, np.less_equal),
        (Op.EQ, np.equal),
        (Op.NE, np.not_equal),
    ],
)
def test_integers_are_the_machines(op: Op, expected: Any) -> None:
    a, b = pairs(I8, dt.int8)
    with np.errstate(all="ignore"):
        want = expected(a, b)
    func = binary_func(op, dt.int8, dt.dtype(want.dtype))
    c = np.zeros_like(want)
    assert run(func, [a, b, c, len(a)]) == 0
    np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize(("name", "args", "wanted"), [("pow", (2, 3), 8), ("pow", (3, 2), 9), ("fma", (2, 3, 5), 11)])
def test_operands_of_intrinsics_have_their_order(name: str, args: tuple[float, ...], wanted: float) -> None:
    c = np.zeros(1, np.float32)
    operands = [const(float(a), dt.float32) for a in args]
    run(Func("f", (out := buffer("c", 1),), Store(out, (const(0),), call(name, *operands))), [c])
    assert c[0] == wanted


@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16, dt.float32, dt.float64])
@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MIN, Op.MAX, Op.LT, Op.EQ])
def test_floats_round_each_operation(op: Op, dtype: dt.DType) -> None:
    a, b = pairs([0.0, 1.0, 1 / 3, -2.5, 1e4, 3e-5, np.inf, -np.inf, np.nan], dtype)
    numpy = {Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.DIV: np.divide, Op.MIN: np.minimum,
             Op.MAX: np.maximum, Op.LT: np.less, Op.EQ: np.equal}[op]  # fmt: skip
    with np.errstate(all="ignore"):
        want = numpy(a, b)
    c = np.zeros_like(want)
    run(binary_func(op, dtype, dt.dtype(want.dtype)), [a, b, c, len(a)])
    np.testing.assert_array_equal(c.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize(
    ("source_type", "target", "values", "expected"),
    [
        (dt.float32, dt.int8, [1.9, -1.9, 300.0, -300.0, np.nan, np.inf, -np.inf], [1, -1, 127, -128, 0, 127, -128]),
        (dt.float32, dt.uint8, [-0.5, 255.5, -3.0, np.nan], [0, 255, 0, 0]),
        (dt.float64, dt.int64, [1e30, -1e30, 2.0**62], [2**63 - 1, -(2**63), 2**62]),
        (dt.int32, dt.int8, [127, 128, 255, 256, -129], [127, -128, -1, 0, 127]),
        (dt.int8, dt.uint32, [-1, 1], [2**32 - 1, 1]),
        (dt.int64, dt.float32, [2**62 + 2**38 + 1, 3], [float(2**62 + 2**39), 3.0]),
        (dt.float32, dt.bool_, [0.0, -0.0, 0.5, np.nan], [False, False, True, True]),
        (dt.bool_, dt.float32, [True, False], [1.0, 0.0]),
        (dt.float64, dt.bfloat16, [1 + 2**-9, 1 + 3 * 2**-9], [1.0, 1.0078125]),
    ],
)
def test_casts(source_type: dt.DType, target: dt.DType, values: list[Any], expected: list[Any]) -> None:
    n = len(values)
    a, c, i = buffer("a", n, dtype=source_type), buffer("c", n, dtype=target), fresh("i")
    out = np.zeros(n, target.numpy)
    func = Func("f", (a, c), For(i, const(n), Store(c, (i,), Cast(Load(a, (i,)), target))))
    run(func, [np.array(values, source_type.numpy), out])
    np.testing.assert_array_equal(out.astype(np.float64), np.array(expected, target.numpy).astype(np.float64))


def test_indices_have_64_bits() -> None:
    a, c = buffer("a", 1, dtype=dt.uint64), buffer("c", 1, dtype=dt.float64)
    out = np.zeros(1)
    value = Cast(Cast(Load(a, (const(0),)), dt.index), dt.float64)
    run(Func("f", (a, c), Store(c, (const(0),), value)), [np.array([2**64 - 3], np.uint64), out])
    assert out == -3


def test_intrinsics_follow_their_reference() -> None:
    a, c, i = buffer("a", 3), buffer("c", 3), fresh("i")
    x = np.array([0.5, 1.0, 2.0], np.float32)
    out = np.zeros(3, np.float32)
    value = call("fma", call("exp", Load(a, (i,))), Load(a, (i,)), call("erf", Load(a, (i,))))
    run(Func("f", (a, c), For(i, const(3), Store(c, (i,), value))), [x, out])
    erf = np.array([0.5204999, 0.8427008, 0.9953223], np.float32)
    np.testing.assert_allclose(out, np.exp(x) * x + erf, rtol=1e-6)


def test_reads_in_the_halo_find_its_value() -> None:
    layout = Layout((1, 0), ((1, 2), (0, 1)), -7.0, (3, 1))
    a, c, i, j = buffer("a", 2, 3, layout=layout), buffer("c", 5, 4), fresh("i"), fresh("j")
    body = Store(c, (i, j), Load(a, (i - 1, j)))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    out = np.zeros((5, 4), np.float32)
    run(Func("f", (a, c), For(i, const(5), For(j, const(4), body))), [x, out])
    np.testing.assert_array_equal(out, np.pad(x, ((1, 2), (0, 1)), constant_values=-7))


def test_access_outside_is_refused() -> None:
    a, c, i = buffer("a", 3), buffer("c", 4), fresh("i")
    func = Func("f", (a, c), For(i, const(4), Store(c, (i,), Load(a, (i,)))))
    with pytest.raises(InternalError) as error:
        run(func, [np.zeros(3, np.float32), np.zeros(4, np.float32)])
    assert str(error.value) == "a[3] is out of bounds; wanted [0..2]"


def test_select_guards_its_loads() -> None:
    a, c, i = buffer("a", 3, dtype=dt.int32), buffer("c", 5, dtype=dt.int32), fresh("i")
    load = Load(a, (i - 1,))
    value = ar.select(ar.land(ar.le(const(1), i), ar.lt(i, 4)), load * load, const(-1, dt.int32))
    out = np.zeros(5, np.int32)
    run(Func("f", (a, c), For(i, const(5), Store(c, (i,), value))), [np.array([2, 3, 4], np.int32), out])
    assert out.tolist() == [-1, 4, 9, 16, -1]


def test_fresh_memory_is_poisoned() -> None:
    t, c, d = buffer("t", 1), buffer("c", 1), buffer("d", 1, dtype=dt.int32)
    u, zero = buffer("u", 1, dtype=dt.int32), (const(0),)
    body = Alloc(t, Alloc(u, block(Store(c, zero, Load(t, zero)), Store(d, zero, Load(u, zero)))))
    out, ints = np.zeros(1, np.float32), np.zeros(1, np.int32)
    run(Func("f", (c, d), body), [out, ints])
    assert np.isnan(out[0])
    assert ints[0] == 0x5A5A5A5A


def test_control_flow_and_status() -> None:
    n, i, t = fresh("n"), fresh("i"), Var("t", dt.int32)
    c = Buffer("c", (n,), dt.int32)
    even = Let(t, cast(i, dt.int32) * 3, Store(c, (i,), t))
    body = For(i, n, If(ar.eq(i % 2, 0), even, Store(c, (i,), const(-1, dt.int32))))
    func = Func("f", (c, n), block(Check(ar.lt(n, 6), 3), body))
    out = np.zeros(5, np.int32)
    assert run(func, [out, 5]) == 0
    assert out.tolist() == [0, -1, 6, -1, 12]
    assert run(func, [np.zeros(6, np.int32), 6]) == FIRST_CHECK + 3


def test_host_functions() -> None:
    """A view into bytes, a launch, a loop that counts in memory, an operator by its reference, a failing call."""
    n, i = fresh("n"), fresh("i")
    x, y = Buffer("x", (n,), dt.int32), Buffer("y", (n,), dt.int32)
    double = Func("double", (x, y, n), For(i, n, Store(y, (i,), Load(x, (i,)) * 2), LoopKind.PARALLEL))
    a, arena, m = Buffer("a", (n,), dt.int32), buffer("arena", 64, dtype=dt.uint8), Buffer("m", (n,), dt.int32)
    step, zero = buffer("step", dtype=dt.int32), ()
    loop = While(
        ar.lt(Load(step, zero), const(3, dt.int32)),
        block(Launch((a, m, n), "double"), HostOp((m, a, n), 7), Store(step, zero, Load(step, zero) + 1)),
    )
    body = Alloc(arena, View(m, arena, const(8), Alloc(step, block(Store(step, zero, const(0, dt.int32)), loop))))
    main = Func("main", (a, n), body, FuncKind.HOST)

    def plus_one(index: int, args: Any) -> None:
        source_array, target, size = args
        assert (index, size) == (7, 4)
        target[...] = source_array + 1

    out = np.arange(4, dtype=np.int32)
    assert run(main, [out, 4], functions={"double": double}, host_op=plus_one) == 0
    assert out.tolist() == [7, 15, 23, 31]
    fails = Func("fails", (n,), Check(ar.lt(n, 0), 9), FuncKind.HOST)
    assert (
        run(Func("g", (n,), Invoke((n,), "fails"), FuncKind.HOST), [1], functions={"fails": fails}) == FIRST_CHECK + 9
    )


def test_constants_are_named() -> None:
    w, y = buffer("w", 2), buffer("y", 2)
    i = fresh("i")
    copy = For(i, const(2), Store(y, (i,), Load(w, (i,))))
    func = Func("main", (y,), copy, FuncKind.HOST, ((w, "weight"),))
    out = np.zeros(2, np.float32)
    run(func, [out], constants={"weight": np.array([1, 2], np.float32)})
    assert out.tolist() == [1, 2]
    with pytest.raises(InternalError, match="needs the constant 'weight'"):
        run(func, [out])


def test_backwards_tells_dependent_iterations() -> None:
    c, i = buffer("c", 4, dtype=dt.int32), fresh("i")
    func = Func("f", (c,), For(i, const(4), Store(c, (const(0),), cast(i, dt.int32)), LoopKind.PARALLEL))
    forward, backward = np.zeros(4, np.int32), np.zeros(4, np.int32)
    run(func, [forward])
    run(func, [backward], backwards=True)
    assert (forward[0], backward[0]) == (3, 0)


def test_deep_nests_and_long_expressions() -> None:
    """Beyond what Python accepts in one function or one expression."""
    c = buffer("c", dtype=dt.int32)
    value: Expr = Load(c, ())
    for k in range(1, 400):
        value = value * value + k if k < 40 else value + k
    body: Any = Store(c, (), value + 1)
    for k in range(40):
        body = For(fresh(f"i{k}"), const(1), body)
    out = np.zeros((), np.int32)
    run(Func("f", (c,), body), [out])
    want = 0
    for k in range(1, 400):
        want = ar.wrap(want * want + k if k < 40 else want + k, dt.int32)
    assert int(out) == ar.wrap(want + 1, dt.int32)


@given(st.integers(0, 5), st.integers(0, 5))
def test_symbolic_matmul(n: int, k: int) -> None:
    dn, dk, i, j, r = fresh("n"), fresh("k"), fresh("i"), fresh("j"), fresh("r")
    a, b, c = Buffer("a", (dn, dk), dt.int32), Buffer("b", (dk, dn), dt.int32), Buffer("c", (dn, dn), dt.int32)
    acc = Store(c, (i, j), Load(c, (i, j)) + Load(a, (i, r)) * Load(b, (r, j)))
    body = For(i, dn, For(j, dn, block(Store(c, (i, j), const(0, dt.int32)), For(r, dk, acc))))
    x = np.arange(n * k, dtype=np.int32).reshape(n, k)
    out = np.ones((n, n), np.int32)
    run(Func("f", (a, b, c, dn, dk), body), [x, x.T - 3, out, n, k])
    np.testing.assert_array_equal(out, x @ (x.T - 3))


def test_source_is_readable() -> None:
    c, i = Buffer("c", (const(3),), dt.int32, scope=Scope.GLOBAL), fresh("i")
    func = Func("f", (c,), Block((For(i, const(3), Store(c, (i,), cast(i, dt.int32))),)))
    assert source(func).splitlines()[0] == "def function(c_1):"
    assert "for i_2 in range(3):" in source(func)


def test_arguments_are_checked() -> None:
    c = buffer("c", 3)
    func = Func("f", (c,), Block(()))
    for args, message in [
        ([], "f takes 1 arguments, got 0"),
        ([3], "argument c of f must be an array, got int"),
        ([np.zeros(3, np.int32)], "array for c is int32 of rank 1, wanted float32 of rank 1"),
        ([np.zeros(4, np.float32)], "array for c has extent 4 in dimension 0, wanted 3"),
    ]:
        with pytest.raises(InternalError) as error:
            run(func, args)
        assert str(error.value) == message

"""What has a meaning: each function gives by the interpreter what Python gives for it on NumPy's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.relay import ScriptFunction, Tensor
from legato.script.values import describe

TABLE = np.arange(6, dtype="float32").reshape(2, 3)
HALF = np.float32(0.5)
STEPS = 3
F = Tensor(("n", "m"), "float32")
x23 = np.array([[1.5, -2.0, 0.25], [3.0, 4.5, -1.0]], "float32")
x5 = np.array([3, -1, 4, -1, 5], "int32")


@relay
def arithmetic(x: F, k: float):
    """Floats."""
    y: Any = x * 2 + 1.5 - x / 4
    y -= k
    return y**2, -y, +y, abs(x), 1 - x, k * HALF


@relay
def whole(a: Tensor((5,), "int32"), b: int):
    return a // 3, a % 3, b // -2, b % 5, a << 2, a >> 1, a & 6, a | b, a ^ 3, ~a, -7 // 2, 2**5


@relay
def conditions(a: int, b: int):
    inside = 0 < a < b <= 10
    either = a > 100 or (not (b > 3) and a != b)
    return inside, either, (a > 3) & (b > 3), a > 3 and True, a is None


@relay
def indices(x: F, i: int, at: Tensor((2,), "int64")):
    return x[1:, ::-1], x[..., None], x[-1], x[0, 1:3], x[:, -2], x[i], x[i, 1:], x[:, i], x[at], x[None, 0], TABLE[i]


@relay
def computed_parts(x: F, i: int, at: Tensor((2,), "int64")):
    rows = x[:, x[1] > 3]
    return (
        x[:i],
        x[i:],
        x[-i:, 1],
        x[::-1][:i],
        x[7:i:-2],
        x[i:3, at[0] :],
        x[:i].shape[0],
        x[x > 2],
        rows,
        rows[None, 0],
    )


@relay
def tuples(x: F, k: int):
    pair = (x, (k, k + 1))
    a, (b, c) = pair
    b, c = c, b
    first, *rest = (1, *pair[1], b)
    return a[0], b - c, first, rest, pair[1][-1] * 2, (*rest, k)[1:3], len(pair)


@relay
def shapes(x: Tensor(("n", 3))):
    n, m = x.shape
    assert m == 3, "three columns"
    assert x.ndim == 2
    y = x[:2]
    if x.shape[1] != 3:
        y = undefined  # noqa: F821  # no path leads here
    big = n > 3
    scale = 10 if n * 2 > 5 else 1
    return n * m, y * 2, big, scale, len(x), x.T, x.dtype == "float32"


@relay
def over_tuples(x: F):
    total = x
    for k, row in enumerate((x, x + 1, x * 2)):
        total = total + row * k
    for a, b in zip((1, 2), (3, 4), strict=False):
        total += a * b
    parts = [v * 2 for v in (x, total) if v is not None]
    return sum(p[0] for p in parts), max(1, 2, 0), min((3, 2)), list(reversed(parts))[1:]


@relay
def early(a: int, b: int):
    if a > 10:
        if b > 10:
            return 1, a
        a = a - b
    elif a > 5:
        a = b
        if b == 3:
            return 2, b
    else:
        b = a + b
    c = a * b
    if c > 20:
        return 3, c
    return a, b


@relay
def nested_loops(n: int, m: int):
    count, state = 0, (0, 1)
    for i in range(n):
        for j in range(i, m):
            if (i + j) % 3 == 0:
                continue
            if j > 6:
                break
            count += 1
            state = (state[1], (state[0] + state[1]) % 100)
        if count > 30:
            break
    return count, state, n


@relay
def found(x: Tensor(("n",), "int32"), wanted: int):
    for i in range(x.shape[0]):
        if x[i] == wanted:
            return i
    return -1


@relay
def ranges(n: int):
    total, last = 0, -1
    for i in range(n, 0, -2):
        total, last = total * 3 + i, i
    for i in range(2, 5):
        total += i
    while True:
        total -= 7
        if total < n:
            break
    return total, last


@relay
def inner_functions(x: F, k: int):
    def scaled(v, by=2, *, plus: float = 1):
        if by > 2:
            return v * by
        return v + plus

    def shifted(v, by=k):
        return v + by

    def twice(f, v):
        return f(f(v))

    square = lambda v: v * v  # noqa: E731
    return (
        scaled(x),
        scaled(x, 3),
        scaled(x, plus=k * 0 + 1.5 if k is None else 2),
        twice(square, k),
        twice(scaled, x),
        shifted(1),
    )


@relay
def composed(x: F):
    compose = lambda f, g: lambda v: f(g(v))  # noqa: E731
    twice = lambda f: lambda v: f(f(v))  # noqa: E731
    apply = lambda f, v: f(v)  # noqa: E731
    return (
        (lambda f, g: lambda v: f(g(v)))(lambda v: v + 1.0, lambda v: v * 2.0)(x),
        compose(compose(lambda v: v + 1.0, lambda v: v * 2.0), lambda v: v - 1.0)(x),
        twice(twice(lambda v: v * 3.0))(x),
        apply(lambda v: apply(lambda w: w + 4.0, v), x),
    )


@relay
def numbers(a: int, b: float, c: bool):
    return (
        float(a),
        int(b),
        bool(a),
        min(a, 3),
        max(a, a * 2, 4),
        float(c),
        abs(a),
        int("7"),
        np.float64(b),
        np.int64(3),
    )


@relay
def factorial(n: int) -> int:
    return 1 if n <= 1 else n * factorial(n - 1)


@relay
def is_even(n: int) -> bool:
    return True if n == 0 else is_odd(n - 1)


@relay
def is_odd(n: int) -> bool:
    if n == 0:
        return False
    return is_even(n - 1)


@relay
def helped(x: F, n: int = 4):
    rows = [found(TABLE_OF_INTS, v) for v in (4, 7)]
    return factorial(n), rows, arithmetic(x, k=1)[0], is_odd(n=3)


TABLE_OF_INTS = x5


@relay
def long_loop(x: Tensor(("n",)), n: int):
    y, k = x, 0
    while k < n:
        y, k = y * 0.5 + x, k + 1
    return y


@relay
def dims_inside(x: Tensor(("n", "m")), flag: bool):
    n, m = x.shape
    total = 0.0
    for i in range(3):
        total = total + float(n + i) * 0.5
        if total > 1000:
            return total, x
    out = x
    if flag:
        if n > 5:
            return total, x
        out = x * n
    elif m > 7:
        return total, -x
    ones = relay.ones((n, 1), "float32")
    return total + relay.sum(ones), out + ones * relay.cast(n * m, "float32")


def made(scale: float) -> ScriptFunction:
    offset = np.full(3, scale, "float32")

    @relay
    def closed(x: Tensor(("n", 3))):
        for _ in range(STEPS):
            x = x * scale + offset
        return x

    return closed


CASES: list[tuple[ScriptFunction, tuple[Any, ...]]] = [
    (arithmetic, (x23, 0.75)),
    (whole, (x5, 7)),
    (whole, (x5, -7)),
    *((conditions, args) for args in ((1, 3), (7, 3), (101, 3), (0, 11))),
    (indices, (x23, 1, np.array([1, 0], "int64"))),
    (indices, (x23, -2, np.array([-1, 0], "int64"))),
    *((computed_parts, (x23, i, np.array([i % 3, 0], "int64"))) for i in (-2, 0, 1, 5)),
    (tuples, (x23, 5)),
    (composed, (x23,)),
    (shapes, (x23,)),
    (shapes, (np.ones((4, 3), "float32"),)),
    (over_tuples, (x23,)),
    *((early, (a, b)) for a in (3, 6, 11) for b in (-3, 3, 12)),
    *((nested_loops, args) for args in ((0, 5), (4, 9), (20, 20))),
    *((found, (x5, v)) for v in (5, -1, 9)),
    *((ranges, (n,)) for n in (0, 5, 8)),
    (inner_functions, (x23, 3)),
    (numbers, (-3, 2.75, True)),
    (numbers, (0, -2.75, False)),
    (factorial, (6,)),
    (is_even, (7,)),
    (helped, (x23, 5)),
    (long_loop, (np.ones(3, "float32"), 300)),
    (made(0.5), (x23,)),
    (made(2.0), (x23,)),
]


def plain(function: ScriptFunction) -> Callable[..., Any]:
    """The Python function, whose decorated callees are Python functions, too."""
    wrapped: Any = function.__wrapped__
    others = {k: v.__wrapped__ for k, v in wrapped.__globals__.items() if isinstance(v, ScriptFunction)}
    names = {**wrapped.__globals__, **others}
    names.update({k: type(v)(v.__code__, names, k, v.__defaults__) for k, v in others.items()})
    copied: Callable[..., Any] = type(wrapped)(
        wrapped.__code__, names, wrapped.__name__, wrapped.__defaults__, wrapped.__closure__
    )
    copied.__kwdefaults__ = wrapped.__kwdefaults__
    return copied


def check(got: Any, want: Any) -> None:
    """The same structure, shapes and values; dtypes are those of Relay."""
    if isinstance(want, tuple | list):
        assert isinstance(got, tuple)
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            check(g, w)
        return
    assert np.shape(got) == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0].__name__}")
def test_a_function_means_what_python_means(case: tuple[ScriptFunction, tuple[Any, ...]]) -> None:
    function, args = case
    check(function(*args), plain(function)(*args))
    assert relay.structural_equal(relay.parse(function.astext()), function.module)


COMPILED = [early, composed, computed_parts, nested_loops, found, shapes, helped, long_loop]


@pytest.mark.parametrize("function", COMPILED, ids=lambda f: f.__name__)
def test_loops_and_branches_compile(function: ScriptFunction) -> None:
    exe = legato.compile(function)
    for args in [args for f, args in CASES if f is function]:
        typed = [np.int32(a) if isinstance(a, int) else a for a in args]
        check(exe(*typed), plain(function)(*args))


@pytest.mark.parametrize("flag", [True, False])
def test_symbolic_extents_are_numbers_and_shapes_in_loops_and_branches(flag: bool) -> None:
    exe = legato.compile(dims_inside)
    for shape in ((2, 3), (2, 8), (6, 2)):
        n, m = shape
        x = np.ones(shape, "float32")
        total = sum((n + i) * 0.5 for i in range(3))
        want = (total + n, (x * n if flag else x) + n * m)
        if (flag and n > 5) or (not flag and m > 7):
            want = (total, x if flag else -x)
        check(dims_inside(x, flag), want)
        check(exe(x, np.bool_(flag)), want)


def test_a_loop_has_the_variables_that_live_across_it() -> None:
    @relay
    def f(x: Tensor(("n",)), unused: Tensor(("n",)), n: int):
        before = x * 2
        scratch = before
        for i in range(n):
            scratch = before + i * 0
            x = x + scratch
        return x

    @relay
    def g(x: Tensor((3,)), n: int):
        k, total = 0, x
        while k < n:
            t = total * 2
            total, k = t + x, k + 1
        return total

    text = str(g)
    assert "def @main_while(%x: Tensor[(3,), float32], %n: int32, %k: int32, %total: Tensor[(3,), float32])" in text
    assert "@main_while(%x, %n, 0, %x)" in text
    with pytest.raises(legato.base.errors.CompileError):
        _ = f.module  # i is a whole number, x is not


def test_closures_are_values() -> None:
    @relay
    def applied(f: Callable[[Tensor((3,))], Tensor((3,))], x: Tensor((3,))) -> Tensor((3,)):
        return f(f(x))

    @relay
    def main(x: Tensor((3,)), flag: bool):
        def shifted(v: Tensor((3,))) -> Tensor((3,)):
            return v + x

        def power(v: Tensor((3,)), n: int) -> Tensor((3,)):
            return v if n == 0 else power(v * x, n - 1)

        chosen = shifted if flag else (lambda v: v * x)
        return applied(chosen, x), applied(lambda v: power(v, 2), x)

    x = np.array([1, 2, 3], "float32")
    for flag in (True, False):
        check(main(x, flag), (3 * x if flag else x**3, x**5))


def test_what_is_seen_of_a_function() -> None:
    assert repr(factorial) == "<relay function factorial>"
    assert factorial.mod is factorial.module
    assert arithmetic.__doc__ == "Floats."
    assert str(factorial).count("@main(") == 2
    assert describe(np.int64(3)) == "an array of shape () and dtype int64"
    with pytest.raises(legato.base.errors.RunError, match="got 2 arguments and no names, wanted n"):
        factorial(1, 2)


def test_operators_know_their_lines() -> None:
    from legato.base.node import post_order
    from legato.ir.expr import Call, Expr

    roots: list[Expr] = [f for _, f in arithmetic.module.graph_functions()]
    first = arithmetic.__wrapped__.__code__.co_firstlineno
    lines = {n.span.line - first for n in post_order(roots) if isinstance(n, Call) and n.span is not None}
    assert lines == {3, 4, 5}
    assert all(n.span is not None for n in post_order(roots) if isinstance(n, Call))

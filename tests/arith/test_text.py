"""Scalar expressions as text and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Expr, Var, const, fresh, ge, land, lt, max_, min_, select
from legato.arith.parser import parse
from legato.arith.printer import show
from legato.base import dtype as dt
from legato.base.errors import ParseError, TypeCheckError
from tests.arith import strategies

N, M = fresh("n"), fresh("m")
X, Y = Var("x", dt.float32), Var("y", dt.float32)
I8 = Var("i", dt.int8)


@given(st.one_of(strategies.indices([N, M]), strategies.conditions([N, M])))
def test_index_expressions_round_trip(e: Expr) -> None:
    assert parse(str(e), [N, M]) is e


@given(strategies.machine([X, Y]))
def test_float_expressions_round_trip(e: Expr) -> None:
    assert parse(str(e), [X, Y]) is e


@given(strategies.machine([I8]))
def test_machine_integers_round_trip(e: Expr) -> None:
    assert parse(str(e), [I8]) is e


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (N * 2 + 1, "n * 2 + 1"),
        ((N + 1) * 2, "(n + 1) * 2"),
        (N - (M - 1), "n - (m - 1)"),
        ((N - M) - 1, "n - m - 1"),
        (N // 4 % 3, "n // 4 % 3"),
        (N // (M % 3), "n // (m % 3)"),
        (min_(N, const(8)), "min(n, 8)"),
        (select(land(lt(N, 4), ge(M, 2)), N, max_(N, M)), "select(n < 4 and 2 <= m, n, max(n, m))"),
        (X * const(1.5, dt.float32) + const(-2.0, dt.float32), "x * 1.5f + -2f"),
        (I8 + const(-3, dt.int8), "i + -3i8"),
        (const(float("-inf"), dt.float64), "-inff64"),
        (const(True, dt.bool_), "True"),
    ],
)
def test_text(e: Expr, text: str) -> None:
    assert str(e) == text


def test_names_may_be_given() -> None:
    assert show(N + M, lambda v: v.name.upper()) == "N + M"


def test_input_may_use_more_than_the_printer_writes() -> None:
    assert parse("-n > 2", [N]) is lt(const(2), const(0) - N)
    assert parse("min(n, /* a /* nested */ comment */ m,)", [N, M]) is min_(N, M)


def test_deep_text_does_not_recurse() -> None:
    e: Expr = N
    for _ in range(20_000):
        e = min_(e, M) + 1
    assert parse(str(e), [N, M]) is e


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n +", "expected an expression, got the end of the text"),
        ("n + 1f", "operands of + differ in dtype: index and float32"),
        ("(n", "expected `)`, got the end of the text"),
        ("(n, m)", "expected `)`, got `,`"),
        ("min(n", "expected `,` or `)`, got the end of the text"),
        ("min(n)", "min takes 2 arguments, got 1"),
        ("q", "unknown name `q`"),
        ("f(n)", "unknown function `f`"),
        ("n[1]", "`n` cannot be subscripted"),
        ("n m", "expected the end of the text, got `m`"),
        ("n / m", "/ needs floats, got index"),
        ("n and m", "and needs bools, got index"),
        ("select(n, n, m)", "select takes (bool, T, T), got (index, index, index)"),
        ("300i8", "300 does not fit int8"),
        ("-(n < m)", "- needs a number, got bool"),
        ("n ~ m", "unexpected character '~'"),
        ("n /* m", "this comment has no end"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text, [N, M])
    assert caught.value.message == message


def test_an_error_points_at_its_place() -> None:
    with pytest.raises(ParseError) as caught:
        parse("n +\n  quux", [N, M], "dims.txt")
    assert str(caught.value) == (
        "parse error: unknown name `quux`\n  at dims.txt:2:3\n  |   quux\n  |   ^^^^\n  hint: known: n, m"
    )


def test_numbers_have_at_most_as_many_digits_as_can_be_read() -> None:
    most = "9" * 400
    assert str(parse(most) - 1 + 1) == most
    with pytest.raises(TypeCheckError, match=r"^type error: a number in a dim has more than 400 digits$"):
        parse(most) + 1
    with pytest.raises(ParseError) as caught:
        parse(f"n + 1{'0' * 200} * 1{'0' * 200}", [N])
    assert str(caught.value).splitlines()[:2] == [
        "parse error: a number in a dim has more than 400 digits",
        "  at <text>:1:207",
    ]

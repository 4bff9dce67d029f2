"""Sizes as data: JSON, evaluation, printing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.base.errors import InternalError, RunError
from legato.runtime.size import MAX_DEPTH, OPERATORS, Formula, Size, SizeError, combine, compile_size, parse_size, show

sizes = st.recursive(
    st.integers(-9, 99) | st.sampled_from(["n", "m"]),
    lambda inner: (
        st.tuples(st.sampled_from(sorted(OPERATORS)), inner, inner)
        | st.tuples(st.sampled_from(["+", "*", "min", "max"]), inner, inner, inner)
        | st.tuples(st.just("select"), inner, inner, inner)
    ),
    max_leaves=12,
)


def value(size: Size, n: int, m: int) -> int:
    """The definition: evaluated by walking."""
    if not isinstance(size, tuple):
        return {"n": n, "m": m}[size] if isinstance(size, str) else size
    first, *rest = (value(operand, n, m) for operand in size[1:])
    if size[0] == "select":
        return rest[0] if first else rest[1]
    for operand in rest:
        first = OPERATORS[str(size[0])](first, operand)
    return first


@given(sizes, st.integers(0, 50), st.integers(0, 50))
def test_evaluation(size: Size, n: int, m: int) -> None:
    assert compile_size(size, ["n", "m"])([n, m]) == value(size, n, m)


@given(sizes)
def test_round_trip_through_json(size: Size) -> None:
    assert parse_size(json.loads(json.dumps(size))) == size


@given(sizes, st.integers(0, 50), st.integers(0, 50))
def test_text_means_the_same(size: Size, n: int, m: int) -> None:
    # The text is Python's, except where a divisor is zero and for select and truth values.
    if set(_operators(size)) <= {"+", "-", "*", "min", "max"}:
        assert eval(show(size), {"n": n, "m": m}) == value(size, n, m)


def _operators(size: Size) -> list[str]:
    if not isinstance(size, tuple):
        return []
    return [str(size[0])] + [op for operand in size[1:] for op in _operators(operand)]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (("+", ("*", 2, "n"), 1), "2*n + 1"),
        (("*", ("+", "n", 1), "m"), "(n + 1)*m"),
        (("-", "n", ("-", "m", 1)), "n - (m - 1)"),
        (("//", ("+", "n", 3), 4), "(n + 3) // 4"),
        (("max", ("*", "n", 4), 1), "max(n*4, 1)"),
        (("select", ("<", "n", 3), 1, "n"), "select(n < 3, 1, n)"),
    ],
)
def test_text(size: Size, text: str) -> None:
    assert show(size) == text


def test_division_by_zero_is_zero() -> None:
    assert (Formula(("//", "n", 0))(n=5), Formula(("%", "n", 0))(n=5)) == (0, 0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (1.5, "got 1.5, wanted an integer, a dim's name or [operator, operands…]"),
        (True, "got True, wanted an integer, a dim's name or [operator, operands…]"),
        ([], "got [], wanted an integer, a dim's name or [operator, operands…]"),
        (["**", 1, 2], "unknown operator '**' on 2 operands"),
        (["-", 1, 2, 3], "unknown operator '-' on 3 operands"),
        (["__import__", "os"], "unknown operator '__import__' on 1 operands"),
        ([["n", 0, 8]], "got ['n', 0, 8], wanted the name of an operator"),
        ([["n"], 1, 2], "got ['n'], wanted the name of an operator"),
    ],
)
def test_bad_data(data: object, message: str) -> None:
    with pytest.raises(SizeError) as error:
        parse_size(data)
    assert str(error.value) == message


def test_deep_data_is_refused() -> None:
    deep: object = 1
    for _ in range(MAX_DEPTH):
        deep = ["+", deep, 1]
    with pytest.raises(SizeError, match="a size may nest 200 deep"):
        parse_size(deep)


def test_long_sums_stay_flat() -> None:
    total: Size = "n"
    for _ in range(1000):
        total = combine("+", total, "n")
    assert Formula(parse_size(total))(n=2) == 2002


def test_unknown_name() -> None:
    with pytest.raises(InternalError, match="size 'k' is not among the dims n, m"):
        compile_size("k", ["n", "m"])


def test_formula() -> None:
    formula = Formula(("*", 4, "n"))
    assert (str(formula), repr(formula), formula.dims, formula(n=3, other=1)) == ("4*n", "<formula 4*n>", ("n",), 12)
    assert int(Formula(7)) == 7
    with pytest.raises(TypeError, match=r"the formula 4\*n also needs n"):
        formula()


def power(n: int) -> Size:
    """The product of n times the dim."""
    return ("*", *["n"] * n)


def test_a_size_does_not_leave_64_bits() -> None:
    assert compile_size(power(4), ["n"])([2**15]) == 2**60
    for size in (power(4), ("+", power(4), 5), ("//", power(4), 2**60), ("max", 1, power(4))):
        with pytest.raises(RunError, match=r"^out of memory: the size n\*n\*n\*n is beyond 2\^63$"):
            compile_size(size, ["n"])([2**16])
    assert compile_size(("select", ("<", "n", 9), power(4), 7), ["n"])([2**16]) == 7  # what is not asked for


def test_formulas_of_many_nodes_are_evaluated_at_once_or_refused() -> None:
    with pytest.raises(SizeError, match=r"^a size of 14000 bits; there are 64$"):
        parse_size(["*", "n", 2**13999])
    for size in (power(9000), ("//", power(4500), power(4500)), ("%", power(4500), ("-", power(4000), 1))):
        formula = Formula(parse_size(size))
        with pytest.raises(RunError, match=r"^out of memory: the size n\*n\*n.*… is beyond 2\^63$"):
            formula(n=2**62)
        assert formula(n=1) in (0, 1)
        assert len(str(formula)) > 9000


@pytest.mark.parametrize("value", [-1, 2**63, 1.5, "3", None])
def test_dims_are_numbers(value: object) -> None:
    with pytest.raises(RunError, match=r"^dim n: got .*, wanted an integer from 0 to 2\^63$"):
        Formula("n")(n=value)  # type: ignore[arg-type]

"""Values of index arithmetic that hold from one statement to the next."""

from __future__ import annotations

import pytest

from legato.arith.expr import Expr, Var, const
from legato.base import dtype as dt
from legato.codegen.builder import Builder
from legato.codegen.known import Known
from legato.codegen.value import Value
from legato.tir.buffer import Buffer
from legato.tir.expr import Load

N, K, J = (Var(name, lo=0) for name in ("n", "k", "j"))


def value(name: str, level: int) -> Value:
    return Value(name, "i64", 1, level)


def test_a_value_holds_until_one_of_its_variables_has_another() -> None:
    known = Known(Builder())
    quotient, other = (N + K) // 3, N // 3
    known.keep(quotient, value("%q", 0))
    known.keep(other, value("%o", 0))
    assert known.get(quotient) == value("%q", 0)
    known.forget(J)
    assert known.get(quotient) == value("%q", 0)
    known.forget(K)
    assert known.get(quotient) is None
    assert known.get(other) == value("%o", 0)
    known.keep(quotient, value("%r", 0))
    known.forget(K)
    assert known.get(quotient) is None


def test_a_value_ends_with_the_scope_that_it_is_defined_in() -> None:
    builder = Builder()
    known = Known(builder)
    builder.open()
    known.keep(N // 3, value("%inside", 3))
    known.keep(N // 5, value("%outside", 1))
    assert known.get(N // 3) == value("%inside", 3)
    builder.close()
    assert known.get(N // 3) is None
    assert known.get(N // 5) == value("%outside", 1)
    builder.open()  # another one, as deep
    assert known.get(N // 3) is None


@pytest.mark.parametrize(
    "e", [Load(Buffer("x", (N,), dt.index), (K,)) // 3, Load(Buffer("x", (const(4),), dt.index), (K,))]
)
def test_what_is_in_memory_is_asked_for_again(e: Expr) -> None:
    known = Known(Builder())
    known.keep(e, value("%x", 0))
    assert known.get(e) is None

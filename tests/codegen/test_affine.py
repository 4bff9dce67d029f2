"""Addresses as sums of products."""

from __future__ import annotations

import pytest

from legato.arith.expr import Expr, Var, const
from legato.base import dtype as dt
from legato.codegen.affine import Affine
from legato.codegen.builder import Builder
from legato.codegen.value import Value
from legato.lower.rules.nest import unfused
from legato.tir.buffer import Buffer

X, K, N, H, W = (Var(name, lo=0) for name in ("x", "k", "n", "h", "w"))


def no_value(e: Expr) -> Value:
    raise AssertionError(f"nobody asks for the value of {e}")


@pytest.mark.parametrize("extents", [(N, H, W), (N, H, const(9)), (N, const(7), const(9)), (N, W), (N, const(1), W)])
def test_dimensions_that_one_loop_walks_along_are_not_divided(extents: tuple[Expr, ...]) -> None:
    affine = Affine(Builder(), no_value, {})
    buffer = Buffer("x", (*extents, const(8)), dt.float32)
    assert affine.offset(buffer.offset((*unfused(X * 3 + 2, extents), K))) == {(X,): 24, (): 16, (K,): 1}


def test_variables_of_one_value_are_one_term() -> None:
    affine = Affine(Builder(), lambda _: Value("%i", "i64", 1, 2), {})
    (term,) = affine.resolve(affine.offset(X * 3 + K * 5 + 1)).terms
    assert term[1] == 8


def test_a_remainder_without_its_quotient_stays() -> None:
    affine = Affine(Builder(), no_value, {})
    assert len(affine.offset(X // N * (N * 8) + X % N * 4)) == 2
    assert len(affine.offset(X // H * (N * 8) + X % N * 8)) == 2

"""Scalars live in registers: programs of them launch nothing, and mean what the interpreter says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.test_programs import check, flag, floats, int32

STEP = """
    def @step(%i: int32, %n: int32, %x: float32, %y: float32, %a: float32, %b: float32) -> (float32, float32, int32) {
      if (less(%i, %n)) {
        let %re = subtract(multiply(%x, %x), multiply(%y, %y));
        let %im = multiply(multiply(%x, %y), 2f);
        @step(add(%i, 1), %n, add(%re, %a), add(%im, %b), %a, %b)
      } else { (%x, %y, %i) }
    }
    def @main(%n: int32, %a: float32, %b: float32) { @step(0, %n, 0f, 0f, %a, %b) }"""
SWAP = """
    def @turn(%i: int32, %x: int32, %y: int32, %z: int32) -> (int32, int32, int32) {
      if (less(%i, 4)) { @turn(add(%i, 1), %y, %z, %x) } else { (%x, %y, %z) }
    }
    def @main(%i: int32) { @turn(%i, 1, 2, 3) }"""
FORK = """
    def @f(%i: int64, %x: float64) -> float64 {
      let %p = if (less(%x, 10f64)) { (multiply(%x, 3f64), %i) } else { (%x, subtract(%i, 1i64)) };
      let %y = add(%p.0, cast(%i, dtype="float64"));
      if (less(%p.1, 1i64)) { exp(negative(%p.0)) } else { @f(subtract(%p.1, 1i64), %y) }
    }
    def @main(%i: int64) { @f(%i, 0.5f64) }"""
MIXED = """
    def @main(%c: bool, %k: float32, %x: Tensor[(n,), float32]) {
      let %s = sum(%x);
      let %t = if (%c) { multiply(%s, %k) } else { %k };
      (add(%x, %t), sum(multiply(%x, add(%t, 1f))), %t)
    }"""


def test_a_loop_over_scalars_launches_nothing() -> None:
    exe = check(STEP, *([int32(n), np.float32(-0.1), np.float32(0.2)] for n in (0, 1, 100)))
    assert exe.stats["kernels"] == 0


@pytest.mark.parametrize("i", [0, 2, 3, 9])
def test_state_that_changes_places(i: int) -> None:
    check(SWAP, [int32(i)])


@pytest.mark.parametrize("i", [0, 1, 5])
def test_branches_that_give_scalars(i: int) -> None:
    exe = check(FORK, [np.asarray(i, np.int64)])
    assert exe.stats["kernels"] == 0


def test_scalars_that_kernels_read_are_in_memory() -> None:
    check(MIXED, *([flag(c), np.float32(0.5), floats(n)] for c in (True, False) for n in (1, 5)))

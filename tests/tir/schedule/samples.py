"""Small programs that primitives are tried on, and their parts by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.tir.parser import parse_func
from legato.tir.printer import show
from legato.tir.stmt import Func
from legato.tir.walk import bound_buffers, loops

Edit = Callable[[Func, dict[str, Any]], Func]  # of a function and its parts by name

COPY = """
kernel @f(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {
  for i in 0..n {
    y[i] = x[i] + 1f;
  }
}
"""
TRANSPOSE = """
kernel @f(x: Buffer[(4, 6), float32], y: Buffer[(6, 4), float32]) {
  for i in 0..4 {
    for j in 0..6 {
      y[j, i] = x[i, j];
    }
  }
}
"""
SUM = """
kernel @f(x: Buffer[(4, 32), float32], y: Buffer[(4,), float32]) {
  for i in 0..4 {
    y[i] = 0f;
    for r in 0..32 {
      y[i] = y[i] + x[i, r];
    }
  }
}
"""
BLUR = """
kernel @f(x: Buffer[(12,), float32], y: Buffer[(10,), float32]) {
  alloc t: Buffer[(11,), float32];
  for j in 0..11 {
    t[j] = x[j] + x[j + 1];
  }
  for o in 0..3 {
    for i in 0..4 {
      if o * 4 + i < 10 {
        y[o * 4 + i] = t[o * 4 + i] + t[o * 4 + i + 1];
      }
    }
  }
}
"""
SCAN = """
kernel @f(x: Buffer[(2, 8), float32], y: Buffer[(2, 8), float32]) {
  for i in 0..2 {
    for j in 0..8 {
      y[i, j] = select(0 < j, y[i, j - 1], 0f) + x[i, j];
    }
  }
}
"""
SCRATCH = """
kernel @f(x: Buffer[(4,), float32], y: Buffer[(4,), float32]) {
  alloc t: Buffer[(1,), float32, scope=local];
  for i in 0..4 {
    t[0] = x[i];
    y[i] = t[0] * t[0];
  }
}
"""


def parts(text: str) -> tuple[Func, dict[str, Any]]:
    """The function, and its loop variables and buffers by name."""
    func = parse_func(text)
    names: dict[str, Any] = {f.var.name: f.var for f in loops(func)}
    names |= {b.name: b for b in [*func.params, *bound_buffers(func)]}
    return func, names


def edited(text: str, edit: Edit) -> str:
    """The text of the program after `edit`."""
    return show(edit(*parts(text))).strip()

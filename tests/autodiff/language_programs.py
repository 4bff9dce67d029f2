"""Small programs over the whole language, smooth where they are called; floats are float64."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

LIST: Final = "type List[a] { Nil, Cons(a, List[a]) }\n"
TREE: Final = "type Tree { Leaf(float64), Node(Tree, Tree) }\n"

PROGRAMS: Final[dict[str, str]] = {
    "branch": "def @main(%x: float64, %y: float64) { if (%x > %y) { %x * %y } else { let %z = %x + %y; %z * %z } }",
    "recursion": """
        def @power(%n: int32, %x: float64) -> float64 { if (%n == 0) { 1f64 } else { %x * @power(%n - 1, %x) } }
        def @main(%x: float64, %n: int32) { @power(%n, %x) * sin(%x) }""",
    "closure": """
        def @main(%x: float64, %y: float64) {
          let %f = fn (%a: float64) -> float64 { %a * %x + %y };
          %f(%f(%y)) * tanh(%x)
        }""",
    "counter": """
        def @main(%x: float64, %n: int32) {
          let %loop = fn (%i: int32, %acc: float64) -> float64 {
            if (%i == 0) { %acc } else { %loop(%i - 1, sin(%acc) * %x + %acc) }
          };
          %loop(%n, %x)
        }""",
    "functions as values": """
        def @map[a, b](%f: fn (a) -> b, %p: (a, a)) -> (b, b) { (%f(%p.0), %f(%p.1)) }
        def @main(%x: float64, %y: float64) {
          let %p = @map(fn (%a: float64) -> float64 { %a * %x }, (%x, %y));
          %p.0 * %p.1 + @map(tanh, (%x, %y)).0
        }""",
    "functions that give functions": """
        def @curry(%x: float64) -> fn (float64) -> float64 { fn (%y: float64) -> float64 { %x * sin(%y) } }
        def @main(%x: float64, %y: float64, %c: bool) {
          let %f = if (%c) { @curry(%x) } else { @curry(%y) };
          %f(%x) + %f(%y)
        }""",
    "list": LIST + """
        def @total(%l: List[float64]) -> float64 { match (%l) { Nil => 0f64, Cons(%h, %t) => %h * %h + @total(%t) } }
        def @make(%n: int32, %x: float64) -> List[float64] {
          if (%n == 0) { Nil } else { Cons(%x, @make(%n - 1, %x * %x)) }
        }
        def @main(%x: float64, %n: int32) { @total(@make(%n, %x)) }""",
    "functions in data": LIST + """
        def @all(%l: List[fn (float64) -> float64], %x: float64) -> float64 {
          match (%l) { Nil => %x, Cons(%f, %t) => @all(%t, %f(%x)) }
        }
        def @main(%x: float64, %y: float64) {
          @all(Cons(sin, Cons(fn (%a: float64) -> float64 { %a * %y }, Cons(exp, Nil))), %x)
        }""",
    "tree": TREE + """
        def @fold(%t: Tree) -> float64 {
          match (%t) { Leaf(%x) => sin(%x), Node(%l, %r) => @fold(%l) * @fold(%r) + @fold(%l) }
        }
        def @main(%x: float64, %y: float64) { @fold(Node(Node(Leaf(%x), Leaf(%y)), Leaf(%x * %y))) }""",
    "cells": """
        def @main(%x: float64, %n: int32) {
          let %r = ref(%x);
          let %s = ref(%r);
          let %f = fn (%i: int32) -> () {
            if (%i == 0) { () } else { ref_write(ref_read(%s), ref_read(%r) * %x); %f(%i - 1) }
          };
          %f(%n);
          ref_write(%r, ref_read(%r) + %x);
          ref_read(%r)
        }""",
    "a cell that is shared": """
        def @main(%x: float64, %y: float64) {
          let %r = ref(%x);
          let %put = fn (%v: float64) -> () { ref_write(%r, ref_read(%r) * %v) };
          %put(%y); let %a = ref_read(%r); %put(%a); %a + ref_read(%r)
        }""",
    "tuples": """
        def @swap(%p: (float64, (int32, float64))) -> (float64, (int32, float64)) { (%p.1.1, (%p.1.0 + 1, %p.0)) }
        def @main(%x: float64, %y: float64) {
          let %p = @swap(@swap((%x, (3, %y))));
          let %q = @swap(%p);
          %p.0 * %q.0 * %q.0 + cast(%q.1.0, dtype="float64") * %x
        }""",
    "mutual recursion": """
        def @even(%n: int32, %x: float64) -> float64 { if (%n == 0) { %x } else { @odd(%n - 1, %x * %x) } }
        def @odd(%n: int32, %x: float64) -> float64 { if (%n == 0) { cos(%x) } else { @even(%n - 1, sin(%x)) } }
        def @main(%x: float64, %n: int32) { @even(%n, %x) }""",
    "operands in a tuple": """
        def @main(%x: Tensor[(3), float64], %y: Tensor[(3), float64], %c: bool) {
          let %z = if (%c) { %x * %y } else { %x };
          let %all = stack((%z, %y, %x, %z), axis=1);
          sum(%all * %all * %all)
        }""",
    "not used": "def @main(%x: float64, %y: float64) { let %z = exp(%y); let %f = fn () { %z }; %x }",
    "vectors": """
        def @step(%x: Tensor[(n), float64], %w: Tensor[(n), float64], %k: int32) -> Tensor[(n), float64] {
          if (%k == 0) { %x } else { @step(tanh(%x * %w), %w, %k - 1) }
        }
        def @main(%x: Tensor[(m), float64], %w: Tensor[(m), float64], %n: int32) { sum(@step(%x, %w, %n) * %w) }""",
}  # fmt: skip


def arguments(params: Any, rng: np.random.Generator) -> list[Any]:
    """Random arguments: floats between 0.4 and 1.3, 3 for an integer and a symbolic dim, true for a bool."""
    found: list[Any] = []
    for param in params:
        shape = [3 for _ in param.ty.shape]
        if param.ty.dtype.is_float:
            found.append(np.asarray(rng.uniform(0.4, 1.3, shape)))
        else:
            found.append(np.asarray(True) if param.ty.dtype.is_bool else np.asarray(3, np.int32))
    return found

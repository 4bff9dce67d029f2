"""Extents that only a running program knows, through closures, references, lists, loops of several functions and what
is known when the program is compiled."""

from __future__ import annotations

import pytest

from legato.base.errors import RunError
from tests.lower.hosts.test_late_dims import means
from tests.lower.test_programs import flag, floats, int32

TYPES = """
    type List[A] { Cons(A, List[A]), Nil }
    type Option[A] { Some(A), None }
    type Box { Box(Tensor[(?,), float32]), Also(Tensor[(?,), float32]), Empty }
    """
PROGRAMS = {
    "a closure holds a tensor": """
      def @held(%x: Tensor[(?,), float32]) -> fn (float32) -> float32 {
        let %y = concatenate((%x, %x));
        fn (%a: float32) { sum(%y) * %a }
      }
      def @main(%c: bool, %n: int32, %x: Tensor[(n,), float32]) {
        let %f = if (%c) { @held(%x) } else { @held(concatenate((%x, %x, %x))) };
        %f(2f) + %f(3f)
      }""",
    "a closure gives a tensor": """
      def @pick(%c: bool, %x: Tensor[(n,), float32]) -> fn (int32) -> Tensor[(?,), float32] {
        if (%c) { fn (%k: int32) -> Tensor[(?,), float32] { %x } }
        else { fn (%k: int32) -> Tensor[(?,), float32] { concatenate((%x, %x)) } }
      }
      def @main(%c: bool, %n: int32, %x: Tensor[(n,), float32]) { let %f = @pick(%c, %x); (%f(1), sum(%f(2))) }""",
    "a closure gives another extent each time": """
      def @main(%c: bool, %n: int32, %x: Tensor[(n,), float32]) {
        let %r = ref(Box(%x));
        let %f = fn () -> Tensor[(?,), float32] {
          match? (ref_read(%r)) { Box(%y) => ref_write(%r, Box(strided_slice(%y, begin=[1], end=[100]))); %y }
        };
        let %g = if (%c) { fn () -> Tensor[(?,), float32] { %x } } else { %f };
        let %a = %g();
        let %b = %g();
        (sum(%a), %b, %a)
      }""",
    "closures in a list": """
      def @apply(%l: List[fn (float32) -> float32], %s: float32) -> float32 {
        match (%l) { Nil => %s, Cons(%g, %t) => @apply(%t, %g(%s)) }
      }
      def @main(%c: bool, %n: int32, %x: Tensor[(n,), float32]) {
        let %y = if (%c) { %x } else { concatenate((%x, %x)) };
        @apply(Cons(fn (%a: float32) { sum(%x) * %a }, Cons(fn (%a: float32) { sum(%y) + %a }, Nil)), 1f)
      }""",
    "a reference holds ever larger tensors": """
      def @turn(%n: int32, %r: ref(Box)) -> () {
        if (%n == 0) { () } else {
          match (ref_read(%r)) { Box(%x) => ref_write(%r, Box(concatenate((%x, %x)))), _ => () };
          @turn(%n - 1, %r)
        }
      }
      def @main(%c: bool, %n: int32, %x: Tensor[(n,), float32]) {
        let %r = ref(Box(%x));
        @turn(%n, %r);
        match? (ref_read(%r)) { Box(%y) => %y }
      }""",
    "lists of one extent": """
      def @pair(%c: bool, %x: Tensor[(?,), float32]) -> List[Tensor[(?,), float32]] {
        let %y = if (%c) { %x } else { concatenate((%x, %x)) };
        Cons(%y, Cons(exp(%y), Nil))
      }
      def @total(%l: List[Tensor[(n,), float32]]) -> float32 {
        match (%l) { Nil => 0f, Cons(%h, %t) => sum(%h) + @total(%t) }
      }
      def @main(%c: bool, %n: int32, %x: Tensor[(n,), float32]) {
        let %l = @pair(%c, %x);
        let %o = if (@total(%l) > 0f) { Some(%l) } else { None };
        (@total(%l), %l, %o)
      }""",
    "functions that call each other": """
      def @a(%n: int32, %x: Tensor[(?,), float32]) -> Tensor[(?,), float32] {
        if (%n == 0) { %x } else { @b(%n - 1, concatenate((%x, exp(%x * 0.01f)))) }
      }
      def @b(%n: int32, %x: Tensor[(?,), float32]) -> Tensor[(?,), float32] {
        if (%n == 0) { tanh(%x) } else { @a(%n - 1, strided_slice(%x, begin=[1], end=[100])) }
      }
      def @main(%c: bool, %n: int32, %x: Tensor[(n,), float32]) { @a(%n, %x) }""",
    "a condition that is known": """
      def @main(%c: bool, %n: int32, %x: Tensor[(n,), float32]) {
        let %y = if (True) { %x } else { concatenate((%x, %x)) };
        let %z = match_cast(%y, Tensor[(k,), float32]);
        (sum(%y * exp(%y)), sum(zeros(shape=[k]) + 1f))
      }""",
    "a result of which only the extent is used": """
      def @main(%c: bool, %n: int32, %x: Tensor[(n,), float32]) {
        let %y = if (%c) { %x } else { concatenate((%x, %x)) };
        let %z = match_cast(%y, Tensor[(k,), float32]);
        cast(arange(stop=k + 2), dtype="float32")
      }""",
    "clauses that are copied": """
      def @f(%a: Box, %b: Box) -> Tensor[(?,), float32] {
        match ((%a, %b)) {
          (Box(%x), Box(%y)) => concatenate((%x, %y)),
          (Also(%x), _) => %x,
          (_, Also(%y)) => exp(%y * 0.1f) * %y,
          _ => zeros(shape=[0])
        }
      }
      def @main(%c: bool, %n: int32, %x: Tensor[(n,), float32]) {
        let %y = if (%c) { Box(%x) } else { Also(concatenate((%x, %x))) };
        (@f(Box(%x), %y), @f(%y, Box(%x)), @f(%y, %y), @f(Empty, Empty))
      }""",
}


@pytest.mark.parametrize("main", PROGRAMS.values(), ids=PROGRAMS)
def test_compiled_is_interpreted(main: str) -> None:
    means(TYPES + main, *([flag(c), int32(n), floats(size)] for c in (True, False) for n, size in ((0, 1), (3, 4))))


@pytest.mark.parametrize("args", ["Box(%x), Box(%y), Empty", "Empty, Box(%y), Also(%x)", "Also(%x), Box(%x), Box(%y)"])
def test_equalities_hold_in_every_copy_of_a_clause(args: str) -> None:
    exe = means(
        f"""{TYPES}
    def @add(%p: (Box, Box, Box)) -> float32 {{
      match (%p) {{
        (Box(%x), Box(%y), _) => sum(%x * %y) + sum(tanh(%x) * exp(%y)) + sum(exp(%x) + %y * tanh(%x)),
        (_, Box(%x), Also(%y)) => sum(%x * %y) + sum(tanh(%x) * exp(%y)) + sum(exp(%x) + %y * tanh(%x)),
        (_, Box(%x), Box(%y)) => sum(%x + %y),
        _ => 0f
      }}
    }}
    def @main(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) {{ @add(({args})) }}""",
        [floats(2), floats(2)],
    )
    with pytest.raises(RunError, match="broadcast dim -1: d and d_1 must be equal"):
        exe(floats(2), floats(3))

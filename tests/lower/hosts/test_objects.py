"""Values of data types and references in compiled programs: what they mean, and that each is released once."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.errors import RunError
from tests.lower import programs
from tests.lower.hosts.programs import agree, leaked, lowered
from tests.lower.test_programs import compiled, floats, int32

LISTS = """
    type List[A] { Cons(A, List[A]), Nil }
    def @up(%i: int32, %n: int32, %l: List[int32]) -> List[int32] {
      if (less(%i, %n)) { @up(add(%i, 1), %n, Cons(%i, %l)) } else { %l }
    }
    def @sum(%l: List[int32], %a: int32) -> int32 {
      match (%l) { Nil => %a, Cons(%h, %t) => @sum(%t, add(%a, %h)) }
    }
    def @double(%l: List[int32]) -> List[int32] {
      match (%l) { Nil => Nil, Cons(%h, %t) => Cons(multiply(%h, 2), @double(%t)) }
    }
    def @length(%l: List[int32]) -> int32 { match (%l) { Nil => 0, Cons(_, %t) => add(1, @length(%t)) } }
    def @evens(%l: List[int32], %to: List[int32]) -> List[int32] {
      match (%l) {
        Nil => %to,
        Cons(%h, %t) => if (equal(mod(%h, 2), 0)) { @evens(%t, Cons(%h, %to)) } else { @evens(%t, %to) }
      }
    }
    def @often(%n: int32, %p: (List[int32], int32), %a: int32) -> int32 {
      if (less(%n, 1)) { %a } else { @often(subtract(%n, 1), %p, add(%a, @sum(%p.0, %p.1))) }
    }"""
TREES = """
    type Tree { Leaf(Tensor[(3,), float32]), Node(Tree, (float32, Tree)), None }
    def @grow(%d: int32, %x: Tensor[(3,), float32]) -> Tree {
      if (less(%d, 1)) { Leaf(tanh(%x)) } else {
        let %t = @grow(subtract(%d, 1), multiply(%x, 2f));
        if (less(%d, 2)) { Node(%t, (0.5f, %t)) } else { Node(%t, (cast(%d, dtype="float32"), Leaf(%x))) }
      }
    }
    def @total(%t: Tree) -> Tensor[(3,), float32] {
      match? (%t) {
        Leaf(%x) => %x,
        Node(%a, %p) => add(@total(%a), multiply(@total(%p.1), %p.0))
      }
    }
    def @left(%t: Tree) -> Tree { match (%t) { Node(%a, _) => @left(%a), _ => %t } }"""


@pytest.mark.parametrize("main", [
    "@sum(@up(0, %n, Nil), 0)",
    "@sum(@double(@up(0, %n, Nil)), 0)",
    "(@length(@evens(@up(0, %n, Nil), Nil)), @sum(@evens(@up(0, %n, Nil), Nil), 0))",
    "let %l = @up(0, %n, Nil); (@sum(Cons(1, %l), 0), @sum(Cons(2, %l), 0), @length(%l))",
    "let %l = @up(0, %n, Nil); let %m = if (less(%n, 3)) { %l } else { @double(%l) }; @sum(%m, @length(%l))",
    "let %l = @up(0, %n, Nil); if (less(%n, 3)) { 0 } else { @sum(%l, 0) }",
    "let %l = @up(0, %n, Nil); let %unused = Cons(%n, %l); 1",
    "let %p = (@up(0, %n, Nil), %n); let %q = (%p.0, %p.0); add(@sum(%q.1, 0), @length(%q.0))",
    "let %l = @up(0, %n, Nil); add(@often(3, (%l, 1), 0), @sum(%l, 0))",
    "match (@up(0, %n, Nil)) { Nil => 7, Cons(%h, %t) => match (%t) { Nil => %h, Cons(%g, %u) => @sum(%u, %g) } }",
])  # fmt: skip
def test_lists(main: str) -> None:
    agree(f"{LISTS}\ndef @main(%n: int32) {{ {main} }}", *([int32(n)] for n in (0, 1, 2, 9)))


@pytest.mark.parametrize("main", [
    "@total(@grow(%d, %x))",
    "@total(@left(@grow(%d, %x)))",
    "let %t = @grow(%d, %x); (@total(%t), @total(@left(%t)), %x)",
    "match (@left(@grow(%d, %x))) { Leaf(%y) => @total(Node(Leaf(%y), (2f, Leaf(%y)))), _ => %x }",
])  # fmt: skip
def test_trees_of_tensors(main: str) -> None:
    text = f"{TREES}\ndef @main(%d: int32, %x: Tensor[(3,), float32]) {{ {main} }}"
    agree(text, *([int32(d), floats(3)] for d in (0, 1, 4)))


@pytest.mark.parametrize("main", [
    "let %r = ref(%x); let %u = ref_write(%r, add(%x, %x)); ref_read(%r)",
    "let %r = ref(%x); let %a = ref_read(%r); let %u = ref_write(%r, tanh(%x)); (%a, ref_read(%r), ref_read(%r))",
    "let %r = ref((sum(%x), %x)); let %a = ref_read(%r); let %u = ref_write(%r, (1f, %a.1)); (%a.0, ref_read(%r))",
    "let %r = ref(ref(%x)); let %s = ref_read(%r); let %u = ref_write(%s, exp(%x)); ref_read(ref_read(%r))",
    "let %r = ref(()); let %u = ref_write(%r, ()); (ref_read(%r), %x)",
])  # fmt: skip
def test_references(main: str) -> None:
    agree(f"def @main(%x: Tensor[(n,), float32]) {{ {main} }}", *([floats(n)] for n in (1, 5)))


def test_values_that_refer_to_each_other_in_a_circle_end_with_the_call() -> None:
    text = """
    type List { Nil, Cons(int32, ref(List)) }
    def @main(%n: int32) {
      let %last = ref(Nil);
      let %list = Cons(%n, ref(Cons(1, %last)));
      ref_write(%last, %list);
      match (ref_read(%last)) { Cons(%x, _) => %x, Nil => 0 }
    }"""
    assert programs.interpreted(lowered(text), [int32(4)]) == [int32(4)]
    exe = compiled(text)
    assert [int(exe(int32(n))) for n in range(3)] == [0, 1, 2]


def test_a_field_of_nothing() -> None:
    text = """
    type T { A(((), ())), B(int32, ()) }
    def @main(%n: int32) {
      match (if (less(%n, 3)) { A(((), ())) } else { B(%n, ()) }) { A(%u) => (1, %u.0), B(%k, %v) => (%k, %v) }
    }"""
    agree(text, [int32(2)], [int32(4)])


def test_the_extents_of_a_field_that_is_not_read_may_depend_on_data() -> None:
    text = """
    type T { A(Tensor[(?, 3), float32], int32), B }
    def @main(%x: Tensor[(n, 3), float32], %k: int32) {
      match (if (less(%k, 3)) { A(%x, %k) } else { B }) { A(_, %y) => %y, B => 7 }
    }"""
    agree(text, [floats(2, 3), int32(2)], [floats(1, 3), int32(4)])


def test_a_tensor_is_computed_where_its_object_keeps_it() -> None:
    text = f"{TREES}\ndef @main(%x: Tensor[(3,), float32]) {{ @total(Node(Leaf(tanh(%x)), (1f, Leaf(exp(%x))))) }}"
    assert "copy" not in str(lowered(text).functions["main"])


def test_a_value_without_a_clause_is_an_error() -> None:
    exe = compiled(f"{TREES}\ndef @main(%x: Tensor[(3,), float32]) {{ @total(Node(Leaf(%x), (1f, None))) }}")
    for _ in range(2):
        with pytest.raises(RunError, match=r"no clause of match at <text>:[0-9:]+ fits the value"):
            exe(floats(3))


def test_a_fold_runs_in_the_memory_of_its_list() -> None:
    exe = compiled(f"{LISTS}\ndef @main(%n: int32) {{ @sum(@up(0, %n, Nil), 0) }}")
    n = 1_000_000
    assert exe(int32(n)) == np.sum(np.arange(n, dtype=np.int32), dtype=np.int32)
    assert leaked(exe) == 0


def test_many_calls_leave_nothing() -> None:
    exe = legato.compile(legato.parse(
        f'#[version = "0.0.5"]\n{TREES}\ndef @main(%x: Tensor[(3,), float32]) {{ @total(@grow(3, %x)) }}'
    ))  # fmt: skip
    for _ in range(100):
        exe(floats(3))
    assert leaked(exe) == 0


def test_recursion_is_as_deep_as_its_data() -> None:
    exe = compiled(f"{LISTS}\ndef @main(%n: int32) {{ @length(@double(@up(0, %n, Nil))) }}")
    assert exe(int32(100_000)) == 100_000
    assert leaked(exe) == 0


def test_tail_calls_through_a_match_need_no_memory() -> None:
    exe = compiled("""
    type List[A] { Cons(A, List[A]), Nil }
    def @spin(%n: int32, %l: List[int32]) -> int32 {
      match (%l) {
        Cons(%h, _) => if (less(%n, 1)) { %h } else { @spin(subtract(%n, 1), Cons(add(%h, 2), Nil)) },
        Nil => 0
      }
    }
    def @main(%n: int32) { @spin(%n, Cons(0, Nil)) }""")
    exe(int32(10))
    peak = exe._free[-1].peak
    assert exe(int32(100_000)) == 200_000
    assert exe._free[-1].peak == peak
    assert leaked(exe) == 0

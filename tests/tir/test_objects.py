"""Objects of host functions: what the definition says they do, and which misuse it notices."""

from __future__ import annotations

import numpy as np
import pytest

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.base.errors import InternalError, ParseError, VerifyError
from legato.tir.expr import Tag, nullary
from legato.tir.interp import Objects, run
from legato.tir.parser import parse_func
from legato.tir.printer import show
from legato.tir.stmt import FIRST_CHECK, Func
from legato.tir.verify import verify, verify_all

BUILD = """\
host @build(out: Buffer[(), handle], n: index) {
  alloc list: Buffer[(), handle, scope=register];
  alloc i: Buffer[(), int32, scope=register];
  list[] = handle(1);
  i[] = 0i32;
  while i[] < int32(n) {
    object cell: Buffer[(2,), int64], tag=1, pointers=1;
    view tail: Buffer[(), handle] = cell at 0;
    tail[] = list[];
    cell[1] = int64(i[]);
    list[] = address(cell);
    i[] = i[] + 1i32;
  }
  out[] = list[];
}
"""
SUM = """\
host @sum(out: Buffer[(), int64], list: handle) {
  alloc here: Buffer[(), handle, scope=register];
  alloc total: Buffer[(), int64, scope=register];
  alloc more: Buffer[(), bool, scope=register];
  here[] = list;
  total[] = 0i64;
  more[] = True;
  while more[] {
    switch tag(here[]) {
      case 0 {
        more[] = False;
      }
      default {
        open cell: Buffer[(2,), int64] = here[];
        total[] = total[] + cell[1];
        view tail: Buffer[(), handle] = cell at 0;
        here[] = tail[];
      }
    }
  }
  out[] = total[];
}
"""
MAIN = """\
host @main(out: Buffer[(), int64], n: index) {
  alloc list: Buffer[(), handle, scope=register];
  invoke @build(list, n);
  invoke @sum(out, list[]);
  retain list[];
  release list[];
  release list[];
}
"""


def module(*texts: str) -> dict[str, Func]:
    functions = {f.name: f for f in map(parse_func, texts)}
    verify_all(functions)
    return functions


LISTS = module(BUILD, SUM, MAIN)


GROW = """\
host @main(out: Buffer[(), int64], n: index) {
  object first: Buffer[(1,), int64], tag=0, pointers=0;
  first[0] = 1i64;
  alloc here: Buffer[(), handle, scope=register];
  alloc kept: Buffer[(), handle, scope=register];
  alloc i: Buffer[(), int64, scope=register];
  here[] = address(first);
  kept[] = here[];
  retain here[];
  i[] = 1i64;
  while i[] < int64(n) {
    let k: index[1..] = index(i[]);
    resize more: Buffer[(k + 1,), int64] = here[];
    more[k] = more[k - 1] + 2i64;
    more[0] = more[0] + 1i64;
    here[] = address(more);
    i[] = i[] + 1i64;
  }
  open last: Buffer[(1,), int64] = kept[];
  open all: Buffer[(n,), int64] = here[];
  out[] = last[0] * 1000000i64 + all[0] * 1000i64 + all[n - 1];
  release here[];
  release kept[];
}
"""


@pytest.mark.parametrize("text", [BUILD, SUM, MAIN, GROW])
def test_text_comes_back(text: str) -> None:
    assert show(parse_func(text)) == text


@pytest.mark.parametrize("n", [0, 1, 1000])
def test_a_list_is_built_folded_and_ended(n: int) -> None:
    out = np.full((), -1, np.int64)
    assert run(LISTS["main"], [out, n], functions=LISTS) == 0
    assert out == n * (n - 1) // 2


def test_what_a_function_returns_belongs_to_its_caller() -> None:
    objects, out = Objects(), np.zeros((), np.int64)
    assert run(LISTS["build"], [out, 3], objects=objects) == 0
    assert objects.live == 3
    assert objects.tag(int(out)) == 1
    assert objects.payload(int(out), dt.int64, 2)[1] == 2
    total = np.zeros((), np.int64)
    assert run(LISTS["sum"], [total, int(out)], objects=objects) == 0
    assert total == 3
    objects.release(int(out))
    assert objects.live == 0
    with pytest.raises(InternalError, match="left 3 objects behind"):
        run(LISTS["build"], [out, 3])


def grown(n: int) -> int:
    """What GROW gives."""
    return 1_000_000 + 1000 * n + 2 * n - 1


@pytest.mark.parametrize("n", [1, 2, 9])
def test_an_object_grows_and_another_reference_sees_the_old_one(n: int) -> None:
    out = np.zeros((), np.int64)
    assert run(module(GROW)["main"], [out, n]) == 0
    assert out == grown(n)


CIRCLE = """
host @circle(forgotten: index) {
  object a: Buffer[(1,), int64], tag=0, pointers=1;
  object b: Buffer[(1,), int64], tag=0, pointers=1;
  view of_a: Buffer[(), handle] = a at 0;
  view of_b: Buffer[(), handle] = b at 0;
  of_a[] = address(b);
  of_b[] = address(a);
  if forgotten == 1 {
    retain address(a);
  }
}
"""


def test_circles_end_with_the_run() -> None:
    circle = module(CIRCLE)["circle"]
    objects = Objects()
    assert run(circle, [0], objects=objects) == 0
    assert objects.live == 2
    assert objects.only_circles()
    assert run(circle, [0]) == 0
    with pytest.raises(InternalError, match="left 2 objects behind"):
        run(circle, [1])


def test_a_failed_run_ends_all_objects() -> None:
    objects, out = Objects(), np.zeros((), np.int64)
    text = BUILD.replace("  out[] = list[];\n", "  check n < 2 else 5;\n  out[] = list[];\n")
    func = module(text)["build"]
    assert run(func, [out, 2], objects=objects) == FIRST_CHECK + 5
    assert objects.live == 0
    assert run(func, [out, 2]) == FIRST_CHECK + 5


MISUSE = "host @f(h: handle) {{ {} }}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("release h; release h;", "release of 16, which is no object, or none any more"),
        ("release h; retain h;", "retain of 16, which is no object"),
        ("release h; open c: Buffer[(1,), int64] = h;", "open of 16, which is no object"),
        ("release h; check tag(h) == 1i32 else 3;", "tag of 16, which is no object"),
        ("open c: Buffer[(2,), int64] = handle(3);", "open of 3, which is no object"),
        ("check tag(handle(0)) == 0i32 else 3;", "tag of 0, which is no object"),
        ("open c: Buffer[(3,), int64] = h;", "open of 24 bytes of an object of 16 bytes"),
        ("object c: Buffer[(1,), int64], tag=1, pointers=1; release address(c);", "release of -1, which is no object"),
        ("release h; resize c: Buffer[(1,), int64] = h;", "resize of 16, which is no object"),
        ("resize c: Buffer[(1,), int64] = h; retain h;", "retain of 16, which is no object"),
        (
            "object c: Buffer[(1,), int64], tag=1, pointers=1; resize d: Buffer[(2,), int64] = address(c);",
            "resize of an object with 1 pointers",
        ),
    ],
)
def test_misuse_is_noticed(body: str, message: str) -> None:
    func = module(MISUSE.format(body))["f"]
    objects = Objects()
    handle = objects.new(16, 7, 0)
    with pytest.raises(InternalError, match=message):
        run(func, [handle], objects=objects)


def test_handles_without_an_object_are_left_alone() -> None:
    func = module(MISUSE.format("retain h; release h; release h; release h; check tag(h) == 2i32 else 1;"))["f"]
    assert run(func, [5]) == 0
    assert run(module(MISUSE.format("retain h; release h;"))["f"], [0]) == 0


def test_switch_runs_one_case() -> None:
    text = """host @f(y: Buffer[(), int64], n: index) {
      y[] = 1i64;
      switch n { case 3 { y[] = 3i64; } case 7 { y[] = 7i64; } default { y[] = 0i64; } }
      switch n { case 7 { y[] = y[] * 10i64; } }
      switch n { default { y[] = y[] + 1i64; } }
    }"""
    func, out = module(text)["f"], np.zeros((), np.int64)
    for n, wanted in ((3, 4), (7, 71), (5, 1)):
        assert run(func, [out, n]) == 0
        assert out == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel @f(h: handle) { }", "parameter h has dtype handle, wanted index"),
        ("host @f(h: int32) { }", "parameter h has dtype int32, wanted index or handle"),
        ("kernel @f(h: Buffer[(), handle]) { }", "h holds handles, so it is a dense buffer of a host function"),
        ("kernel @f(n: index) { retain handle(1); }", "a kernel has no Retain"),
        ("kernel @f(n: index) { switch n { } }", "a kernel has no Switch"),
        ("host @f(h: handle) { check h < handle(3) else 1; }", "nothing is computed from handles, got h < handle(3)"),
        ("host @f(h: handle) { check int64(h) == 1i64 else 1; }", "nothing is computed from handles, got int64(h)"),
        ("host @f(n: index) { release handle(n); }", "nothing is computed from handles, got handle(n)"),
        ("host @f(c: Buffer[(2,), int64]) { release address(c); }",
         "c is no payload of an object, so it has no address"),
        ("host @f(h: handle) { launch @k(h); }", "argument h has dtype handle, wanted index"),
        ("host @f(h: handle) { vector i in 0..4 { retain h; } }", "this stands in a vector loop"),
        ("host @f(n: index) { vector i in 0..4 { for j in 0..2 { switch i { case 1 { } } } } }",
         "this stands in a vector loop"),
        ("host @f(n: index) { object c: Buffer[(2,), int64], tag=70000, pointers=0; }",
         "tag and pointers of an object are 0 to 65535, got 70000 and 0"),
        ("host @f(n: index) { object c: Buffer[(2,), int32], tag=0, pointers=2; }",
         "the payload c has no room for 2 pointers"),
        ("host @f(n: index) { object c: Buffer[(n,), int64], tag=0, pointers=1; }",
         "the payload c has no room for 1 pointers"),
        ("host @f(h: handle) { resize c: Buffer[(2,), int32, scope=local] = h; }", "the payload c must be global"),
        ("host @f(n: index) { object c: Buffer[(2,), int32, scope=local], tag=0, pointers=0; }",
         "the payload c must be global"),
        ("host @f(n: index) { switch n < 2 { } }", "the value has dtype bool, wanted int32 or index"),
        ("host @f(n: index) { switch int32(n) { case 5000000000 { } } }",
         "no int32 is 5000000000, the number of a case"),
        ("host @f(n: index) { switch n { case -9223372036854775809 { } } }",
         "no index is -9223372036854775809, the number of a case"),
        ("host @f(n: index) { switch n { case 1 { } case 1 { } } }", "two cases have the same number, of [1, 1]"),
    ],
)  # fmt: skip
def test_malformed_functions(text: str, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(parse_func(text))
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("host @f(n: index) { retain n; }", "expected handle, got index"),
        ("host @f(n: index) { resize c: Buffer[(n,), int64] = n; }", "expected handle, got index"),
        ("host @f(n: index) { check tag(n) == 1i32 else 2; }", "tag takes a handle, got index"),
        ("host @f(n: index) { release address(n); }", "address takes the name of a buffer"),
        ("host @f(n: index) { switch n { 3 } }", "expected `case`, `default` or `}`"),
        ("host @f(n: index) { switch n { default { } case 1 { } } }", "expected `}`"),
    ],
)
def test_text_that_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_func(text)


def test_expressions() -> None:
    assert nullary(4) is const(9, dt.handle)
    assert str(Tag(nullary(4))) == "tag(handle(9))"
    with pytest.raises(InternalError, match="wanted handle"):
        Tag(const(3))

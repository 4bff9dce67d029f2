"""Loop programs as text and back; equality."""

from __future__ import annotations

import pytest
from hypothesis import given

from legato.arith.expr import Expr, Var, const, fresh, lt
from legato.base import dtype as dt
from legato.base.errors import ParseError
from legato.base.tokens import TokenStream
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.equal import alpha_equal, program_key, structural_hash
from legato.tir.expr import Load, call, cast
from legato.tir.parser import _LOOPS, _SIMPLE, parse_func, parse_function
from legato.tir.printer import KEYWORDS, show
from legato.tir.stmt import Alloc, Block, Check, For, Func, Let, LoopKind, Store, block
from tests.programs.settings import examples
from tests.tir import programs


@examples(300, fuzz=False)
@given(programs.functions)
def test_round_trip(func: Func) -> None:
    text = show(func)
    again = parse_func(text)
    assert alpha_equal(again, func), text
    assert structural_hash(again) == structural_hash(func)
    assert show(again) == text


EXAMPLE = """\
kernel @tile(a: Buffer[(n, 64), float32], b: Buffer[(n, 64), float32, order=(1, 0)], n: index[1..]) {
  parallel i in 0..n {
    alloc t: Buffer[(16,), float32, scope=register];
    vector j in 0..16 {
      t[j] = a[i, j] * 2f + float32(i);
      prefetch a[i + 1, j];
    }
    let m = min(n, 8) // 2;
    if i < m and t[0] < 0f {
      b[i, 0] = exp(t[m]);
    } else {
      {
        let v: index[0..7] = i % 8;
        b[i, v] = select(v == 0, 1f, -2.5f);
      }
      unroll j_1 in 0..16 {
        b[i, j_1] = 0f;
      }
    }
    check i < 100 else 3, "too \\"many\\"";
  }
  barrier;
}
"""


@pytest.mark.parametrize("name", sorted(KEYWORDS))
def test_a_buffer_with_the_name_of_a_keyword(name: str) -> None:
    buffer = Buffer(name, (const(3),), dt.int64)
    func = Func("f", (buffer,), Store(buffer, (const(0),), Load(buffer, (const(1),))))
    assert alpha_equal(parse_func(show(func)), func)


def test_keywords_are_what_begins_a_statement() -> None:
    assert {*_SIMPLE, *_LOOPS} <= KEYWORDS


def test_the_printer_writes_what_the_parser_reads() -> None:
    assert show(parse_func(EXAMPLE)) == EXAMPLE


HOST = """\
host @main(
    x: Buffer[(n, 3, 8, 8), float32, order=(0, 2, 3, 1), halo=((0, 0), (0, 0), (1, 1), (1, 1)), pad=(0, 5, 0, 0)],
    y: Buffer[(n,), float32, halo=((0, 2),), halo_value=-inff64],
    n: index[0..16]
) constants(w: Buffer[(), int8] = "conv.weight") {
  alloc arena: Buffer[(n * 64,), uint8];
  view h: Buffer[(n, 8), float32] = arena at n * 32;
  launch @conv(x, w, h, n + 1);
  while n < 4 {
    invoke @"odd name"(h, w[]);
  }
  host_op 3(h, y, n);
}
"""


def test_host_functions() -> None:
    with pytest.raises(ParseError, match="expected index or handle, got int8"):
        parse_func(HOST)
    text = HOST.replace("w[]", "index(w[])")
    assert show(parse_func(text)) == text


def test_it_stops_behind_the_function() -> None:
    stream = TokenStream("kernel @a() { } kernel @b() { }")
    assert parse_function(stream).name == "a"
    assert parse_function(stream).name == "b"
    assert stream.at_kind("eof")


def test_input_may_use_shadowing_comments_and_any_order() -> None:
    func = parse_func("""
        kernel @k(a: Buffer[(n, 4), int32], n: index) {   # a comment
          for i in 0..n { for j in 0..4 { a[i, j] = 1i32; } }
          for i in 0..n { let i = i//2; a[i, 0] = 2i32; /* inner i */ }
        }
    """)
    assert "let i_2 = i_1 // 2;" in show(func)


def test_names_are_made_unique_and_legal() -> None:
    a, b = Buffer("min", (const(4),), dt.float32), Buffer("conv.0/w", (const(4),), dt.float32)
    i, j = fresh("0"), fresh("0")
    func = Func("k", (a, b), For(i, const(4), For(j, const(4), Store(a, (i,), Load(b, (j,))))))
    text = show(func)
    assert "min_1[_0] = conv_0_w[_0_1];" in text
    assert alpha_equal(parse_func(text), func)


def test_shared_parts_are_written_once() -> None:
    x = Buffer("x", (const(4),), dt.float32)
    i = fresh("i")
    value: Expr = Load(x, (i,)) + const(1, dt.float32)
    for _ in range(200):
        value = value * call("exp", value) + value
    func = Func("k", (x,), For(i, const(4), Store(x, (i,), value)))
    text = show(func)
    assert len(text) < 20_000
    assert text.count("share ") == 199
    again = parse_func(text)
    assert alpha_equal(again, func)
    assert show(again) == text


def test_deep_programs() -> None:
    x = Buffer("x", (const(4),), dt.float32)
    n = fresh("n")
    value = cast(n, dt.float32)
    for _ in range(3000):
        value = call("abs", value + const(1, dt.float32))
    body: Let | Store | For = Store(x, (n % 4,), value)
    for k in range(3000):
        body = Let(Var("v", dt.index), n + k, body)
    for _ in range(100):
        body = For(fresh("i"), n, body)
    func = Func("k", (x, n), body)
    assert alpha_equal(parse_func(show(func)), func)


def _loop(kind: LoopKind = LoopKind.SERIAL, name: str = "i", layout: Layout | None = None) -> Func:
    a = Buffer("a", (const(4),), dt.float32, layout)
    i = fresh(name)
    return Func("k", (a,), For(i, const(4), Store(a, (i,), const(0, dt.float32)), kind))


def test_what_counts_for_equality() -> None:
    assert alpha_equal(_loop(), _loop(name="other"))
    assert structural_hash(_loop()) == structural_hash(_loop(name="other"))
    assert not alpha_equal(_loop(), _loop(LoopKind.UNROLL))
    assert not alpha_equal(_loop(), _loop(layout=Layout((0,), pad=(1,))))
    assert alpha_equal(_loop(), _loop(layout=Layout((0,), ((0, 0),))))
    renamed = Func("other", *(lambda f: (f.params, f.body))(_loop()))
    assert not alpha_equal(_loop(), renamed)
    assert program_key(_loop()) == program_key(renamed)
    a, b = fresh("a"), fresh("b")
    x = Buffer("x", (const(4),), dt.float32)
    first = Func("k", (x, a, b), Store(x, (a - b,), const(0, dt.float32)))
    second = Func("k", (x, a, b), Store(x, (b - a,), const(0, dt.float32)))
    assert not alpha_equal(first, second)


def test_blocks_may_be_nested_in_any_way() -> None:
    t, u = (Buffer("t", (const(2),), dt.int8, scope=Scope.LOCAL) for _ in "ab")
    zero = Store(t, (const(0),), const(0, dt.int8))
    check = Check(lt(const(0), fresh("n")), 1)
    one = Func("k", (), Block((Block((check, Alloc(t, zero))), check)))
    two = Func("k", (), block(check, Alloc(t, zero), check))
    three = Func("k", (), block(check, Alloc(t, block(zero, check))))
    assert alpha_equal(one, two)
    assert not alpha_equal(two, three)
    assert alpha_equal(parse_func(show(Func("k", (u,), two.body)).replace("< n", "< 4")).with_body(two.body),
                       Func("k", (u,), two.body))  # fmt: skip


def test_repr_is_one_line() -> None:
    assert repr(_loop()) == "<kernel @k>"
    assert repr(_loop().body) == "<For>"
    assert str(_loop().body) == "for i in 0..4 {\n  a[i] = 0f;\n}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def @k() {}", "expected `kernel` or `host`, got `def`"),
        ("kernel @k() {", "expected a statement or `}`, got the end of the text"),
        ("kernel @k() { x[0] = 1f; }", "unknown buffer `x`"),
        ("kernel @k(n: index) { for i in 1..n { } }", "loops start at 0"),
        ("kernel @k(n: index) { for i in 0..n < 2 { } }", "expected index, got bool"),
        ("kernel @k(n: index) { if n { } }", "expected bool, got index"),
        ("kernel @k(n: index, n: index) { }", "two parameters are called `n`"),
        ("kernel @k(n: Buffer[(m,), int8]) { }", "unknown name `m`"),
        ("kernel @k(a: Buffer[(2,), int7]) { }", "expected a dtype, got `int7`"),
        ("kernel @k(a: Buffer[(2,), int8, pat=1]) { }", "a buffer has no `pat`"),
        ("kernel @k(a: Buffer[(2,), int8, order=(1,)]) { }", "order, halo and pad must fit the rank, 1"),
        ("kernel @k(a: Buffer[(2,), int8, halo=((1,),)]) { }", "a halo is (before, after) per dimension"),
        ("kernel @k(a: Buffer[(2,), int8, scope=heap]) { }", "expected global, local or register, got `heap`"),
        ("kernel @k(a: Buffer[(2,), int8]) { a[0, 1] = 1i8; }", "`a` has 1 dimensions, got 2 subscripts"),
        ("kernel @k(a: Buffer[(2,), int8]) { a[0] = 1f; }", "expected int8, got float32"),
        ("kernel @k(a: Buffer[(2,), int8]) { a[0] = a; }", "`a` is a buffer"),
        ("kernel @k(a: Buffer[(2,), int8]) { a[0] = a[a[0]]; }", "subscript a[0] has dtype int8, wanted index"),
        ("kernel @k(if: index) { }", "`if` cannot be used as a name"),
        ("kernel @k() { } kernel @l() { }", "expected the end of the text, got `kernel`"),
        ("kernel @k(n: index) { let x = n + 1f; }", "operands of + differ in dtype: index and float32"),
        ('kernel @k(n: index) { check n < 1 else 3 "m"; }', 'expected `;`, got `"m"`'),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_func(text)
    assert caught.value.message == message

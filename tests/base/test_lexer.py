"""The lexer of the text formats."""

from __future__ import annotations

import pytest

from legato.base import dtype as dt
from legato.base.errors import ParseError
from legato.base.lexer import Source, Token, number, quote, tokenize
from legato.base.tokens import TokenStream


def _texts(text: str, arithmetic: bool = False) -> list[str]:
    return [t.text for t in tokenize(Source(text), arithmetic=arithmetic)][:-1]


def _kinds(text: str) -> list[tuple[str, str]]:
    return [(t.kind, t.text) for t in tokenize(Source(text))][:-1]


def test_kinds() -> None:
    assert _kinds('#[version = "0.0.5"] def @main(%x: nn.conv2d, %0, %"a b", "s") -> 3i64 1.5f') == [
        ("version", "0.0.5"), ("ident", "def"), ("global", "main"), ("punct", "("), ("local", "x"), ("punct", ":"),
        ("ident", "nn.conv2d"), ("punct", ","), ("local", "0"), ("punct", ","), ("local", "a b"), ("punct", ","),
        ("string", '"s"'), ("punct", ")"), ("punct", "->"), ("int", "3i64"), ("float", "1.5f"),
    ]  # fmt: skip


def test_metadata_takes_the_rest() -> None:
    assert _kinds('%x\n#[metadata]\n{"a": "// no comment"}') == [
        ("local", "x"),
        ("metadata", '\n{"a": "// no comment"}'),
    ]


def test_projections_are_not_floats() -> None:
    assert _texts("%0.1.2 (%x).0.1") == ["0", ".", "1", ".", "2", "(", "x", ")", ".", "0", ".", "1"]


def test_two_slashes_are_a_comment_in_relay_text() -> None:
    assert _texts("%a // %b\n / %c") == ["a", "/", "c"]
    assert _texts("f(%a // why\n, %b)") == ["f", "(", "a", ",", "b", ")"]
    assert _texts("[1, // one\n 2\n// two\n]") == ["[", "1", ",", "2", "]"]


def test_two_slashes_divide_inside_square_brackets() -> None:
    assert _texts("Tensor[(n//4, m % 2, (n)//2), int8] // n") == [
        "Tensor", "[", "(", "n", "//", "4", ",", "m", "%", "2", ",", "(", "n", ")", "//", "2", ")", ",", "int8", "]",
    ]  # fmt: skip
    assert _texts("[%x, n%m]") == ["[", "x", ",", "n", "%", "m", "]"]


def test_arithmetic_text() -> None:
    assert _texts("n//m%k # rest\n0..4", arithmetic=True) == ["n", "//", "m", "%", "k", "0", "..", "4"]


def test_loop_level_functions_are_arithmetic_up_to_their_end() -> None:
    text = "kernel @k(n: index) { i//2%n; if a { b } c//d } def @f(%x) { %x } // end"
    assert _texts(text) == ["kernel", "k", "(", "n", ":", "index", ")", "{", "i", "//", "2", "%", "n", ";", "if", "a",
                            "{", "b", "}", "c", "//", "d", "}", "def", "f", "(", "x", ")", "{", "x", "}"]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value", "dtype"),
    [
        ("3", 3, None), ("3i64", 3, dt.int64), ("7u8", 7, dt.uint8), ("1.5f", 1.5, dt.float32),
        ("2f16", 2.0, dt.float16), ("1e-3f64", 1e-3, dt.float64), ("2.5bf16", 2.5, dt.bfloat16), ("1.25", 1.25, None),
        ("inff", float("inf"), dt.float32), ("inff64", float("inf"), dt.float64),
    ],
)  # fmt: skip
def test_numbers(text: str, value: float, dtype: dt.DType | None) -> None:
    token = tokenize(Source(text))[0]
    assert number(token) == (value, dtype)
    assert isinstance(number(token)[0], type(value))


@pytest.mark.parametrize("text", ["", "plain", 'a "b" \\ c', "line\nbreak\ttab", "naïve ∀"])
def test_strings_round_trip(text: str) -> None:
    assert TokenStream(quote(text)).string() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [("a $", "unexpected character '$'"), ('"abc', "this string has no end"), ("3x", "unexpected character '3'")],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        tokenize(Source(text))
    assert caught.value.message == message


def test_a_bad_escape() -> None:
    with pytest.raises(ParseError, match="bad escape in a string"):
        TokenStream('"a\\q"').string()


def test_spans() -> None:
    stream = TokenStream("def @f\n  (%x)", "m.relay")
    first, *_ = stream.tokens
    assert str(stream.span(first)) == "m.relay:1:1"
    span = stream.span(stream.tokens[2], stream.tokens[4])
    assert (span.line, span.column, span.end_line, span.end_column) == (2, 3, 2, 7)


def test_stream() -> None:
    stream = TokenStream("let %x = 1")
    assert stream.at("let")
    assert stream.accept("def") is None
    assert stream.expect("let").kind == "ident"
    assert stream.expect_kind("local") == Token("local", "x", 4, 6)
    with pytest.raises(ParseError, match="expected `;`, got `=`"):
        stream.expect(";")

"""Operators that move strings: what they do with strings is what they do with numbers that stand for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.arith.expr import fresh
from legato.base import dtype as dt
from legato.base.errors import CompileError, RunError
from legato.base.storage import decoded
from legato.infer.builder import Builder
from legato.interp import evaluate, evaluate_op
from legato.ir.attrs import make_attrs
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.op import Op, Sample
from legato.ops import table
from legato.te.lower import to_tir
from legato.te.tensor import placeholder
from legato.tir.equal import program_key
from legato.tir.parser import parse_func
from legato.transform.legalize import Legalize
from tests.ops.test_ops import call, fill, leaves

WORDS = np.array(["", "a", "é", "b\0", "long " * 9], object)
NAMES = sorted(name for name in table() if not name.startswith("strings.") and name != "call_tir")
MOVING = {
    "concatenate",
    "equal",
    "gather",
    "nn.pad",
    "reshape",
    "scatter_nd",
    "split",
    "strided_slice",
    "take",
    "where",
}


def _numbers(argument: Any, rng: np.random.Generator) -> Any:
    """An argument of a sample, its floats numbers of words; None where it is something else than a tensor."""
    if isinstance(argument, np.ndarray):
        return rng.integers(0, len(WORDS), argument.shape) if argument.dtype.kind == "f" else argument
    if not isinstance(argument, tuple) or len(argument) != 2 or not isinstance(argument[1], str):
        return None
    return rng.integers(0, len(WORDS), argument[0]) if argument[1].startswith("float") else fill(argument, rng)


def _as_words(op: Op, sample: Sample) -> tuple[list[Any], list[Any]] | None:
    """The arguments of a sample as numbers, and as words where it has floats; None where it has none."""
    rng = np.random.default_rng(0)
    numbers = [_numbers(a, rng) for a in sample.args]
    if not all(isinstance(a, tuple | np.ndarray) for a in sample.args):
        return None
    is_float = ["float" in str(a[1]) if isinstance(a, tuple) else a.dtype.kind == "f" for a in sample.args]
    if not any(is_float) or any(n is None for n in numbers):
        return None
    words = [np.array(WORDS[n], object) if f else n for n, f in zip(numbers, is_float, strict=True)]
    if not op.args[-1].startswith("*"):
        return numbers, words
    fixed = len(op.args) - 1
    return [*numbers[:fixed], tuple(numbers[fixed:])], [*words[:fixed], tuple(words[fixed:])]


@pytest.mark.parametrize("name", NAMES)
def test_strings_move_as_numbers_do(name: str) -> None:
    op, tried = table()[name], 0
    for sample in op.samples:
        given = _as_words(op, sample)
        if given is None:
            continue
        numbers, words = given
        try:
            call(op, words, sample)
        except CompileError:
            continue  # it computes
        tried += 1
        attrs = make_attrs(op, sample.attrs)
        found, wanted = (leaves(evaluate_op(op, values, attrs)) for values in (words, numbers))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, WORDS[b] if a.dtype == object else b)
    assert tried or name not in MOVING, "strings are moved"


@pytest.mark.parametrize(
    "name", ["cast", "reinterpret", "exp", "maximum", "sum", "less", "sort", "nn.dense", "unique", "argmax"]
)
def test_what_computes_refuses_strings(name: str) -> None:
    op, b = table()[name], Builder()
    x = b.var("x", (2, 2), "string")
    attrs = {"cast": {"dtype": "float32"}, "reinterpret": {"dtype": "int64"}, "nn.dense": {"units": 2}}.get(name, {})
    with pytest.raises(CompileError):
        b.call_op(op, [x] * len(op.args), make_attrs(op, attrs))


def test_text_that_is_no_number() -> None:
    op = table()["strings.parse"]
    for text in ("", "a", "1_0", "0x1", "--1", "٣", "1" * 500):
        with pytest.raises(RunError, match="is no number"):
            evaluate_op(op, [np.array([text], object)], make_attrs(op, {"dtype": "int32"}))
    with pytest.raises(RunError, match="more than 64 bits"):
        evaluate_op(op, [np.array(["9" * 30], object)], make_attrs(op, {"dtype": "int32"}))


def test_nothing_is_the_empty_string() -> None:
    """What is taken from no strings is empty; the kernel's text has the number 0 of that."""
    op, n = table()["take"], fresh("n", 0)
    b = Builder()
    x, i = b.var("x", (n,), "string"), b.var("i", (4,), "int64")
    node = b.call_op(op, [x, i], make_attrs(op, {"axis": 0}))
    given = [placeholder("x", (n,), "string"), placeholder("i", (4,), "int64")]
    assert op.compute is not None
    func = to_tir([op.compute(*given, node.attrs, node.ty)], given, "f")
    assert "string(0)" in str(func)
    assert program_key(parse_func(str(func))) == program_key(func)
    module, places = Module.from_expr(Function((x, i), node)), np.array([0, 1, -1, 5])
    for found in (evaluate(module, [WORDS[:0], places]), legato.compile(module)(WORDS[:0], places)):
        assert found.tolist() == [""] * 4


def test_loop_programs_of_strings_are_interpreted() -> None:
    """Of a module whose operators are loop programs, which have numbers in place of strings."""
    b = Builder()
    x, i = b.var("x", (5,), "string"), b.var("i", (3,), "int64")
    body = b.tuple_((b.take(x, i, axis=0), b.equal(x, b.reverse(x, axis=0)), b.concatenate((x, x), axis=0)))
    module, places = Module.from_expr(Function((x, i), body)), np.array([0, 9, 2])
    for found, wanted in zip(*(evaluate(m, [WORDS, places]) for m in (Legalize()(module), module)), strict=True):
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("dtype", [dt.bfloat16, *dt.STORAGE_DTYPES], ids=str)
def test_text_of_short_numbers_gives_them_back(dtype: dt.DType) -> None:
    """Of every number there is."""
    wide = np.uint16 if dtype == dt.bfloat16 else np.uint8
    numbers = np.arange(1 << np.dtype(wide).itemsize * 8, dtype=wide).view(dtype.numpy)
    text = evaluate_op(table()["strings.format"], [numbers], None)
    parse = table()["strings.parse"]
    back = evaluate_op(parse, [text], make_attrs(parse, {"dtype": dtype}))
    np.testing.assert_array_equal(*(decoded(x).astype(np.float32) for x in (back, numbers)))


@pytest.mark.parametrize(
    ("dtype", "given", "text"),
    [
        ("bfloat16", [0.1, 1 / 3, 1e30, 3, -0.0, np.inf], ["0.1", "0.334", "1e+30", "3.0", "-0.0", "INF"]),
        ("float16", [0.1, 65504, 1e-4], ["0.1", "6.55e+04", "0.0001"]),
        ("float8_e4m3fn", [0.1, 448, -1], ["0.1", "450.0", "-1.0"]),
        ("int4", [-8, 7], ["-8", "7"]),
    ],
)  # fmt: skip
def test_text_of_numbers_has_the_fewest_digits(dtype: str, given: list[float], text: list[str]) -> None:
    array = np.array(given, np.float32).astype(dt.dtype(dtype).numpy)
    assert evaluate_op(table()["strings.format"], [array], None).tolist() == text

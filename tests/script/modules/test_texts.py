"""A script in a text runs nothing of its author's, and computes nothing large."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from legato.base.errors import CompileError
from legato.script import parse

# Expressions that would reach Python's objects; what one would do is write a file.
REACHING = [
    "T.truncdiv.__globals__['__builtins__']['exec'](\"open('made', 'w')\")",
    "T.truncdiv.__code__", "T.axis.__class__", "T.axis.spatial.__globals__", "T.float32.dtype.numpy", "X.__class__",
    "X.layout", "(1).__class__", "'{0.__class__}'.format(X)", "''.join", "T.block('a').name", "T.Buffer.__call__",
    "T.grid(1).begins", "range.__subclasses__()", "open('made', 'w')", "__import__('os')", "T.os", "I.sys", "R.np",
    "R.array('AAAA', (3,), 'uint8').tofile('made')", "R.op.__class__", "R.nn.__init__", "R.add.apply.__globals__",
    "R.call_tir.rule", "R.add.apply", "R.op.nn.apply.name.__class__", "(lambda: 1)()", "[i for i in range(3)]",
    "f'{X}'",
]  # fmt: skip
LARGE = [
    "2 ** 4096 ** 4096", "2 ** 5000", "1 << 10 ** 10", "'%1000000000d' % 5", "'a' * 10 ** 9", "(1,) * 10 ** 9",
    "R.add(*R.op)", "(*T.Buffer,)", "R.Shape(R.op)", "R.add(*T.Buffer)", "T.grid(*X)",
    "10 ** 1000 * 10 ** 1000", "R.const(range(10 ** 12))", "R.Tensor(ndim=10 ** 9, dtype='float32')",
]  # fmt: skip


@pytest.mark.parametrize("text", [*REACHING, *LARGE])
def test_an_expression_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = f'@T.prim_func\ndef k(X: T.Buffer((4,), "float32")):\n    a = {text}\n    X[0] = 1.0\n'
    graph = f'@R.function\ndef f(X: R.Tensor((4,), "float32")):\n    a = {text}\n    return X\n'
    function = f'    @R.function(private={text})\n    def f(X: R.Tensor((4,), "float32")):\n        return X\n'
    module = f"@I.ir_module\nclass Module:\n{function}"
    for script in (kernel, graph, module):
        try:
            parse(script)
        except CompileError:
            continue
        assert text in ("R.Tensor(ndim=10 ** 9, dtype='float32')", "T.block('a').name"), script
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("start", "step"),
    [
        *((start, "a + a") for start in ("(1, 2)", "'ab'", "[1]")),
        *(("(1,)", s) for s in ("(a, a)", "[*a, a]", "{1: a, 2: a}")),
    ],
)
def test_sequences_stay_small(start: str, step: str) -> None:
    """Also where they hold each other, as a graph of few that would be a tree of many."""
    doubled = f"    a = {step}\n" * 40
    with pytest.raises(CompileError, match="a sequence of more than 65536 items"):
        parse(f'@R.function\ndef f(x: R.Tensor((4,), "float32")):\n    a = {start}\n{doubled}    return x\n')


def test_what_is_written_out_has_any_length() -> None:
    many = ", ".join(["1"] * 70_000)
    parse(f'@R.function\ndef f(x: R.Tensor((4,), "float32")):\n    a = R.const([{many}])\n    return x\n')


@pytest.mark.parametrize("dim", ["-" * 20_000 + "1", "not " * 20_000 + "n"])
def test_a_dim_that_nests_deeply_is_none(dim: str) -> None:
    with pytest.raises(CompileError, match="is no dim"):
        parse(f'@T.prim_func\ndef k(X: T.Buffer(("{dim}",), "float32")):\n    X[0] = 1.0\n')


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ('for i in T.serial(4, bounds=("a", 0)): X[i] = 1.0', "bounds is ('a', 0), wanted (least, largest)"),
        ("for i in T.serial(0, 4, step=-1): X[i] = 1.0", "a loop has a step that is a number of at least 1"),
        ("i = T.let(X, bounds=3)", "bounds is 3, wanted a tuple"),
        ("Y = T.alloc_buffer((4,), pad=(-1,))", "a number of pad is -1, wanted a number from 0 on"),
        ("Y = T.alloc_buffer((4,), halo=((0, -1),))", "a number of halo is -1, wanted a number from 0 on"),
        ("Y = T.alloc_buffer((4,), halo=((1,),))", "halo: 1 numbers, wanted (before, after)"),
    ],
)
def test_facts_are_numbers(statement: str, message: str) -> None:
    with pytest.raises(CompileError, match=re.escape(message)):
        parse(f'@T.prim_func\ndef k(X: T.Buffer((4,), "float32")):\n    {statement}\n    X[0] = 1.0\n')


def test_a_rank_has_a_limit() -> None:
    with pytest.raises(CompileError, match="a tensor of rank 1000000000, wanted 0 to 64"):
        parse('@R.function\ndef f(x: R.Tensor("float32", ndim=10 ** 9)):\n    return x\n')


def test_elements_of_bool_are_0_or_1() -> None:
    with pytest.raises(CompileError, match=r"R.array: a byte of bool that is neither 0 nor 1"):
        parse('@R.function\ndef f():\n    return R.const(R.array("Av8=", (2,), "bool"))\n')

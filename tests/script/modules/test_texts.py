"""A script in a text runs nothing of its author's, and computes nothing large."""

from __future__ import annotations

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
    "R.call_tir.rule", "(lambda: 1)()", "[i for i in range(3)]", "f'{X}'",
]  # fmt: skip
LARGE = [
    "2 ** 4096 ** 4096", "2 ** 5000", "1 << 10 ** 10", "'%1000000000d' % 5", "'a' * 10 ** 9", "(1,) * 10 ** 9",
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


def test_sequences_stay_small() -> None:
    doubled = "".join("    a = a + a\n" for _ in range(40))
    for start in ("(1, 2)", "'ab'", "[1]"):
        with pytest.raises(CompileError, match="a sequence of more than 65536 items"):
            parse(f'@R.function\ndef f(x: R.Tensor((4,), "float32")):\n    a = {start}\n{doubled}    return x\n')


def test_a_rank_has_a_limit() -> None:
    with pytest.raises(CompileError, match="a tensor of rank 1000000000, wanted 0 to 64"):
        parse('@R.function\ndef f(x: R.Tensor("float32", ndim=10 ** 9)):\n    return x\n')

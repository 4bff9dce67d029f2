"""Calls of packed functions in scripts, and as text of both kinds."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.json_load import load_json
from legato.ir.json_save import save_json
from legato.ops import table
from legato.script import parse, show

HEAD = """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")):
        n, m = T.int64(), T.int64()
"""
BODY = """
        a = R.call_packed("twice", x, sinfo_args=R.Tensor((n, 4), "float32"))
        b = R.call_pure_packed("some", a, (x, R.shape([n])),
                               ty_args=[R.Tensor((2 * n, "m"), "float32"), R.Prim("int64")])
        d = R.call_pure_packed("any", sinfo_args=R.Tuple(R.Tensor("float32", ndim=1)))
        R.print(a, (b, c), R.shape([m]), format="{}, {}: {}")
        R.print()
        R.assert_op(c, format="no")
        R.assert_op(c, a)
        if c:
            R.call_packed("log", x)
            r = R.call_dps_packed("fill", (b[0], a), out_sinfo=R.Tensor((m,), "float32"))
        else:
            r = R.call_dps_packed("fill", b[0], out_ty=[R.Tensor((m,), "float32")])
        return r, d[0]
"""


def test_every_form_is_read_and_written() -> None:
    module = parse(HEAD + BODY)
    assert alpha_equal(parse(show(module)), module)
    assert alpha_equal(legato.parse(str(module)), module)
    assert alpha_equal(load_json(save_json(module), ops=table()), module)
    assert show(module).count("R.call_") == 6
    x = np.ones((2, 4), np.float32)
    packed = {
        "twice": lambda a: a * 2,
        "some": lambda a, rest: (np.vstack([a, a])[:, :3], np.int64(1)),
        "any": lambda: np.arange(3, dtype=np.float32),
        "log": lambda a: None,
        "fill": lambda *all_: all_[-1].fill(7),
    }
    r, d = evaluate(module, [x, np.True_], packed=packed)
    assert np.array_equal(r, [7, 7, 7])
    assert np.array_equal(d, [0, 1, 2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('R.call_packed("f", x, sinfo_args=R.Object)', "a packed function gives tensors of known rank and dtype"),
        ('R.call_packed("f", x, sinfo_args=R.Tensor((n, 4)))', "a packed function gives tensors"),
        ('R.call_packed("f", x, sinfo_args=R.Tensor("int8", ndim=10**9))', "a packed function gives tensors"),
        ("R.call_packed(x)", "is no name of a packed function"),
        ('R.call_dps_packed("f", (x,))', "the call is not told what it gives"),
        ('R.call_dps_packed("f", (x,), out_sinfo=R.Tensor(("k",), "int8"))', "what is to be filled"),
        ('R.print(x, format="{0.shape}")', "a field is {} or {0}"),
        ("R.print(x, format=4)", "the format is"),
        ("R.assert_op(x)", "the condition"),
        ("R.call_packed()", "R.call_packed: missing a required argument: 'func'"),
        ("R.print(x, to=4)", "R.print: got an unexpected keyword argument 'to'"),
        ('R.call_packed("f", sinfo_args=R.Tensor(("a b",), "int8"))', "'a b' is no dim"),
    ],
)  # fmt: skip
def test_wrong_calls_are_told_at_their_line(call: str, message: str) -> None:
    with pytest.raises(CompileError) as error:
        parse(f"{HEAD}        {call}\n        return x\n")
    assert message in str(error.value)
    assert "at <script>:7:" in str(error.value)


def test_branches_may_have_nothing_but_effects(capsys: pytest.CaptureFixture[str]) -> None:
    branches = """        if c:
            R.print(x, format="yes {}")
        else:
            pass
        return x
"""
    module = parse(HEAD + branches)
    assert alpha_equal(parse(show(module)), module)
    for c in (np.True_, np.False_):
        evaluate(module, [np.ones((1, 4), np.float32), c])
    assert capsys.readouterr().out == "yes [[1. 1. 1. 1.]]\n"
    with pytest.raises(CompileError, match="the branches assign no name in common"):
        parse(HEAD + branches.replace("pass", "y = x"))

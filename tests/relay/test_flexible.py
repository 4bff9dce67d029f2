"""Bodies for some extents of a dim of the inputs, chosen when the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import CompileError, TypeCheckError, UnsupportedError
from legato.interp import evaluate
from legato.relay.transform import FlexibleShapeDispatch
from tests.graphs import leaves

SIZES = (0, 1, 3, 4, 5, 8, 9)


def rows() -> tuple[Any, Any]:
    """A program on rows, and what it says in NumPy."""
    x, y = relay.var("x", shape=(2, 4)), relay.var("y", shape=(2, 4))
    w = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    both = relay.Tuple([relay.nn.dense(x, relay.const(w)), relay.nn.relu(x + y)])
    mod = relay.IRModule.from_expr(relay.Function([x, y], both))
    return mod, lambda a, b: (a @ w.T, np.maximum(a + b, 0))


def check(mod: Any, reference: Any, arguments: list[list[np.ndarray]]) -> None:
    """The program means this, interpreted and compiled."""
    compiled = legato.compile(mod.module)
    for args in arguments:
        wanted = leaves(reference(*args))
        for got in (evaluate(mod.module, args), compiled(*args)):
            for g, w in zip(leaves(got), wanted, strict=True):
                assert g.shape == w.shape
                np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("auto_pad", [True, False])
def test_rows(auto_pad: bool) -> None:
    mod, reference = rows()
    made = FlexibleShapeDispatch([8, 4, 4], auto_pad=auto_pad)(mod)
    assert {gv.name for gv in made.module.functions} == {"main", "main_any", "main_4", "main_8"}
    assert made["main_8"].checked_type.arg_types[0].shape[0] == 8
    check(made, reference, [[random(n, 4), random(n, 4)] for n in SIZES])


def test_which_body_is_chosen() -> None:
    """Those for sizes say so: they add their own."""
    mod = FlexibleShapeDispatch([4, 8])(relay.IRModule.from_expr(relay.Function([x := relay.var("x", shape=(2,))], x)))
    module = mod.module
    for name in ("main_any", "main_4", "main_8"):
        func = module[name]
        marked = legato.parse(f"""#[version = "0.0.5"]
def @main(%x: {func.params[0].ty}) {{ %x + {name.removeprefix("main_").replace("any", "0")}f }}""")["main"]
        module = module.with_function(module.var(name), marked)
    compiled = legato.compile(module)
    got = [float(np.asarray(compiled(np.ones(n, np.float32)))[0]) - 1 for n in (1, 4, 5, 8, 9)]
    assert got == [4, 4, 8, 8, 0]


def test_another_axis_of_one_input_and_values_around_it() -> None:
    x, b = relay.var("x", shape=(3, 7)), relay.var("b", shape=(3, 1))
    mod = relay.IRModule.from_expr(relay.Function([x, b], relay.max(x, axis=1) + relay.reshape(b, (3,))))
    args = [[random(3, n) - 5, random(3, 1)] for n in (1, 4, 6)]
    made = FlexibleShapeDispatch([4], 1, pad_value=-np.inf, input_indices=[0], affects_output=False)(mod)
    check(made, lambda x, b: x.max(1) + b[:, 0], args)
    zeros = FlexibleShapeDispatch([4], 1, input_indices=[0], affects_output=False)(mod)
    with pytest.raises(AssertionError):  # the padding is read
        check(zeros, lambda x, b: x.max(1) + b[:, 0], args)


def test_programs_of_symbolic_dims() -> None:
    n, m = relay.Any(), relay.Any()
    x = relay.var("x", shape=(n, m))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.tanh(x)))
    check(FlexibleShapeDispatch([2, 4])(mod), np.tanh, [[random(n, m)] for n in (1, 3, 6) for m in (1, 5)])


def test_what_cannot_be() -> None:
    mod, _ = rows()
    with pytest.raises(CompileError, match="extents of 1 or more"):
        FlexibleShapeDispatch([])
    with pytest.raises(CompileError, match="extents of 1 or more"):
        FlexibleShapeDispatch([0, 4])
    with pytest.raises(CompileError, match="@main has 2 inputs"):
        FlexibleShapeDispatch([4], input_indices=[2])(mod)
    with pytest.raises(CompileError, match="has no dim 2"):
        FlexibleShapeDispatch([4], axis=2)(mod)
    with pytest.raises(UnsupportedError, match="has the extent nowhere but"):
        FlexibleShapeDispatch([4], affects_output=False)(mod)
    x = relay.var("x", shape=(2, 3))
    twice = relay.IRModule.from_expr(relay.Function([x], relay.concatenate((x, x), axis=0)))
    with pytest.raises(UnsupportedError, match="in dim 0 alone but"):
        FlexibleShapeDispatch([4])(twice)
    check(
        FlexibleShapeDispatch([4], auto_pad=False)(twice),
        lambda a: np.concatenate((a, a)),
        [[random(4, 3)], [random(5, 3)]],
    )
    fixed = relay.IRModule.from_expr(relay.Function([x], relay.reshape(x, (3, 2))))
    with pytest.raises(TypeCheckError, match="reshape"):
        FlexibleShapeDispatch([4])(fixed)
    some = relay.IRModule.from_expr(relay.Function([x], relay.argwhere(x)))
    with pytest.raises(UnsupportedError, match="dims of data"):
        FlexibleShapeDispatch([4])(some)

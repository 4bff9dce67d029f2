"""Control flow and recurrent cells as programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError


def counted(i: int, j: int, k: int) -> tuple[int, int, int]:
    """What the loop below computes, in Python."""
    while ((i + j < 10) != (j * k < 100)) == (k >= i + j):
        i, j, k = i + j, j + k, k + 1
    return i, j, k


def condition(i: Any, j: Any, k: Any) -> Any:
    both = relay.not_equal(relay.less(i + j, relay.const(10)), relay.less(j * k, relay.const(100)))
    return relay.equal(both, relay.greater_equal(k, i + j))


def test_a_while_loop_is_a_function_that_calls_itself_last() -> None:
    i, j, k = (relay.var(name, "int32") for name in "ijk")
    loop = relay.var("while_loop")
    again = relay.Call(loop, [i + j, j + k, k + relay.const(1)])
    body = relay.If(condition(i, j, k), again, relay.Tuple([i, j, k]))
    start = [relay.var(name, "int32") for name in ("i0", "j0", "k0")]
    main = relay.Function(start, relay.Let(loop, relay.Function([i, j, k], body), relay.Call(loop, start)))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(main))
    assert str(mod["main"].ret_type) == "(int32, int32, int32)"
    assert relay.Feature.fLetRec in relay.analysis.detect_feature(mod)
    run = relay.create_executor("debug", mod).evaluate()
    for given in ((1, 1, 5), (7, 9, 2), (0, 0, 0), (3, 1, 4)):
        assert tuple(int(v) for v in run(*(np.int32(v) for v in given))) == counted(*given)


def test_a_global_function_loops_as_well_and_compiles() -> None:
    text = """#[version = "0.0.5"]
def @loop(%i: int32, %j: int32, %k: int32) -> (int32, int32, int32) {
  %0 = add(%i, %j);
  %1 = less(%0, 10);
  %2 = less(multiply(%j, %k), 100);
  %3 = not_equal(%1, %2);
  if (equal(%3, greater_equal(%k, %0))) { @loop(%0, add(%j, %k), add(%k, 1)) } else { (%i, %j, %k) }
}
def @main(%i: int32, %j: int32, %k: int32) { @loop(%i, %j, %k) }
"""
    mod = relay.parse(text)
    given = [np.int32(v) for v in (1, 1, 5)]
    for run in (relay.create_executor("debug", mod).evaluate(), relay.build(mod)):
        assert tuple(int(v) for v in run(*given)) == counted(1, 1, 5)


def test_the_loop_builder_runs_in_constant_space() -> None:
    start = [relay.var("i", "int32"), relay.var("s", "int32")]
    loop = relay.loops.while_loop(
        lambda i, s: relay.less(i, relay.const(20_000)), start, lambda i, s: [i + relay.const(1), s + i]
    )
    mod = relay.IRModule.from_expr(relay.Call(loop, [relay.const(0), relay.const(0)]))
    count, total = relay.create_executor("debug", relay.transform.InferType()(mod)).evaluate()()
    assert (int(count), int(total)) == (20_000, sum(range(20_000)))


def test_a_loop_whose_name_nothing_binds_is_reported() -> None:
    i = relay.var("i", "int32")
    loose = relay.Function([i], relay.Call(relay.var("while_loop"), [i]))
    with pytest.raises(CompileError) as error:
        relay.IRModule.from_expr(loose)
    assert error.value.message == "function @main uses %while_loop, which nothing in it binds"


def rnn_cell() -> relay.IRModule:
    """tanh(x W + b + h): 10 inputs, 20 hidden."""
    x, h = relay.var("x", shape=(1, 10)), relay.var("h", shape=(1, 20))
    w, b = relay.var("W", shape=(20, 10)), relay.var("b", shape=(20,))
    linear = relay.nn.bias_add(relay.nn.dense(x, w), b)
    return relay.IRModule.from_expr(relay.Function([x, h, w, b], relay.tanh(linear + h)))


def test_the_rnn_cell() -> None:
    mod = relay.transform.InferType()(rnn_cell())
    assert str(mod["main"].ret_type) == "Tensor[(1, 20), float32]"
    rng = np.random.default_rng(1)
    x, h, w, b = (rng.normal(size=s).astype("float32") for s in ((1, 10), (1, 20), (20, 10), (20,)))
    want = np.tanh(x @ w.T + b + h)
    np.testing.assert_allclose(relay.create_executor("debug", mod).evaluate()(x, h, w, b), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(relay.build(mod)(x, h, w, b), want, rtol=1e-5, atol=1e-6)


def test_dense_takes_no_bias() -> None:
    x, w, b = relay.var("x", shape=(1, 10)), relay.var("W", shape=(20, 10)), relay.var("b", shape=(20,))
    with pytest.raises(CompileError) as error:
        relay.Call(relay.op.get("nn.dense"), [x, w, b])
    assert error.value.message == "nn.dense: got 3 arguments, wanted 2: data, weight"


def test_the_cell_over_a_sequence_by_scope_builder() -> None:
    sb = relay.ScopeBuilder()
    xs, h = relay.var("xs", shape=(3, 1, 4)), relay.var("h", shape=(1, 4))
    w = relay.var("w", shape=(4, 4))
    state = h
    for step in range(3):
        x = sb.let(f"x{step}", relay.take(xs, relay.const(step), axis=0))
        state = sb.let(f"h{step}", relay.tanh(relay.nn.dense(x, w) + state))
    sb.ret(state)
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([xs, h, w], sb.get())))
    rng = np.random.default_rng(2)
    xv, hv, wv = (rng.normal(size=s).astype("float32") for s in ((3, 1, 4), (1, 4), (4, 4)))
    want = hv
    for step in range(3):
        want = np.tanh(xv[step] @ wv.T + want)
    np.testing.assert_allclose(relay.build(mod)(xv, hv, wv), want, rtol=1e-5, atol=1e-6)

"""Differentiation by Relay's names."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import CompileError, UnsupportedError
from legato.interp import evaluate
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.relay.testing import check_grad


def layers() -> Function:
    """tanh of a matrix product."""
    x, w = relay.var("x", shape=(3, 4), dtype="float64"), relay.var("w", shape=(2, 4), dtype="float64")
    return relay.Function([x, w], relay.tanh(relay.nn.dense(x, w)))


def branch() -> Function:
    """A choice that nobody knows before the program runs."""
    x, c = relay.var("x", shape=(3,), dtype="float64"), relay.var("c", shape=(), dtype="bool")
    return relay.Function([x, c], relay.If(c, relay.sin(x), x * x))


@pytest.mark.parametrize("mode", ["first_order", "higher_order"])
def test_gradient_gives_the_value_and_every_gradient(mode: str) -> None:
    func = relay.transform.gradient(layers(), mode=mode)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((3, 4)), rng.standard_normal((2, 4))
    value, (dx, dw) = evaluate(Module.from_expr(func), [x, w])
    inner = 1 - np.tanh(x @ w.T) ** 2
    np.testing.assert_allclose(value, np.tanh(x @ w.T))
    np.testing.assert_allclose(dx, inner @ w)
    np.testing.assert_allclose(dw, inner.T @ x)


def test_what_holds_no_floats_has_zeros() -> None:
    x, i = relay.var("x", shape=(2,), dtype="float64"), relay.var("i", shape=(3,), dtype="int32")
    func = relay.transform.gradient(relay.Function([x, i], relay.sum(x) * relay.cast(relay.sum(i), "float64")))
    _, (dx, di) = evaluate(Module.from_expr(func), [np.ones(2), np.array([1, 2, 3], np.int32)])
    assert dx.tolist() == [6.0, 6.0]
    assert (di.tolist(), di.dtype) == ([0, 0, 0], np.int32)


def test_a_gradient_has_a_gradient() -> None:
    x = relay.var("x", shape=(), dtype="float64")
    once = relay.transform.gradient(relay.Function([x], relay.exp(x * x)))
    second = relay.Function(once.params, relay.TupleGetItem(relay.TupleGetItem(once.body, 1), 0))
    _, (found,) = evaluate(Module.from_expr(relay.transform.gradient(second)), [0.5])
    assert found == pytest.approx((2 + 4 * 0.25) * np.exp(0.25))


def test_functions_of_a_module() -> None:
    mod = relay.IRModule.from_expr(branch())
    before = len(mod.functions)
    func = relay.transform.gradient(mod["main"], mod)
    assert len(mod.functions) > before
    whole = relay.IRModule(mod.module)
    whole["main"] = func
    for chosen, wanted in ((True, np.cos(0.5)), (False, 1.0)):
        _, (dx, dc) = evaluate(whole.module, [np.full(3, 0.5), np.bool_(chosen)])
        np.testing.assert_allclose(dx, np.full(3, wanted))
        assert not dc


def test_a_named_function_that_calls_another_one() -> None:
    mod = relay.IRModule(
        legato.parse("""
        def @square(%x: float64) -> float64 { %x * %x }
        def @f(%x: float64) -> float64 { @square(%x) * %x }
        def @main(%x: float64) { %x }""")
    )
    func = relay.transform.gradient(mod.get_global_var("f"), mod)
    assert float(evaluate(Module.from_expr(func), [2.0])[1][0]) == 12.0
    assert evaluate(mod.module, [2.0]) == 2.0


def test_what_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="calls functions of its own"):
        relay.transform.gradient(branch())
    with pytest.raises(UnsupportedError, match="first-order gradients are those of operators"):
        relay.transform.gradient(branch(), mode="first_order")
    with pytest.raises(CompileError, match="there is no mode 'third_order'"):
        relay.transform.gradient(layers(), mode="third_order")
    with pytest.raises(CompileError, match="takes a function or the name of one, got Var"):
        relay.transform.gradient(relay.var("x"))
    mod = relay.IRModule(
        legato.parse("""
        def @f(%x: float64) -> float64 { @main(%x) }
        def @main(%x: float64) -> float64 { %x }""")
    )
    with pytest.raises(UnsupportedError, match="a function beside @main that calls it"):
        relay.transform.gradient(mod["f"], mod)


def test_first_order_gradient_is_a_pass_over_every_function() -> None:
    mod = relay.IRModule(
        legato.parse("""
        def @other(%x: float64) { sin(%x) }
        def @main(%x: float64) { %x * %x }""")
    )
    made = relay.transform.FirstOrderGradient()(mod)
    assert evaluate(made.module, [3.0]) == (9.0, (6.0,))
    assert evaluate(made.module, [0.0], "other") == (0.0, (1.0,))
    with pytest.raises(UnsupportedError, match="first-order"):
        relay.transform.FirstOrderGradient()(relay.IRModule.from_expr(branch()))


def test_lazy_gradient_init_has_nothing_to_do() -> None:
    mod = relay.transform.InferType()(relay.IRModule.from_expr(layers()))
    assert relay.transform.LazyGradientInit()(mod).module == mod.module


def test_check_grad() -> None:
    check_grad(layers())
    check_grad(layers(), mode="first_order", executor_kind="vm", target_devices=[("llvm", legato.cpu())], scale=1)
    check_grad(branch(), [np.full(3, 0.5), np.bool_(True)])
    x = relay.var("x", shape=(3,), dtype="float32")
    check_grad(relay.Function([x], relay.sin(x) * relay.const(2.0)))


def test_check_grad_sees_a_wrong_gradient() -> None:
    x = relay.var("x", shape=(3,), dtype="float64")
    func = relay.Function([x], relay.abs(x))
    check_grad(func, mean=1)
    with pytest.raises(AssertionError, match="the gradient by x"):
        check_grad(func, [np.full(3, 1e-7)])  # the difference goes across the kink
    both = layers()
    inputs = [np.ones((3, 4)), np.ones((2, 4))]
    check_grad(both, inputs, test_inputs=inputs[1:])


def test_check_grad_wants_inputs_that_fit() -> None:
    n = relay.var("x", relay.TensorType((relay.Any(), 2), "float64"))
    with pytest.raises(CompileError, match="check_grad has no inputs for it"):
        check_grad(relay.Function([n], relay.sin(n)))
    with pytest.raises(CompileError, match="got 1 inputs, wanted 2"):
        check_grad(layers(), [np.ones((3, 4))])
    with pytest.raises(CompileError, match="test_inputs has what is no input"):
        check_grad(layers(), [np.ones((3, 4)), np.ones((2, 4))], test_inputs=[np.ones((3, 4))])

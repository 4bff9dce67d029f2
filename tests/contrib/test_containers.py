"""`runtime.executor` and `runtime.container`: names of scripts for programs of executor "aot", and for values."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import RunError
from legato.relay.backend import Executor
from tests.contrib.test_executors import LIB, MOD, W, X, require_right


def test_an_aot_module_is_the_program() -> None:
    lib = relay.build(MOD, "llvm", params={"w": W}, executor=Executor("aot"))
    m = legato.runtime.executor.AotModule(lib["default"](legato.cpu()))
    assert (m.get_num_inputs(), m.get_num_outputs(), m.get_input_name(0)) == (1, 2, "x")
    assert m.get_input_info() == ({"x": (2, 3)}, {"x": "float32"})
    m.set_input("x", X)
    np.testing.assert_array_equal(m.get_input("x"), X)
    m.run()
    require_right([m.get_output(n).numpy() for n in range(2)])
    m.run(x=np.zeros_like(X))
    np.testing.assert_array_equal(m.get_output(1), np.ones((2, 4), np.float32))
    for index in (1, -1, "x", 0.0):
        with pytest.raises(RunError, match="there is no input"):
            m.get_input_name(index)  # type: ignore[arg-type]
    with pytest.raises(RunError, match="AotModule takes a session, got a ExecutorFactoryModule"):
        legato.runtime.executor.AotModule(LIB)  # type: ignore[arg-type]


def test_containers() -> None:
    container = legato.runtime.container
    pair = container.tuple_object([X, W])
    assert (pair[0] is X, len(pair), container.tuple_object()) == (True, 2, ())
    assert container.ADT(0, [X]) == (X,)
    assert isinstance(relay.create_executor("vm", MOD).evaluate()(X, W), container.ADT)
    assert not isinstance(X, container.ADT)
    assert (container.String("a"), container.ShapeTuple([1, 2])) == ("a", (1, 2))
    with pytest.raises(RunError, match="the constructor with tag 1: of which data type is not said"):
        container.ADT(1, [X])
    with pytest.raises(RunError, match="the fields of a tuple: got 3"):
        container.tuple_object(3)  # type: ignore[arg-type]

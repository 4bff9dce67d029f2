"""Arguments of executors that are of another kind than they take: one typed error each, and nothing is written."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import legato
from legato import nd, relay
from legato.base.errors import RunError
from legato.contrib import graph_executor
from legato.contrib.debugger import debug_executor
from legato.runtime.vm import VirtualMachine
from tests.contrib.test_executors import LIB, MOD, W, X


def test_outputs_are_written_into_arrays_only() -> None:
    m = graph_executor.GraphModule(LIB["default"](legato.cpu(0)))
    m.run(x=X)
    frozen = np.zeros((2, 4), "float32")
    frozen.flags.writeable = False
    for out, message in (([[0.0] * 4] * 2, "into this list, wanted an array"), (3, "into this int"),
                         (frozen, "it is read-only")):  # fmt: skip
        for written in (partial(m.get_output, 0), partial(m.get_input, 0), partial(m.set_output_zero_copy, 0)):
            with pytest.raises(RunError, match=message):
                written(out)
    for index in (0.0, [0], "a", None):
        with pytest.raises(RunError, match="there is no output"):
            m.get_output(index)  # type: ignore[arg-type]


def test_other_modules_and_parameters_by_name() -> None:
    m = graph_executor.GraphModule(LIB["default"](legato.cpu(0)))
    for call in (partial(m.share_params, 3, {}), partial(m.module.share_params, 3, {}),
                 partial(m.module.load_params, ["x"])):  # fmt: skip
        with pytest.raises(RunError, match=r"got .*, wanted"):
            call()
    assert (m.get_input_index([0]), m.get_output_index(0)) == (-1, -1)  # type: ignore[arg-type]


def test_tensors_of_a_debug_executor_that_there_are_not() -> None:
    m = debug_executor.GraphModuleDebug(LIB["debug_create"]("default", legato.cpu()), [legato.cpu()])
    m.run(x=X)
    for node in ([1], 1.0, None, True, -1):
        with pytest.raises(RunError, match="there is no tensor"):
            m.debug_get_output(node)  # type: ignore[arg-type]
    with pytest.raises(RunError, match="into this list"):
        m.debug_get_output(0, [1])
    out = nd.empty((2, 4))
    assert m.debug_get_output(0, out) is out


def test_arguments_of_a_virtual_machine_that_there_are_not() -> None:
    vm = VirtualMachine(relay.vm.compile(MOD, params={"w": W}), legato.cpu())
    for key in ([1], 1.5, None, "q", True):
        with pytest.raises(RunError, match="there is no argument"):
            vm.set_one_input("main", key, X)
    for name in ([1], 3):
        with pytest.raises(RunError, match=r"the function to call: got .*, wanted its name"):
            vm.invoke(name)  # type: ignore[arg-type]

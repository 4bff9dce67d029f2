"""Compiled modules, called as Relax's virtual machine calls them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato import relax
from legato.base.errors import CompileError, LegatoError, RunError, UnsupportedError
from legato.script import parse

MOD = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), w: R.Tensor(("n",), "float32")):
        return (x + w, R.sum(x))

    @R.function
    def rows(x: R.Tensor(("n", 4), "float32"), s: R.Shape(["n", 4]), i: R.Prim("int64")):
        n = T.int64()
        return (R.shape([n, 2]), i + R.const(1, "int64"))
""")
X, W = np.arange(3, dtype=np.float32), np.full(3, 2, np.float32)
VM = relax.VirtualMachine(relax.build(MOD, target="llvm"), relax.cpu())


def test_functions_are_called_by_name() -> None:
    total, count = VM["main"](relax.nd.array(X), w=W)
    assert (type(total.numpy()), total.dtype, total.device) == (np.ndarray, "float32", relax.cpu())
    np.testing.assert_array_equal(total.numpy(), X + W)
    assert count.numpy() == X.sum()
    (rows, columns), number = VM["rows"](np.zeros((5, 4), np.float32), (5, 4), 6)
    assert (rows, columns, number) == (5, 2, 7)


def test_a_shape_alone_tells_dims() -> None:
    vm = relax.VirtualMachine(relax.build(parse("""
@R.function
def main(x: R.Tensor(("k",), "float32"), s: R.Shape(("n", "m"))):
    n, m = T.int64(), T.int64()
    return R.reshape(x, (n, m))
""")))  # fmt: skip
    x = np.arange(6, dtype=np.float32)
    for n, m in ((2, 3), (3, 2), (6, 1)):
        for call in (
            vm["main"](x, (n, m)), vm["main"](x, [np.int32(n), np.array(m)]), vm["main"](x, **{"s.1": m, "s.0": n})
        ):  # fmt: skip
            np.testing.assert_array_equal(call.numpy(), x.reshape(n, m))
    with pytest.raises(RunError, match=r"main takes x, s\.0, s\.1, got 1 arguments and s"):
        vm["main"](x, s=(2, 3))
    for odd in ((2.0, 3), (-2, -3), (2**64, 3), (2, 2)):
        with pytest.raises(RunError):
            vm["main"](x, odd)


def test_inputs_that_are_set() -> None:
    vm = relax.VirtualMachine(VM._program)
    vm.set_input("main", X, w=W)
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main")[0].numpy(), X + W)


def test_a_saved_call() -> None:
    VM.save_function("main", "saved", X, W)
    np.testing.assert_array_equal(VM["saved"]()[0], X + W)
    VM.save_function("main", "silent", X, W, include_return=False)
    assert VM["silent"]() is None
    times = VM.time_evaluator("main", relax.cpu(), number=2, repeat=3)(X, W)
    assert len(times.results) == 3
    assert 0 < times.min <= times.median <= times.max


def test_parameters_that_are_bound_and_a_pass_that_comes_first() -> None:
    seen: list[Any] = []
    ex = relax.build(MOD, params={"w": W}, relax_pipeline=lambda mod: seen.append(mod) or mod)
    np.testing.assert_array_equal(ex["main"](X)[0], X + W)
    assert len(seen) == 1


def test_an_artifact(tmp_path: Path) -> None:
    path = tmp_path / "main.legato"
    relax.build(MOD).export_library(path)
    vm = relax.VirtualMachine(legato.load(path), relax.cpu())
    np.testing.assert_array_equal(vm["main"](X, W)[0], X + W)


def test_tensors() -> None:
    a = relax.nd.empty((2,), "int32").copyfrom(np.array([3, 4], np.int32))
    b = relax.nd.empty((2,), "int32")
    a.copyto(b)
    np.testing.assert_array_equal(b.asnumpy(), [3, 4])
    with pytest.raises(RunError, match="into one of"):
        a.copyfrom(np.zeros(3, np.int32))


WRONG: list[tuple[Callable[[], Any], type[LegatoError], str]] = [
    (lambda: VM["none"], RunError, "no function 'none'; it has main, rows"),
    (lambda: VM["main"](X), RunError, "got 1 input"),
    (lambda: VM["main"](X, x=X), RunError, "main takes x, w, got 1 arguments and x"),
    (lambda: VM["main"](X, v=W), RunError, "main takes x, w, got 1 arguments and v"),
    (lambda: VM["rows"](np.zeros((5, 4), np.float32), (5, 4), 1.5), RunError, "got 1.5, wanted a number of int64"),
    (lambda: VM.invoke_stateful("rows"), RunError, "the inputs of rows are not set"),
    (lambda: VM.get_outputs("rows"), RunError, "rows has no outputs yet"),
    (lambda: VM.set_instrument(print), UnsupportedError, "call no instruments"),
    (lambda: relax.VirtualMachine(MOD), RunError, "wanted what relax.build gives"),
    (lambda: relax.VirtualMachine(VM._program, "cuda"), CompileError, "no device 'cuda'"),
    (lambda: relax.build(1), CompileError, "takes a module, got a int"),
    (lambda: relax.build(MOD, target="cuda"), CompileError, "cuda"),
    (lambda: relax.build(MOD, exec_mode="x"), CompileError, "no exec_mode 'x'"),
    (lambda: relax.build(MOD, relax_pipeline="x"), CompileError, "no pipeline 'x'"),
    (lambda: relax.build(MOD, tir_pipeline=print), UnsupportedError, "schedules are derived"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_calls(case: int) -> None:
    act, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        act()

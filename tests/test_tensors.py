"""Every tensor on the way of a compiled program is what the interpreter computes there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from legato.base.target import host
from legato.compare.exact import interpret
from legato.compare.tensors import UNFUSED, Tensors, every_tensor, flow, kept_values
from legato.driver import CompileOptions, main_function
from legato.infer.infer import infer_text
from legato.ir.expr import Expr
from legato.ir.let import chain
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ops import table
from legato.pipelines import DEFAULT
from legato.runtime.fill import feeds
from legato.runtime.leaves import flat
from legato.transform.pass_ import Observer, Pass, run
from tests.graphs import Program, programs

OPTIONS = CompileOptions(host())


def interpreted(mod: Module, passes: tuple[Pass, ...], args: list[Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors by name, as the interpreter computes them."""
    program = run(mod, passes, Observer())
    main = main_function(program)
    values = {id(value): var for var, value in chain(main.body)[0]}
    found: dict[Any, list[np.ndarray[Any, Any]]] = {}

    def observe(node: Expr, value: Any) -> None:
        if id(node) in values:
            found[values[id(node)]] = list(flat(value))

    interpret(program, args, float64=False, observe=observe)
    steps = [step for step in flow(main)[0] if step.is_data]
    return {t.name: v for step in steps for t, v in zip(step.outputs, found[step.var], strict=True)}


def named(whole: Tensors, args: list[Any]) -> dict[str, Any]:
    return dict(zip((info.name for info in whole.executable.inputs), args, strict=True))


@pytest.mark.parametrize("passes", [UNFUSED, DEFAULT], ids=["operators", "kernels"])
@settings(max_examples=5)
@given(programs(steps=10, limit=256))
def test_tensors_of_random_programs(passes: tuple[Pass, ...], program: Program) -> None:
    options = replace(OPTIONS, passes=passes)
    args = program.arguments()
    whole = every_tensor(program.module, options)
    results, got = whole(named(whole, args))
    want = interpreted(program.module, kept_values(options), args)
    assert list(got) == list(want)
    for name, value in got.items():
        assert value.dtype == want[name].dtype
        largest = max(1.0, float(np.abs(want[name].astype("float64")).max(initial=0)))
        np.testing.assert_allclose(value, want[name], rtol=1e-4, atol=1e-4 * largest, err_msg=name)
    plain = interpret(program.module, args, float64=False)
    assert [v.shape for v in results.values()] == [v.shape for v in plain]


def test_steps_say_what_they_take_and_give() -> None:
    mod = infer_text(parse("""#[version = "0.0.5"]
def @main(%x: Tensor[(2, 4), float32], %t: (float32, float32), output_names=["a", "x1"]) {
  %0 = split(%x, indices_or_sections=2, axis=1);
  %1 = (%0.1, %t.1);
  (%1.0 * %1.1, add(%t.0, 1f))
}""", ops=table()))  # fmt: skip
    whole = every_tensor(mod, replace(OPTIONS, passes=UNFUSED))
    shown = [(s.operators, [t.name for t in s.inputs], [t.name for t in s.outputs]) for s in whole.steps]
    assert shown == [
        (("split",), ["x"], ["x1_1.0", "x1_1.1"]),
        (("multiply",), ["x1_1.1", "t.1"], ["x4"]),
        (("add",), ["t.0"], ["x6"]),
    ]
    arrays = feeds(whole.executable.program.functions["main"], None, "random")
    results, tensors = whole(arrays)
    assert list(results) == ["a", "x1"]
    np.testing.assert_array_equal(tensors["x1_1.1"], arrays["x"][:, 2:])
    np.testing.assert_array_equal(tensors["x4"], results["a"])


def test_only_what_is_returnable_is_kept() -> None:
    mod = infer_text(parse("""#[version = "0.0.5"]
def @main(%x: Tensor[(3), float32], %n: int32) {
  let %cell = ref(%x);
  let %y = if (%n == 0) { nn.relu(%x) } else { tanh(%x) };
  let %done = ref_write(%cell, %y);
  ref_read(%cell) + %y
}""", ops=table()))  # fmt: skip
    whole = every_tensor(mod, OPTIONS)
    x = np.float32([-1, 0, 2])
    results, tensors = whole({"x": x, "n": np.int32(0)})
    np.testing.assert_array_equal(results["output"], 2 * np.maximum(x, 0))
    assert any(np.array_equal(v, np.maximum(x, 0)) for v in tensors.values() if v.shape == (3,))

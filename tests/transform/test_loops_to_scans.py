"""Loops that become scans: the same results, one kernel for all steps; loops that do not fit stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.interp import evaluate
from legato.ir.module import Module
from legato.pipelines import DEFAULT
from legato.relay import Tensor, relay_model
from legato.transform.loops_to_scans import LoopsToScans
from legato.transform.pass_ import run

UNITS = 24
_AT = next(n for n, p in enumerate(DEFAULT) if isinstance(p, LoopsToScans))


def weight(*shape: int) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 0.2).astype("float32")


@relay_model
class Lstm:
    """A loop over the steps, in each of which the outputs are put into a tensor."""

    def __init__(self) -> None:
        self.wx, self.wh, self.b = weight(4 * UNITS, 16), weight(4 * UNITS, UNITS), weight(4 * UNITS)

    def forward(self, xs: Tensor(("steps", 3, 16)), h: Tensor((3, UNITS))):
        c, ys = relay.zeros_like(h), relay.zeros((xs.shape[0], 3, UNITS), "float32")
        for t in range(xs.shape[0]):
            gates = relay.nn.dense(xs[t], self.wx) + relay.nn.dense(h, self.wh) + self.b
            i, f, g, o = relay.split(gates, 4, axis=1)
            c = relay.sigmoid(f) * c + relay.sigmoid(i) * relay.tanh(g)
            h = relay.sigmoid(o) * relay.tanh(c)
            ys = relay.scatter_nd(ys, relay.reshape(t, (1, 1)), relay.expand_dims(h, 0))
        return ys, c


@relay_model
class Gru:
    """The reset gate comes before the product, so a step has two phases; the last state is the result."""

    def __init__(self) -> None:
        self.wx, self.wh, self.wn = weight(3 * UNITS, 16), weight(2 * UNITS, UNITS), weight(UNITS, UNITS)

    def forward(self, xs: Tensor(("steps", 3, 16)), h: Tensor((3, UNITS))):
        for t in range(xs.shape[0]):
            r, z, n = relay.split(relay.nn.dense(xs[t], self.wx), 3, axis=1)
            hr, hz = relay.split(relay.nn.dense(h, self.wh), 2, axis=1)
            new = relay.tanh(n + relay.nn.dense(relay.sigmoid(r + hr) * h, self.wn))
            z = relay.sigmoid(z + hz)
            h = (1 - z) * new + z * h
        return h


@relay_model
class Delayed:
    """What is kept is the state before each step."""

    def __init__(self) -> None:
        self.wx, self.wh = weight(UNITS, 16), weight(UNITS, UNITS)

    def forward(self, xs: Tensor(("steps", 3, 16)), h: Tensor((3, UNITS))):
        ys = relay.zeros((xs.shape[0], 3, UNITS), "float32")
        for t in range(xs.shape[0]):
            ys = relay.scatter_nd(ys, relay.reshape(t, (1, 1)), relay.expand_dims(h, 0))
            h = relay.tanh(relay.nn.dense(xs[t], self.wx) + relay.nn.dense(h, self.wh))
        return ys, h


def optimised(program: Module) -> Module:
    return run(program, DEFAULT[: _AT + 1])


@pytest.mark.parametrize("model", [Lstm, Gru, Delayed])
def test_a_recurrence_is_one_scan_for_any_number_of_steps(model: Any) -> None:
    net = model()
    module = optimised(net.module)
    assert "scan(" in str(module["main"])
    assert "take(" not in str(module["main"]), "the inputs' products are made at once"
    exe = legato.compile(net, keep=["lower"])
    assert "main_while" not in exe.module_after("lower")
    for steps in (0, 1, 2, 7):
        args = [np.random.default_rng(steps).standard_normal(s).astype("float32") for s in ((steps, 3, 16), (3, UNITS))]
        want = net(*args)
        for run_it in (lambda *a: evaluate(module, a), exe):
            for got, wanted in zip(_flat(run_it(*args)), _flat(want), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-6)


def _flat(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


LOOP = """#[version = "0.0.5"]
def @loop(%xs: Tensor[(n, 1, 8), float32], %w: Tensor[(8, 8), float32], %h: Tensor[(1, 8), float32], %i: int32,
          %stop: int32) {{
  if (%i < %stop) {{
    let %y = tanh(nn.dense(%h, %w) + take(%xs, {at}, axis=0));
    @loop(%xs, %w, {after}, %i + {by}, %stop)
  }} else {{ {result} }}
}}
def @main(%xs: Tensor[(n, 1, 8), float32], %w: Tensor[(8, 8), float32], %h: Tensor[(1, 8), float32], %k: int32) {{
  @loop(%xs, %w, %h, {start}, {stop})
}}
"""
PLAIN = {"at": "%i", "after": "%y", "by": "1", "result": "%h", "start": "0",
         "stop": 'cast(take(shape_of(%xs), 0), dtype="int32")'}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "is_scan"),
    [
        ({}, True),
        ({"start": "1"}, False),
        ({"stop": "%k"}, False),  # how many steps that is, nobody knows
        ({"stop": "2"}, False),  # parts beyond the second must not be read
        ({"by": "2"}, False),
        ({"after": "if (%i > 1) { %y } else { %h }"}, False),  # steps differ
        ({"after": "sort(%y)"}, False),  # no sums and elements
        ({"result": "exp(%h)"}, False),
    ],
)
def test_what_a_loop_must_be(change: dict[str, str], is_scan: bool) -> None:
    module = legato.parse(LOOP.format(**{**PLAIN, **change}))
    done = optimised(module)
    assert ("scan(" in str(done["main"])) is is_scan
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s).astype("float32") for s in ((4, 1, 8), (8, 8), (1, 8))]
    want = evaluate(module, [*args, np.int32(3)])
    np.testing.assert_allclose(evaluate(done, [*args, np.int32(3)]), want, rtol=1e-5)
    np.testing.assert_allclose(legato.compile(module)(*args, np.int32(3)), want, rtol=1e-5, atol=1e-6)

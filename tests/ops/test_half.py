"""16-bit floats: an operator gives what it computes exactly, rounded once, however large what is in between."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from legato.base.errors import TypeCheckError, UnsupportedError
from legato.infer.builder import Builder
from legato.interp import evaluate, evaluate_op
from legato.ir.attrs import make_attrs
from legato.ir.expr import Call, Function
from legato.ir.module import Module
from legato.ir.op import Op, Sample
from legato.ir.types import Type
from legato.ir.visit import nodes
from legato.ops import table
from legato.transform.expand_calls import ExpandCalls
from tests.ops.test_ops import type_of

STATES = {"nn.gru_scan", "nn.lstm_scan", "nn.rnn_scan"}  # their states are rounded in every step
HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
ERRORS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
NAMES = sorted(set(table()) - STATES)


def argument(a: Any, half: np.dtype[Any], scale: float, rng: np.random.Generator) -> Any:
    """An argument of a sample, its floats of `half` and about as large as `scale`."""
    if isinstance(a, np.ndarray):
        if a.dtype != np.float32:
            return a
        return np.where(np.isfinite(a), np.clip(a, -1e3, 1e3), a).astype(
            half
        )  # squares need float32, which holds places of 1e3 well
    if len(a) == 2 and isinstance(a[1], str):
        is_float = a[1].startswith("float")
        return (rng.standard_normal(a[0]) * scale).astype(half) if is_float else rng.integers(0, 3, a[0]).astype(a[1])
    return tuple(argument(x, half, scale, rng) for x in a)


def widened(value: Any, half: np.dtype[Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(widened(v, half) for v in value)
    return value.astype(np.float64) if value.dtype == half else value


Run = Callable[[Op, list[Any], Any], Any]


def values(op: Op, sample: Sample, half: np.dtype[Any], scale: float, run: Run) -> list[tuple[Any, Any]]:
    """What the operator gives, and what it gives in float64; nothing where it does not take such operands."""
    rng = np.random.default_rng(0)
    args = [argument(a, half, scale, rng) for a in sample.args]
    if op.args and op.args[-1].startswith("*"):
        fixed = len(op.args) - 1
        args = [*args[:fixed], tuple(args[fixed:])]
    attrs = None if op.attrs is None else make_attrs(op, sample.attrs)
    try:
        found, wanted = run(op, args, attrs), evaluate_op(op, [widened(a, half) for a in args], attrs)
    except (TypeError, ValueError, KeyError, TypeCheckError, UnsupportedError):
        return []
    pairs = zip(*(v if isinstance(v, tuple) else (v,) for v in (found, wanted)), strict=True)
    return [(got, want) for got, want in pairs if isinstance(got, np.ndarray) and got.dtype == half]


@cache
def composition(op: Op, types: tuple[Type, ...], attrs: Any) -> Module:
    """A call as the operators that it is made of."""
    b = Builder()
    params = [b.var(f"x{n}", ty) for n, ty in enumerate(types)]
    module = ExpandCalls()(Module.from_expr(Function(tuple(params), b.call_op(op, params, attrs))))
    assert not any(isinstance(node, Call) and node.op is op for node in nodes(module["main"]))
    return module


def expanded(op: Op, args: list[Any], attrs: Any) -> Any:
    """What the operators give that a call is made of."""
    return evaluate(composition(op, tuple(map(type_of, args)), attrs), args)


def check(op: Op, run: Run) -> None:
    """Each result is what is computed exactly, rounded once."""
    for dtype, half in HALVES.items():
        for sample in op.samples:
            for scale in (1.0, 300.0, 3e-3):
                for got, want in values(op, sample, half, scale, run):
                    holds = np.isfinite(want) & np.isfinite(want.astype(half).astype(np.float64))
                    error = np.abs(got.astype(np.float64) - want)[holds]
                    bound = ERRORS[dtype] * np.abs(want[holds]) + 2.0**-21 * max(1, np.abs(want[holds]).max(initial=0))
                    assert (error <= bound).all(), f"{dtype}, {scale}"


@pytest.mark.parametrize("name", NAMES)
@np.errstate(all="ignore")
def test_steps_are_wide(name: str) -> None:
    check(table()[name], evaluate_op)


@pytest.mark.parametrize("name", [name for name in NAMES if table()[name].expand])
@np.errstate(all="ignore")
@pytest.mark.shared(2)
def test_steps_of_compositions_are_wide(name: str) -> None:
    check(table()[name], expanded)

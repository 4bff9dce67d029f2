"""Operators that have no gradient and are made of others: differentiated as what they become, whether their numbers are
known or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato.autodiff import jvp, vjp
from legato.infer.builder import Builder
from legato.interp import evaluate, evaluate_op
from legato.ir.attrs import make_attrs
from legato.ir.module import Module
from legato.ir.op import Op, Sample
from legato.ops import table
from legato.transform._gradient.cotangents import is_continuous
from tests.heavy import marked, picked
from tests.ops.test_gradients import STEP, assert_near, halved, inner, moved, smooth, wide_attrs
from tests.ops.test_ops import arguments, type_of

NUMBERS = {"roi", "scale_d", "scale_h", "scale_w"}  # what says which extents there are, beside `on_host`
OPS = [op for op in table().values() if op.grad is None and op.expand is not None]


def is_smooth(op: Op, sample: Sample) -> bool:
    """Whether a sample has floats to differentiate by, and its result holds some."""
    values = arguments(op, sample)
    given = evaluate_op(op, values, make_attrs(op, sample.attrs))
    return any(is_continuous(type_of(v)) for v in values) and is_continuous(type_of(given))


def is_light(op: Op, n: int, known: bool) -> bool:
    """Of each operator the first sample both ways, of the others a third."""
    return n == 0 or picked(f"{op.name} {n} {known}", 3)


CASES = [
    marked(op, s, known, heavy=not is_light(op, n, known), name=f"{op.name}-{n}-{'known' if known else 'computed'}")
    for op in OPS
    for n, s in enumerate(op.samples)
    if is_smooth(op, s)
    for known in (False, True)
]


@pytest.mark.parametrize(("op", "sample", "known"), CASES)
def test_gradient_and_tangent(op: Op, sample: Sample, known: bool) -> None:
    attrs = make_attrs(op, wide_attrs(sample))
    rng = np.random.default_rng(3)
    named = zip(op.args, arguments(op, sample), strict=True)
    point = [v if is_number(op, name) else smooth(v, rng, -1.9, 1.9) for name, v in named]
    direction = [smooth(v, rng, -1, 1) for v in point]
    mod, free = program(op, attrs, point, known)

    def at(step: float) -> Any:
        moves = zip(point, direction, free, strict=True)
        return evaluate_op(op, [moved(v, d, step) if f else v for v, d, f in moves], attrs)

    wanted = halved(at(STEP), at(-STEP))
    given = [v for v, f in zip(point, free, strict=True) if f]
    moves = [d for d, f in zip(direction, free, strict=True) if f and is_continuous(type_of(d))]
    assert_near(evaluate(jvp(mod), [*given, *moves])[1], wanted)
    dy = smooth(wanted, rng, -1, 1)
    got = evaluate(vjp(mod), [*given, dy])[1]
    assert abs(inner(tuple(got), tuple(moves)) - inner(wanted, dy)) <= 1e-6


def is_number(op: Op, name: str) -> bool:
    """Whether an argument says which extents there are."""
    return name in op.on_host or name in NUMBERS


def program(op: Op, attrs: Any, values: list[Any], known: bool) -> tuple[Module, list[bool]]:
    """@main that calls the operator, and which of its arguments are parameters: where the numbers are known, and where
    they are floats, the others are constants."""
    b = Builder()
    numbers = [
        is_number(op, name) and (known or is_continuous(type_of(v))) for name, v in zip(op.args, values, strict=True)
    ]
    args = [b.constant(v) if n else b.var(a, type_of(v)) for a, v, n in zip(op.args, values, numbers, strict=True)]
    params = [a for a, n in zip(args, numbers, strict=True) if not n]
    return Module.from_expr(b.function(params, b.call_op(op, args, attrs))), [not n for n in numbers]

"""Every gradient rule over every sample of its operator, in float64: against finite differences, linear in the
cotangent, and transposed (the tangent that forward mode takes) against finite differences again."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate, evaluate_op
from legato.ir.attrs import make_attrs
from legato.ir.expr import Expr, Function, Var
from legato.ir.let import lets
from legato.ir.module import Module
from legato.ir.op import Op, Sample
from legato.ops import table
from legato.transform._gradient.cotangents import Cotangent, is_continuous, made
from legato.transform._gradient.rules import contributions
from legato.transform._gradient.straight import tangent
from tests.ops.test_ops import arguments, type_of

STEP = 1e-6
# Where operators are smooth, and in their domains: the first range in which a sample's result is finite is taken.
RANGES = ((-1.9, 1.9), (-0.9, 0.9), (0.1, 0.9), (1.1, 1.9))
# stop_gradient has the gradient of a constant, which it is not.
# Gradients of approximations are those of the functions meant, which differ from their own derivatives.
NEAR = {"fast_exp": 1e-4, "fast_tanh": 1e-4, "fast_erf": 1e-4, "nn.fast_softmax": 1e-4}
CONSTANT = {"rois"}  # arguments that gradients take for constants though they are floats
OPS = [op for op in table().values() if op.grad is not None and op.name != "stop_gradient"]


def has_floats(op: Op, sample: Sample) -> bool:
    """Whether a sample has a float to differentiate by, and one to differentiate."""
    b, types = Builder(), [type_of(v) for v in arguments(op, sample)]
    call = b.call_op(op, [b.var(f"x{n}", ty) for n, ty in enumerate(types)], make_attrs(op, sample.attrs))
    return any(map(is_continuous, types)) and is_continuous(call.ty)


CASES = [pytest.param(op, s, id=f"{op.name}-{n}") for op in OPS for n, s in enumerate(op.samples) if has_floats(op, s)]


def wide_attrs(sample: Sample) -> dict[str, Any]:
    """The attributes of a sample with float64 for the dtypes of floats."""
    floats = ("float16", "bfloat16", "float32")
    return {k: "float64" if isinstance(v, str) and v in floats else v for k, v in sample.attrs.items()}


def smooth(value: Any, rng: np.random.Generator, lo: float, hi: float) -> Any:
    """`value` with float64 between `lo` and `hi` for every float."""
    if isinstance(value, tuple):
        return tuple(smooth(v, rng, lo, hi) for v in value)
    is_float = is_continuous(type_of(value))
    return rng.uniform(lo, hi, value.shape) if is_float else value


def moved(value: Any, by: Any, step: float) -> Any:
    """`value + step * by`, for floats."""
    if isinstance(value, tuple):
        return tuple(moved(v, d, step) for v, d in zip(value, by, strict=True))
    return value + step * by if value.dtype == np.float64 else value


def inner(left: Any, right: Any) -> float:
    """The inner product of two values, over their floats."""
    if isinstance(left, tuple):
        return sum(inner(a, b) for a, b in zip(left, right, strict=True))
    return float(np.sum(left * right)) if left.dtype == np.float64 else 0.0


def is_finite(value: Any) -> bool:
    """Whether no float is NaN or infinite."""
    return all(map(is_finite, value)) if isinstance(value, tuple) else bool(np.all(np.isfinite(value)))


class Case:
    """One sample of an operator as a function of float64 arguments, at a point where it is smooth."""

    def __init__(self, op: Op, sample: Sample) -> None:
        self.op, self.attrs = op, make_attrs(op, wide_attrs(sample))
        rng = np.random.default_rng(zlib.crc32(op.name.encode()))
        for lo, hi in RANGES:
            named = [*zip(op.args, arguments(op, sample), strict=True)]
            self.point = [v.astype(np.float64) if a in CONSTANT else smooth(v, rng, lo, hi) for a, v in named]
            moves = zip(op.args, self.point, strict=True)
            self.direction = [np.zeros_like(v) if a in CONSTANT else smooth(v, rng, -1, 1) for a, v in moves]
            value = self(0.0)
            if is_finite(value):
                break
        else:
            pytest.skip("infinite everywhere")
        self.dy = smooth(value, rng, -1, 1)

    def __call__(self, step: float) -> Any:
        """The result, `step` away from the point."""
        values = [moved(v, d, step) for v, d in zip(self.point, self.direction, strict=True)]
        return evaluate_op(self.op, values, self.attrs)

    def difference(self) -> Any:
        """The derivative of the result in the direction, by central differences."""
        return halved(self(STEP), self(-STEP))

    def run(self, params: list[Var], body: Expr, values: list[Any]) -> Any:
        """The value of `body` for parameters."""
        mod = infer(Module.from_expr(Function(tuple(params), body)))
        return evaluate(mod, values)

    def parameters(self) -> tuple[Builder, list[Var], Expr, Var]:
        """A builder, parameters, the call, and the variable that holds its value."""
        b = Builder()
        params = [b.var(f"x{n}", type_of(v)) for n, v in enumerate(self.point)]
        call = b.call_op(self.op, params, self.attrs)
        return b, params, call, Var("y", ty=call.ty)

    def cotangents(self, dy: Any) -> Any:
        """What the rule gives, for floats."""
        b, params, call, y = self.parameters()
        seed = b.var("dy", call.ty)
        with b.bindings() as bound:
            found = contributions(b, y, call, seed, lambda operand: True)
            result = b.tuple_([made(b, c, p) for c, p in zip(found, params, strict=True) if is_continuous(p.ty)])
        return self.run([*params, seed], lets([(y, call), *bound], result), [*self.point, dy])

    def tangent(self) -> Any:
        """What the transposed rule gives in the direction."""
        b, params, call, y = self.parameters()
        seeds = [b.var(f"d{n}", p.ty) for n, p in enumerate(params)]
        with b.bindings() as bound:
            given = [as_tangent(b, d) for d in seeds]
            result = made(b, tangent(b, y, call, given), y)
        return self.run([*params, *seeds], lets([(y, call), *bound], result), [*self.point, *self.direction])


def as_tangent(b: Builder, value: Expr) -> Cotangent:
    """A parameter as a tangent: nothing where it holds no floats."""
    if not is_continuous(value.ty):
        return None
    fields = getattr(value.ty, "fields", None)
    return value if fields is None else tuple(as_tangent(b, b.let("t", b.get(value, n))) for n in range(len(fields)))


def halved(upper: Any, lower: Any) -> Any:
    """The difference quotient."""
    if isinstance(upper, tuple):
        return tuple(halved(u, v) for u, v in zip(upper, lower, strict=True))
    return (upper - lower) / (2 * STEP) if upper.dtype == np.float64 else upper


def assert_near(got: Any, wanted: Any, error: float = 3e-7) -> None:
    """Equal up to what a difference quotient is worth, relative to the largest element."""
    if isinstance(wanted, tuple):
        for g, w in zip(got, wanted, strict=True):
            assert_near(g, w, error)
    elif wanted.dtype == np.float64:
        scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
        np.testing.assert_allclose(got, wanted, rtol=0, atol=error * scale)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_gradient_is_the_transposed_derivative(op: Op, sample: Sample) -> None:
    case = Case(op, sample)
    wanted = inner(case.difference(), case.dy)
    floats = tuple(d for d in case.direction if is_continuous(type_of(d)))
    got = inner(tuple(case.cotangents(case.dy)), floats)
    assert abs(got - wanted) <= NEAR.get(op.name, 1e-6) * max(1.0, abs(wanted))


@pytest.mark.parametrize(("op", "sample"), CASES)
@pytest.mark.shared(2)
def test_tangent_is_the_derivative(op: Op, sample: Sample) -> None:
    case = Case(op, sample)
    assert_near(case.tangent(), case.difference(), NEAR.get(op.name, 3e-7))

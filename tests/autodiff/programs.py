"""Programs that are differentiated, and what gradients are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import legato
from legato.interp import evaluate
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.types import TensorType, TupleType, Type
from tests.graphs import concrete_type

STEP = 1e-5
PROGRAMS = {
    "products": "def @main(%x: float64, %y: float64) { let %a = sin(%x) * %y; let %b = %a * %x; %b + %a }",
    "layers": """
        def @main(%x: Tensor[(3, 4), float64], %w: Tensor[(5, 4), float64], %b: Tensor[(5), float64]) {
          let %h = nn.dense(%x, %w) + %b;
          let %a = tanh(%h);
          sum(%a * %a)
        }""",
    "broadcasting": """
        def @main(%x: Tensor[(2, 1, 4), float64], %y: Tensor[(3, 1), float64]) {
          sum(exp(%x * %y) - %y / (%x * %x + 1f64))
        }""",
    "symbolic": """
        def @main(%x: Tensor[(n, 4), float64], %y: Tensor[(n, 4), float64]) {
          let %s = sum(sigmoid(%x), axis=[1], keepdims=True);
          sum(%s * %y)
        }""",
    "tuples": """
        def @main(%p: (Tensor[(3), float64], int32), %x: Tensor[(3), float64]) {
          let %t = (%p.0 * %x, cos(%x));
          let %q = (%t.1, %t);
          sum(%q.0 * %q.1.0)
        }""",
    "operands in a tuple": """
        def @main(%x: Tensor[(3), float64], %y: Tensor[(3), float64]) {
          let %c = concatenate((%x * %y, %x), axis=0);
          sum(%c * %c * %c)
        }""",
    "without floats": """
        def @main(%x: Tensor[(3), float64], %i: Tensor[(3), int32]) {
          let %j = %i + 1;
          let %k = sqrt(%x * %x + 1f64);
          sum(%k) * cast(sum(%j), dtype="float64")
        }""",
    "the parameter itself": "def @main(%x: float64) { %x }",
    "a constant": "def @main(%x: Tensor[(2), float64]) { 3f64 }",
}


def main_of(mod: Module) -> Function:
    """@main."""
    main = mod["main"]
    assert isinstance(main, Function)
    return main


def argument(ty: Type | None, rng: np.random.Generator) -> Any:
    """A random value; symbolic dims are 3."""
    if isinstance(ty, TupleType):
        return tuple(argument(field, rng) for field in ty.fields)
    assert isinstance(ty, TensorType)
    shape = concrete_type(ty, 3)
    return (
        rng.uniform(-2, 2, shape).astype(ty.dtype.numpy) if ty.dtype.is_float else rng.integers(1, 5, shape, np.int32)
    )


def arguments(mod: Module, seed: int = 0) -> list[Any]:
    """Values for the parameters of @main."""
    rng = np.random.default_rng(seed)
    return [argument(p.ty, rng) for p in main_of(mod).params]


def floats(value: Any) -> list[np.ndarray[Any, Any]]:
    """The float64 tensors of a value."""
    if isinstance(value, tuple | list):
        return [leaf for field in value for leaf in floats(field)]
    array = np.asarray(value)
    return [array] if array.dtype == np.float64 else []


def moved(value: Any, by: Any, step: float) -> Any:
    """`value + step * by`, for floats."""
    if isinstance(value, tuple | list):
        return tuple(moved(v, d, step) for v, d in zip(value, by, strict=True))
    return value + step * by if np.asarray(value).dtype == np.float64 else value


def inner(left: Any, right: Any) -> float:
    """The inner product of the floats of two values."""
    return sum(float(np.sum(a * b)) for a, b in zip(floats(left), floats(right), strict=True))


def difference(mod: Module, args: Sequence[Any], direction: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The derivative of the floats of the result in a direction, by central differences of the fourth order."""
    at: Callable[[float], list[np.ndarray[Any, Any]]]
    at = lambda step: floats(evaluate(mod, moved(args, direction, step)))  # noqa: E731
    near, far = ([u - v for u, v in zip(at(h), at(-h), strict=True)] for h in (STEP * 100, STEP * 200))
    return [(8 * a - b) / (12 * STEP * 100) for a, b in zip(near, far, strict=True)]


def assert_near(got: Any, wanted: Any, error: float = 1e-8) -> None:
    """Equal relative to the largest element."""
    for g, w in zip(floats(got), floats(wanted), strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=error * max(1.0, float(np.abs(w).max(initial=0.0))))


def program(name: str) -> Module:
    """One of PROGRAMS."""
    return legato.parse(PROGRAMS[name])

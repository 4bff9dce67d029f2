"""First values of parameters, by rules and a seed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from legato.autodiff.program import as_module, main_of
from legato.base.errors import CompileError
from legato.base.kinds import require, require_integer, require_mapping, require_number
from legato.ir.types import TensorType

__all__ = ["Initializer", "he", "initial", "normal", "ones", "uniform", "xavier", "zeros"]

Array = np.ndarray[Any, Any]
Initializer = Callable[[tuple[int, ...], np.random.Generator], Array]


def zeros(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """All 0."""
    return np.zeros(shape)


def ones(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """All 1."""
    return np.ones(shape)


def uniform(bound: float) -> Initializer:
    """Uniform in ±bound."""
    require(require_number(bound, "bound") >= 0, bound, "bound", "a number from 0 on")
    return lambda shape, rng: rng.uniform(-bound, bound, shape)


def normal(deviation: float, mean: float = 0.0) -> Initializer:
    """Normal."""
    require(require_number(deviation, "deviation") >= 0, deviation, "deviation", "a number from 0 on")
    require_number(mean, "mean")
    return lambda shape, rng: rng.normal(mean, deviation, shape)


def xavier(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Uniform in ±√(6 / (inputs + outputs)) of an element (Glorot and Bengio, "Understanding the difficulty of training
    deep feedforward neural networks", 2010). Weights are (outputs, inputs, …window)."""
    inputs, outputs = _fans(shape)
    return uniform(np.sqrt(6 / (inputs + outputs)))(shape, rng)


def he(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Normal with the deviation √(2 / inputs), for layers before relu (He et al., "Delving deep into rectifiers",
    2015). Weights are (outputs, inputs, …window)."""
    return normal(np.sqrt(2 / _fans(shape)[0]))(shape, rng)


def _fans(shape: tuple[int, ...]) -> tuple[float, float]:
    """How many inputs an output has, and outputs an input."""
    if len(shape) < 2:
        raise CompileError(
            f"weights of shape {shape} have no number of inputs", hint="uniform and normal take any shape"
        )
    window = float(np.prod(shape[2:]))
    return max(shape[1] * window, 1.0), max(shape[0] * window, 1.0)


def initial(
    program: object, rules: Mapping[str, Initializer], seed: int = 0, sizes: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Values of the parameters of `program` that `rules` names, of the dtypes and shapes that they have there.

    Each is drawn from a generator of its own, made of `seed` and the parameter's name: it does not depend on the
    others. sizes: of symbolic dims, by name.
    """
    require_mapping(rules, "rules", "functions (shape, generator) → array, by names of parameters")
    sizes = {} if sizes is None else require_mapping(sizes, "sizes", "numbers by names of dims")
    require(require_integer(seed, "seed") >= 0, seed, "seed", "an integer from 0 on")
    main = main_of(as_module(program))
    known = {p.name: p.ty for p in main.params}
    found: dict[str, Array] = {}
    for name, rule in rules.items():
        ty = known.get(name)
        if not isinstance(ty, TensorType):
            raise CompileError(f"the program has no tensor {name!r} among its parameters",
                               hint=f"there are {', '.join(known)}")  # fmt: skip
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        shape = tuple(_size(d, sizes, name) for d in ty.shape)
        require(callable(rule), rule, f"the rule for {name!r}", "a function (shape, generator) → array")
        values = np.asarray(rule(shape, rng))
        if values.shape != shape:
            raise CompileError(f"the rule for {name!r} gives the shape {values.shape}, wanted {shape}")
        found[name] = np.ascontiguousarray(values.astype(ty.dtype.numpy)).reshape(shape)
    return found


def _size(dim: Any, sizes: Mapping[str, int], name: str) -> int:
    value = sizes.get(getattr(dim, "name", "")) if not hasattr(dim, "value") else dim.value
    if value is None:
        raise CompileError(f"the shape of {name!r} has the dim {dim}", hint="give sizes={...} of symbolic dims")
    size = require_integer(value, f"the dim {dim}")
    require(size >= 0, value, f"the dim {dim}", "an integer from 0 on")
    return size

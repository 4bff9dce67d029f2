"""Random parameters for networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from legato.infer.infer import infer
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.types import TensorType

__all__ = ["Initializer", "create_workload", "xavier"]

Array = np.ndarray[Any, Any]
Initializer = Callable[[str, tuple[int, ...], np.random.Generator], Array]


def xavier(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Values for the parameter `name`, by what the end of its name says.

    gamma, var: 1. beta, mean, bias: 0. Others: uniform in ±√(3 / fan), where fan is the mean number of inputs and
    outputs of one element (Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
    networks", 2010).
    """
    if name.endswith(("gamma", "var")):
        return np.ones(shape)
    if name.endswith(("beta", "mean", "bias")) or len(shape) < 2:
        return np.zeros(shape)
    window = np.prod(shape[2:])
    fan = (shape[0] + shape[1]) * window / 2
    bound = np.sqrt(3.0 / fan)
    return rng.uniform(-bound, bound, shape)


def create_workload(
    net: Function | Module, initializer: Initializer | None = None, seed: int = 0
) -> tuple[Module, dict[str, Array]]:
    """The typed module of `net` (its @main), and values for all its parameters but "data", by name.

    initializer: gives the values (name, shape, generator); `xavier` if None.
    """
    mod = infer(Module.from_expr(net) if isinstance(net, Function) else net)
    main = mod["main"]
    assert isinstance(main, Function)
    rng = np.random.default_rng(seed)
    params: dict[str, Array] = {}
    for p in main.params:
        if p.name != "data":
            ty = p.checked_type
            assert isinstance(ty, TensorType)
            values = (initializer or xavier)(p.name, ty.concrete_shape, rng)
            params[p.name] = np.asarray(values, ty.dtype.numpy)
    return mod, params

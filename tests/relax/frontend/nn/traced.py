"""Functions of nn tensors, on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np

from legato.interp import evaluate
from legato.ir.module import Module
from legato.relax.frontend import nn

LUCK = np.random.default_rng(7)


def values(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Some numbers."""
    return LUCK.standard_normal(shape).astype(dtype) if dtype.startswith("float") else LUCK.integers(0, 9, shape, dtype)


def program(function: Callable[..., Any], shapes: Sequence[Sequence[Any]], dtypes: Sequence[str]) -> Module:
    """The program whose @main is `function`, of tensors of these shapes and dtypes."""
    names = list(signature(function).parameters)
    tensors = [nn.spec.Tensor(s, d) for s, d in zip(shapes, dtypes, strict=True)]
    spec = nn.spec.ModuleSpec(nn.Module(), ["main"], [nn.spec.MethodSpec(function, names, tensors)])
    return nn.Module().export_tvm(spec)[0]


def interpreted(function: Callable[..., Any], *arrays: np.ndarray[Any, Any], symbolic: bool = False) -> Any:
    """What `function` computes of arrays; symbolic: the first extent of the first is a dim."""
    shapes: list[list[Any]] = [list(a.shape) for a in arrays]
    if symbolic:
        shapes[0][0] = "n"
    return evaluate(program(function, shapes, [str(a.dtype) for a in arrays]), list(arrays))


def model(built: nn.Module, state: dict[str, Any], spec: Any) -> tuple[Module, list[np.ndarray[Any, Any]]]:
    """The program of a model, and its weights in order, of torch's."""
    built.load_state_dict(state)
    mod, params = built.export_tvm(spec)
    data = [p.data for _, p in params]
    return mod, [d.numpy() for d in data if d is not None]

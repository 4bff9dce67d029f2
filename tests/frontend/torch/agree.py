"""PyTorch as a peer: functions over tensors, traced to a graph of ATen's operators, imported, and run both ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import fx
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from legato.base.target import target
from legato.driver import CompileOptions, compile_module
from legato.frontend.torch.decompositions import decompositions
from legato.frontend.torch.graphs import GraphFace, import_graph
from legato.interp import evaluate
from legato.ir.module import Module
from legato.torch.tensors import as_array, as_tensor

__all__ = ["Imported", "agree", "imported", "traced"]

Tensors = Sequence[Any]
Mode = Literal["fake", "symbolic"]


def traced(function: Callable[..., Any], tensors: Tensors, mode: Mode = "fake") -> fx.GraphModule:
    """The functional graph of a function of tensors that gives tensors; mode "symbolic": every extent is a symbol."""
    with torch.no_grad():
        return make_fx(dispatch_functionalize(function), decompositions(), mode)(*tensors)


class Imported:
    """A function of tensors as a module, run by the interpreter or compiled."""

    def __init__(self, function: Callable[..., Any], tensors: Tensors, mode: Mode = "fake") -> None:
        self.module: Module
        self.face: GraphFace
        self.module, self.face = import_graph(traced(function, tensors, mode), name="the function")

    def __call__(self, run: Callable[..., Any], tensors: Tensors) -> list[Any]:
        """What `run` makes of the arrays of tensors, as tensors and numbers."""
        leaves = [tensors[n] for n in self.face.given]
        arrays = [as_array(t, "an input") if isinstance(t, torch.Tensor) else (int(t),) for t in leaves]
        found = run(*arrays)
        outputs = iter(found if isinstance(found, tuple) else (found,))
        made: list[Any] = []
        for kind, value in self.face.results:
            if kind == "input":
                made.append(tensors[value])
                continue
            array = None if kind == "constant" else np.array(next(outputs), order="C")
            made.append(value if array is None else as_tensor(array) if kind == "tensor" else array.item())
        return made

    def interpreted(self, tensors: Tensors) -> list[Any]:
        """By the reference interpreter."""
        return self(lambda *arrays: evaluate(self.module, arrays), tensors)

    def compiled(self, tensors: Tensors) -> list[Any]:
        """By native code."""
        return self(compile_module(self.module, CompileOptions(target("host"))).executable, tensors)


def agree(found: Sequence[Any], wanted: Any, rtol: float | None = None, atol: float | None = None) -> None:
    """AssertionError unless results are of the dtypes, shapes and values that PyTorch has."""
    flat = pytree.tree_leaves(wanted)
    assert len(found) == len(flat)
    for own, peer in zip(found, flat, strict=True):
        torch.testing.assert_close(own, peer, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)


def imported(function: Callable[..., Any], *tensors: Any, compile: bool = False, mode: Mode = "fake") -> None:
    """A function of tensors agrees with PyTorch, interpreted, and compiled where that is asked for."""
    program = Imported(function, tensors, mode)
    with torch.no_grad():
        wanted = function(*(t.clone() if isinstance(t, torch.Tensor) else t for t in tensors))
    agree(program.interpreted(tensors), wanted)
    if compile:
        agree(program.compiled(tensors), wanted)

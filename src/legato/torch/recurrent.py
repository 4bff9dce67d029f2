"""LSTM, GRU and plain recurrent layers in inference: one operator each, which Legato has as a loop.

Dynamo ends graphs at these layers unless `torch._dynamo.config.allow_rnn` is set, and PyTorch unrolls them then. In
plain inference on the CPU they become operators of `legato::` before that, which do in eager what PyTorch's do. These
have no gradients, no rules of autocast or of `torch.func`, and no kernels of other devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final

import torch
from torch import fx
from torch.utils import _pytree as pytree

__all__ = ["declare", "kept"]

_NAMES: Final = ("lstm", "gru", "rnn_relu", "rnn_tanh")
_MODES: Final = ("_set_grad_enabled", "_enter_inference_mode", "_enter_autocast", "_exit_autocast")
_ARGUMENTS: Final = 9  # of a layer; of one of packed sequences, too: the second is a tensor there
_REST: Final = (
    "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"
)


def kept(graph_module: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule:
    """A graph of Dynamo's with operators that PyTorch does not unroll in the place of recurrent layers; itself where it
    has none, and where anything is not plain inference on the CPU."""
    layers = [n for n in graph_module.graph.nodes if _name(n)]
    if not layers or (torch.is_grad_enabled() and any(getattr(i, "requires_grad", False) for i in inputs)):
        return graph_module
    if torch._C._is_any_autocast_enabled() or any(map(_is_mode, graph_module.graph.nodes)):
        return graph_module
    if not all(map(_is_plain, layers)):
        return graph_module
    declare()
    for node in layers:
        node.target = getattr(torch.ops.legato, _name(node)).default
    graph_module.recompile()
    return graph_module


def _name(node: fx.Node) -> str:
    """The operator of a layer; "" for all else."""
    name = next((name for name in _NAMES if node.target is getattr(torch, name)), "")
    is_packed = len(node.args) != _ARGUMENTS or not isinstance(node.args[3], bool)
    return "" if is_packed or node.kwargs else name


def _is_mode(node: fx.Node) -> bool:
    """Whether a node changes what the ones after it do: record gradients, cast, or transform functions."""
    module = getattr(node.target, "__module__", None) or ""
    return getattr(node.target, "__name__", "") in _MODES or "_functorch" in module


def _is_plain(layer: fx.Node) -> bool:
    """Whether the results of a layer, as Dynamo traced it, lie on the CPU and record no gradients."""
    found = pytree.tree_leaves(layer.meta.get("example_value"))
    return all(isinstance(t, torch.Tensor) and t.device.type == "cpu" and not t.requires_grad for t in found)


@cache
def declare() -> Any:
    """Declares the operators, which live as long as what is returned."""
    library = torch.library.Library("legato", "DEF")  # type: ignore[no-untyped-call]
    for name in _NAMES:
        states, results = (
            ("Tensor[] hx", "Tensor, Tensor, Tensor") if name == "lstm" else ("Tensor hx", "Tensor, Tensor")
        )
        library.define(f"{name}(Tensor input, {states}, {_REST}) -> ({results})")  # type: ignore[no-untyped-call]
        library.impl(name, partial(_run, getattr(torch, name)), "CPU")  # type: ignore[no-untyped-call]
        torch.library.register_fake(f"legato::{name}", _lstm_like if name == "lstm" else _like, lib=library)
    return library


def _run(layer: Callable[..., tuple[torch.Tensor, ...]], *args: Any) -> tuple[torch.Tensor, ...]:
    return tuple(t.contiguous() for t in layer(*args))  # as the fake ones lie in memory


def _lstm_like(input: torch.Tensor, hx: list[torch.Tensor], *rest: Any) -> tuple[torch.Tensor, ...]:
    return (*_like(input, hx[0], *rest), hx[1].new_empty(hx[1].shape))


def _like(input: torch.Tensor, hx: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Tensors like the outputs of all steps, and the last states."""
    is_bidirectional = rest[-2]
    width = hx.shape[-1] * (2 if is_bidirectional else 1)
    return input.new_empty((*input.shape[:2], width)), hx.new_empty(hx.shape)

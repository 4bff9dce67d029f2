"""A model in MXNet, as a symbolic graph bound to its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import mxnet as mx
import numpy as np

from tools.bench.peers.graph import Graph, Node, read
from tools.bench.peers.serve import Arrays, Refused, Run, serve

GATES: Final = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}  # the gates of ONNX in the order of MXNet: i f c o, r z n

Operator = Callable[..., Any]


class Builder:
    """The symbols of a graph, and the arrays of its weights."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.values: dict[str, Any] = {name: mx.sym.var(f"input{n}") for n, name in enumerate(graph.inputs)}

    def weight(self, name: str) -> np.ndarray[Any, Any]:
        """A weight that attributes or layouts are made of."""
        return self.graph.weights[name]

    def constant(self, array: np.ndarray[Any, Any]) -> Any:
        """The symbol of an array."""
        name = f"weight{len(self.arrays)}"
        self.arrays[name] = array
        return mx.sym.var(name)

    def value(self, name: str) -> Any:
        """The symbol of a value of the graph."""
        if name not in self.values:
            self.values[name] = self.constant(self.weight(name))
        return self.values[name]

    def outputs(self) -> list[Any]:
        """The symbols of the outputs."""
        for node in self.graph.nodes:
            if node.op not in OPERATORS:
                raise Refused(f"{node.op} has no translation to MXNet here")
            self.values[node.outputs[0]] = OPERATORS[node.op](self, node)
        return [self.value(name) for name in self.graph.outputs]


def pads(node: Node) -> tuple[int, int]:
    """What a window's operator has on each side of the two axes."""
    attrs = node.attrs
    top, left, bottom, right = attrs.get("pads", [0, 0, 0, 0])
    if (top, left) != (bottom, right) or attrs.get("auto_pad", "NOTSET") != "NOTSET" or attrs.get("ceil_mode"):
        raise Refused(f"{node.op} with other pads on two sides, auto_pad or ceil_mode")
    return top, left


def conv(of: Builder, node: Node) -> Any:
    """A convolution."""
    x, *rest = map(of.value, node.inputs)
    shape = of.weight(node.inputs[1]).shape
    return mx.sym.Convolution(
        x, *rest, kernel=shape[2:], stride=node.attrs["strides"], pad=pads(node), num_filter=shape[0],
        dilate=node.attrs.get("dilations", [1, 1]), num_group=node.attrs.get("group", 1), no_bias=len(rest) == 1,
    )  # fmt: skip


def pool(kind: str) -> Operator:
    """The largest or the average of each window."""

    def pooled(of: Builder, node: Node) -> Any:
        return mx.sym.Pooling(
            of.value(node.inputs[0]), kernel=node.attrs["kernel_shape"], stride=node.attrs["strides"], pad=pads(node),
            pool_type=kind, count_include_pad=bool(node.attrs.get("count_include_pad", 0)),
        )  # fmt: skip

    return pooled


def gemm(of: Builder, node: Node) -> Any:
    """A dense layer."""
    if not node.attrs.get("transB") or node.attrs.get("transA"):
        raise Refused("Gemm of other layouts than a dense layer's")
    x, *rest = map(of.value, node.inputs)
    units = of.weight(node.inputs[1]).shape[0]
    return mx.sym.FullyConnected(x, *rest, num_hidden=units, no_bias=len(rest) == 1, flatten=False)


def recurrent(of: Builder, node: Node) -> Any:
    """A recurrent layer of one direction that begins with zeros, as MXNet's fused operator: (steps, 1, N, H)."""
    x, w, r, b, _, *states = node.inputs
    if node.attrs.get("direction", "forward") != "forward" or any(np.any(of.weight(s)) for s in states if s):
        raise Refused(f"{node.op} of other directions, or with an initial state")
    if node.op == "GRU" and not node.attrs.get("linear_before_reset"):
        raise Refused("a GRU that resets before the product")
    hidden = node.attrs["hidden_size"]
    order = np.concatenate([np.arange(hidden) + gate * hidden for gate in GATES[node.op]])
    both = of.weight(b)[0].reshape(2, -1)[:, order]
    packed = np.concatenate([of.weight(w)[0][order].ravel(), of.weight(r)[0][order].ravel(), both.ravel()])
    batch = of.graph.inputs[x][1]
    zeros = [mx.sym.zeros((1, batch, hidden)) for _ in range(2 if node.op == "LSTM" else 1)]
    kind = {"mode": node.op.lower(), "state_size": hidden, "num_layers": 1}
    return mx.sym.expand_dims(mx.sym.RNN(of.value(x), of.constant(packed), *zeros, **kind), axis=1)


def clip(of: Builder, node: Node) -> Any:
    """Between two numbers."""
    x, low, high = node.inputs
    return mx.sym.clip(of.value(x), float(of.weight(low)), float(of.weight(high)))


def mean(of: Builder, node: Node) -> Any:
    """Averages along axes."""
    x, axes = node.inputs
    return mx.sym.mean(of.value(x), axis=tuple(map(int, of.weight(axes))), keepdims=bool(node.attrs.get("keepdims", 1)))


OPERATORS: Final[Mapping[str, Operator]] = {
    "Add": lambda of, node: of.value(node.inputs[0]) + of.value(node.inputs[1]),
    "AveragePool": pool("avg"),
    "Clip": clip,
    "Concat": lambda of, node: mx.sym.concat(*map(of.value, node.inputs), dim=node.attrs["axis"]),
    "Conv": conv,
    "Flatten": lambda of, node: mx.sym.flatten(of.value(node.inputs[0])),
    "GRU": recurrent,
    "Gemm": gemm,
    "GlobalAveragePool": lambda of, node: mx.sym.Pooling(of.value(node.inputs[0]), global_pool=True, pool_type="avg"),
    "LSTM": recurrent,
    "MaxPool": pool("max"),
    "ReduceMean": mean,
    "Relu": lambda of, node: mx.sym.relu(of.value(node.inputs[0])),
    "Reshape": lambda of, node: mx.sym.reshape(
        of.value(node.inputs[0]), shape=tuple(map(int, of.weight(node.inputs[1])))
    ),
    "Squeeze": lambda of, node: mx.sym.squeeze(
        of.value(node.inputs[0]), axis=tuple(map(int, of.weight(node.inputs[1])))
    ),
}


def make(folder: Path, inputs: Arrays, threads: int, option: str) -> tuple[str, Run]:
    """MXNet's version, and the call."""
    graph = read(folder)
    builder = Builder(graph)
    symbol = mx.sym.Group(builder.outputs())
    arrays = {f"input{n}": inputs[name] for n, name in enumerate(graph.inputs)} | builder.arrays
    used = set(symbol.list_arguments())
    bound = {name: mx.nd.array(array, dtype=array.dtype) for name, array in arrays.items() if name in used}
    program = symbol.bind(mx.cpu(), bound, grad_req="null")
    return mx.__version__, lambda: [found.asnumpy() for found in program.forward(is_train=False)]


if __name__ == "__main__":
    serve(make)

"""A model in TensorFlow, as one function of a graph (`tf.function`): pictures with their channels innermost, as its
convolutions want them; recurrent layers by Keras. The option `xla` compiles it by XLA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tools.bench.peers.graph import Graph, Node, read
from tools.bench.peers.serve import Arrays, Refused, Run, serve

IMAGE: Final = 4  # the rank of pictures: (N, H, W, C) here, (N, C, H, W) in the graph
INNERMOST: Final = (0, 2, 3, 1)  # the axes of the graph's pictures, in the order of those here
OUTERMOST: Final = (0, 3, 1, 2)  # and back

Operator = Callable[..., Any]


def pads(node: Node) -> list[list[int]]:
    """What a window's operator has around each axis."""
    if node.attrs.get("auto_pad", "NOTSET") != "NOTSET" or node.attrs.get("ceil_mode"):
        raise Refused(f"{node.op} with auto_pad or ceil_mode")
    top, left, bottom, right = node.attrs.get("pads", [0, 0, 0, 0])
    return [[0, 0], [top, bottom], [left, right], [0, 0]]


def conv(node: Node, x: Any, weight: Any, bias: Any = None) -> Any:
    """A convolution: of all channels, or of each alone."""
    groups, strides = node.attrs.get("group", 1), node.attrs["strides"]
    if groups == 1:
        kernel = np.transpose(weight, (2, 3, 1, 0))
        found = tf.nn.conv2d(x, kernel, strides, pads(node), dilations=node.attrs.get("dilations"))
    elif groups == weight.shape[0]:
        kernel = np.transpose(weight, (2, 3, 0, 1))
        found = tf.nn.depthwise_conv2d(tf.pad(x, pads(node)), kernel, [1, *strides, 1], "VALID")
    else:
        raise Refused(f"{groups} groups of channels")
    return found if bias is None else tf.nn.bias_add(found, bias)


def max_pool(node: Node, x: Any) -> Any:
    """The largest of each window. What is around is written out: XLA has no pools with pads of their own."""
    around = pads(node)
    if any(map(any, around)):
        x = tf.pad(x, around, constant_values=x.dtype.min)
    return tf.nn.max_pool2d(x, node.attrs["kernel_shape"], node.attrs["strides"], "VALID")


def average_pool(node: Node, x: Any) -> Any:
    """The average of each window, with the zeros around."""
    around = pads(node)
    if any(map(any, around)):
        if not node.attrs.get("count_include_pad"):
            raise Refused("averages that leave out what is around")
        x = tf.pad(x, around)
    return tf.nn.avg_pool2d(x, node.attrs["kernel_shape"], node.attrs["strides"], "VALID")


def reduce_mean(node: Node, x: Any, axes: Any) -> Any:
    """Averages along axes."""
    rank = len(x.shape)
    places = [int(axis) % rank for axis in axes]
    if rank == IMAGE:
        places = [INNERMOST.index(place) for place in places]
    return tf.reduce_mean(x, places, keepdims=bool(node.attrs.get("keepdims", 1)))


def reshape(node: Node, x: Any, shape: Any) -> Any:
    """The elements in the order of the graph."""
    return tf.reshape(outside(x), shape)


def flatten(node: Node, x: Any) -> Any:
    """Rows."""
    return tf.reshape(outside(x), [x.shape[0], -1])


def concat(node: Node, *parts: Any) -> Any:
    """Parts side by side."""
    axis = int(node.attrs["axis"])
    return tf.concat(parts, INNERMOST.index(axis) if len(parts[0].shape) == IMAGE else axis)


def gemm(node: Node, a: Any, b: Any, c: Any = None) -> Any:
    """A product, and what is added to it."""
    found = tf.matmul(a, b, transpose_a=bool(node.attrs.get("transA")), transpose_b=bool(node.attrs.get("transB")))
    return found if c is None else found + c


def lstm(hidden: int, w: Any, r: Any, b: Any) -> tuple[Any, list[Any]]:
    """An LSTM and its weights."""
    order = np.concatenate([np.arange(hidden) + gate * hidden for gate in (0, 2, 3, 1)])  # i o f c here: i f c o
    bias = (b[: 4 * hidden] + b[4 * hidden :])[order]
    return tf.keras.layers.LSTM(hidden, return_sequences=True), [w[order].T, r[order].T, bias]


def gru(hidden: int, w: Any, r: Any, b: Any) -> tuple[Any, list[Any]]:
    """A GRU and its weights."""
    layer = tf.keras.layers.GRU(hidden, return_sequences=True, reset_after=True)
    return layer, [w.T, r.T, b.reshape(2, 3 * hidden)]


RECURRENT: Final = {"LSTM": lstm, "GRU": gru}


def layer(graph: Graph, node: Node) -> Any:
    """A recurrent node as a layer of Keras: one direction that begins with zeros."""
    attrs, (x, w, r, b, _, *states) = node.attrs, node.inputs
    if attrs.get("direction", "forward") != "forward" or any(np.any(graph.weights[s]) for s in states if s):
        raise Refused(f"{node.op} of other directions, or with an initial state")
    if node.op == "GRU" and not attrs.get("linear_before_reset"):
        raise Refused("a GRU that resets before the product")
    found, weights = RECURRENT[node.op](attrs["hidden_size"], *(graph.weights[name][0] for name in (w, r, b)))
    steps, batch, width = graph.inputs[x]
    found.build((batch, steps, width))
    found.set_weights(weights)
    return found


def rolled(layer: Any, x: Any) -> Any:
    """What a layer makes of (steps, N, C), which it has the other way around: (steps, 1, N, H)."""
    return tf.transpose(layer(tf.transpose(x, (1, 0, 2))), (1, 0, 2))[:, None]


OPERATORS: Final[Mapping[str, Operator]] = {
    "Add": lambda node, a, b: a + b,
    "AveragePool": average_pool,
    "Clip": lambda node, x, low, high: tf.clip_by_value(x, low, high),
    "Concat": concat,
    "Conv": conv,
    "Flatten": flatten,
    "Gemm": gemm,
    "GlobalAveragePool": lambda node, x: tf.reduce_mean(x, (1, 2), keepdims=True),
    "MaxPool": max_pool,
    "ReduceMean": reduce_mean,
    "Relu": lambda node, x: tf.nn.relu(x),
    "Reshape": reshape,
    "Squeeze": lambda node, x, axes: tf.squeeze(x, [int(axis) for axis in axes]),
}


def outside(x: Any) -> Any:
    """A tensor in the axes of the graph."""
    return tf.transpose(x, OUTERMOST) if len(x.shape) == IMAGE else x


def outputs(graph: Graph, layers: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Any]:
    """The graph's outputs, in its axes. layers: of Keras, by the name of what they give."""
    values: dict[str, Any] = {"": None, **graph.weights, **inputs}
    for node in graph.nodes:
        (to, *_), given = node.outputs, [values[name] for name in node.inputs]
        values[to] = rolled(layers[to], given[0]) if to in layers else OPERATORS[node.op](node, *given)
    return [outside(values[name]) for name in graph.outputs]


def make(folder: Path, inputs: Arrays, threads: int, option: str) -> tuple[str, Run]:
    """TensorFlow's version, and the call."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    graph = read(folder)
    turned = {name: np.transpose(x, INNERMOST) if x.ndim == IMAGE else x for name, x in inputs.items()}
    if unknown := {node.op for node in graph.nodes} - {*OPERATORS, *RECURRENT}:
        raise Refused(f"no translation to TensorFlow here: {', '.join(sorted(unknown))}")
    layers = {node.outputs[0]: layer(graph, node) for node in graph.nodes if node.op in RECURRENT}
    tensors = [tf.constant(turned[name]) for name in graph.inputs]

    def model(*given: Any) -> list[Any]:
        return outputs(graph, layers, dict(zip(graph.inputs, given, strict=True)))

    compiled = tf.function(model, jit_compile=option == "xla")
    return tf.__version__, lambda: [found.numpy() for found in compiled(*tensors)]


if __name__ == "__main__":
    serve(make)

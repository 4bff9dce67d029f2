"""A model as plain data: what frameworks read that have no importer of ONNX files.

The file is simplified first, by ONNX Runtime at its basic level: constants are folded, and batch normalisation is part
of the convolution before it. That is to the favour of whoever reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["ONNX", "Graph", "Node", "read", "write"]

ONNX = "model.onnx"
GRAPH = "graph.json"
WEIGHTS = "weights.npz"


@dataclass(frozen=True, slots=True)
class Node:
    """A call of an operator of ONNX: names of its inputs ("" for one that is left out) and outputs, and attributes."""

    op: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Graph:
    """A model: its nodes in an order in which they can run, inputs by name with their shapes, and weights by name."""

    inputs: dict[str, list[int]]
    outputs: list[str]
    nodes: list[Node]
    weights: Mapping[str, np.ndarray[Any, Any]]


def write(path: Path, folder: Path) -> None:
    """Writes the model of an ONNX file, simplified: as `ONNX`, and as what `read` reads."""
    import onnx
    from onnx import numpy_helper

    _simplify(path, folder / ONNX)
    graph = onnx.load(folder / ONNX).graph
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    data = {
        "inputs": {
            value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            for value in graph.input
            if value.name not in weights
        },
        "outputs": [value.name for value in graph.output],
        "nodes": [
            asdict(Node(node.op_type, list(node.input), list(node.output), {a.name: _plain(a) for a in node.attribute}))
            for node in graph.node
        ],
        "weights": list(weights),
    }
    (folder / GRAPH).write_text(json.dumps(data), encoding="utf-8")
    np.savez(folder / WEIGHTS, *weights.values())


def _simplify(path: Path, simple: Path) -> None:
    """Writes what ONNX Runtime makes of a file at its basic level, its weights inside."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(simple)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(onnx.load(path).SerializeToString(), options, providers=["CPUExecutionProvider"])


def _plain(attribute: Any) -> Any:
    """The value of an attribute as JSON has it."""
    import onnx

    value = onnx.helper.get_attribute_value(attribute)
    return value.decode() if isinstance(value, bytes) else list(value) if isinstance(value, (list, tuple)) else value


def read(folder: Path) -> Graph:
    """The model that `write` wrote; needs NumPy alone."""
    data = json.loads((folder / GRAPH).read_text(encoding="utf-8"))
    with np.load(folder / WEIGHTS) as arrays:
        weights = {name: arrays[f"arr_{place}"] for place, name in enumerate(data["weights"])}
    return Graph(data["inputs"], data["outputs"], [Node(**node) for node in data["nodes"]], weights)

"""The initializers of graphs, dense and sparse, by name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from legato.base.errors import ImportModelError
from legato.frontend.onnx.external import Folder
from legato.frontend.onnx.proto import GraphProto, SparseTensorProto, TensorProto
from legato.frontend.onnx.sparse import to_dense
from legato.frontend.onnx.tensors import Array, to_array

__all__ = ["Weight", "array_of", "initializers"]

Weight = TensorProto | SparseTensorProto


def initializers(graph: GraphProto, where: str) -> Mapping[str, Weight]:
    """The initializers of a graph; ImportModelError where two have one name. `where` names the graph in messages."""
    found: dict[str, Weight] = {}
    named: list[tuple[str, Weight]] = [(tensor.name, tensor) for tensor in graph.initializer]
    named += [(sparse.values.name, sparse) for sparse in graph.sparse_initializer]
    for name, weight in named:
        if name in found:
            raise ImportModelError(f"{where}: initializer {name!r} is defined twice")
        found[name] = weight
    return found


def array_of(weight: Weight, folder: Folder | None, what: str, data: NDArray[np.uint8] | None) -> Array:
    """The elements of an initializer, as `to_array` and `to_dense` have them."""
    if isinstance(weight, SparseTensorProto):
        return to_dense(weight, folder, what)
    return to_array(weight, folder, what, data)

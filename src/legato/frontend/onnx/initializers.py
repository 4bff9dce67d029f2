"""The initializers of graphs by name, and the elements of tensors, dense and sparse."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from legato.base.errors import ImportModelError
from legato.frontend.onnx.external import Folder
from legato.frontend.onnx.proto import GraphProto, SparseTensorProto, TensorProto
from legato.frontend.onnx.sparse import MAX_DENSE, to_dense
from legato.frontend.onnx.tensors import Array, to_array

__all__ = ["Elements", "Weight", "initializers"]

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


class Elements:
    """The elements of one model's tensors: where its external data is, and how much is left for what is sparse."""

    def __init__(self, folder: Folder | None) -> None:
        self._folder, self._left = folder, MAX_DENSE

    def of(self, tensor: Weight, what: str, data: NDArray[np.uint8] | None = None) -> Array:
        """Those of a tensor that `what` names, as `to_array` and `to_dense` have them."""
        if not isinstance(tensor, SparseTensorProto):
            return to_array(tensor, self._folder, what, data)
        found = to_dense(tensor, self._folder, what, self._left)
        self._left -= found.nbytes
        return found

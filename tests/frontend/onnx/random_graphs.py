"""Random ONNX graphs: every operator set from 7 on, all dtypes, odd attributes, broadcasting, empty and symbolic dims.

The same number makes the same graph.
"""

from __future__ import annotations

from random import Random

from tests.frontend.onnx.graph_arithmetic import ARITHMETIC
from tests.frontend.onnx.graph_draft import Draft, Graph
from tests.frontend.onnx.graph_layers import LAYERS
from tests.frontend.onnx.graph_moving import MOVING

__all__ = ["draw"]


def draw(seed: int) -> Graph:
    """The graph of a number."""
    return Draft(Random(seed), seed).graph((*ARITHMETIC, *MOVING, *LAYERS))

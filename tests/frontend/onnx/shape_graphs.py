"""Random ONNX graphs that compute shapes: chains of arithmetic on extents, through floats and comparisons too, in
operators that take them; and operators whose data decides how much they give. The same number makes the same graph.
"""

from __future__ import annotations

from random import Random

from tests.frontend.onnx.graph_draft import Graph
from tests.frontend.onnx.shape_draft import Draft
from tests.frontend.onnx.shape_found import FOUND
from tests.frontend.onnx.shape_numbers import NUMBERS, extents
from tests.frontend.onnx.shape_users import USERS

__all__ = ["draw"]


def draw(seed: int) -> Graph:
    """The graph of a number."""
    return Draft(Random(seed), seed).graph(extents, (NUMBERS, (*USERS, *FOUND)))

"""Random changes of a model: of attributes, of what inputs are, of what nodes read."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, numpy_helper

NUMBERS = (-9, -2, -1, 0, 1, 2, 3, 7, 100, 2**31, 2**40, -(2**63), 2**63 - 1)
FLOATS = (0.0, -1.0, float("nan"), float("inf"), 1e30)


def damage_attribute(rng: random.Random, attribute: AttributeProto) -> None:
    if attribute.type == AttributeProto.INT:
        attribute.i = rng.choice(NUMBERS)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice(FLOATS)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = rng.choice([b"", b"\xff", b"other"])
    elif attribute.type == AttributeProto.INTS and attribute.ints:
        change = rng.randrange(3)
        if change == 0:
            del attribute.ints[0]
        elif change == 1:
            attribute.ints.append(rng.choice(NUMBERS))
        else:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(NUMBERS)


def damage_input(rng: random.Random, value: onnx.ValueInfoProto) -> None:
    tensor = value.type.tensor_type
    if not tensor.shape.dim or rng.random() < 0.2:
        tensor.shape.dim.add().dim_value = 3
        return
    axis = rng.randrange(len(tensor.shape.dim))
    change = rng.randrange(4)
    if change == 0:
        del tensor.shape.dim[axis]
    elif change == 1:
        tensor.shape.dim[axis].dim_value = rng.choice([0, 1, 2, 5, 2**33])
    elif change == 2:
        tensor.shape.dim[axis].dim_param = rng.choice(["n", "?", "m"])
    else:
        tensor.elem_type = rng.randrange(17)


def damage(rng: random.Random, model: onnx.ModelProto) -> None:
    node, change = rng.choice(model.graph.node), rng.randrange(6)
    if change < 3 and node.attribute:
        damage_attribute(rng, rng.choice(node.attribute))
    elif change < 5 and model.graph.input:
        damage_input(rng, rng.choice(model.graph.input))
    elif node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(["", *node.input])


def with_constants(rng: random.Random, model: onnx.ModelProto, feeds: Mapping[str, Any]) -> None:
    """Small integer inputs as constants, some with a changed element: these say what shapes are."""
    for name, array in feeds.items():
        if not isinstance(array, np.ndarray | np.generic) or array.size > 16 or array.dtype.kind not in "iu":
            continue
        flat = np.array(array).ravel()
        if flat.size and rng.random() < 0.3:
            flat[rng.randrange(flat.size)] = rng.choice((0, 1, 2, 100))
        model.graph.initializer.append(numpy_helper.from_array(flat.reshape(np.shape(array)), name))

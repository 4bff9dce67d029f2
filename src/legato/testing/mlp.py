"""A perceptron with two hidden layers."""

from __future__ import annotations

from typing import Any

from legato.ir.expr import Function
from legato.ir.module import Module
from legato.testing.init import create_workload
from legato.testing.layers import Layers

__all__ = ["get_net", "get_workload"]


def get_net(
    batch_size: int, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> Function:
    """(batch, …image) to (batch, num_classes): probabilities."""
    net = Layers()
    x = net.b.nn.batch_flatten(net.data((batch_size, *image_shape), dtype))
    for name, units in (("fc1", 128), ("fc2", 64)):
        x = net.relu(net.dense(x, name, units))
    return net.function(net.b.nn.softmax(net.dense(x, "fc3", num_classes)))


def get_workload(
    batch_size: int, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))

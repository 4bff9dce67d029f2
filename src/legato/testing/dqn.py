"""The deep Q-network (Mnih et al., "Human-level control through deep reinforcement learning", 2015)."""

from __future__ import annotations

from typing import Any

from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.testing.init import create_workload
from legato.testing.layers import Layers, kernel_layout

__all__ = ["get_net", "get_workload"]

_CONVS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # channels, window, stride


def get_net(
    batch_size: int,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:
    """(batch, …image) to (batch, num_actions): values of actions. `image_shape` is in the order of `layout`."""
    net, kernels = Layers(), kernel_layout(layout)
    x: Expr = net.data((batch_size, *image_shape), dtype)
    for n, (channels, window, stride) in enumerate(_CONVS, 1):
        x = net.conv2d(
            x,
            f"conv{n}",
            channels=channels,
            kernel_size=(window, window),
            strides=(stride, stride),
            data_layout=layout,
            kernel_layout=kernels,
        )
        x = net.relu(net.bias(x, f"conv{n}", layout.index("C")))
    x = net.relu(net.dense(net.b.nn.batch_flatten(x), "dense1", 512))
    return net.function(net.dense(x, "dense2", num_actions))


def get_workload(
    batch_size: int,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype, layout))

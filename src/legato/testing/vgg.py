"""VGG (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015)."""

from __future__ import annotations

from typing import Any, Final

from legato.base.errors import CompileError
from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.testing.init import create_workload
from legato.testing.layers import Layers

__all__ = ["get_net", "get_workload"]

_FILTERS: Final = (64, 128, 256, 512, 512)
_DEPTHS: Final = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def get_net(
    batch_size: int,
    image_shape: tuple[int, ...] = (3, 224, 224),
    num_classes: int = 1000,
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Function:
    """(batch, …image) to (batch, num_classes): probabilities. Layers: 11, 13, 16 or 19; the image's size a multiple
    of 32."""
    if num_layers not in _DEPTHS:
        raise CompileError(f"there is no VGG of {num_layers} layers", hint=f"there are {', '.join(map(str, _DEPTHS))}")
    net = Layers()
    x: Expr = net.data((batch_size, *image_shape), dtype)
    for stage, (depth, filters) in enumerate(zip(_DEPTHS[num_layers], _FILTERS, strict=True), 1):
        for n in range(1, depth + 1):
            name = f"conv{stage}_{n}"
            x = net.bias(net.conv2d(x, name, channels=filters, kernel_size=(3, 3), padding=(1, 1)), name)
            x = net.relu(net.batch_norm(x, f"bn{stage}_{n}") if batch_norm else x)
        x = net.b.nn.max_pool2d(x, pool_size=(2, 2), strides=(2, 2))
    x = net.b.nn.batch_flatten(x)
    for name in ("fc6", "fc7"):
        x = net.b.get(net.b.nn.dropout(net.relu(net.dense(x, name, 4096)), rate=0.5), 0)
    return net.function(net.b.nn.softmax(net.dense(x, "fc8", num_classes)))


def get_workload(
    batch_size: int,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm))

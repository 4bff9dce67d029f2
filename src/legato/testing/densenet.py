"""DenseNet (Huang et al., "Densely connected convolutional networks", 2017)."""

from __future__ import annotations

from typing import Any, Final

from legato.base.errors import CompileError
from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.testing.init import create_workload
from legato.testing.layers import Layers

__all__ = ["get_net", "get_workload"]

# Channels of the stem, channels that each layer adds, and layers in each block.
_SIZES: Final = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}


def _norm_conv(net: Layers, x: Expr, name: str, channels: int, window: int) -> Expr:
    y = net.relu(net.batch_norm(x, f"{name}_batch_norm"))
    pad = (window // 2, window // 2)
    return net.conv2d(y, f"{name}_conv2d", channels=channels, kernel_size=(window, window), padding=pad)


def _layer(net: Layers, x: Expr, name: str, growth: int) -> Expr:
    """`x` with `growth` more channels."""
    y = _norm_conv(net, x, f"{name}_1", 4 * growth, 1)
    return net.b.concatenate(x, _norm_conv(net, y, f"{name}_2", growth, 3), axis=1)


def get_net(
    densenet_size: int,
    classes: int,
    batch_size: int,
    image_shape: tuple[int, ...],
    dtype: str = "float32",
    blocks: tuple[int, ...] | None = None,
) -> Function:
    """(batch, …image) to (batch, classes): scores; sizes 121, 161, 169 and 201. Sides are multiples of 32 (224 is what
    the network was made for). blocks: the number of layers in each block, where another than the size's is wanted."""
    if densenet_size not in _SIZES:
        raise CompileError(f"there is no DenseNet-{densenet_size}", hint=f"there are {', '.join(map(str, _SIZES))}")
    channels, growth, usual = _SIZES[densenet_size]
    blocks = blocks or usual
    net = Layers()
    x: Expr = net.data((batch_size, *image_shape), dtype)
    x = net.conv2d(x, "conv1", channels=channels, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3))
    x = net.relu(net.batch_norm(x, "batch_norm1"))
    x = net.b.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    for stage, layers in enumerate(blocks, 1):
        for n in range(1, layers + 1):
            x = _layer(net, x, f"stage{stage}_layer{n}", growth)
        channels += layers * growth
        if stage < len(blocks):
            channels //= 2
            x = _norm_conv(net, x, f"transition{stage}", channels, 1)
            x = net.b.nn.avg_pool2d(x, pool_size=(2, 2), strides=(2, 2))
    pool = tuple(min(7, side // 32) for side in image_shape[1:])
    x = net.b.nn.avg_pool2d(net.relu(net.batch_norm(x, "batch_norm5")), pool_size=pool)
    return net.function(net.dense(net.b.nn.batch_flatten(x), "dense", classes, bias=False))


def get_workload(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: int = 4,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    blocks: tuple[int, ...] | None = None,
) -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(densenet_size, classes, batch_size, image_shape, dtype, blocks))

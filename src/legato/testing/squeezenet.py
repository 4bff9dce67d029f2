"""SqueezeNet (Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters", 2016)."""

from __future__ import annotations

from typing import Any, Final

from legato.base.errors import CompileError
from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.testing.init import create_workload
from legato.testing.layers import Layers

__all__ = ["get_net", "get_workload"]

# Channels that each fire module squeezes to; 0 is a pooling between them.
_FIRES: Final = {"1.0": (16, 16, 32, 0, 32, 48, 48, 64, 0, 64), "1.1": (16, 16, 0, 32, 32, 0, 48, 48, 64, 64)}
_STEM: Final = {"1.0": (96, 7), "1.1": (64, 3)}  # channels, window


def _conv(net: Layers, x: Expr, name: str, channels: int, window: int, **attrs: Any) -> Expr:
    y = net.conv2d(x, name, channels=channels, kernel_size=(window, window), **attrs)
    return net.relu(net.bias(y, name))


def _fire(net: Layers, x: Expr, name: str, squeeze: int) -> Expr:
    """Few channels, then four times as many by small windows and four times as many by larger ones."""
    x = _conv(net, x, f"{name}_conv", squeeze, 1)
    left = _conv(net, x, f"{name}_left", 4 * squeeze, 1)
    right = _conv(net, x, f"{name}_right", 4 * squeeze, 3, padding=(1, 1))
    return net.b.concatenate(left, right, axis=1)


def get_net(
    batch_size: int, image_shape: tuple[int, ...], num_classes: int, version: str, dtype: str = "float32"
) -> Function:
    """(batch, …image) to (batch, num_classes): probabilities; version "1.0" or "1.1"."""
    if version not in _FIRES:
        raise CompileError(f"there is no SqueezeNet {version}", hint=f"there are {' and '.join(_FIRES)}")
    net = Layers()
    channels, window = _STEM[version]
    x = _conv(net, net.data((batch_size, *image_shape), dtype), "conv1", channels, window, strides=(2, 2))
    x = net.b.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2))
    for n, squeeze in enumerate(_FIRES[version], 2):
        x = _fire(net, x, f"fire{n}", squeeze) if squeeze else net.b.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2))
    x = net.b.get(net.b.nn.dropout(x, rate=0.5), 0)
    x = net.b.nn.global_avg_pool2d(_conv(net, x, "conv_final", num_classes, 1))
    return net.function(net.b.nn.softmax(net.b.nn.batch_flatten(x)))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))

"""ResNet with normalization first (He et al., "Identity mappings in deep residual networks", 2016)."""

from __future__ import annotations

from typing import Any, Final

from legato.base.errors import CompileError
from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.testing.init import create_workload
from legato.testing.layers import Layers, kernel_layout

__all__ = ["get_net", "get_workload"]

_UNITS: Final = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3),
                 200: (3, 24, 36, 3), 269: (3, 30, 48, 8)}  # fmt: skip


class _ResNet(Layers):
    def __init__(self, layout: str) -> None:
        super().__init__()
        self.layout, self.kernel_layout = layout, kernel_layout(layout)

    def conv(self, x: Expr, name: str, channels: int, window: int, stride: int = 1) -> Expr:
        """A convolution that keeps the size, up to its stride."""
        return self.conv2d(
            x,
            name,
            channels=channels,
            kernel_size=(window, window),
            strides=(stride, stride),
            padding=(window // 2, window // 2),
            data_layout=self.layout,
            kernel_layout=self.kernel_layout,
        )

    def norm(self, x: Expr, name: str, scale: bool = True) -> Expr:
        """Normalization of channels."""
        return self.batch_norm(x, name, axis=self.layout.index("C"), epsilon=2e-5, scale=scale)

    def unit(self, x: Expr, name: str, channels: int, stride: int, is_same: bool, is_bottleneck: bool) -> Expr:
        """A residual unit; where the shape changes, the shortcut is a convolution."""
        first = self.relu(self.norm(x, f"{name}_bn1"))
        if is_bottleneck:
            inner = channels // 4
            y = self.conv(first, f"{name}_conv1", inner, 1)
            y = self.conv(self.relu(self.norm(y, f"{name}_bn2")), f"{name}_conv2", inner, 3, stride)
            y = self.conv(self.relu(self.norm(y, f"{name}_bn3")), f"{name}_conv3", channels, 1)
        else:
            y = self.conv(first, f"{name}_conv1", channels, 3, stride)
            y = self.conv(self.relu(self.norm(y, f"{name}_bn2")), f"{name}_conv2", channels, 3)
        shortcut = x if is_same else self.conv(first, f"{name}_sc", channels, 1, stride)
        return self.b.add(y, shortcut)


def _plan(num_layers: int, height: int) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Units of each stage, channels of the stem and of each stage, and whether units are bottlenecks."""
    if height <= 28:  # for images of 28 or 32 pixels
        for per_unit, is_bottleneck in ((9, True), (6, False)):
            fits = (num_layers - 2) % per_unit == 0 and ((num_layers >= 164) == is_bottleneck)
            if fits:
                small = (16, 64, 128, 256) if is_bottleneck else (16, 16, 32, 64)
                return ((num_layers - 2) // per_unit,) * 3, small, is_bottleneck
    elif num_layers in _UNITS:
        is_bottleneck = num_layers >= 50
        channels = (64, 256, 512, 1024, 2048) if is_bottleneck else (64, 64, 128, 256, 512)
        return _UNITS[num_layers], channels, is_bottleneck
    raise CompileError(f"there is no ResNet of {num_layers} layers for images of height {height}")


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 50,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """(batch, …image) to (batch, num_classes): probabilities. `image_shape` has the order of `layout`.

    Layers: 18, 34, 50, 101, 152, 200, 269; for images of at most 28 rows 6·n + 2, or 9·n + 2 from 164 on. CompileError
    for others.
    """
    net = _ResNet(layout)
    height = image_shape[layout.index("H") - 1]
    units, channels, is_bottleneck = _plan(num_layers, height)
    x = net.norm(net.data((batch_size, *image_shape), dtype), "bn_data", scale=False)
    if height <= 32:
        x = net.conv(x, "conv0", channels[0], 3)
    else:
        x = net.relu(net.norm(net.conv(x, "conv0", channels[0], 7, 2), "bn0"))
        x = net.b.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)
    for stage, (count, wide) in enumerate(zip(units, channels[1:], strict=True)):
        x = net.unit(x, f"stage{stage + 1}_unit1", wide, 1 if stage == 0 else 2, False, is_bottleneck)
        for n in range(2, count + 1):
            x = net.unit(x, f"stage{stage + 1}_unit{n}", wide, 1, True, is_bottleneck)
    x = net.b.nn.global_avg_pool2d(net.relu(net.norm(x, "bn1")), layout=layout)
    return net.function(net.b.nn.softmax(net.dense(net.b.nn.batch_flatten(x), "fc1", num_classes)))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
) -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype))

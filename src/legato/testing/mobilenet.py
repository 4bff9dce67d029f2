"""MobileNet (Howard et al., "MobileNets: efficient convolutional neural networks for mobile vision", 2017)."""

from __future__ import annotations

from typing import Any, Final

from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.testing.init import create_workload
from legato.testing.layers import Layers, kernel_layout

__all__ = ["get_net", "get_workload", "mobile_net"]

# Channels and stride of each depthwise separable block.
_BLOCKS: Final = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2))
_DEEP: Final = ((512, 1),) * 5
_LAST: Final = ((1024, 2), (1024, 1))


class _MobileNet(Layers):
    def __init__(self, layout: str) -> None:
        super().__init__()
        self.layout, self.kernel_layout = layout, kernel_layout(layout)
        self.depthwise_layout = "OIHW" if layout == "NCHW" else "HWOI"

    def block(self, x: Expr, name: str, **attrs: Any) -> Expr:
        """A convolution with normalization and rectifier."""
        kernels = self.depthwise_layout if "groups" in attrs else self.kernel_layout
        x = self.conv2d(x, name, data_layout=self.layout, kernel_layout=kernels, **attrs)
        return self.relu(self.batch_norm(x, f"{name}_bn", axis=self.layout.index("C")))

    def separable(self, x: Expr, name: str, depth: int, channels: int, stride: int) -> Expr:
        """A convolution of each channel, then one of all channels at each point."""
        strides = (stride, stride)
        sizes = {"channels": depth, "groups": depth, "kernel_size": (3, 3), "padding": (1, 1)}
        x = self.block(x, f"{name}_depthwise_conv1", strides=strides, **sizes)
        return self.block(x, f"{name}_conv2", channels=channels, kernel_size=(1, 1))


def mobile_net(
    num_classes: int = 1000,
    data_shape: tuple[int, ...] = (1, 3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
    is_shallow: bool = False,
    layout: str = "NCHW",
) -> Function:
    """(batch, 3, height, width) to (batch, num_classes): probabilities. `data_shape` is in the order of `layout`.

    alpha: factor of all channels; is_shallow: without the five blocks of 512 channels.
    """
    net = _MobileNet(layout)
    x: Expr = net.data(data_shape, dtype)
    depth = int(32 * alpha)
    x = net.block(x, "conv_block_1", channels=depth, kernel_size=(3, 3), strides=(2, 2), padding=(1, 1))
    blocks = (*_BLOCKS, *(() if is_shallow else _DEEP), *_LAST)
    for n, (channels, stride) in enumerate(blocks, 1):
        x = net.separable(x, f"separable_conv_block_{n}", depth, int(channels * alpha), stride)
        depth = int(channels * alpha)
    x = net.b.nn.batch_flatten(net.b.nn.global_avg_pool2d(x, layout=layout))
    return net.function(net.b.nn.softmax(net.dense(x, "fc", num_classes)))


def get_net(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:
    """`mobile_net` of a batch of images (channels, height, width)."""
    c, h, w = image_shape
    shape = (batch_size, c, h, w) if layout == "NCHW" else (batch_size, h, w, c)
    return mobile_net(num_classes, shape, dtype, layout=layout)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype, layout))

"""MobileNetV2 (Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018)."""

from __future__ import annotations

from typing import Any, Final

from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.testing.init import create_workload
from legato.testing.layers import Layers

__all__ = ["get_net", "get_workload"]

# Factor of the channels inside a block, channels of its result, blocks, and the stride of the first of them.
_STAGES: Final = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class _MobileNet(Layers):
    def convolved(self, x: Expr, name: str, **attrs: Any) -> Expr:
        """A convolution with normalization."""
        return self.batch_norm(self.conv2d(x, name, **attrs), f"{name}_bn")

    def limited(self, x: Expr) -> Expr:
        """`x` between 0 and 6."""
        return self.b.clip(x, a_min=0.0, a_max=6.0)

    def block(self, x: Expr, name: str, depth: int, factor: int, channels: int, stride: int) -> Expr:
        """Widened, convolved channel by channel, projected; added to `x` where it has the same shape."""
        y, wide = x, depth * factor
        if factor != 1:
            y = self.limited(self.convolved(y, f"{name}_expand", channels=wide, kernel_size=(1, 1)))
        window = {"kernel_size": (3, 3), "strides": (stride, stride), "padding": (1, 1)}
        y = self.limited(self.convolved(y, f"{name}_depthwise", channels=wide, groups=wide, **window))
        y = self.convolved(y, f"{name}_project", channels=channels, kernel_size=(1, 1))
        return self.b.add(x, y) if stride == 1 and depth == channels else y


def get_net(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
) -> Function:
    """(batch, 3, height, width) to (batch, num_classes): scores. alpha: factor of all channels but the last."""
    net = _MobileNet()
    x: Expr = net.data((batch_size, *image_shape), dtype)
    depth = int(32 * alpha)
    stem = {"kernel_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}
    x = net.limited(net.convolved(x, "stem", channels=depth, **stem))
    for stage, (factor, width, blocks, first) in enumerate(_STAGES, 1):
        for n in range(blocks):
            channels = int(width * alpha)
            x = net.block(x, f"stage{stage}_block{n + 1}", depth, factor, channels, 1 if n else first)
            depth = channels
    x = net.limited(net.convolved(x, "last", channels=1280, kernel_size=(1, 1)))
    return net.function(net.dense(net.b.nn.batch_flatten(net.b.nn.global_avg_pool2d(x)), "fc", num_classes))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
) -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype, alpha))

"""Inception v3 (Szegedy et al., "Rethinking the Inception architecture for computer vision", 2016)."""

from __future__ import annotations

from typing import Any

from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.testing.init import create_workload
from legato.testing.layers import Layers

__all__ = ["get_net", "get_workload"]

Window = tuple[int, int]


class _Inception(Layers):
    def conv(
        self, x: Expr, name: str, channels: int, window: Window, stride: int = 1, padding: Window = (0, 0)
    ) -> Expr:
        """A convolution with normalization and rectifier."""
        y = self.conv2d(x, name, channels=channels, kernel_size=window, strides=(stride, stride), padding=padding)
        return self.relu(self.batch_norm(y, f"{name}_bn", epsilon=2e-5, scale=False))

    def square(self, x: Expr, name: str, channels: int, side: int) -> Expr:
        """A convolution that keeps the size."""
        return self.conv(x, name, channels, (side, side), padding=(side // 2, side // 2))

    def line(self, x: Expr, name: str, channels: int, length: int, is_tall: bool) -> Expr:
        """A convolution of a column (tall) or a row, that keeps the size."""
        half = length // 2
        window, padding = ((length, 1), (half, 0)) if is_tall else ((1, length), (0, half))
        return self.conv(x, name, channels, window, padding=padding)

    def pooled(self, x: Expr, name: str, channels: int) -> Expr:
        """The means of windows, projected."""
        y = self.b.nn.avg_pool2d(x, pool_size=(3, 3), padding=(1, 1), count_include_pad=True)
        return self.conv(y, name, channels, (1, 1))

    def halved(self, x: Expr) -> Expr:
        """The largest elements of windows, at every other point."""
        return self.b.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2))

    def a(self, x: Expr, name: str, pool: int) -> Expr:
        """Windows of 1, 5 and twice 3."""
        five = self.square(self.conv(x, f"{name}_tower_conv", 48, (1, 1)), f"{name}_tower_conv_1", 64, 5)
        twice = self.square(self.conv(x, f"{name}_tower_1_conv", 64, (1, 1)), f"{name}_tower_1_conv_1", 96, 3)
        twice = self.square(twice, f"{name}_tower_1_conv_2", 96, 3)
        one = self.conv(x, f"{name}_conv", 64, (1, 1))
        return self.b.concatenate(one, five, twice, self.pooled(x, f"{name}_tower_2_conv", pool), axis=1)

    def b_(self, x: Expr, name: str) -> Expr:
        """To half the size."""
        three = self.conv(x, f"{name}_conv", 384, (3, 3), 2)
        twice = self.square(self.conv(x, f"{name}_tower_conv", 64, (1, 1)), f"{name}_tower_conv_1", 96, 3)
        twice = self.conv(twice, f"{name}_tower_conv_2", 96, (3, 3), 2)
        return self.b.concatenate(three, twice, self.halved(x), axis=1)

    def c(self, x: Expr, name: str, inner: int) -> Expr:
        """Rows and columns of 7, once and twice."""
        one = self.conv(x, f"{name}_conv", 192, (1, 1))
        once = self.conv(x, f"{name}_tower_conv", inner, (1, 1))
        once = self.line(once, f"{name}_tower_conv_1", inner, 7, False)
        once = self.line(once, f"{name}_tower_conv_2", 192, 7, True)
        twice = self.conv(x, f"{name}_tower_1_conv", inner, (1, 1))
        for n, (channels, is_tall) in enumerate(((inner, True), (inner, False), (inner, True), (192, False)), 1):
            twice = self.line(twice, f"{name}_tower_1_conv_{n}", channels, 7, is_tall)
        return self.b.concatenate(one, once, twice, self.pooled(x, f"{name}_tower_2_conv", 192), axis=1)

    def d(self, x: Expr, name: str) -> Expr:
        """To half the size."""
        three = self.conv(x, f"{name}_tower_conv", 192, (1, 1))
        three = self.conv(three, f"{name}_tower_conv_1", 320, (3, 3), 2)
        seven = self.conv(x, f"{name}_tower_1_conv", 192, (1, 1))
        seven = self.line(seven, f"{name}_tower_1_conv_1", 192, 7, False)
        seven = self.line(seven, f"{name}_tower_1_conv_2", 192, 7, True)
        seven = self.conv(seven, f"{name}_tower_1_conv_3", 192, (3, 3), 2)
        return self.b.concatenate(three, seven, self.halved(x), axis=1)

    def e(self, x: Expr, name: str, is_max: bool) -> Expr:
        """Rows and columns of 3 side by side."""
        one = self.conv(x, f"{name}_conv", 320, (1, 1))
        first = self.conv(x, f"{name}_tower_conv", 384, (1, 1))
        second = self.conv(x, f"{name}_tower_1_conv", 448, (1, 1))
        second = self.square(second, f"{name}_tower_1_conv_1", 384, 3)
        sides = [
            self.line(y, f"{name}_{tower}_mixed_conv{'_1' if is_tall else ''}", 384, 3, is_tall)
            for y, tower in ((first, "tower"), (second, "tower_1"))
            for is_tall in (False, True)
        ]
        if is_max:
            pool = self.b.nn.max_pool2d(x, pool_size=(3, 3), padding=(1, 1))
            pool = self.conv(pool, f"{name}_tower_2_conv", 192, (1, 1))
        else:
            pool = self.pooled(x, f"{name}_tower_2_conv", 192)
        return self.b.concatenate(one, *sides, pool, axis=1)


def _last_extent(side: int) -> int:
    """The extent of the last feature map: 8 for 299."""
    stem = (((side - 3) // 2 + 1 - 2) - 3) // 2 + 1 - 2
    for _ in range(3):
        stem = (stem - 3) // 2 + 1
    return stem


def get_net(batch_size: int, num_classes: int, image_shape: tuple[int, ...], dtype: str = "float32") -> Function:
    """(batch, …image) to (batch, num_classes): probabilities. Images have at least 75 pixels a side (299 is what the
    network was made for)."""
    net = _Inception()
    x: Expr = net.data((batch_size, *image_shape), dtype)
    x = net.conv(x, "conv", 32, (3, 3), 2)
    x = net.conv(x, "conv_1", 32, (3, 3))
    x = net.halved(net.square(x, "conv_2", 64, 3))
    x = net.conv(x, "conv_3", 80, (1, 1))
    x = net.halved(net.conv(x, "conv_4", 192, (3, 3)))
    for n, pool in (("mixed", 32), ("mixed_1", 64), ("mixed_2", 64)):
        x = net.a(x, n, pool)
    x = net.b_(x, "mixed_3")
    for n, inner in (("mixed_4", 128), ("mixed_5", 160), ("mixed_6", 160), ("mixed_7", 192)):
        x = net.c(x, n, inner)
    x = net.e(net.e(net.d(x, "mixed_8"), "mixed_9", False), "mixed_10", True)
    window = tuple(min(8, _last_extent(side)) for side in image_shape[1:])
    x = net.b.nn.batch_flatten(net.b.nn.avg_pool2d(x, pool_size=window, strides=(1, 1)))
    return net.function(net.b.nn.softmax(net.dense(x, "fc1", num_classes)))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 299, 299),
    dtype: str = "float32",
) -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))

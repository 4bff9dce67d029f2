"""The generator of DCGAN (Radford et al., "Unsupervised representation learning with deep convolutional generative
adversarial networks", 2016)."""

from __future__ import annotations

from typing import Any

from legato.base.errors import CompileError
from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.testing.init import create_workload
from legato.testing.layers import Layers, kernel_layout

__all__ = ["get_net", "get_workload"]

_SWAPPED = str.maketrans("IO", "OI")  # a transposed convolution has the inputs of the weight as its outputs


def _double(net: Layers, x: Expr, name: str, channels: int, layout: str) -> Expr:
    """A transposed convolution to twice the size."""
    return net.conv2d_transpose(
        x,
        name,
        channels=channels,
        kernel_size=(4, 4),
        strides=(2, 2),
        padding=(1, 1),
        data_layout=layout,
        kernel_layout=kernel_layout(layout).translate(_SWAPPED),
    )


def get_net(
    batch_size: int,
    random_len: int = 100,
    oshape: tuple[int, int, int] = (3, 64, 64),
    ngf: int = 128,
    code: Expr | None = None,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """(batch, random_len) to images (batch, *oshape) in (-1, 1); ngf: channels before the last convolution.

    `oshape` is (channels, 64, 64); CompileError for another size. `code` takes the place of the input.
    """
    if oshape[1:] != (64, 64):
        raise CompileError(f"the generator makes images of 64×64, not {oshape[1]}×{oshape[2]}")
    net = Layers()
    x: Expr = net.data((batch_size, random_len), dtype) if code is None else code
    x = net.dense(x, "g1", 4 * 4 * ngf * 8, bias=False)
    x = net.relu(net.b.reshape(x, newshape=(-1, ngf * 8, 4, 4) if layout == "NCHW" else (-1, 4, 4, ngf * 8)))
    for n, factor in enumerate((4, 2, 1), 2):
        x = _double(net, x, f"g{n}", ngf * factor, layout)
        x = net.relu(net.batch_norm(x, f"g{n}_bn", axis=layout.index("C")))
    return net.function(net.b.tanh(_double(net, x, "g5", oshape[0], layout)))


def get_workload(
    batch_size: int,
    oshape: tuple[int, int, int] = (3, 64, 64),
    ngf: int = 128,
    random_len: int = 100,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(batch_size, random_len, oshape, ngf, None, layout, dtype))

"""Layers with parameters of their own: `net = Layers(); y = net.conv2d(x, "conv0", channels=64, kernel_size=(3, 3))`.

Parameters are called after their layer: conv0_weight, bn0_gamma, …. Weights have no type: inference finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from legato import ops as _ops  # noqa: F401  # gives meaning to the builder's operator names
from legato.base.errors import CompileError
from legato.infer.builder import Builder
from legato.ir.expr import Expr, Function, Var
from legato.ir.visit import free_vars

__all__ = ["Layers", "kernel_layout"]

_KERNELS: Final = {"NCHW": "OIHW", "NHWC": "HWIO"}


def kernel_layout(layout: str) -> str:
    """The layout of weights beside data of `layout`; CompileError for one that the models do not have."""
    if layout not in _KERNELS:
        raise CompileError(f"there is no model in layout {layout!r}", hint=f"there are {' and '.join(_KERNELS)}")
    return _KERNELS[layout]


class Layers:
    """Builds a network; `b` is the builder for what has no parameters."""

    def __init__(self) -> None:
        self.b = Builder()

    def data(self, shape: Sequence[int], dtype: str = "float32") -> Var:
        """The input."""
        return self.b.var("data", tuple(shape), dtype)

    def function(self, body: Expr) -> Function:
        """The network: the input first, then the parameters in the order in which they are used."""
        params = sorted(free_vars(body), key=lambda v: v.name != "data")
        return self.b.function(params, body)

    def weight(self, name: str) -> Var:
        """A parameter without a type."""
        return self.b.var(name)

    def conv2d(self, x: Expr, name: str, **attrs: Any) -> Expr:
        """A convolution without bias; `channels` and `kernel_size` say its weight's type."""
        return self.b.nn.conv2d(x, self.weight(f"{name}_weight"), **attrs)

    def conv2d_transpose(self, x: Expr, name: str, **attrs: Any) -> Expr:
        """A transposed convolution without bias."""
        return self.b.nn.conv2d_transpose(x, self.weight(f"{name}_weight"), **attrs)

    def bias(self, x: Expr, name: str, axis: int = 1) -> Expr:
        """`x` with a bias added along `axis`."""
        return self.b.nn.bias_add(x, self.weight(f"{name}_bias"), axis=axis)

    def dense(self, x: Expr, name: str, units: int, bias: bool = True) -> Expr:
        """A matrix product with a weight (units, inputs), and a bias."""
        y = self.b.nn.dense(x, self.weight(f"{name}_weight"), units=units)
        return self.bias(y, name, -1) if bias else y

    def batch_norm(self, x: Expr, name: str, *, axis: int = 1, epsilon: float = 1e-5, scale: bool = True) -> Expr:
        """Normalization with given means and variances."""
        parts = [self.weight(f"{name}_{part}") for part in ("gamma", "beta", "moving_mean", "moving_var")]
        return self.b.get(self.b.nn.batch_norm(x, *parts, axis=axis, epsilon=epsilon, scale=scale), 0)

    def relu(self, x: Expr) -> Expr:
        """max(x, 0)."""
        return self.b.nn.relu(x)

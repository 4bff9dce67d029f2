"""Operators of neural networks."""

from __future__ import annotations

from typing import Any

from legato.ir.attrs import make_attrs
from legato.ir.expr import Expr
from legato.ops import table
from legato.relay.expr import TupleWrapper
from legato.relay.op._functions import function, namespace, typed_call

__all__ = [
    "contrib_conv2d_nchwc",
    "contrib_depthwise_conv2d_nchwc",
    "dropout_raw",
    "global_avg_pool1d",
    "global_avg_pool3d",
    "global_max_pool1d",
    "global_max_pool3d",
]


def contrib_conv2d_nchwc(data: Expr, kernel: Expr, *args: Any, **attrs: Any) -> Any:
    """A convolution of data in blocks of channels; what follows is as in `conv2d`."""
    return function("nn.contrib_conv2d_NCHWc")(data, kernel, *args, **attrs)


def contrib_depthwise_conv2d_nchwc(data: Expr, kernel: Expr, *args: Any, **attrs: Any) -> Any:
    """A convolution channel by channel of data in blocks of them; what follows is as in `conv2d`."""
    return function("nn.contrib_depthwise_conv2d_NCHWc")(data, kernel, *args, **attrs)


def global_max_pool1d(data: Expr, layout: str = "NCW", out_layout: str = "") -> Any:
    """The largest element of each channel."""
    return function("nn.adaptive_max_pool1d")(data, (1,), layout, out_layout)


def global_avg_pool1d(data: Expr, layout: str = "NCW", out_layout: str = "") -> Any:
    """The mean of each channel."""
    return function("nn.adaptive_avg_pool1d")(data, (1,), layout, out_layout)


def global_max_pool3d(data: Expr, layout: str = "NCDHW", out_layout: str = "") -> Any:
    """The largest element of each channel."""
    return function("nn.adaptive_max_pool3d")(data, (1, 1, 1), layout, out_layout)


def global_avg_pool3d(data: Expr, layout: str = "NCDHW", out_layout: str = "") -> Any:
    """The mean of each channel."""
    return function("nn.adaptive_avg_pool3d")(data, (1, 1, 1), layout, out_layout)


def dropout_raw(data: Expr, rate: float = 0.5) -> TupleWrapper:
    """The call of dropout itself: its result and its mask."""
    record = table()["nn.dropout"]
    return TupleWrapper(typed_call(record, [data], make_attrs(record, {"rate": rate})), 2)


__getattr__, __dir__ = namespace("nn.", globals())

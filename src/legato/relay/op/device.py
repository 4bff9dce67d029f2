"""Copies between devices."""

from __future__ import annotations

from typing import Any

from legato.base.device import as_device
from legato.ir.expr import Expr
from legato.relay.op._functions import function

__all__ = ["device_copy"]


def device_copy(data: Expr, src_device: Any, dst_device: Any) -> Any:
    """A copy of `data`, which lies on `src_device`, on `dst_device`; devices as for `relay.annotation.on_device`."""
    return function("device_copy")(data, str(as_device(src_device)), str(as_device(dst_device)))

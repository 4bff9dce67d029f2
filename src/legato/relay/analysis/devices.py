"""Where tensors lie: what programs state, what follows from it, and whether plans hold."""

from __future__ import annotations

from typing import Any

from legato.base.device import as_device, number
from legato.base.node import post_order
from legato.infer.devices import Devices
from legato.infer.devices import verify_devices as verify
from legato.infer.infer import infer
from legato.ir.devices import DeviceCopyAttrs, OnDeviceAttrs
from legato.ir.expr import Call, Constructor, Expr, Function, GlobalVar
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import post_order as scoped

__all__ = ["collect_device_annotation_ops", "collect_device_info", "verify_devices"]


def verify_devices(mod: Any) -> None:
    """VerifyError where a tensor of `mod`, which PlanDevices has planned, is read on a device where it is not."""
    verify(infer(getattr(mod, "module", mod)))


def collect_device_info(expr: Expr) -> dict[Expr, int]:
    """The devices of the expressions in `expr` whose values are on one, as DLPack's numbers of their kinds; none where
    nothing is said of devices."""
    if not collect_device_annotation_ops(expr):
        return {}
    mod = Module.from_expr(expr)
    found = Devices(mod, plans=True)
    names: dict[Expr, str] = {}
    for _, func in mod.graph_functions():
        for node in (*func.params, *scoped(func)):
            if not isinstance(node, Function | Op | Constructor | GlobalVar):
                names[node] = found.text(found.of(node))
    return {node: number(as_device(name)) for node, name in names.items() if name and "," not in name}


def collect_device_annotation_ops(expr: Expr) -> dict[Expr, int]:
    """The calls of on_device and device_copy, each with the device that it names, as DLPack's number of its kind."""
    found: dict[Expr, int] = {}
    for node in post_order([expr]):
        if isinstance(node, Call) and isinstance(node.attrs, OnDeviceAttrs):
            found[node] = number(node.attrs.device)
        elif isinstance(node, Call) and isinstance(node.attrs, DeviceCopyAttrs):
            found[node] = number(node.attrs.target)
    return found

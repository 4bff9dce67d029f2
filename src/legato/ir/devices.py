"""`on_device` and `device_copy`: where a program says that tensors lie.

    on_device(x, virtual_device="cuda:1")                                       what `x` computes is computed there
    device_copy(x, src_virtual_device="cpu:0", dst_virtual_device="cuda:1")     `x`, which lies in the one, in the other

As values both are `x`. `transform.plan_devices` finds the device of every tensor, and makes copies of where one is
wanted on another; then functions say by two attributes where their parameters and results lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.device import Device, as_device
from legato.base.errors import CompileError
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call, Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type

__all__ = ["DEVICE_COPY", "ON_DEVICE", "PARAMS", "PLACING", "RESULT", "DeviceCopyAttrs", "OnDeviceAttrs",
           "device_copy"]  # fmt: skip

# Attributes of functions: for each parameter, and for the result, the devices of its tensors, with commas between where
# they differ.
PARAMS: Final = "param_virtual_devices"
RESULT: Final = "result_virtual_device"


@dataclass(frozen=True, slots=True)
class OnDeviceAttrs(Attrs):
    """The device, and what is said of it: that the value lies there (`constrain_result`), and what it is computed from
    by its last operator (`constrain_body`). With the latter alone, the value is copied to where it is wanted."""

    virtual_device: str
    constrain_result: bool = False
    constrain_body: bool = True

    @property
    def device(self) -> Device:
        """The device."""
        return as_device(self.virtual_device)


@dataclass(frozen=True, slots=True)
class DeviceCopyAttrs(Attrs):
    """Where the tensor lies, and where the copy does."""

    src_virtual_device: str
    dst_virtual_device: str

    @property
    def source(self) -> Device:
        """Where the tensor lies."""
        return as_device(self.src_virtual_device)

    @property
    def target(self) -> Device:
        """Where the copy lies."""
        return as_device(self.dst_virtual_device)


def _require_device(relation: Relation, name: str, text: str) -> None:
    try:
        as_device(text)
    except CompileError as error:
        raise relation.fail(f"{name}: {error.message}", hint=error.hint) from None


def _on_device_type(relation: Relation, body: Type, attrs: OnDeviceAttrs) -> Type:
    _require_device(relation, "virtual_device", attrs.virtual_device)
    return body


def _copy_type(relation: Relation, data: Type, attrs: DeviceCopyAttrs) -> Type:
    if not isinstance(data, TensorType):
        raise relation.fail(f"data must be a tensor, got {data}")
    _require_device(relation, "src_virtual_device", attrs.src_virtual_device)
    _require_device(relation, "dst_virtual_device", attrs.dst_virtual_device)
    return data


def _on_device(body: Any, attrs: OnDeviceAttrs) -> Any:
    return body


def _copied(data: np.ndarray[Any, Any], attrs: DeviceCopyAttrs) -> np.ndarray[Any, Any]:
    return data.copy()


def _value(data: tuple[Dim, ...] | None, attrs: Attrs, ty: Type) -> tuple[Dim, ...] | None:
    return data


_THERE: Final[Mapping[str, str]] = {"src_virtual_device": "cpu", "dst_virtual_device": "cuda:1"}

ON_DEVICE = Op(
    name="on_device",
    args=("body",),
    attrs=OnDeviceAttrs,
    type_rel=_on_device_type,
    reference=_on_device,
    value=_value,
    grad=lambda b, call, dy: [dy],
    strings=True,
    samples=(
        Sample((((3, 5), "float32"),), {"virtual_device": "cuda:1"}, exact=True),
        Sample((((), "int64"),), {"virtual_device": "cpu", "constrain_result": True}, exact=True),
    ),
    doc="""`body`, of any type, which is computed on a device, lies there, or both.

As a value it is `body`: it is a statement for plan-devices, which compilation begins with.""",
)

DEVICE_COPY = Op(
    name="device_copy",
    args=("data",),
    attrs=DeviceCopyAttrs,
    type_rel=_copy_type,
    reference=_copied,
    value=_value,
    grad=lambda b, call, dy: [device_copy(dy, call.attrs.target, call.attrs.source)],
    strings=True,
    samples=(
        Sample((((3, 5), "float32"),), dict(_THERE), exact=True),
        Sample((((), "int64"),), dict(_THERE), exact=True),
        Sample((((0, 4), "bool"),), dict(_THERE), exact=True),
    ),
    doc="A copy of a tensor that lies on one device, on another.",
)

PLACING: Final = (ON_DEVICE, DEVICE_COPY)


def device_copy(data: Expr, source: Device, target: Device) -> Call:
    """The typed copy of tensor `data`, which lies in `source`, in `target`."""
    return Call(DEVICE_COPY, (data,), DeviceCopyAttrs(str(source), str(target)), ty=data.ty, span=data.span)

"""Convolutions and other operators in the layouts that are asked for; what is between them follows.

    nn.relu(nn.conv2d(%x, %w))
        =>
    %0 = nn.conv2d(layout_transform(%x, src_layout="NCHW", dst_layout="NHWC"), …, data_layout="NHWC", …);
    layout_transform(nn.relu(%0), src_layout="NHWC", dst_layout="NCHW")

Layouts in blocks (NCHW16c) are taken where blocks divide the channels; a call that they do not divide stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields, replace
from itertools import count
from typing import Any, Final

from legato.arith.expr import Const
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.ir.expr import Call, Expr, Function
from legato.ir.layout import Layout, divided, is_blocked, layout
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType
from legato.ops import table
from legato.ops._window import dim_order, spatial_letters
from legato.ops.conv import BlockedConv2DAttrs, contrib_conv2d_NCHWc, contrib_depthwise_conv2d_NCHWc, conv2d
from legato.transform._layout import Relayout
from legato.transform.canonicalize import Canonicalize
from legato.transform.pass_ import FunctionPass
from legato.transform.to_graph import ToGraph

__all__ = ["DEFAULT_KERNELS", "Conversion", "ConvertLayout", "prepared"]

DEFAULT: Final = "default"
DEFAULT_KERNELS: Final[Mapping[tuple[str, str], str]] = {
    ("nn.conv1d", "NCW"): "OIW", ("nn.conv1d", "NWC"): "WIO",
    ("nn.conv2d", "NCHW"): "OIHW", ("nn.conv2d", "NHWC"): "HWIO", ("nn.conv2d", "HWNC"): "HWOI",
    ("nn.conv3d", "NCDHW"): "OIDHW", ("nn.conv3d", "NDHWC"): "DHWIO",
    ("nn.conv1d_transpose", "NCW"): "IOW", ("nn.conv1d_transpose", "NWC"): "WOI",
    ("nn.conv2d_transpose", "NCHW"): "IOHW", ("nn.conv2d_transpose", "NHWC"): "HWIO",
    ("nn.conv3d_transpose", "NCDHW"): "IODHW", ("nn.conv3d_transpose", "NDHWC"): "DHWOI",
}  # fmt: skip
Desired = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ConvertLayout(FunctionPass):
    """Typed module → typed module in graph form.

    layouts: what is asked for, as "operator:data" or "operator:data:kernel"; a kernel left out, or "default", is that
    which Relay had for the data's. skip_layers: which of the nn.conv2d to be converted stay, counted from 0 in each
    function.
    """

    name = "convert-layout"
    rounds = True
    layouts: tuple[str, ...] = ("nn.conv2d:NHWC",)
    skip_layers: frozenset[int] = frozenset()

    def check_options(self) -> None:
        _desired(self.layouts)
        if any(n < 0 for n in self.skip_layers):
            raise CompileError(f"skip_layers has {min(self.skip_layers)}", hint="convolutions are counted from 0")

    def __call__(self, mod: Module) -> Module:
        """Calls are seen through lets in graph form; the module itself where none is converted."""
        graph = prepared(mod, any(is_blocked(data) for data, _ in _desired(self.layouts).values()))
        new = FunctionPass.__call__(self, graph)
        return mod if new is graph else new

    def function(self, func: Function, mod: Module) -> Function:
        numbers = count()
        conversion = Conversion(self.layouts, lambda: next(numbers) in self.skip_layers)
        body = Relayout(conversion.of, {}).rewritten(func.body)
        return func if body is func.body else replace(func, body=body)


def prepared(mod: Module, blocks: bool) -> Module:
    """The module in graph form; for layouts of blocks with norms and biases, whose axis has no place in these, as
    additions and multiplications."""
    graph = ToGraph()(mod)
    return Canonicalize(computed=True)(graph) if blocks else graph


class Conversion:
    """What calls become, one after the other, where `layouts` are asked for as by `ConvertLayout`; skip: whether the
    next nn.conv2d stays."""

    def __init__(self, layouts: Sequence[str], skip: Callable[[], bool] | None = None) -> None:
        self._desired, self._skip = _desired(layouts), skip

    def of(self, call: Call, params: Sequence[Expr]) -> Expr | None:
        """The call in the desired layout; None where it stays."""
        assert isinstance(call.op, Op)
        wanted = self._desired.get(call.op.name)
        if wanted is None:
            return None
        if call.op is conv2d and self._skip is not None and self._skip():
            return None
        found = _converted(call, *wanted)
        if found is None or found == (call.op, call.attrs):
            return None
        return Call(found[0], tuple(params), found[1], span=call.span)


def _converted(call: Call, data: str, kernel: str) -> tuple[Op, Any] | None:
    """The operator and the attributes of a call in another layout."""
    op, a = call.op, call.attrs
    assert isinstance(op, Op)
    if hasattr(a, "layout"):
        attrs = replace(a, layout=data)
        return op, replace(attrs, out_layout=data) if hasattr(a, "out_layout") else attrs
    weight = call.args[1].ty
    if not isinstance(weight, TensorType):
        return None
    is_depthwise = a.groups > 1 and _extent(weight, layout(a.kernel_layout), "I") == 1
    if not is_blocked(data):
        chosen = kernel
        if kernel == DEFAULT:
            chosen = DEFAULT_KERNELS[op.name, data]
            chosen = "HWOI" if is_depthwise and chosen == "HWIO" and op is conv2d else chosen
        return op, replace(a, data_layout=data, kernel_layout=chosen, out_layout="" if a.out_layout == "" else data)
    block = layout(data).block("C")
    chosen = _blocked_kernel(call, weight, block, is_depthwise) if kernel == DEFAULT else kernel
    out = "" if a.out_layout == "" else data
    if op is not conv2d or not re.fullmatch(r"NCHW\d+c", data):
        return op, replace(a, data_layout=data, kernel_layout=chosen, out_layout=out)
    given = {name: a[name] for name in a}
    attrs = BlockedConv2DAttrs(**{**given, "data_layout": data, "kernel_layout": chosen, "out_layout": out})
    return contrib_depthwise_conv2d_NCHWc if is_depthwise else contrib_conv2d_NCHWc, attrs


def _blocked_kernel(call: Call, weight: TensorType, block: int, is_depthwise: bool) -> str:
    """Weights for data in blocks: in blocks of as many outputs, and of inputs where these divide a group's."""
    order = layout(call.attrs.kernel_layout)
    first, second = ("O", "I") if order.letters.index("O") < order.letters.index("I") else ("I", "O")
    axes = f"{first}{second}{''.join(name for name in order.letters if name not in 'OI')}"
    inputs = order.extents(weight.shape)["I"]
    return f"{axes}{1 if is_depthwise else block if divided(inputs, block) is not None else 1}i{block}o"


def _extent(ty: TensorType, order: Layout, letter: str) -> int | None:
    extent = order.extents(ty.shape)[letter]
    return int(extent.value) if isinstance(extent, Const) else None


def _desired(layouts: Sequence[str]) -> dict[str, Desired]:
    """What is asked for, by operator. CompileError for what cannot be."""
    found: dict[str, Desired] = {}
    for text in layouts:
        name, *given = text.split(":")
        op = table().get(name)
        known = {f.name for f in _fields(op)}
        if not known & {"layout", "data_layout"} or name.startswith(("dyn.", "nn.contrib")):
            hint = "operators that have layouts are convolutions, poolings and resizes"
            raise CompileError(f"{name!r} has no layout to convert", hint=hint)
        most = 2 if "data_layout" in known else 1
        if not 1 <= len(given) <= most:
            hint = f'write "{name}:NHWC"' + (f' or "{name}:NHWC:HWIO"' if most == 2 else "")
            raise CompileError(f"{text!r} has {len(given)} layouts, wanted 1{' or 2' if most == 2 else ''}", hint=hint)
        found[name] = _checked(name, *given)
    return found


def _fields(op: Op | None) -> tuple[Field[Any], ...]:
    return () if op is None or op.attrs is None else fields(op.attrs)


def _checked(name: str, data: str, kernel: str = DEFAULT) -> Desired:
    if data == DEFAULT:
        raise CompileError(f"{name}: the layout of data cannot be {DEFAULT!r}", hint="name one, such as NHWC")
    order = layout(data)
    _require(name, data, "data")
    if kernel != DEFAULT:
        _require(name, kernel, "weight")
    elif name.startswith("nn.conv") and not order.is_blocked and (name, data) not in DEFAULT_KERNELS:
        raise CompileError(f"{name} of {data} has no default layout of kernels", hint=f'give one: "{name}:{data}:…"')
    return data, kernel


def _require(name: str, text: str, what: str) -> None:
    """CompileError unless `text` is a layout that the operator can have for its data or its weight."""
    rank = next(n for n in (1, 2, 3) if f"{n}d" in name or (n == 2 and not re.search(r"\dd", name)))
    axes = ("OI" if what == "weight" else "NC") + spatial_letters(rank)
    layout(text)
    if dim_order(text, axes) is None:
        hint = "its axes in any order; blocks of the first two only"
        raise CompileError(f"{name}: {text!r} is no layout of its {what}, {axes}", hint=hint)

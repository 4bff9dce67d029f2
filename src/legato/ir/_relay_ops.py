"""Calls as older versions of TVM wrote them: operators that have another name or other arguments now.

Everything here is about text only. `RENAMED` gives the operator that a name stands for, `adapt` the operator,
arguments and attributes of a call that was written under a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from legato.ir.expr import Constant, Expr, constant

__all__ = ["BROADCAST", "RENAMED", "adapt"]

Args = list[Expr]
Attrs = dict[str, Any]

# What the first versions, and the graphs before them, called operators that broadcast.
BROADCAST: Final[Mapping[str, str]] = {
    f"broadcast_{old}": new
    for new, names in {
        "add": "add", "subtract": "sub subtract", "multiply": "mul multiply", "divide": "div divide", "mod": "mod",
        "power": "pow power", "maximum": "max maximum", "minimum": "min minimum", "equal": "equal",
        "not_equal": "not_equal", "greater": "greater", "greater_equal": "greater_equal", "less": "less lesser",
        "less_equal": "less_equal lesser_equal", "left_shift": "left_shift", "right_shift": "right_shift",
        "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    }.items()
    for old in names.split()
}  # fmt: skip
RENAMED: Final[Mapping[str, str]] = {
    **BROADCAST,
    "scatter": "scatter_elements",
    "scatter_add": "scatter_elements",
    "image.resize": "image.resize2d",
    "dyn.image.resize": "dyn.image.resize2d",
    "contrib.adaptive_avg_pool2d": "nn.adaptive_avg_pool2d",
    "contrib.adaptive_max_pool2d": "nn.adaptive_max_pool2d",
}


# Attributes of operators that take tensors in their place; what a text says of them means nothing.
_COMPUTED: Final[Mapping[str, str]] = {
    "dyn.broadcast_to": "shape dtype", "dyn.expand_dims": "axis", "dyn.full": "shape", "dyn.image.resize2d": "size roi",
    "dyn.nn.pad": "pad_width", "dyn.nn.upsampling": "scale_h scale_w", "dyn.nn.upsampling3d": "scale_d scale_h scale_w",
    "dyn.one_hot": "depth", "dyn.ones": "shape", "dyn.reshape": "newshape", "dyn.squeeze": "axis",
    "dyn.strided_slice": "begin end strides", "dyn.tile": "reps", "dyn.topk": "k", "dyn.zeros": "shape",
}  # fmt: skip
# Operators whose last three arguments were numbers, and the attributes that said them once more.
_NUMBERS: Final[Mapping[str, str]] = {"arange": "start stop step", "strided_slice": "begin end strides"}


def adapt(name: str, args: Args, attrs: Attrs) -> tuple[str, Args, Attrs]:
    """A call written as `name(args, attrs)` in the form that operators have now: a name, arguments and attributes.

    What is in this form already, or cannot be brought into it, stays as it is.
    """
    if name in _NUMBERS and len(args) > 2 and not all(isinstance(a, Constant) for a in args[-3:]):
        return f"dyn.{name}", args, _without(attrs, _NUMBERS[name])
    if name in _COMPUTED:
        return name, args, _without(attrs, _COMPUTED[name])
    change = _CHANGES.get(name)
    return (name, args, attrs) if change is None else (name, *change(args, attrs))


def _without(attrs: Attrs, names: str) -> Attrs:
    return {n: v for n, v in attrs.items() if n not in names.split()}


def _arange(args: Args, attrs: Attrs) -> tuple[Args, Attrs]:
    """Until 0.19, start, stop and step were arguments, and once more attributes."""
    values = [_scalar(a) for a in args]
    if len(values) != 3 or None in values:
        return args, attrs
    return [], attrs | dict(zip(("start", "stop", "step"), values, strict=True))


def _scalar(e: Expr) -> Any:
    """The number that a constant of rank 0 is; None for anything else."""
    return e.data.item() if isinstance(e, Constant) and e.data.ndim == 0 else None


def _strided_slice(args: Args, attrs: Attrs) -> tuple[Args, Attrs]:
    """In 0.7, begin, end and strides were arguments."""
    if len(args) != 4 or not all(isinstance(a, Constant) and a.data.ndim == 1 for a in args[1:]):
        return args, attrs
    names = ("begin", "end", "strides")
    bounds = {n: tuple(a.data.tolist()) for n, a in zip(names, args[1:], strict=True) if isinstance(a, Constant)}
    return args[:1], attrs | bounds


def _pad(args: Args, attrs: Attrs) -> tuple[Args, Attrs]:
    """Until 0.7, the value was an attribute, 0 where it was left out."""
    if len(args) != 1:
        return args, attrs
    value = float(attrs.get("pad_value", 0))
    return [*args, constant(np.float32(value))], {n: v for n, v in attrs.items() if n != "pad_value"}


def _resize(args: Args, attrs: Attrs) -> tuple[Args, Attrs]:
    """Until 0.7: methods have other names; the nearest pixel was found by rounding, or down for asymmetric."""
    methods = {"bilinear": "linear", "bicubic": "cubic"}
    method = attrs.get("method", "bilinear")
    rounding = "floor" if attrs.get("coordinate_transformation_mode") == "asymmetric" else "round"
    return args, {"rounding_method": rounding} | attrs | {"method": methods.get(method, method)}


def _dyn_resize(args: Args, attrs: Attrs) -> tuple[Args, Attrs]:
    """Until 0.7, there was no region of interest."""
    region = [] if len(args) != 2 else [constant(np.zeros(4, np.float32))]
    return _resize([*args, *region], _without(attrs, "size"))


def _broadcast_to(args: Args, attrs: Attrs) -> tuple[Args, Attrs]:
    """The record was shared with `zeros`: it has a dtype, which means nothing."""
    return args, {n: v for n, v in attrs.items() if n != "dtype"}


_CHANGES: Final[Mapping[str, Callable[[Args, Attrs], tuple[Args, Attrs]]]] = {
    "arange": _arange,
    "strided_slice": _strided_slice,
    "nn.pad": _pad,
    "image.resize": _resize,
    "dyn.image.resize": _dyn_resize,
    "broadcast_to": _broadcast_to,
    "scatter": lambda args, attrs: (args, {"reduction": "update"} | attrs),
    "scatter_add": lambda args, attrs: (args, {"reduction": "add"} | attrs),
}

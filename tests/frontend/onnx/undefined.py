"""Which values of a graph no peer can judge.

What ONNX leaves open: there implementations differ, and all of them are right; Legato's operators are total, so it has
a value there. And what the reference of the onnx package is known to get wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper

from tests.frontend.onnx.graph_draft import Array, kind_of

__all__ = ["misread", "undefined", "unsteady"]

Rule = Callable[[Sequence[Array], Sequence[Array], onnx.NodeProto], bool]  # inputs, outputs


def undefined(graph: onnx.GraphProto, values: Mapping[str, Array]) -> set[str]:
    """The names of values that are not defined, or follow from such. `values` are those of the inputs and outputs."""
    known = {**{t.name: numpy_helper.to_array(t) for t in graph.initializer}, **values}
    given = _given(graph)

    def is_open(node: onnx.NodeProto) -> bool:
        inputs, outputs = ([known[name] for name in names if name] for names in (node.input, node.output))
        return any(rule(inputs, outputs, node) for rule in _RULES.get(node.op_type, ())) or (
            node.op_type in _JUMPS and node.input[0] not in given and _near_integers(inputs[0])
        )

    return _following(graph, is_open)


def unsteady(graph: onnx.GraphProto, values: Mapping[str, Array]) -> set[str]:
    """The names of values that no precision bounds: what follows from the sine, the tangent near a pole, or the
    exponential of a number that was computed, and is so large that its last bits move the whole result."""
    given = _given(graph)

    def is_unsteady(node: onnx.NodeProto) -> bool:
        x = next(iter(node.input), "")
        if node.op_type not in _STEEP or x in given:
            return False
        wide, eps = values[x].astype(np.float64), float(ml_dtypes.finfo(values[x].dtype).eps)
        with np.errstate(all="ignore"):
            moved = np.abs(wide * _STEEP[node.op_type](wide))
        return bool(np.max(moved[np.isfinite(moved)], initial=0.0) * eps > max(_STEADY, 4 * eps))

    return _following(graph, is_unsteady)


def misread(proto: onnx.ModelProto, values: Mapping[str, Array]) -> set[str]:
    """The names of values for which the reference alone is no judge, and what follows from them. `values` are those of
    the inputs and outputs."""
    opset = proto.opset_import[0].version
    known = {**{t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}, **values}

    def is_misread(node: onnx.NodeProto) -> bool:
        if node.op_type not in _MISREAD:
            return False
        return _MISREAD[node.op_type]({**_attributes(node), "dtype": known[node.input[0]].dtype}, opset)

    return _following(proto.graph, is_misread)


def _attributes(node: onnx.NodeProto) -> Mapping[str, Any]:
    """The attributes by name; `inputs` is the number of inputs."""
    return {"inputs": len(node.input), **{a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}}


def _following(graph: onnx.GraphProto, starts: Callable[[onnx.NodeProto], bool]) -> set[str]:
    found: set[str] = set()
    for node in graph.node:
        if not found.isdisjoint(node.input) or starts(node):
            found.update(node.output)
    return found


def _given(graph: onnx.GraphProto) -> set[str]:
    """The names of values that are exact: those of inputs and constants."""
    return {value.name for value in (*graph.input, *graph.initializer)}


def _near_integers(x: Array) -> bool:
    """Whether rounding may have carried an element over a multiple of 1/2."""
    wide = 2 * np.nan_to_num(x.astype(np.float64), posinf=0, neginf=0)
    near = 8 * float(ml_dtypes.finfo(x.dtype).eps) * np.max(np.abs(wide), initial=0)
    return bool(np.any(np.abs(wide - np.round(wide)) <= near))


def _cast(inputs: Sequence[Array], outputs: Sequence[Array], _: onnx.NodeProto) -> bool:
    """A float that is no integer of the dtype: NaN, an infinity, or beyond."""
    (x, *_rest), (y,) = inputs, outputs
    return kind_of(x) == "f" and kind_of(y) in "iu" and _beyond(x, y)


def _beyond(x: Array, y: Array) -> bool:
    wide, info = np.trunc(x.astype(np.float64)), np.iinfo(y.dtype)
    return not bool(np.all((wide >= float(info.min)) & (wide < float(info.max) + 1)))


def _logarithm(inputs: Sequence[Array], outputs: Sequence[Array], _: onnx.NodeProto) -> bool:
    """A reduction of integers through logarithms or roots: sums wrap, and NaN has no integer."""
    return kind_of(outputs[0]) in "iu"


def _nothing(inputs: Sequence[Array], outputs: Sequence[Array], _: onnx.NodeProto) -> bool:
    """The largest or smallest of no integers."""
    return kind_of(outputs[0]) in "iu" and not inputs[0].size


def _shrunk(inputs: Sequence[Array], outputs: Sequence[Array], node: onnx.NodeProto) -> bool:
    """Integers of which one may be beyond the dtype when it is shrunk, or is no float64."""
    (x,), y, bias = inputs, outputs[0], abs(_attributes(node).get("bias", 0.0))
    if kind_of(x) == "f":
        return False
    wide = x.astype(np.float64)
    return _beyond(wide - bias, y) or _beyond(wide + bias, y) or bool(np.any(np.abs(wide) > 2.0**53))


def _carried_on(inputs: Sequence[Array], outputs: Sequence[Array], _: onnx.NodeProto) -> bool:
    """Numbers that are not finite: ONNX Runtime subtracts what leaves its sliding sum, and so carries NaN on."""
    return not bool(np.all(np.isfinite(inputs[0].astype(np.float64))))


def _no_elements(inputs: Sequence[Array], outputs: Sequence[Array], _: onnx.NodeProto) -> bool:
    """The mean of no elements at all, of which ONNX says that it is not defined: Legato's pools have 0, its reductions
    NaN as the reference; ONNX Runtime refuses, or has 0."""
    return not inputs[0].size


def _backwards_from_the_end(inputs: Sequence[Array], outputs: Sequence[Array], _: onnx.NodeProto) -> bool:
    """A slice of negative step whose end is the largest integer: by ONNX that is clamped, and nothing is left; ONNX
    Runtime takes it for the end in either direction."""
    if len(inputs) < 5:
        return False
    ends, steps = inputs[2], inputs[4]
    return bool(np.any((steps < 0) & (ends == np.iinfo(ends.dtype).max)))


def _less_than_no_padding(inputs: Sequence[Array], outputs: Sequence[Array], node: onnx.NodeProto) -> bool:
    """SAME with strides beyond the kernel may ask for a negative padding, of which ONNX says nothing: Legato has none,
    ONNX Runtime refuses or shifts the windows, the reference shifts them."""
    a = _attributes(node)
    if not a.get("auto_pad", b"").startswith(b"SAME"):
        return False
    ones = [1] * (inputs[0].ndim - 2)
    kernel = a.get("kernel_shape") or inputs[1].shape[2:]
    each = zip(inputs[0].shape[2:], kernel, a.get("strides", ones), a.get("dilations", ones), strict=True)
    return any((-(-n // s) - 1) * s + (k - 1) * d + 1 < n for n, k, s, d in each)


def _ambiguous(inputs: Sequence[Array], outputs: Sequence[Array], node: onnx.NodeProto) -> bool:
    """A shape of both 0 and −1 where 0 is an extent: ONNX forbids it."""
    return bool(_attributes(node).get("allowzero")) and {0, -1} <= set(inputs[1].tolist())


def _cancelled(inputs: Sequence[Array], outputs: Sequence[Array], _: onnx.NodeProto) -> bool:
    """Gelu far below 0 alone: of 1 + erf(x) nothing is left in the peers."""
    wide = np.abs(outputs[0].astype(np.float64))
    return bool(np.max(wide, initial=0.0) < 4 * float(ml_dtypes.finfo(outputs[0].dtype).eps))


def _by_zero(inputs: Sequence[Array], outputs: Sequence[Array], _: onnx.NodeProto) -> bool:
    return kind_of(inputs[1]) in "iu" and not np.all(inputs[1])


def _shifted_out(inputs: Sequence[Array], outputs: Sequence[Array], _: onnx.NodeProto) -> bool:
    return bool(np.any(inputs[1] >= 8 * inputs[1].dtype.itemsize))


def _power(inputs: Sequence[Array], outputs: Sequence[Array], _: onnx.NodeProto) -> bool:
    """An integer power of a negative exponent, or one that no integer of the dtype is."""
    x, y = inputs
    if kind_of(x) == "f":
        return False
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    return _beyond(exact, outputs[0]) or bool(np.any(np.abs(exact) > 2.0**53))


def _summed(a: Mapping[str, Any], opset: int) -> bool:
    """bfloat16 is added up in bfloat16, which no judge of rounding knows; the result of integers is as wide as NumPy's
    sums are."""
    dtype: np.dtype[Any] = a["dtype"]
    return dtype == ml_dtypes.bfloat16 or (dtype.kind in "iu" and dtype.itemsize < 8)


_JUMPS = ("Ceil", "Floor", "Round")  # where another rounding of the operand makes another integer
_STEEP: Mapping[str, Callable[[Array], Array]] = {  # by how much more than the operand the result moves, of its range
    **dict.fromkeys(("Sin", "Cos", "Exp", "Sinh", "Cosh"), np.ones_like),
    "Tan": lambda x: (1 + np.tan(x) ** 2) / np.max(np.abs(np.tan(x)), initial=1e-9),
}
_STEADY = 2.0**-20

_RULES: Mapping[str, Sequence[Rule]] = {
    "Cast": (_cast,), "CastLike": (_cast,), "BitShift": (_shifted_out,), "Pow": (_power,),
    "Div": (_by_zero,), "Mod": (_by_zero,),
    "GlobalAveragePool": (_no_elements,), "Slice": (_backwards_from_the_end,),
    "Gelu": (_cancelled,), "Reshape": (_ambiguous,),
    **dict.fromkeys(("Conv", "MaxPool", "AveragePool", "LpPool"), (_less_than_no_padding,)),
    "ReduceMean": (_no_elements,), "Shrink": (_shrunk,), "LRN": (_carried_on,),
    "ReduceMin": (_nothing,), "ReduceMax": (_nothing,),
    "ReduceLogSum": (_logarithm,), "ReduceLogSumExp": (_logarithm,), "ReduceL2": (_logarithm,),
}  # fmt: skip

_MISREAD: Mapping[str, Callable[[Mapping[str, Any], int], bool]] = {
    # its result has fewer dims than the standard's, but for rank 4
    "GlobalMaxPool": lambda a, opset: True,
    # it goes through as many channels as the batch has images, and leaves the others as they are
    "LRN": lambda a, opset: True,
    # it sums powers of signed numbers
    "LpNormalization": lambda a, opset: bool(a.get("p", 2) % 2),
    # sums of narrow numbers
    **dict.fromkeys(("ReduceSumSquare", "ReduceL2", "ReduceLogSum"), _summed),
    # before operator set 13 over all dims from the axis on
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), lambda a, opset: opset < 13),
    # before operator set 14 it takes the attribute `momentum`, which has a default, for training
    "BatchNormalization": lambda a, opset: opset < 14,
    # before operator set 13 it inserts one dim after the other, in the order given
    "Unsqueeze": lambda a, opset: opset < 13 and len(a["axes"]) > 1,
    # with SAME it rounds extents down, and shifts windows whose stride is beyond the kernel
    "MaxPool": lambda a, opset: a.get("auto_pad", b"").startswith(b"SAME"),
    # each group is given the first channels' bias, and is written to one channel
    "ConvTranspose": lambda a, opset: a.get("group", 1) > 1,
    # the extent of the result is not rounded before it enters the coordinates
    "Resize": lambda a, opset: a["coordinate_transformation_mode"] in (b"pytorch_half_pixel", b"align_corners"),
}

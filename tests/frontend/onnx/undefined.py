"""Which values of a graph no peer can judge.

What ONNX leaves open: there implementations differ, and all of them are right; Legato's operators are total, so it has
a value there. And what the reference of the onnx package is known to get wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from tests.frontend.onnx.graph_draft import Array, kind_of

__all__ = ["misread", "undefined"]

Rule = Callable[[Sequence[Array], Sequence[Array], onnx.NodeProto], bool]  # inputs, outputs


def undefined(graph: onnx.GraphProto, values: Mapping[str, Array]) -> set[str]:
    """The names of values that are not defined, or follow from such. `values` are those of the inputs and outputs."""
    known = {**{t.name: numpy_helper.to_array(t) for t in graph.initializer}, **values}

    def is_open(node: onnx.NodeProto) -> bool:
        inputs, outputs = ([known[name] for name in names if name] for names in (node.input, node.output))
        return any(rule(inputs, outputs, node) for rule in _RULES.get(node.op_type, ()))

    return _following(graph, is_open)


def misread(proto: onnx.ModelProto) -> set[str]:
    """The names of values for which the reference alone is no judge, and what follows from them."""
    before_13 = proto.opset_import[0].version < 13
    return _following(proto.graph, lambda n: n.op_type in _MISREAD or (before_13 and n.op_type in _NEW_AXES))


def _following(graph: onnx.GraphProto, starts: Callable[[onnx.NodeProto], bool]) -> set[str]:
    found: set[str] = set()
    for node in graph.node:
        if not found.isdisjoint(node.input) or starts(node):
            found.update(node.output)
    return found


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
    """The mean of no integers."""
    return kind_of(outputs[0]) in "iu" and not inputs[0].size


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


_RULES: Mapping[str, Sequence[Rule]] = {
    "Cast": (_cast,), "CastLike": (_cast,), "BitShift": (_shifted_out,), "Pow": (_power,),
    "Div": (_by_zero,), "Mod": (_by_zero,),
    "ReduceMean": (_nothing,), "ReduceMin": (_nothing,), "ReduceMax": (_nothing,),
    "ReduceLogSum": (_logarithm,), "ReduceLogSumExp": (_logarithm,), "ReduceL2": (_logarithm,),
}  # fmt: skip

_MISREAD = ("GlobalMaxPool",)  # its result has fewer dims than the standard's, but for rank 4
_NEW_AXES = ("Softmax", "LogSoftmax", "Hardmax")  # before operator set 13 over all dims from the axis on

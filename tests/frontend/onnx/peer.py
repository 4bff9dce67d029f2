"""What the frontend's tests share: small ONNX models by hand, and what the interpreter and a peer make of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from legato.frontend.onnx import from_onnx
from legato.interp import evaluate

Array = NDArray[Any]
Shape = Sequence[int | str | None]


def value(name: str, shape: Shape | None, dtype: str = "float32") -> onnx.ValueInfoProto:
    """A tensor's declaration."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str] = ("y",),
    weights: Mapping[str, Array] | None = None,
    opset: int = 17,
    **more: Any,
) -> onnx.ModelProto:
    """A model; the types of the outputs are left open. `more` goes to `make_model`."""
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(list(nodes), "g", list(inputs), results, tensors)
    opsets = more.pop("opset_imports", None) or [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=more.pop("ir_version", 8), **more)


def legato_outputs(proto: onnx.ModelProto, feeds: Mapping[str, Array], **options: Any) -> tuple[Array, ...]:
    """The outputs by the frontend and the interpreter."""
    module = from_onnx(proto, **options)
    params = [param.name for param in module["main"].params]
    result = evaluate(module, [feeds[name] for name in params])
    return result if isinstance(result, tuple) else (result,)


def ort_outputs(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> tuple[Array, ...]:
    """The outputs by ONNX Runtime, unoptimised."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4  # what it refuses is an exception
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return tuple(session.run(None, dict(feeds)))


def peer_outputs(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> tuple[Array, ...] | None:
    """The outputs by ONNX Runtime; by the reference of the onnx package where ONNX Runtime has no kernel for a dtype;
    None where the model, or what it is given, is refused."""
    try:
        return ort_outputs(proto, feeds)
    except Exception as error:  # of its many classes
        if not any(text in str(error) for text in _NO_KERNEL):
            return None
    return reference_outputs(proto, feeds)


_NO_KERNEL = ("NOT_IMPLEMENTED", "No corresponding Numpy type", "bfloat16")


def reference_outputs(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> tuple[Array, ...] | None:
    """The outputs by the reference of the onnx package; None where it fails."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return tuple(map(np.asarray, ReferenceEvaluator(proto).run(None, dict(feeds))))
    except Exception:  # peers have errors of all kinds
        return None


def compare_node(
    operator: str,
    opset: int,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any] | None = None,
    outputs: int = 1,
    tolerance: float = 1e-5,
    lists: Sequence[int] = (),
) -> None:
    """One node gives what ONNX Runtime makes of it, with the extents of `inputs` (None: left out), and with
    a name for each, but of the inputs `lists`: of these it is stated how many elements they have."""
    feeds = {f"x{n}": array for n, array in enumerate(inputs) if array is not None}
    names = ["" if array is None else f"x{n}" for n, array in enumerate(inputs)]
    results = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(operator, names, results, **(attributes or {}))
    proto = model([node], [value(name, a.shape, str(a.dtype)) for name, a in feeds.items()], results, opset=opset)
    wanted = ort_outputs(proto, feeds)
    named = {name: array for name, array in feeds.items() if int(name[1:]) not in lists}
    symbolic = {name: tuple(f"{name}_{n}" for n in range(array.ndim)) for name, array in named.items()}
    for shapes in (None, symbolic):
        for got, want in zip(legato_outputs(proto, feeds, shapes=shapes), wanted, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)

"""What tests of ONNX Runtime's own domain share: a node as a model, and what Legato and ONNX Runtime make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

import legato
from legato.frontend.onnx import from_onnx
from tests.frontend.onnx.peer import Array, legato_outputs, model, ort_outputs, value

DOMAIN = "com.microsoft"
Dims = tuple[int | str, ...]
HALF = 2e-2  # of the largest element: how far results of 16-bit floats may be off


def node_model(
    operator: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | int = 1,
    domain: str = DOMAIN,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of one node, and its inputs by name; None is one that is left out, an empty output too."""
    feeds = {f"x{n}": array for n, array in enumerate(inputs) if array is not None}
    names = ["" if array is None else f"x{n}" for n, array in enumerate(inputs)]
    results = [f"y{n}" for n in range(outputs)] if isinstance(outputs, int) else list(outputs)
    node = helper.make_node(operator, names, results, domain=domain, **(attributes or {}))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    declared = [value(name, a.shape, str(a.dtype)) for name, a in feeds.items()]
    proto = model([node], declared, [r for r in results if r], opset_imports=opsets)
    for output in proto.graph.output:
        if output.name == "qk":  # no other input or output has its type
            output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return proto, feeds


def symbolic(
    feeds: Mapping[str, Array], fixed: Sequence[int] = (), names: Mapping[int, Dims] | None = None
) -> dict[str, Dims]:
    """A name for each extent of each input, but of those that are `fixed`; `names` says which are to be the same."""
    named = {name: array for name, array in feeds.items() if int(name[1:]) not in fixed}
    own: dict[str, Dims] = {name: tuple(f"{name}_{n}" for n in range(array.ndim)) for name, array in named.items()}
    return {name: (names or {}).get(int(name[1:]), dims) for name, dims in own.items()}


def compare(
    operator: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | int = 1,
    *,
    wanted: Sequence[Array] | None = None,
    tolerance: float = 1e-4,
    half: bool = True,
    fixed: Sequence[int] = (),
    names: Mapping[int, Dims] | None = None,
    named: bool = True,
    compiled: bool = False,
    domain: str = DOMAIN,
) -> None:
    """One node gives what is `wanted` (None: what ONNX Runtime makes of it): with the extents of the inputs, with names
    for those that are not of the inputs `fixed`, and with 16-bit floats, too. `compiled`: the latter, once."""
    proto, feeds = node_model(operator, inputs, attributes, outputs, domain)
    expected = ort_outputs(proto, feeds) if wanted is None else wanted
    ways = [None, symbolic(feeds, fixed, names)] if named else [None]
    ways = ways[-1:] if compiled else ways  # each costs seconds
    for shapes in ways:
        found = _compiled(proto, feeds, shapes) if compiled else legato_outputs(proto, feeds, shapes=shapes)
        check(found, expected, tolerance, tolerance)
    if half:
        small = [a.astype(np.float16) if a is not None and a.dtype == np.float32 else a for a in inputs]
        again = [a.astype(np.float32) if a is not None and a.dtype == np.float16 else a for a in small]
        if wanted is None:
            expected = ort_outputs(*node_model(operator, again, attributes, outputs, domain))
        proto, feeds = node_model(operator, small, attributes, outputs, domain)
        check(legato_outputs(proto, feeds), expected, HALF, HALF, half=True)


def _compiled(
    proto: onnx.ModelProto, feeds: Mapping[str, Array], shapes: Mapping[str, Dims] | None
) -> tuple[Array, ...]:
    module = from_onnx(proto, shapes=shapes)
    result = legato.compile(module)(*[feeds[param.name] for param in module["main"].params])
    return tuple(map(np.asarray, result)) if isinstance(result, tuple) else (np.asarray(result),)


def check(found: Sequence[Array], expected: Sequence[Array], rtol: float, atol: float, *, half: bool = False) -> None:
    """Results are what was expected; `half`: those that are floats have 16 bits, and are measured by the largest."""
    assert len(found) == len(expected)
    for n, (got, want) in enumerate(zip(found, expected, strict=True)):
        assert got.shape == want.shape, f"output {n}"
        assert half or got.dtype == want.dtype, f"output {n}"
        scale = max(1.0, float(np.max(np.abs(want), initial=0, where=np.isfinite(want)))) if half else 1.0
        np.testing.assert_allclose(got.astype(want.dtype), want, rtol=rtol, atol=atol * scale, err_msg=f"output {n}")

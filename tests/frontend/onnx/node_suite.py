"""ONNX's own node tests, run through the frontend and the interpreter."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from legato.base.errors import UnsupportedError
from legato.frontend.onnx import from_onnx
from legato.interp import evaluate
from legato.ir.module import Module

Array = NDArray[Any]

_RUNTIME = re.compile(r"depends? on the data|known only at run time")
_FEW = 32  # elements of an input that may be given as a constant


@cache
def cases() -> tuple[Any, ...]:
    """Every node test of the installed onnx package, made in memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the code that makes the expected values
        from onnx.backend.test.case.node import collect_testcases

        return tuple(collect_testcases(None))


def outcome(case: Any) -> str | None:
    """None if the case passes, else why not."""
    for inputs, outputs in case.data_sets:
        feeds = dict(zip((value.name for value in case.model.graph.input), map(array_of, inputs), strict=False))
        try:
            module = imported(case.model, feeds)
        except UnsupportedError as error:
            return error.details[0] if error.details else error.message
        params = [param.name for param in module["main"].params]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overflow in the references is part of some cases
            result = evaluate(module, [feeds[name] for name in params])
        found = result if isinstance(result, tuple) else (result,)
        difference = compare(found, [array_of(o) for o in outputs], case.rtol, case.atol)
        if difference is not None:
            return difference
    return None


def array_of(value: Any) -> Any:
    """A tensor of a test as an array; other values as they are."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def imported(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> Module:
    """The model; where shapes follow from small inputs, these are given as constants, as real models have them."""
    try:
        return from_onnx(model)
    except UnsupportedError as error:
        if not any(_RUNTIME.search(line) for line in error.details):
            raise
    baked = onnx.ModelProto()
    baked.CopyFrom(model)
    for name, array in feeds.items():
        if not isinstance(array, np.ndarray | np.generic) or array.size > _FEW:
            continue
        if array.dtype.kind in "iub" or array.ndim <= 1:
            baked.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return from_onnx(baked)


def compare(found: Sequence[Array], wanted: Sequence[Any], rtol: float, atol: float) -> str | None:
    """None if equal within the tolerances, else the first difference."""
    if len(found) != len(wanted):
        return f"{len(found)} outputs, wanted {len(wanted)}"
    for n, (got, want) in enumerate(zip(found, map(np.asarray, wanted), strict=True)):
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            return f"output {n}: {got.dtype}{got.shape}, wanted {want.dtype}{want.shape}"
        if not (np.array_equal(got, want) if want.dtype.kind in "biu" else _close(got, want, rtol, atol)):
            return f"output {n} differs"
    return None


def _close(got: Array, want: Array, rtol: float, atol: float) -> bool:
    """Within the case's tolerances; for 16-bit floats, also within two units in the last place of the largest value."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    if want.dtype.itemsize == 2 and want.size:
        largest = np.max(np.abs(b), initial=0, where=np.isfinite(b))
        atol = max(atol, 2 * float(ml_dtypes.finfo(want.dtype).eps) * float(largest))
    return bool(np.allclose(a, b, rtol, atol, equal_nan=True))

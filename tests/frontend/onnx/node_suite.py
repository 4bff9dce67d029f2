"""ONNX's own node tests, run through the frontend and the interpreter."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
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
from legato.interp.values import Data
from legato.ir.module import Module
from legato.ir.types import TupleType, TypeCall, TypeData
from legato.prelude import library

Array = NDArray[Any]


@cache
def cases() -> tuple[Any, ...]:
    """Every node test of the installed onnx package, made in memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the code that makes the expected values
        from onnx.backend.test.case.node import collect_testcases

        return tuple(collect_testcases(None))


def kinds() -> Mapping[Any, Any]:
    """A case of each kind: of the same operators, numbers of inputs, and attributes that are given."""
    found: dict[Any, Any] = {}
    for case in cases():
        if "_expanded" not in case.name:  # that spell an operator out in simpler ones
            nodes = case.model.graph.node
            key = tuple(
                (n.op_type, tuple(map(bool, n.input)), tuple(sorted(a.name for a in n.attribute))) for n in nodes
            )
            found.setdefault(key, case)
    return found


def outcome(case: Any) -> str | None:
    """None if the case passes, else why not."""
    for inputs, outputs in case.data_sets:
        feeds = dict(zip((value.name for value in case.model.graph.input), map(array_of, inputs), strict=False))
        try:
            module = imported(case.model, feeds)
        except UnsupportedError as error:
            return error.details[0] if error.details else error.message
        result = _run(module, feeds)
        found = result if len(outputs) > 1 else (result,)
        difference = compare(list(leaves(found)), list(leaves([array_of(o) for o in outputs])), case.rtol, case.atol)
        if difference is not None:
            return difference
    return None


def argument(value: Any, ty: Any) -> Any:
    """A tensor, sequence or optional value of a test as the program takes it."""
    if isinstance(ty, TupleType):
        return tuple(argument(v, t) for v, t in zip(value, ty.fields, strict=True))
    if not isinstance(ty, TypeCall):
        return value
    element = ty.args[0]
    if ty.func == _data("Option").header:
        cons, nil = _data("Option").constructors
        return Data(nil, ()) if value is None else Data(cons, (argument(value, element),))
    cons, nil = _data("List").constructors
    found = Data(nil, ())
    for item in reversed(value):
        found = Data(cons, (argument(item, element), found))
    return found


def _data(name: str) -> TypeData:
    return next(data for header, data in library().types.items() if header.name == name)


def leaves(value: Any) -> Iterator[Any]:
    """The arrays in sequences and optional values, in their order."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, Data):
        for field in value.fields:
            yield from leaves(field)
    elif value is not None:
        yield value


def array_of(value: Any) -> Any:
    """A tensor of a test as an array; other values as they are."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def imported(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> Module:
    """The model; all its inputs stay inputs."""
    return from_onnx(model, shapes=shapes_of(model, feeds))


def in_both_ways(case: Any) -> str | None:
    """None if inputs and initializers give the same results, else the difference; the first input remains an input.

    UnsupportedError where the case is not imported as it is.
    """
    for inputs, _ in case.data_sets:
        feeds = dict(zip((value.name for value in case.model.graph.input), map(array_of, inputs), strict=False))
        shapes = shapes_of(case.model, feeds)
        constants = {name: np.asarray(a) for name, a in feeds.items() if isinstance(a, np.ndarray | np.generic)}
        constants.pop(next(iter(feeds), ""), None)
        if not constants:
            continue
        wanted = _run(from_onnx(case.model, shapes=shapes), feeds)
        try:
            found = _run(from_onnx(_with_constants(case.model, constants), shapes=shapes), feeds)
        except UnsupportedError as error:
            return f"constants are refused: {error}"
        difference = compare(list(leaves(found)), list(leaves(wanted)), rtol=1e-6, atol=1e-7)
        if difference is not None:
            return difference
    return None


def shapes_of(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, list[tuple[int, ...]]]:
    """The shapes of the elements of sequences."""
    sequences = {v.name for v in model.graph.input if v.type.WhichOneof("value") == "sequence_type"}
    return {name: [np.shape(item) for item in feeds[name]] for name in sequences}


def _with_constants(model: onnx.ModelProto, constants: Mapping[str, Array]) -> onnx.ModelProto:
    baked = onnx.ModelProto()
    baked.CopyFrom(model)
    baked.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return baked


def _run(module: Module, feeds: Mapping[str, Any]) -> Any:
    """The results, interpreted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflow in the references is part of some cases
        return evaluate(module, [argument(feeds[param.name], param.ty) for param in module["main"].params])


def compare(found: Sequence[Array], wanted: Sequence[Any], rtol: float, atol: float) -> str | None:
    """None if equal within the tolerances, else the first difference."""
    if len(found) != len(wanted):
        return f"{len(found)} outputs, wanted {len(wanted)}"
    for n, (got, want) in enumerate(zip(found, map(np.asarray, wanted), strict=True)):
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            return f"output {n}: {got.dtype}{got.shape}, wanted {want.dtype}{want.shape}"
        if not (np.array_equal(got, want) if want.dtype.kind in "biuO" else _close(got, want, rtol, atol)):
            return f"output {n} differs"
    return None


def _close(got: Array, want: Array, rtol: float, atol: float) -> bool:
    """Within the case's tolerances; for 16-bit floats, also within two units in the last place of the largest value."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    if want.dtype.itemsize == 2 and want.size:
        largest = np.max(np.abs(b), initial=0, where=np.isfinite(b))
        atol = max(atol, 2 * float(ml_dtypes.finfo(want.dtype).eps) * float(largest))
    return bool(np.allclose(a, b, rtol, atol, equal_nan=True))

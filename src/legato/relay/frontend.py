"""Importers: models of other frameworks as (module, parameters)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from legato.base import dtype as dt
from legato.base.errors import UnsupportedError
from legato.base.node import post_order, transform
from legato.infer.infer import infer
from legato.ir.expr import Constant, Expr, Function, Var
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.relay._changes import ChangeDatatype
from legato.relay.module import IRModule

__all__ = ["ChangeDatatype", "from_onnx"]

Array = np.ndarray[Any, Any]


def from_onnx(
    model: Any,
    shape: Mapping[str, Sequence[int | str | None]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Mapping[str, Any] | None = None,
) -> tuple[IRModule, dict[str, Array]]:
    """The typed module of an ONNX model (a ModelProto, a path or bytes), and its parameters by name.

    shape: shapes of inputs by name, where the model's own are not wanted; strings name dims that are known at run time.
    freeze_params: initializers are constants of the program and there are no parameters; otherwise those that are data
    in it (not those that gave shapes or attributes) are parameters of @main behind the model's inputs.

    dtype and opset are in the model: UnsupportedError for a `dtype`, by the name of an input, that is another than the
    model's (one for all, as in Relay, is for inputs without a dtype, and there are none), for an `opset` or a
    `convert_config`.
    """
    from legato.frontend.onnx.importer import Importer
    from legato.frontend.onnx.reader import read

    if opset is not None or convert_config:
        raise UnsupportedError("opset and convert_config cannot be chosen", hint="the model says its opset")
    source = read(model)
    module = Importer(source, shape, None).module()
    if not isinstance(dtype, str):
        _require_dtypes(module, dtype)
    if freeze_params:
        return IRModule(module), {}
    names = {tensor.name: tuple(tensor.dims) for tensor in source.model.graph.initializer}
    main = module["main"]
    assert isinstance(main, Function)
    func, params = _lifted(main, names)
    return IRModule(infer(module.with_function(module.var("main"), func))), params


def _require_dtypes(module: Module, dtypes: Mapping[str, str]) -> None:
    main = module["main"]
    assert isinstance(main, Function)
    own = {p.name: p.ty.dtype for p in main.params if isinstance(p.ty, TensorType)}
    for name, wanted in dtypes.items():
        if own.get(name) != dt.dtype(wanted):
            got = f"it is {own[name]}" if name in own else f"the inputs are {', '.join(own)}"
            raise UnsupportedError(f"input {name} cannot be made {wanted}: {got}", hint="the model says its dtypes")


def _lifted(func: Function, names: Mapping[str, tuple[int, ...]]) -> tuple[Function, dict[str, Array]]:
    """`func` with parameters for the constants that are initializers (their spans name them), and their data."""
    found: dict[str, Constant] = {}
    for node in post_order([func.body]):
        if isinstance(node, Constant) and node.span is not None:
            name = node.span.source
            if names.get(name) == node.data.shape:
                found.setdefault(name, node)
    variables = {id(node): Var(name, ty=node.ty, span=node.span) for name, node in found.items()}

    def step(node: Expr) -> Expr | None:
        return variables.get(id(node))

    body = transform(func.body, step)
    new = replace(func, params=(*func.params, *variables.values()), body=body, ty=None)
    return new, {name: node.data for name, node in found.items()}

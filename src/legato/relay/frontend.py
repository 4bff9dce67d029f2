"""Importers: models of other frameworks as (module, parameters)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
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

__all__ = ["ChangeDatatype", "from_onnx", "from_pytorch"]

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
    return _with_params(module, names)


def from_pytorch(
    script_module: Any,
    input_infos: Sequence[tuple[str, Any]],
    custom_convert_map: Mapping[str, Any] | None = None,
    default_dtype: str = "float32",
    use_parser_friendly_name: bool = False,
    keep_quantized_weight: bool = False,
    export_renamed_c_graph_path: str | None = None,
    preserve_pytorch_scopes: bool = False,
) -> tuple[IRModule, dict[str, Array]]:
    """The typed module of a traced or scripted module of PyTorch, and its weights by their names in its state dict,
    which are parameters of @main behind its arguments.

    input_infos: name and shape of each argument, or name and (shape, dtype), dtypes as in PyTorch or Relay; others are
    of `default_dtype`. Dims may be strings or `relay.Any()`. use_parser_friendly_name: dots in names of weights are
    underscores. preserve_pytorch_scopes has no effect: spans are the lines of PyTorch's program.

    UnsupportedError for what cannot be compiled (docs/pytorch_limits.md), for quantised weights, for a
    `custom_convert_map` and an `export_renamed_c_graph_path`.
    """
    import_module("legato.base.pytorch")  # a MissingError where it is not installed
    import torch

    from legato.frontend.torch.script.importer import import_script

    if custom_convert_map:
        hint = 'legato.compile(module, args=…, custom={"namespace::operator": function})'
        raise UnsupportedError("custom_convert_map: converters of Relay's form", hint=hint)
    if keep_quantized_weight or export_renamed_c_graph_path is not None:
        hint = "leave them out; quantised models are read from ONNX files"
        raise UnsupportedError("keep_quantized_weight and export_renamed_c_graph_path", hint=hint)
    infos = [(name, _info(info)) for name, info in input_infos]
    module = import_script(script_module, infos, default_dtype)
    is_module = isinstance(script_module, torch.jit.ScriptModule)
    state = script_module.state_dict() if is_module else {}
    names = {name: tuple(tensor.shape) for name, tensor in state.items()}
    return _with_params(module, names, lambda name: name.replace(".", "_") if use_parser_friendly_name else name)


def _info(info: Any) -> Any:
    """A shape, or (shape, dtype) with PyTorch's dtypes by their names."""
    is_typed = len(info) == 2 and isinstance(info[0], Sequence) and not isinstance(info[0], str)
    return (tuple(info[0]), str(info[1]).removeprefix("torch.")) if is_typed else tuple(info)


def _with_params(
    module: Module, names: Mapping[str, tuple[int, ...]], called: Callable[[str], str] = str
) -> tuple[IRModule, dict[str, Array]]:
    """A module whose constants with these names are parameters of @main, `called` after them, and their data."""
    main = module["main"]
    assert isinstance(main, Function)
    func, params = _lifted(main, names, called)
    return IRModule(infer(module.with_function(module.var("main"), func))), params


def _require_dtypes(module: Module, dtypes: Mapping[str, str]) -> None:
    main = module["main"]
    assert isinstance(main, Function)
    own = {p.name: p.ty.dtype for p in main.params if isinstance(p.ty, TensorType)}
    for name, wanted in dtypes.items():
        if own.get(name) != dt.dtype(wanted):
            got = f"it is {own[name]}" if name in own else f"the inputs are {', '.join(own)}"
            raise UnsupportedError(f"input {name} cannot be made {wanted}: {got}", hint="the model says its dtypes")


def _lifted(
    func: Function, names: Mapping[str, tuple[int, ...]], called: Callable[[str], str]
) -> tuple[Function, dict[str, Array]]:
    """`func` with parameters for the constants that are initializers (their spans name them), and their data."""
    found: dict[str, Constant] = {}
    for node in post_order([func.body]):
        if isinstance(node, Constant) and node.span is not None:
            name = node.span.source
            if names.get(name) == node.data.shape:
                found.setdefault(name, node)
    variables = {id(node): Var(called(name), ty=node.ty, span=node.span) for name, node in found.items()}

    def step(node: Expr) -> Expr | None:
        return variables.get(id(node))

    body = transform(func.body, step)
    new = replace(func, params=(*func.params, *variables.values()), body=body, ty=None)
    return new, {called(name): node.data for name, node in found.items()}

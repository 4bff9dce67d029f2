"""The entry: a ScriptModule or ScriptFunction, and what its arguments are, as a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch

from legato.arith.expr import Expr as DimExpr
from legato.arith.expr import Var as DimVar
from legato.base.dtype import bool_, float64, int64
from legato.base.dtype import dtype as as_dtype
from legato.base.errors import ImportModelError, UnsupportedError, no_stack
from legato.frontend.torch.emitter import Emitter
from legato.frontend.torch.inputs import GraphImport
from legato.frontend.torch.script.bodies import BODIES
from legato.frontend.torch.script.boxes import Box
from legato.frontend.torch.script.numbers import Scalar, scalar_tensor
from legato.frontend.torch.script.walk import INSTEAD, ScriptWalk, span_of
from legato.ir.expr import Expr, Var
from legato.ir.module import Module
from legato.ir.types import TensorType, tensor_type

__all__ = ["import_script"]

Info = tuple[str, Any]  # the name and the shape of an argument, or the name and (shape, dtype)
_NUMBERS: Final = {"IntType": int64, "FloatType": float64, "BoolType": bool_}


def import_script(script: Any, inputs: Sequence[Any], default_dtype: str = "float32") -> Module:
    """The module of a ScriptModule or a ScriptFunction. inputs: name and shape, or name and (shape, dtype), of each
    argument of `forward`; names in shapes are symbolic dims. Numbers among the arguments are tensors of rank 0: int64,
    float64 or bool.

    Raises UnsupportedError for the first node that cannot be compiled, and ImportModelError for a module in training
    mode, for arguments that do not fit, and for one that raises. Tensors of arguments that the module changes in place
    are not changed by the program.
    """
    if not isinstance(script, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        hint = "torch.jit.trace(module.eval(), args) and torch.jit.script(module.eval()) make them"
        raise ImportModelError(f"wanted a module of TorchScript, got a {type(script).__name__}", hint=hint)
    owner = [script] if isinstance(script, torch.jit.ScriptModule) else []
    if any(part.training for whole in owner for part in whole.modules()):
        raise ImportModelError("the module is in training mode", hint="call .eval() before it is scripted or traced")
    graph = script.graph.copy()
    torch._C._jit_pass_inline(graph)
    work = GraphImport(torch.fx.GraphModule({}, torch.fx.Graph()), None, {})
    names = {_memory(t): name for m in owner for name, t in reversed(m.state_dict(keep_vars=True).items())}
    walk = ScriptWalk(work.b, lambda tensor, name: work.constant(tensor, names.get(_memory(tensor), name)), BODIES)
    places = list(graph.inputs())[len(owner) :]
    if not all(isinstance(i, tuple | list) and len(i) == 2 and isinstance(i[0], str) for i in inputs):
        raise ImportModelError(f"the arguments of forward: wanted pairs of a name and a shape, got {inputs!r}")
    if len(places) != len(inputs):
        raise ImportModelError(f"forward takes {len(places)} arguments, {len(inputs)} are given")
    params, values = _parameters(work.b, inputs, places, default_dtype)
    try:
        results = walk.block(graph, [*owner, *values], {})
    except RecursionError as error:  # blocks nest as they do in the user's text
        raise no_stack("the import of the module") from error
    try:
        exprs = [e for r in results for e in _tensors(walk, r)]
    except UnsupportedError as error:
        span = error.span or span_of(graph.return_node())
        raise UnsupportedError(error.message, span=span, hint=error.hint or INSTEAD) from None
    body = exprs[0] if len(exprs) == 1 else work.b.tuple_(exprs)
    return Module.from_expr(work.b.function(tuple(params), body))


def _memory(tensor: torch.Tensor) -> Any:
    """Two tensors that are one."""
    return (tensor.data_ptr() or id(tensor), tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.is_neg())


def _parameters(b: Emitter, inputs: Sequence[Info], places: Sequence[Any], default: str) -> tuple[list[Var], list[Any]]:
    """The parameters of @main, and the values that the walk has for them."""
    dims: dict[str, DimVar] = {}
    params: list[Var] = []
    values: list[Any] = []
    for (name, info), place in zip(inputs, places, strict=True):
        kind = place.type().kind()
        if kind not in ("TensorType", *_NUMBERS):
            raise UnsupportedError(f"the argument {name} of forward is of type {place.type()}",
                                   hint="give each tensor as an argument of its own")  # fmt: skip
        ty = _type(info, _NUMBERS[kind].name if kind in _NUMBERS else default, dims)
        params.append(b.var(name, ty))
        if kind in _NUMBERS and ty != TensorType((), _NUMBERS[kind]):
            raise ImportModelError(
                f"the argument {name} is a number: its type is {_NUMBERS[kind]} without dims, not {ty}"
            )
        values.append(Scalar(params[-1]) if kind in _NUMBERS else Box(params[-1]))
    return params, values


def _type(info: Any, default: str, dims: dict[str, DimVar]) -> TensorType:
    """The type that an entry of `inputs` says."""
    if not isinstance(info, tuple | list):
        raise ImportModelError(f"the shape of an argument: wanted a tuple of dims, got {info!r}")
    shape, dtype = info if len(info) == 2 and isinstance(info[0], tuple | list) else (info, default)
    if not all(isinstance(d, str | DimExpr) or (isinstance(d, int | np.integer) and d >= 0) for d in shape):
        raise ImportModelError(f"the shape of an argument: wanted numbers and names of dims, got {shape!r}",
                               hint="a dim that may be any is a name: ('n', 3)")  # fmt: skip
    return tensor_type(
        [dims.setdefault(d, DimVar(d, lo=0)) if isinstance(d, str) else d for d in shape], as_dtype(dtype)
    )


def _tensors(walk: ScriptWalk, value: Any) -> list[Expr]:
    """The tensors of a result; those of lists, tuples and dicts in their order."""
    if isinstance(value, Box):
        return [value.get()]
    if isinstance(value, dict):
        return [e for v in value.values() for e in _tensors(walk, v)]
    if isinstance(value, list | tuple):
        return [e for v in value for e in _tensors(walk, v)]
    if isinstance(value, bool | int | float | Scalar | DimExpr):
        return [scalar_tensor(walk.b, value)]
    raise UnsupportedError(f"the module returns a {type(value).__name__}")

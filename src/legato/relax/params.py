"""Parameters of functions as constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from legato.arith.expr import Const, const
from legato.arith.expr import Var as DimVar
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute as substitute_dim
from legato.base.arrays import as_array
from legato.base.dtype import dtype
from legato.base.errors import CompileError, TypeCheckError
from legato.infer.infer import infer
from legato.ir.expr import Constant, Function, Var, constant
from legato.ir.module import Module
from legato.ir.types import Dim, TensorType
from legato.relay.expr import bind
from legato.transform._call_graph import with_open_calls
from legato.transform.narrow_dims import with_dims

__all__ = ["bound_params", "graph_function"]


def graph_function(mod: Module, name: str) -> Function:
    """Function `name` of a module. CompileError where it is a tensor program."""
    func = mod[name]
    if not isinstance(func, Function):
        raise CompileError(f"@{name} is a tensor program, wanted a function of the graph")
    return func


def bound_params(mod: Module, name: str, params: Mapping[Any, Any]) -> Module:
    """`mod` (typed), whose function `name` has constants for parameters, given by name or as variables, and numbers for
    the dims that these tell. CompileError where there is no such parameter, TypeCheckError where a value does not
    fit."""
    func = graph_function(mod, name)
    values: dict[Var, Constant] = {}
    dims: dict[DimVar, Dim] = {}
    for key, value in params.items():
        found = [p for p in func.params if key in (p, p.name)]
        if len(found) != 1:
            hint = f"it has {', '.join(p.name for p in func.params) or 'none'}"
            raise CompileError(f"{len(found)} parameters of @{name} are called {getattr(key, 'name', key)}", hint=hint)
        given = value if isinstance(value, Constant) else constant(as_array(value, f"parameter {key}", TypeCheckError))
        _tell(found[0], given, dims)
        values[found[0]] = given
    told = with_dims(func, dims) if dims else func
    new = bind(told, {p: values[old] for p, old in zip(told.params, func.params, strict=True) if old in values})
    assert isinstance(new, Function)
    gv = mod.var(name)
    return infer(with_open_calls(mod.with_function(gv, new), {gv}))


def _tell(param: Var, value: Constant, dims: dict[DimVar, Dim]) -> None:
    """Adds the dims that a parameter's value tells."""
    ty, shape = param.ty, value.data.shape
    if not isinstance(ty, TensorType) or ty.rank != len(shape) or ty.dtype != dtype(value.data.dtype):
        raise TypeCheckError(f"a value of {value.ty} for the parameter {param.name}, which is {ty}")
    for d, extent in zip(ty.shape, shape, strict=True):
        if isinstance(d, DimVar):
            dims.setdefault(d, const(extent))
        left = simplify(substitute_dim(d, dims) - extent)
        if isinstance(left, Const) and left.value:
            raise TypeCheckError(f"a value of shape {list(shape)} for the parameter {param.name}, which is {ty}")

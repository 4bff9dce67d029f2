"""Values of a host function: trees whose leaves are buffers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from legato.arith.expr import Expr, Var
from legato.arith.prove import prove_all_equal
from legato.arith.substitute import substitute, variables
from legato.base import dtype as dt
from legato.base.errors import InternalError, UnsupportedError
from legato.ir import expr as ir
from legato.ir.dim_values import dim_pairs, dim_values
from legato.ir.types import ShapeType, TensorType, TupleType, Type
from legato.lower.hosts.cells import EXTENT, is_object, leaf_types, rank_of
from legato.tir.buffer import Buffer, Scope

__all__ = ["Value", "flat", "flat_all", "function_dims", "instantiate", "nest", "new_value", "same_type", "told"]

Value = Buffer | tuple["Value", ...]


def new_value(ty: Type, name: str, scalars: Scope = Scope.GLOBAL) -> Value:
    """Buffers for a value of type `ty`, scalars and handles where it says; UnsupportedError if there are none."""
    if isinstance(ty, TensorType):
        return Buffer(name, ty.shape, ty.dtype, scope=Scope.GLOBAL if ty.rank else scalars)
    if isinstance(ty, TupleType):
        return tuple(new_value(f, f"{name}_{n}", scalars) for n, f in enumerate(ty.fields))
    if isinstance(ty, ShapeType):
        return tuple(new_value(EXTENT, f"{name}_{n}", scalars) for n in range(rank_of(ty)))
    if is_object(ty):
        return Buffer(name, (), dt.handle, scope=scalars)
    hint = "tensors, shapes, tuples, data types, references and functions are values: compute with these"
    raise UnsupportedError(f"values of type {ty} in compiled code", hint=hint)


def flat(value: Value) -> Iterator[Buffer]:
    """The leaves of `value`, in order."""
    if isinstance(value, Buffer):
        yield value
    else:
        for v in value:
            yield from flat(v)


def flat_all(values: Iterable[Value]) -> list[Buffer]:
    """The leaves of `values`, in order."""
    return [b for v in values for b in flat(v)]


def nest(ty: Type, leaves: Iterator[Buffer]) -> Value:
    """The value of type `ty` with these leaves."""
    if isinstance(ty, TupleType):
        return tuple(nest(f, leaves) for f in ty.fields)
    if isinstance(ty, ShapeType):
        return tuple(next(leaves) for _ in range(rank_of(ty)))
    return next(leaves)


def same_type(a: Type, b: Type) -> bool:
    """True if values of both types, which are no tuples, are alike for all values of the dims."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return a == b
    return a.dtype == b.dtype and prove_all_equal(a.shape, b.shape)


def function_dims(func: ir.Function) -> tuple[Var, ...]:
    """The dim variables of `func`, in the order of its words."""
    return tuple(p for p in func.type_params if isinstance(p, Var))


def told(pairs: Iterable[tuple[Type, Type | None]], dims: Collection[Var], at: ir.Expr) -> dict[Var, Expr]:
    """The values of `dims` for which the first type of every pair is the second; UnsupportedError, at a node, where the
    types do not tell them."""
    found: dict[Var, Expr] = {}
    known = [(wanted, got) for wanted, got in pairs if got is not None] if dims else []
    for wanted, got in known:
        found = {**dim_values(got, wanted, dims), **found}
    for wanted, got in known if len(found) < len(dims) else ():
        found = {**_renamed(got, wanted, [d for d in dims if d not in found]), **found}
    missing = [d.name for d in dims if d not in found]
    if missing:
        raise UnsupportedError(
            f"the dims {', '.join(missing)} cannot be told by what has them",
            span=at.span,
            hint="give it a part whose shape has the dim itself as an entry",
        )
    return found


def _renamed(got: Type, wanted: Type, dims: Collection[Var]) -> dict[Var, Expr]:
    """The dims of `wanted` that, with others, are no dim of its shape, where `got` is `wanted` with other names."""
    for a, b in dim_pairs(got, wanted):
        names: dict[Var, Expr] = dict(zip(variables(b), variables(a), strict=False))
        if substitute(b, names) is a and all(v in dims or d is v for v, d in names.items()):
            new = {v: d for v, d in names.items() if v in dims}
            if new:
                return new
    return {}


def instantiate(callee: ir.Function, call: ir.Call) -> list[Expr]:
    """The values of the callee's dims in `call`: inference noted them, or the shapes of the arguments give them."""
    known: dict[Var, Expr] = {}
    if len(call.type_args) == len(callee.type_params):
        noted = zip(callee.type_params, call.type_args, strict=True)
        known = {d: value for d, value in noted if isinstance(d, Var) and isinstance(value, Expr)}
    params = [t for p in callee.params for t in leaf_types(p.ty)]
    args = [t for a in call.args for t in leaf_types(a.ty)]
    for param, arg in zip(params, args, strict=True):
        if isinstance(param, TensorType) and isinstance(arg, TensorType):
            for dim, extent in zip(param.shape, arg.shape, strict=True):
                if isinstance(dim, Var):
                    known.setdefault(dim, extent)
    dims = function_dims(callee)
    missing = [d.name for d in dims if d not in known]
    if missing:
        raise InternalError(f"a call tells no values of the dims {', '.join(missing)} of its function")
    return [known[d] for d in dims]

"""Programs at other types: another batch size, another dtype everywhere, or around some operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from legato.base.dtype import DType
from legato.base.dtype import dtype as as_dtype
from legato.base.errors import CompileError
from legato.base.kinds import require, require_integer, require_mapping
from legato.base.node import post_order, transform
from legato.infer.builder import Builder
from legato.infer.infer import infer, infer_function
from legato.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var, constant, tuple_of
from legato.ir.op import Op
from legato.ir.types import TensorType, TupleType, Type, dims
from legato.ir.visit import free_vars, substitute
from legato.ops.select import cast
from legato.relay._op_table import get
from legato.relay._passes import ModulePass, Pass, PassContext, PassInfo
from legato.relay.module import IRModule
from legato.transform._copy import Copy

__all__ = ["ChangeBatch", "ChangeDatatype", "recast"]


# ------------------------------------------------------------------ the batch


def ChangeBatch(data: Mapping[Var, int], batch_size: int = 16) -> Pass:
    """Parameters with another extent of the dim that `data` has for each; all else follows by inference.

    CompileError for what is no parameter of a function, and for a dim that it does not have. TypeCheckError where
    something else, such as the shape that a reshape states, has the old batch size.
    """
    for var, axis in require_mapping(data, "the data of ChangeBatch", "{variable: dim}").items():
        require(isinstance(var, Var), var, "the data of ChangeBatch", "variables, from func.params")
        require_integer(axis, f"the dim of %{var.name}")
    size = require_integer(batch_size, "batch_size")

    def run(mod: IRModule, context: PassContext) -> IRModule:
        found = {gv: _rebatched(f, data, size) for gv, f in mod.functions.items() if isinstance(f, Function)}
        known = {p for f in mod.functions.values() if isinstance(f, Function) for p in f.params}
        unknown = [var for var in data if var not in known]
        if unknown:
            raise CompileError(f"%{unknown[0].name} is no parameter of a function", hint="take it from func.params")
        return IRModule(infer(mod.module.with_functions({**mod.functions, **found})))

    return ModulePass(run, PassInfo(1, "ChangeBatch"))


def _rebatched(func: Function, data: Mapping[Var, int], size: int) -> Function:
    new = {p: Var(p.name, ty=_with_extent(p, data[p], size), span=p.span) for p in func.params if p in data}
    if not new:
        return func
    params = tuple(new.get(p, p) for p in func.params)
    return replace(func, params=params, body=substitute(func.body, dict(new)), ret_type=None, type_params=(), ty=None)


def _with_extent(param: Var, axis: int, size: int) -> Type:
    ty = param.ty
    if not isinstance(ty, TensorType) or not -ty.rank <= axis < ty.rank:
        raise CompileError(f"%{param.name} : {ty} has no dim {axis}")
    axis %= ty.rank
    return TensorType(dims((*ty.shape[:axis], size, *ty.shape[axis + 1 :])), ty.dtype)


# ------------------------------------------------------------------ dtypes everywhere


class ChangeDatatype(Pass):
    """Everything of dtype `src` (variables, constants, attributes, fields of data types) becomes one of `dst`.

    A pass over modules; `visit(expr)` changes an expression, its free variables included. TypeCheckError where an
    operator does not take `dst`.
    """

    def __init__(self, src: str | DType, dst: str | DType) -> None:
        self.src, self.dst = as_dtype(src), as_dtype(dst)
        self.info = PassInfo(0, "ChangeDatatype")

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        copy = _Retyped(self.src, self.dst)
        parts = (ty for t in mod.module.types.values() for c in t.constructors for ty in c.inputs)
        if any(copy.type(ty) is not ty for ty in parts):
            raise CompileError("data types with fields of another dtype", hint="make them type variables")
        new = {gv: _function(copy.expr(f)) for gv, f in mod.functions.items() if isinstance(f, Function)}
        return IRModule(infer(mod.module.with_functions({**mod.functions, **new})))

    def visit(self, expr: Expr) -> Expr:
        """The changed expression."""
        copy = _Retyped(self.src, self.dst)
        for var in free_vars(expr):
            copy.bind(var)
        return copy.expr(expr)


def _function(e: Expr) -> Function:
    assert isinstance(e, Function)
    return e


class _Retyped(Copy):
    """A copy in which one dtype is another."""

    def __init__(self, src: DType, dst: DType) -> None:
        super().__init__()
        self.src, self.dst = src, dst

    def type(self, ty: Type) -> Type:
        if isinstance(ty, TensorType):
            return replace(ty, dtype=self.dst) if ty.dtype is self.src else ty
        old = ty.children()
        new = tuple(map(self.type, old))
        return ty if all(a is b for a, b in zip(old, new, strict=True)) else ty.with_children(new)

    def node(self, node: Expr, kids: tuple[Expr, ...]) -> Expr:
        if isinstance(node, Constant) and isinstance(node.ty, TensorType) and node.ty.dtype is self.src:
            with np.errstate(all="ignore"):
                return constant(node.data.astype(self.dst.numpy), self.dst)
        return super().node(node, kids)

    def _attr(self, value: Any) -> Any:
        if isinstance(value, DType):
            return self.dst if value is self.src else value
        if isinstance(value, Type):
            return self.type(value)
        if isinstance(value, str):
            return self.dst.name if value == self.src.name else value
        if is_dataclass(value) and not isinstance(value, type):
            found = {f.name: getattr(value, f.name) for f in fields(value)}
            changed = {k: n for k, v in found.items() if (n := self._attr(v)) is not v}
            return replace(value, **changed) if changed else value
        return value


# ------------------------------------------------------------------ dtypes around operators


def recast(
    expr: Expr,
    dtype: str | DType,
    out_dtype: str | DType,
    ops: Sequence[str] | None = None,
    skip_layers: Iterable[int] = (),
) -> Expr:
    """The calls of `ops` (["nn.conv2d"]) computed on operands that are cast to `dtype`, with results of `out_dtype`
    where the operator has a choice; these are cast back.

    Values are cast as they are: it is for measuring operators at other types, not for keeping results. `skip_layers`
    are the numbers of calls that stay, counted in the order of evaluation, from the last one if below 0; CompileError
    for others.
    """
    wanted = {get(name) for name in (["nn.conv2d"] if ops is None else ops)}
    inside, outside = as_dtype(dtype), as_dtype(out_dtype)
    func = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
    func = infer_function(func)
    layers = sum(isinstance(e, Call) and e.op in wanted for e in post_order([func.body]))
    skipped = tuple(skip_layers)
    if any(not -layers <= n < layers for n in skipped):
        raise CompileError(f"skip_layers are {list(skipped)} of {layers} calls")
    skipped = tuple(n % layers for n in skipped)
    count = iter(range(layers))

    def step(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op not in wanted or next(count) in skipped:
            return None
        return _recast(node, inside, outside)

    new = infer_function(replace(func, body=transform(func.body, step), ret_type=None, ty=None))
    return new if isinstance(expr, Function) else new.body


def _recast(call: Call, inside: DType, outside: DType) -> Expr:
    assert isinstance(call.op, Op)
    attrs = replace(call.attrs, out_dtype=outside) if hasattr(call.attrs, "out_dtype") else call.attrs
    made = Builder(span=call.span).call_op(call.op, [_cast(a, _all(a.ty, inside)) for a in call.args], attrs)
    return _cast(made, call.ty)


def _all(ty: Type | None, dtype: DType) -> Type | None:
    """A type of tensors, all of one dtype."""
    if isinstance(ty, TupleType):
        return TupleType(tuple(f for t in ty.fields if (f := _all(t, dtype)) is not None))
    return replace(ty, dtype=dtype) if isinstance(ty, TensorType) else ty


def _cast(x: Expr, ty: Type | None) -> Expr:
    """`x` with its tensors in the dtypes of `ty`."""
    if isinstance(ty, TupleType) and x.ty != ty and isinstance(x.ty, TupleType):
        parts = x.fields if isinstance(x, Tuple) else [TupleGetItem(x, n, ty=t) for n, t in enumerate(x.ty.fields)]
        return tuple_of(_cast(p, t) for p, t in zip(parts, ty.fields, strict=True))
    if not isinstance(ty, TensorType) or not isinstance(x.ty, TensorType) or x.ty.dtype is ty.dtype:
        return x
    return Builder(span=x.span).call(cast, x, dtype=ty.dtype.name)

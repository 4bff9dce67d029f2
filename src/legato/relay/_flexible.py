"""Programs for any extent of a dim of their inputs, with bodies of their own for some extents.

def @main(%x: Tensor[(8, 4), float32]) { nn.dense(%x, W) }
    =>
def @main(%x: Tensor[(n, 4), float32]) {
  if (take(shape_of(%x), 0) <= 8) { … @main_8(nn.pad(%x, …)) … } else { @main_any(%x) }
}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from legato.arith.expr import Var as DimVar
from legato.arith.expr import const, fresh, max_
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.errors import CompileError, UnsupportedError
from legato.infer.infer import infer
from legato.ir._dims import free_dims
from legato.ir.attrs import make_attrs
from legato.ir.expr import (
    Call,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from legato.ir.module import Module
from legato.ir.types import FuncType, TensorType, TupleType, Type
from legato.ir.visit import substitute
from legato.ops import table
from legato.relay._passes import ModulePass, Pass, PassContext, PassInfo
from legato.relay.module import IRModule
from legato.transform._closures import Names
from legato.transform._copy import Copy
from legato.transform._sizes import without_calls_of_main
from legato.transform.narrow_dims import with_dims

__all__ = ["FlexibleShapeDispatch"]

UNTYPED: Final[Mapping[str, Any]] = {"ret_type": None, "type_params": (), "ty": None}


def FlexibleShapeDispatch(
    buckets: Sequence[int],
    axis: int = 0,
    auto_pad: bool = True,
    pad_value: float = 0.0,
    input_indices: Sequence[int] | None = None,
    affects_output: bool = True,
) -> Pass:
    """@main takes any extent of dim `axis` of the inputs `input_indices` (all, if none are given), and has a body of
    its own for each of the extents `buckets`.

    auto_pad: smaller inputs are padded with `pad_value` up to the next bucket, and their results cut again, which is
    right where what is padded has no influence on the rest; else only exact matches have these bodies. affects_output:
    the results have the extent as well, in the same dim.

    CompileError for extents below 1 and inputs that there are not; UnsupportedError for results that have the extent
    elsewhere where inputs are padded, or dims of data; TypeCheckError where the program holds for its extent alone.
    """
    sizes = sorted(set(buckets))
    if not sizes or sizes[0] < 1:
        raise CompileError(f"buckets: got {list(buckets)}, wanted extents of 1 or more")

    def run(mod: IRModule, context: PassContext) -> IRModule:
        module = without_calls_of_main(infer(mod.module))
        main = module["main"]
        if not isinstance(main, Function):
            hint = "let @main be a graph function that calls it"
            raise UnsupportedError("@main is a loop-level function: it has no other extents", hint=hint)
        indices = range(len(main.params)) if input_indices is None else input_indices
        if not indices or not all(0 <= n < len(main.params) for n in indices):
            raise CompileError(f"input_indices: got {list(indices)}, @main has {len(main.params)} inputs")
        made = _Dispatch(module, main, indices, axis, float(pad_value) if auto_pad else None, affects_output)
        return IRModule(infer(made.run(sizes)))

    return ModulePass(run, PassInfo(0, "FlexibleShapeDispatch"))


class _Dispatch:
    """The @main of `mod` (typed) for any extent of its inputs `indices`; `padding`: None without padding."""

    def __init__(
        self,
        mod: Module,
        main: Function,
        indices: Sequence[int],
        axis: int,
        padding: float | None,
        affects_output: bool,
    ) -> None:
        self.indices, self.axis, self.padding, self.affects_output = frozenset(indices), axis, padding, affects_output
        self.inner, self.extent = fresh("n"), fresh("n")  # the extent in the body for any, and in the new @main
        new = {p: self._with_extent(p) for n, p in enumerate(main.params) if n in self.indices}
        params = tuple(new.get(p, p) for p in main.params)
        body = substitute(main.body, dict(new))
        self.mod = infer(mod.with_function(mod.var("main"), replace(main, params=params, body=body, **UNTYPED)))
        found = self.mod["main"]
        assert isinstance(found, Function)
        assert isinstance(found.ty, FuncType)
        self.main, self.result = found, found.ty.ret
        dims = {d: fresh(d.name, d.lo, d.hi) for d in found.type_params if isinstance(d, DimVar)}
        if not {*free_dims(self.result)} <= dims.keys():
            hint = "leave the pass out: a symbolic dim takes any extent (docs/shapes.md)"
            raise UnsupportedError(f"@main has a result with dims of data: {self.result}", span=main.span, hint=hint)
        self.own = Copy(dims={**dims, self.inner: self.extent})

    def _with_extent(self, param: Var) -> Var:
        ty = param.ty
        if not isinstance(ty, TensorType) or not 0 <= self.axis < ty.rank:
            hint = "input_indices says which inputs have it"
            raise CompileError(f"%{param.name} : {ty} has no dim {self.axis}", hint=hint)
        shape = (*ty.shape[: self.axis], self.inner, *ty.shape[self.axis + 1 :])
        return Var(param.name, ty=TensorType(shape, ty.dtype), span=param.span)

    def run(self, sizes: Sequence[int]) -> Module:
        """The module with a body for each of the `sizes`, and one for any."""
        names = Names(self.mod)
        params = tuple(Var(p.name, ty=p.ty and self.own.type(p.ty), span=p.span) for p in self.main.params)
        any_size = GlobalVar(names.new("main_any"), ty=self.main.ty)
        functions = {**self.mod.functions, any_size: self.main}
        size = _call("take", _call("shape_of", params[min(self.indices)]), constant(self.axis, dt.int64))
        made: Expr = Call(any_size, params)
        for bucket in reversed(sizes):
            body = with_dims(self.main, {self.inner: const(bucket)})
            gv = GlobalVar(names.new(f"main_{bucket}"), ty=body.ty)
            functions[gv] = body
            is_it = _call("equal" if self.padding is None else "less_equal", size, constant(bucket, dt.int32))
            args = tuple(self._filled(p, bucket) if n in self.indices else p for n, p in enumerate(params))
            made = If(is_it, self._cut(Call(gv, args), self.result), made)
        functions[self.mod.var("main")] = Function(params, made, span=self.main.span)
        return self.mod.with_functions(functions)

    def _filled(self, x: Var, bucket: int) -> Expr:
        """Input `x`, of at most this extent, with this extent."""
        ty = x.ty
        assert isinstance(ty, TensorType)
        shape = (*ty.shape[: self.axis], const(bucket), *ty.shape[self.axis + 1 :])
        value: Expr = x
        if self.padding is not None:
            missing = max_(const(bucket) - self.extent, const(0))  # what else is demanded would be of every call
            width = tuple((0, missing if d == self.axis else 0) for d in range(ty.rank))
            value = _call("nn.pad", x, constant(np.asarray(self.padding).astype(ty.dtype.numpy)), pad_width=width)
        return MatchCast(value, TensorType(shape, ty.dtype))

    def _cut(self, value: Expr, ty: Type) -> Expr:
        """The result `value` of a bucket in the type that the program has: `ty`, of the body for any extent."""
        if isinstance(ty, TupleType):
            return Tuple(tuple(self._cut(TupleGetItem(value, n), t) for n, t in enumerate(ty.fields)))
        if self.inner not in free_dims(ty):
            return value
        if self.padding is not None:
            shape = ty.shape if isinstance(ty, TensorType) else ()
            others = [d for n, d in enumerate(shape) if n != self.axis]
            is_there = self.axis < len(shape) and shape[self.axis] is self.inner
            if not self.affects_output or not is_there or self.inner in variables(*others):
                where = f"in dim {self.axis} alone" if self.affects_output else "nowhere"
                hint = "auto_pad=False: other extents have the body for any"
                raise UnsupportedError(f"a result of @main has the extent {where} but: {ty}", hint=hint)
            value = _call("strided_slice", value, begin=(0,), end=(self.extent,), axes=(self.axis,))
        return MatchCast(value, self.own.type(ty))


def _call(name: str, *args: Expr, **attrs: Any) -> Call:
    """A call that is not typed yet."""
    op = table()[name]
    return Call(op, args, make_attrs(op, attrs))

"""Calls of tensor programs that only give the elements another shape become reshapes, which move nothing.

call_tir(@flatten, (%x,), out=[Tensor[(n * 4,), float32]])      =>      reshape(%x, newshape=[n * 4])
"""

from __future__ import annotations

from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.infer.builder import Builder
from legato.ir.call_tir import CALL_TIR
from legato.ir.expr import Call, Expr, GlobalVar, Tuple
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.ops.reshape import reshape
from legato.tir.reshape import is_reshape
from legato.tir.stmt import Func
from legato.transform.pass_ import Pass

__all__ = ["RestoreReshapes"]


@dataclass(frozen=True, slots=True)
class RestoreReshapes(Pass):
    """Typed module → typed module; the programs stay."""

    name = "restore-reshapes"

    def __call__(self, mod: Module) -> Module:
        shaping = {gv for gv, f in mod.functions.items() if isinstance(f, Func) and is_reshape(f)}
        functions = dict(mod.functions)
        for gv, func in mod.graph_functions() if shaping else ():
            body = transform(func.body, lambda node: _reshape(node) if _called(node) in shaping else None)
            functions[gv] = func if body is func.body else replace(func, body=body)
        return mod.with_functions(functions)


def _called(node: Expr) -> GlobalVar | None:
    """The tensor program that `node` calls on one argument, which stays as it is."""
    if not isinstance(node, Call) or node.op != CALL_TIR or node.attrs.inplace:
        return None
    kernel, args = node.args
    return kernel if isinstance(kernel, GlobalVar) and isinstance(args, Tuple) and len(args.fields) == 1 else None


def _reshape(call: Expr) -> Expr:
    assert isinstance(call, Call)
    data, ty = call.args[1], call.ty
    assert isinstance(data, Tuple)
    assert isinstance(ty, TensorType)
    return Builder(span=call.span).call(reshape, data.fields[0], newshape=ty.shape, allowzero=True).with_type(ty)

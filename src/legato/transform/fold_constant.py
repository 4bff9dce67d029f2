"""Constant folding: calls of constants are evaluated by the references, conditions of constants are decided."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.ir.attrs import is_symbolic
from legato.ir.devices import DEVICE_COPY
from legato.ir.effects import Effects
from legato.ir.expr import Call, Constant, Expr, Function, If, Tuple, TupleGetItem, constant
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType, TupleType, Type
from legato.runtime.floats import float_environment
from legato.transform._values import of_type
from legato.transform.pass_ import FunctionPass

__all__ = ["FoldConstant"]


@dataclass(frozen=True, slots=True)
class FoldConstant(FunctionPass):
    """Module → module whose constant parts are constants.

    A result that is much larger than what it is computed from stays a call: `full((1 << 20, 64))` is no constant.
    Copies between devices stay. Floats are those of kernels, whatever the caller has set: with `flush`, subnormal
    numbers count as 0. `quantised`: so are operators of the quantised dialect, which are no arithmetic yet.
    """

    name = "fold-constant"
    growth: int = 1 << 16  # bytes by which a result may exceed its operands
    flush: bool = False
    quantised: bool = False

    def function(self, func: Function, mod: Module) -> Function:
        effects = Effects(func, mod)
        with float_environment(flush=self.flush):
            body = transform(func.body, lambda node: self._fold(node, effects))
        return func if body is func.body else replace(func, body=body)

    def _fold(self, node: Expr, effects: Effects) -> Expr | None:
        match node:
            case Call(op=Op() as op) if all(_is_constant(a) for a in node.args):
                is_sure = not effects.own(node) or (self.quantised and op.name.startswith("qnn."))
                return self._call(node) if is_sure else None
            case TupleGetItem(value=Tuple() as value) if not effects.inside(value):
                return value.fields[node.index]
            case If(cond=Constant() as cond):
                return of_type(node.then if cond.data.item() else node.orelse, node.ty)
            case _:
                return None

    def _call(self, call: Call) -> Expr | None:
        op = call.op
        assert isinstance(op, Op)
        if call.ty is None or op is DEVICE_COPY or not self._is_small(call) or is_symbolic(op, call.attrs):
            return None
        value = op.reference(*(_value(a) for a in call.args), *op.tail(call.attrs))
        return _wrapped(value, call.ty)

    def _is_small(self, call: Call) -> bool:
        size = _bytes(call.ty)
        return size is not None and size <= sum(_bytes(a.ty) or 0 for a in call.args) + self.growth


def _is_constant(e: Expr) -> bool:
    return isinstance(e, Constant) or (isinstance(e, Tuple) and all(_is_constant(f) for f in e.fields))


def _value(e: Expr) -> Any:
    if isinstance(e, Tuple):
        return tuple(_value(f) for f in e.fields)
    assert isinstance(e, Constant)
    return e.data


def _wrapped(value: Any, ty: Type) -> Expr:
    if isinstance(ty, TupleType):
        return Tuple(tuple(_wrapped(v, t) for v, t in zip(value, ty.fields, strict=True)), ty=ty)
    assert isinstance(ty, TensorType)
    return constant(np.asarray(value), ty.dtype)


def _bytes(ty: Type | None) -> int | None:
    """The size of a value of `ty`; None unless every shape is static."""
    if isinstance(ty, TupleType):
        parts = [_bytes(f) for f in ty.fields]
        return None if None in parts else sum(p for p in parts if p is not None)
    if not isinstance(ty, TensorType) or not ty.is_static:
        return None
    return math.prod(ty.static_shape()) * ty.dtype.bytes

"""Relax as its users know it: `from legato import relax`.

    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((te.var("n"), 784), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.nn.relu(x)))
    mod = bb.get()

Nodes, types, modules and passes are Legato's own; this package gives them Relax's names and constructors, both those of
newer versions (`TensorType`, `ty`) and of older ones (`TensorStructInfo`, `struct_info`). What differs from the
original is said where it does, and in docs/relax_python.md.
"""

from __future__ import annotations

import typing
from importlib import import_module

from legato import nd
from legato.base import compiler as _compiler  # noqa: F401  # a MissingError where its packages are not
from legato.relax import expr_functor, op
from legato.relax.block_builder import BlockBuilder
from legato.relax.blocks import Binding, BindingBlock, DataflowBlock, MatchCast, SeqExpr, VarBinding, seq_of
from legato.relax.expr import (
    Call,
    Constant,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    const,
    get_shape_of,
    prim_value,
)
from legato.relax.expr_functor import PyExprMutator, PyExprVisitor
from legato.relax.op import call_dps_packed, call_packed, call_pure_packed, call_tir, call_tir_inplace
from legato.relax.ty import (
    AnyType,
    FuncStructInfo,
    FuncType,
    ObjectStructInfo,
    ObjectType,
    PrimStructInfo,
    PrimType,
    ShapeStructInfo,
    ShapeType,
    StructInfo,
    TensorStructInfo,
    TensorType,
    TupleStructInfo,
    TupleType,
    Type,
)
from legato.runtime.ndarray import cpu

if typing.TYPE_CHECKING:
    from legato.relax import analysis, transform
    from legato.relax.transform import get_pipeline
    from legato.relax.vm import VirtualMachine, VMExecutable, build

__all__ = [
    "AnyType", "Binding", "BindingBlock", "BlockBuilder", "Call", "Constant", "DataTypeImm", "DataflowBlock",
    "DataflowVar", "Expr", "ExternFunc", "FuncStructInfo", "FuncType", "Function", "GlobalVar", "If", "MatchCast",
    "ObjectStructInfo", "ObjectType", "PrimStructInfo", "PrimType", "PrimValue", "PyExprMutator", "PyExprVisitor",
    "SeqExpr", "ShapeExpr", "ShapeStructInfo", "ShapeType", "StringImm", "StructInfo", "TensorStructInfo",
    "TensorType", "Tuple", "TupleGetItem", "TupleStructInfo", "TupleType", "Type", "VMExecutable", "Var",
    "VarBinding", "VirtualMachine", "analysis", "build", "call_dps_packed", "call_packed", "call_pure_packed",
    "call_tir", "call_tir_inplace", "const", "cpu", "expr_functor", "get_pipeline", "get_shape_of", "nd", "op",
    "prim_value", "seq_of", "transform",
]  # fmt: skip

_ON_USE: typing.Final = {
    "analysis": "",
    "dpl": "",
    "get_pipeline": "transform",
    "VMExecutable": "vm",
    "VirtualMachine": "vm",
    "build": "vm",
    "frontend": "",
    "transform": "",
}


def __getattr__(name: str) -> typing.Any:
    where = _ON_USE.get(name)
    if where is None:
        raise AttributeError(f"relax has no {name}")
    found = import_module(f"legato.relax.{where or name}")
    return getattr(found, name) if where else found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_USE})

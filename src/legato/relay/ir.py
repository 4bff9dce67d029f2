"""What programs took from `tvm.ir`: operators, variables and types of the language, under `relay.ir`.

(The compiler's own language is `legato.ir`, another package.)
"""

from __future__ import annotations

from legato.relay._external import register_op_attr
from legato.relay.adt import Constructor
from legato.relay.base import SourceName, Span
from legato.relay.expr import GlobalVar, RelayExpr
from legato.relay.module import IRModule
from legato.relay.op.op import Op
from legato.relay.serial import load_json, save_json
from legato.relay.structure import assert_structural_equal, structural_equal, structural_hash
from legato.relay.ty import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RelayRefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeData,
    TypeKind,
    TypeRelation,
    TypeVar,
)

__all__ = [
    "Constructor",
    "FuncType",
    "GlobalTypeVar",
    "GlobalVar",
    "IRModule",
    "IncompleteType",
    "Op",
    "RelayExpr",
    "RelayRefType",
    "SourceName",
    "Span",
    "TensorType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeConstraint",
    "TypeData",
    "TypeKind",
    "TypeRelation",
    "TypeVar",
    "assert_structural_equal",
    "load_json",
    "register_op_attr",
    "save_json",
    "structural_equal",
    "structural_hash",
]  # fmt: skip

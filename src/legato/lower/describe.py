"""Primitive functions as text that two share if and only if they are lowered alike.

    p float32[[["var", 0]] 64 56 56]
    p float32[64]
    op add
    2 0 1 None float32[[["var", 0]] 64 56 56]
    result 3 {'Primitive': 1}
    dims 'n':0:0..None

Nodes are numbered, so sharing is told; names of variables do not matter. Symbolic dims are numbered by their first
appearance; the last line has for each its name, its place among them by age (terms of sums are ordered so), its bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from legato.arith.expr import Const, Var
from legato.arith.expr import Expr as DimExpr
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import InternalError
from legato.base.node import post_order
from legato.base.strings import bits
from legato.ir import expr as ir
from legato.ir.op import Op
from legato.ir.types import TensorType, TupleType, Type
from legato.lower.expr_data import to_data
from legato.tir.buffer import Buffer

__all__ = ["Description", "describe", "describe_copy"]


@dataclass(frozen=True, slots=True)
class Description:
    """The text of a primitive function, the numbers of its dims, and whether the text means the same in another
    process."""

    text: str
    dims: Mapping[Var, int]
    lasts: bool

    def number(self, dim: Any) -> int:
        """The number of a dim; InternalError for one that the function does not have."""
        found = self.dims.get(dim)
        if found is None:
            raise InternalError(f"the lowered group uses {dim.name}, which is no dim of its types and attributes")
        return found


def describe(func: ir.Function, operators: Mapping[str, Op]) -> Description:
    """The description of primitive function `func`.

    It lasts beyond this process if every operator is one of `operators`, whose names say what they are.
    """
    writer = _Writer(operators)
    return writer.described(writer.function(func))


def describe_copy(source: Buffer, result: Buffer) -> Description:
    """The description of a copy from one layout to another."""
    writer = _Writer({})
    return writer.described([
        f"{b.name!r} {b.dtype.name}[{' '.join(map(writer.dim, b.shape))}] {b.layout}" for b in (source, result)
    ])  # fmt: skip


class _Writer:
    def __init__(self, operators: Mapping[str, Op]) -> None:
        self.operators = operators
        self.dims: dict[Var, int] = {}
        self.lasts = True
        self.types: dict[int, str] = {}

    def described(self, lines: Sequence[str]) -> Description:
        """The description with these lines, and one for the dims in them."""
        by_age = {dim: n for n, dim in enumerate(sorted(self.dims, key=lambda d: d.uid))}
        last = "dims " + " ".join(f"{d.name!r}:{by_age[d]}:{d.lo}..{d.hi}" for d in self.dims)
        return Description("\n".join([*lines, last]), self.dims, self.lasts)

    def function(self, func: ir.Function) -> list[str]:
        """A line per node, and the attributes."""
        places: dict[int, int] = {}
        lines: list[str] = []
        for param in func.params:
            places[id(param)] = len(lines)
            lines.append(f"p {self.type(param.ty)}")
        by_var = {param: n for n, param in enumerate(func.params)}
        for node in post_order([func.body]):
            if isinstance(node, ir.Var):
                places[id(node)] = by_var[node]
                continue
            places[id(node)] = len(lines)
            lines.append(self.node(node, places))
        lines.append(f"result {places[id(func.body)]} {self.value(func.attrs)}")
        return lines

    def node(self, node: ir.Expr, places: Mapping[int, int]) -> str:
        """One node, its operands by their places."""
        match node:
            case Op():
                return f"op {node.name}" if self.operators.get(node.name) is node else self.passing(node)
            case ir.Constant():
                return f"const {node.data.dtype} {node.data.shape} {bits(node.data).hex()}"
            case ir.TupleGetItem():
                return f"item {places[id(node.value)]} {node.index}"
            case ir.Tuple() | ir.Call():
                operands = " ".join(str(places[id(c)]) for c in node.children())
                attrs = self.value(node.attrs) if isinstance(node, ir.Call) else "tuple"
                return f"{operands} {attrs} {self.type(node.ty)}"
            case _:
                return self.passing(node)

    def type(self, ty: Type | None) -> str:
        """A tensor, or nested tuples of them."""
        known = self.types.get(id(ty))
        if known is not None:
            return known
        match ty:
            case TensorType(shape, dtype):
                text = f"{dtype.name}[{' '.join(map(self.dim, shape))}]"
            case TupleType():
                text = f"({' '.join(map(self.type, ty.fields))})"
            case _:
                text = self.passing(ty)
        self.types[id(ty)] = text
        return text

    def dim(self, dim: DimExpr) -> str:
        """An index expression."""
        return str(dim.value) if isinstance(dim, Const) else str(to_data(dim, self._number))

    def _number(self, dim: Any) -> int:
        return self.dims.setdefault(dim, len(self.dims))

    def value(self, value: Any) -> str:
        """An attribute."""
        match value:
            case None | bool() | int() | float() | str() | bytes():
                return repr(value)
            case DType():
                return f"dtype {value.name}"
            case DimExpr():
                return f"dim {self.dim(value)}"
            case Enum():
                return str(value)
            case list() | tuple():
                return f"({', '.join(map(self.value, value))})"
            case Mapping():
                return f"{{{', '.join(f'{self.value(k)}: {self.value(v)}' for k, v in value.items())}}}"
            case _ if is_dataclass(value):
                inner = ", ".join(self.value(getattr(value, f.name)) for f in fields(value))
                return f"{type(value).__name__}({inner})"
            case _:
                return self.passing(value)

    def passing(self, thing: object) -> str:
        """What tells a thing apart while it lives."""
        self.lasts = False
        return f"{type(thing).__name__} at {id(thing)}"

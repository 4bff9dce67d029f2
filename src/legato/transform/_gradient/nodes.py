"""What a variable of the original program has become, while its function is differentiated.

    Leaf      a tensor of floats: the tensor (`primal`), and its companion where it has one
    Plain     a value without floats, which is the same in both programs
    Opaque    a function, data, a cell: a value of the new program, whose type is what its type becomes
    Fields    a tuple

A leaf without companion is a constant as far as derivatives are concerned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Expr, Tuple, Var, tuple_of
from legato.ir.types import ShapeType, TensorType, TupleType, Type
from legato.transform._gradient.dual_types import is_float

__all__ = ["Fields", "Leaf", "Node", "Opaque", "Plain", "is_data", "leaves", "lifted", "opened", "primal"]


@dataclass(eq=False, slots=True)
class Leaf:
    """A tensor of floats. `companion` is set once it is known."""

    primal: Expr
    companion: Expr | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Plain:
    """A value without floats."""

    expr: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Opaque:
    """A function, data or a cell of the new program."""

    expr: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Fields:
    """A tuple."""

    parts: tuple[Node, ...]


Node = Leaf | Plain | Opaque | Fields


def is_data(ty: Type | None) -> bool:
    """Whether values of this type are tensors, shapes, and tuples of these: what operators take and give."""
    if isinstance(ty, TupleType):
        return all(map(is_data, ty.fields))
    return isinstance(ty, TensorType | ShapeType)


def leaves(node: Node) -> Iterator[Leaf]:
    """The tensors of floats in it."""
    if isinstance(node, Fields):
        for part in node.parts:
            yield from leaves(part)
    elif isinstance(node, Leaf):
        yield node


def opened(b: Builder, ty: Type | None, value: Expr, is_dual: bool) -> Node:
    """The node of `value`, whose original has type `ty`: a value of the new program (`is_dual`), or of the old one."""
    if isinstance(ty, TupleType):
        parts = (opened(b, t, _field(b, value, n), is_dual) for n, t in enumerate(ty.fields))
        return Fields(tuple(parts))
    if is_float(ty):
        return Leaf(_field(b, value, 0), _field(b, value, 1)) if is_dual else Leaf(value)
    return Plain(value) if is_data(ty) else Opaque(value)


def _field(b: Builder, value: Expr, index: int) -> Expr:
    if isinstance(value, Tuple):
        return value.fields[index]
    name = value.name if isinstance(value, Var) else "p"
    return b.let(name, b.get(value, index))


def primal(node: Node) -> Expr:
    """The value of the original program, an operand."""
    match node:
        case Fields(parts):
            return tuple_of(map(primal, parts))
        case Leaf():
            return node.primal
        case _:
            return node.expr


def lifted(node: Node, companion: Callable[[Leaf], Expr]) -> Expr:
    """The value of the new program, an operand; `companion` gives that of a leaf."""
    match node:
        case Fields(parts):
            return tuple_of([lifted(part, companion) for part in parts])
        case Leaf():
            return tuple_of((node.primal, companion(node)))
        case _:
            return node.expr

"""Whether the types that nodes carry agree with each other, as far as structure, ranks and dtypes go.

That dims are equal, and that an operator's result follows from its arguments, is inference's business.
"""

from __future__ import annotations

from collections.abc import Iterator

from legato.base import dtype as dt
from legato.ir.expr import (
    Constant,
    Dataflow,
    Expr,
    Function,
    If,
    Let,
    Match,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Shape,
    Tuple,
    TupleGetItem,
)
from legato.ir.scope import binders
from legato.ir.types import (
    UNIT,
    FuncType,
    GlobalTypeVar,
    HoleType,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
    tensor_type,
)

__all__ = ["agree", "disagreement", "has_hole", "stated"]


def disagreement(node: Expr) -> tuple[Type, Type] | None:
    """The type that a node carries and the one that its parts give it, where these disagree."""
    if node.ty is None:
        return None
    if isinstance(node, If | Match):
        bodies = (node.then, node.orelse) if isinstance(node, If) else tuple(c.body for c in node.clauses)
        return next(((node.ty, b.ty) for b in bodies if b.ty is not None and not _serves(b.ty, node.ty)), None)
    wanted = _from_parts(node)
    if wanted is None:
        return None
    is_right = node.ty == wanted if isinstance(node, Constant) else agree(node.ty, wanted)
    return None if is_right else (node.ty, wanted)


def _from_parts(node: Expr) -> Type | None:
    """What the types of its parts say of a node's type; None where they say nothing."""
    match node:
        case Constant(data):
            return tensor_type(data.shape, dt.dtype(data.dtype))
        case Shape(dims):
            return ShapeType(dims)
        case Let():
            return node.body.ty
        case Tuple(members) | Dataflow(_, members):
            return TupleType(tuple(m.ty or HoleType() for m in members))
        case TupleGetItem(value, index) if isinstance(value.ty, TupleType) and index < len(value.ty.fields):
            return value.ty.fields[index]
        case MatchCast(_, target):
            return target
        case Function(params, body):
            return FuncType(tuple(p.ty or HoleType() for p in params), node.ret_type or body.ty or HoleType())
        case _:
            return _of_reference(node)


def _of_reference(node: Expr) -> Type | None:
    match node:
        case RefCreate(value):
            return RefType(value.ty or HoleType())
        case RefRead(ref) if isinstance(ref.ty, RefType):
            return ref.ty.value
        case RefWrite():
            return UNIT
        case _:
            return None


def _serves(a: Type, b: Type) -> bool:
    """True if `a` agrees with `b`, or with an instance of it where it has polymorphic functions and `b` others."""
    if isinstance(a, FuncType) and isinstance(b, FuncType) and a.type_params and not b.type_params:
        return _is_instance(b, a, {p: HoleType() for p in a.type_params if isinstance(p, TypeVar)})
    kids, others = a.children(), b.children()
    if not kids or isinstance(a, TensorType) or len(kids) != len(others):
        return agree(a, b)
    return type(a) is type(b) and all(map(_serves, kids, others))


def _is_instance(ty: Type, of: Type, known: dict[TypeVar, Type]) -> bool:
    """True if `ty` agrees with `of`, whose type variables may stand for anything; notes in `known` for what they do."""
    if isinstance(of, TypeVar) and of in known:
        if isinstance(known[of], HoleType):
            known[of] = ty
        return agree(known[of], ty)
    kids, others = ty.children(), of.children()
    if not others or isinstance(of, TensorType) or len(kids) != len(others):
        return agree(ty, of)
    return type(ty) is type(of) and all(_is_instance(k, o, known) for k, o in zip(kids, others, strict=True))


def agree(a: Type | None, b: Type | None) -> bool:
    """True if two types are the same but for dims, names of type parameters, and what is not known."""
    if a is None or b is None or isinstance(a, HoleType) or isinstance(b, HoleType):
        return True
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return a.dtype == b.dtype and a.rank == b.rank
    if isinstance(a, ShapeType) and isinstance(b, ShapeType):
        return a.dims is None or b.dims is None or len(a.dims) == len(b.dims)
    if isinstance(a, GlobalTypeVar):
        return a is b
    kids, others = a.children(), b.children()
    return type(a) is type(b) and len(kids) == len(others) and all(map(agree, kids, others))


def has_hole(ty: Type) -> bool:
    """True if a part of a type is not known."""
    return isinstance(ty, HoleType) or any(map(has_hole, ty.children()))


def stated(node: Expr) -> Iterator[Type]:
    """The types that the program states at a node, beside the node's own."""
    if isinstance(node, MatchCast):
        yield node.target
    if isinstance(node, Function) and node.ret_type is not None:
        yield node.ret_type
    yield from (var.ty for scope in binders(node) for var in scope if var.ty is not None)

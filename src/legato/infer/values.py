"""Symbolic values: what a small integer tensor holds, as dims, where that follows from the program.

Exporters compute shapes with tensors (shape_of, gather, concatenate, …). An operator's `value` rule says what such a
tensor holds, so that the shape becomes dims. The value of a tuple is the tuple of its fields' values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.arith.expr import Const, const
from legato.arith.linear import tree_size
from legato.arith.simplify import simplify
from legato.ir.expr import Call, Constant, Expr, Let, Shape, Tuple, TupleGetItem, Var
from legato.ir.op import Op
from legato.ir.types import Dim, ShapeType, TensorType, TupleType, Type

__all__ = ["LIMIT", "Value", "Values", "small"]

LIMIT = 64  # elements
_LONGEST = 2000  # nodes of a formula
Value = Any  # tuple[Dim, ...] of a tensor, tuple[Value, ...] of a tuple, None if unknown


def small(ty: Type | None) -> bool:
    """True for the types whose values are followed: integer or bool tensors of up to LIMIT elements; tuples of any."""
    if isinstance(ty, TensorType):
        if not (ty.dtype.is_int or ty.dtype.is_bool):
            return False
        count = 1
        for d in ty.shape:
            if not isinstance(d, Const):
                return False
            count *= int(d.value)
        return count <= LIMIT
    if isinstance(ty, TupleType):
        return any(small(f) for f in ty.fields)
    return isinstance(ty, ShapeType)


class Values:
    """The symbolic values of a program's expressions, found on demand and remembered.

    `type_of` gives an expression's type (None if unknown); `bound` the expression that a variable was let-bound to.
    """

    def __init__(self, type_of: Callable[[Expr], Type | None], bound: dict[Var, Expr]) -> None:
        self._type_of, self._bound = type_of, bound
        self._known: dict[int, tuple[Expr, Value]] = {}  # holds the expression so that its id stays its own

    def of(self, e: Expr) -> Value:
        """The value of `e`, or None."""
        stack, done, unsure = [e], [], False
        while stack:
            node = stack[-1]
            if id(node) in self._known:
                stack.pop()
                continue
            ty = self._type_of(node)
            unsure |= ty is None
            needs = self._needs(node) if small(ty) else ()
            missing = [n for n in needs if id(n) not in self._known]
            if missing:
                stack += missing
                continue
            stack.pop()
            self._known[id(node)] = (node, self._compute(node, ty) if small(ty) else None)
            done.append(node)
        value = self._known[id(e)][1]
        if unsure:  # a type is still to be found: ask again then
            for node in done:
                del self._known[id(node)]
        return value

    def _needs(self, node: Expr) -> tuple[Expr, ...]:
        match node:
            case Var():
                return (self._bound[node],) if node in self._bound else ()
            case Call(op=Op(value=rule)) if rule is not None:
                return node.args
            case Let():
                self._bound.setdefault(node.var, node.value)
                return (node.body,)
            case Tuple() | TupleGetItem():
                return node.children()
            case _:
                return ()

    def _get(self, node: Expr) -> Value:
        return self._known[id(node)][1]

    def _compute(self, node: Expr, ty: Type | None) -> Value:
        match node:
            case Constant():
                return tuple(const(int(x)) for x in node.data.ravel().tolist())
            case Shape():
                return node.dims
            case Var():
                return self._get(self._bound[node]) if node in self._bound else None
            case Let():
                return self._get(node.body)
            case Tuple():
                return tuple(self._get(f) for f in node.fields)
            case TupleGetItem():
                fields = self._get(node.value)
                return None if fields is None else fields[node.index]
            case Call(op=Op(value=rule) as op) if rule is not None:
                types = [self._type_of(a) for a in node.args]
                if any(t is None for t in types):
                    return None
                return _fits(rule(*map(self._get, node.args), *op.tail(node.attrs), *types), ty)
            case _:
                return None


def _fits(value: Value, ty: Type | None) -> Value:
    """`value` in normal form, or None where a wrapped machine integer would differ from the unbounded one.

    None, too, for a formula beyond all that exporters write: squares of squares double in length at each step.
    """
    if value is None or not isinstance(ty, TensorType):
        return value
    if any(tree_size(d) > _LONGEST for d in value):
        return None
    value = tuple([simplify(d) for d in value])
    lo, hi = ty.dtype.min, ty.dtype.max
    return None if any(isinstance(d, Const) and not lo <= d.value <= hi for d in value) else value


def known(value: tuple[Dim, ...] | None) -> tuple[int, ...] | None:
    """`value` as integers where all of it is literal."""
    if value is None or not all(isinstance(d, Const) for d in value):
        return None
    return tuple(int(d.value) for d in value if isinstance(d, Const))

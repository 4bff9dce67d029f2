"""Copies of expressions with fresh variables, and with type variables, dims and free variables replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from legato.arith.expr import Expr as DimExpr
from legato.arith.expr import Var as DimVar
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute
from legato.infer.replace import replace_vars
from legato.ir.clauses import Clause, Pattern
from legato.ir.constraint import Constraint
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    MatchCast,
    Shape,
    Var,
)
from legato.ir.op import Op
from legato.ir.scope import binders, operands, post_order, with_pattern_vars
from legato.ir.types import Dim, Type, TypeVar

__all__ = ["Copy"]


class Copy:
    """Copies with what stands for type variables, dims and free variables; every variable that is bound is fresh.

    One object may copy several expressions: a variable that one of them binds is the same in the next.
    """

    def __init__(self, types: Mapping[TypeVar, Type] | None = None, dims: Mapping[DimVar, Dim] | None = None) -> None:
        self.types = types or {}
        self.dims = dims or {}
        self.vars: dict[Var, Expr] = {}
        self._types: dict[int, tuple[Type, Type]] = {}  # by identity of the type, which is kept alive

    def type(self, ty: Type) -> Type:
        """`ty` with variables and dims replaced."""
        if not self.types and not self.dims:
            return ty
        found = self._types.get(id(ty))
        if found is None:
            new = replace_vars(ty, self.types, self.dims)
            found = self._types[id(ty)] = (ty, ty if new == ty else new)
        return found[1]

    def dim(self, d: Dim) -> Dim:
        """`d` with dims replaced."""
        new = substitute(d, self.dims)
        return d if new is d else simplify(new)

    def bind(self, var: Var) -> Var:
        """A fresh variable for one that is bound in the copy."""
        new = Var(var.name, ty=None if var.ty is None else self.type(var.ty), span=var.span)
        self.vars[var] = new
        return new

    def expr(self, root: Expr) -> Expr:
        """The copy of `root`."""
        for node in post_order(root):
            for scope in binders(node):
                for var in scope:
                    self.bind(var)
        new: dict[int, Expr] = {}
        for node in post_order(root):
            new[id(node)] = self.node(node, tuple([new[id(kid)] for kid in operands(node)]))
        return new[id(root)]

    def _bound(self, var: Var) -> Var:
        found = self.vars[var]
        assert isinstance(found, Var)
        return found

    def node(self, node: Expr, kids: tuple[Expr, ...]) -> Expr:
        """The copy of a node, given those of its operands."""
        ty = None if node.ty is None else self.type(node.ty)
        match node:
            case Var():
                return self.vars.get(node, node)
            case GlobalVar() | Constant() | Op() | Constructor():
                return node
            case Let():
                return replace(node, var=self._bound(node.var), value=kids[0], body=kids[1], ty=ty)
            case Function():
                return self._function(node, kids[0])
            case Dataflow(bindings):
                pairs = zip((self._bound(v) for v, _ in bindings), kids[: len(bindings)], strict=True)
                return replace(node, bindings=tuple(pairs), outputs=kids[len(bindings) :], ty=ty)
            case Match(_, clauses):
                made = tuple(Clause(self.pattern(c.pattern), k) for c, k in zip(clauses, kids[1:], strict=True))
                return replace(node, data=kids[0], clauses=made, ty=ty)
            case Call():
                args = tuple(self.type(a) if isinstance(a, Type) else self.dim(a) for a in node.type_args)
                return Call(kids[0], kids[1:], self._attr(node.attrs), args, ty=ty, span=node.span)
            case MatchCast():
                return replace(node, value=kids[0], target=self.type(node.target), ty=ty)
            case Shape():
                return replace(node, dims=tuple(self.dim(d) for d in node.dims), ty=ty)
            case _:
                return node.with_children(kids).with_type(ty)

    def _function(self, func: Function, body: Expr) -> Function:
        return Function(
            tuple(self._bound(p) for p in func.params),
            body,
            None if func.ret_type is None else self.type(func.ret_type),
            func.type_params,
            self.function_attrs(func),
            ty=None if func.ty is None else self.type(func.ty),
            span=func.span,
        )

    def function_attrs(self, func: Function) -> Mapping[str, Any]:
        """The attributes of `func`, its constraints over the new dims."""
        old: tuple[Constraint, ...] = func.attrs.get("constraints", ())
        if not old or not self.dims:
            return func.attrs
        return {**func.attrs, "constraints": tuple(replace(c, a=self.dim(c.a), b=self.dim(c.b)) for c in old)}

    def pattern(self, pattern: Pattern) -> Pattern:
        """A pattern with the variables of the copy."""
        return with_pattern_vars(pattern, self._bound)

    def _attr(self, value: Any) -> Any:
        """An attribute, or a record of them, with dims and types replaced."""
        if value is None or (not self.dims and not self.types):
            return value
        if isinstance(value, DimExpr):
            return self.dim(value)
        if isinstance(value, Type):
            return self.type(value)
        if isinstance(value, tuple):
            new = tuple(self._attr(v) for v in value)
            return value if all(a is b for a, b in zip(new, value, strict=True)) else new
        if is_dataclass(value) and not isinstance(value, type):
            found = {f.name: getattr(value, f.name) for f in fields(value)}
            changed = {k: n for k, v in found.items() if (n := self._attr(v)) is not v}
            return replace(value, **changed) if changed else value
        return value

"""Writes inferred types into new nodes. Nodes that were typed so already stay the same objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base.errors import TypeCheckError
from legato.base.node import post_order
from legato.infer.holes import Hole, has_holes, is_hole, show
from legato.infer.walk import Walk
from legato.ir.clauses import Clause
from legato.ir.expr import NO_ATTRS, Call, Constant, Constructor, Expr, Function, GlobalVar, Match, Var, callee_name
from legato.ir.op import Op
from legato.ir.scope import with_pattern_vars
from legato.ir.types import UNIT, Dim, FuncType, Type, TypeVar, walk

__all__ = ["Rebuild"]


class Rebuild:
    """New nodes from the tables of a finished walk."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._new: dict[int, Expr] = {}
        self._vars: dict[Var, Var] = {}
        self._globals: dict[GlobalVar, GlobalVar] = {}
        self._closed: dict[int, tuple[Type, Type, bool]] = {}  # by identity: every let of a block has its result's type

    def function(self, func: Function) -> Function:
        """`func` with every node typed."""
        roots: list[Expr] = [func]
        for node in post_order(roots):
            if id(node) not in self._new:
                self._new[id(node)] = self._node(node)
        new = self._new[id(func)]
        assert isinstance(new, Function)
        return new

    def _type(self, node: Expr, old: Type | None) -> Type:
        """The type found for `node`; `old` itself where it is equal. What any type would do for is the unit type."""
        found = self._walk.type_of(node)
        assert found is not None
        ty, is_open = self._closing(found)
        if is_open:
            message = f"the dims in the type of {_name(node)} cannot be inferred"
            raise TypeCheckError(message, span=node.span, details=[f"got : {show(ty)}"], hint="annotate it")
        return old if old is not None and ty == old else ty

    def _closing(self, found: Type) -> tuple[Type, bool]:
        """A type without holes that anything would do for, and whether it has others."""
        known = self._closed.get(id(found))
        if known is None:
            ty = self._close(found)
            known = self._closed[id(found)] = (found, ty, has_holes(ty))
        return known[1:]

    def _close(self, ty: Type) -> Type:
        ty = self._walk.solver.zonk(ty)
        if not has_holes(ty):
            return ty
        for part in walk(ty):
            if isinstance(part, Hole) and part.solution is None:
                part.solution = UNIT
        return self._walk.solver.zonk(ty)

    def _node(self, node: Expr) -> Expr:
        match node:
            case Op() | Constant() | Constructor():
                return node
            case Var():
                return self._var(node)
            case GlobalVar():
                return self._global(node)
            case Call():
                return self._call(node)
            case Function():
                return self._function(node)
        ty = self._type(node, node.ty)
        if isinstance(node, Match):
            node = self._patterns(node)
        old = node.children()
        kids = tuple([self._new[id(c)] for c in old])
        if any(a is not b for a, b in zip(old, kids, strict=True)):
            node = node.with_children(kids)
        return node.with_type(ty)

    def _var(self, node: Var) -> Var:
        new = self._vars.get(node)
        if new is None:
            new = self._vars[node] = node.with_type(self._type(node, node.ty))
        return new

    def _global(self, node: GlobalVar) -> GlobalVar:
        new = self._globals.get(node)
        if new is None:
            ty = self._walk.solver.zonk(self._walk.globals[node])
            new = node if has_holes(ty) or ty == node.ty else node.with_type(ty)
            self._globals[node] = new
        return new

    def _call(self, node: Call) -> Call:
        op = self._new[id(node.op)]
        args = tuple([self._new[id(a)] for a in node.args])
        found = self._walk.type_args.get(id(node), ())
        if not found and not isinstance(node.op, Op | Constructor) and isinstance(op.ty, FuncType):
            found = op.ty.type_params  # a recursive call at the function's own type
        type_args = tuple(self._arg(a, node) for a in found) if found else node.type_args
        ty = self._type(node, node.ty)
        if type_args == node.type_args:
            type_args = node.type_args
        same = op is node.op and ty is node.ty and type_args is node.type_args
        if same and all(a is b for a, b in zip(args, node.args, strict=True)):
            return node
        return Call(op, args, node.attrs, type_args, ty=ty, span=node.span)

    def _arg(self, arg: Type | Dim, node: Call) -> Type | Dim:
        """What a type parameter of a call stands for; for a dim, unlike for a type, not anything would do."""
        if isinstance(arg, Type):
            ty = self._close(arg)
            if not has_holes(ty):
                return ty
            what, details = "the dims in a type argument", [f"got : {show(ty)}"]
        else:
            dim = self._walk.solver.dim(arg)
            if not is_hole(dim):
                return dim
            what, details = f"dim {arg}", []
        message = f"call of {callee_name(node.op)}: {what} cannot be inferred"
        hint = "no argument determines it: state all type arguments, as in @f[3, n](%x)"
        raise TypeCheckError(message, span=node.span, details=details, hint=hint)

    def _function(self, node: Function) -> Function:
        opened = self._walk.opened[id(node)]
        params = tuple([self._var(p) for p in node.params])
        body = self._new[id(node.body)]
        ty = self._type(node, node.ty)
        assert isinstance(ty, FuncType)
        ret = node.ret_type if node.ret_type == ty.ret else ty.ret
        type_params: tuple[TypeVar | DimVar, ...] = opened.type_params
        if type_params == node.type_params:
            type_params = node.type_params
        attrs = self._attrs(node)
        same = body is node.body and ty is node.ty and ret is node.ret_type and attrs is node.attrs
        if same and type_params is node.type_params and all(a is b for a, b in zip(params, node.params, strict=True)):
            return node
        return Function(params, body, ret, type_params, attrs, ty=ty, span=node.span)

    def _attrs(self, node: Function) -> Mapping[str, Any]:
        """Its attributes, with the equalities that it has and that were found, but for those of dims that are gone."""
        solver, scope = self._walk.solver, self._walk.opened[id(node)].scope
        known = (replace(c, a=solver.dim(c.a), b=solver.dim(c.b)) for c in scope.constraints.values())
        found = tuple(c for c in known if scope.dims.issuperset(variables(c.a, c.b)))
        old = node.attrs.get("constraints", ())
        if len(found) == len(old) and set(found) == set(old):  # their order says when each was found, no more
            return node.attrs
        others = {k: v for k, v in node.attrs.items() if k != "constraints"}
        return {**others, "constraints": found} if found else others or NO_ATTRS

    def _patterns(self, node: Match) -> Match:
        clauses = tuple(self._clause(c) for c in node.clauses)
        return node if clauses == node.clauses else replace(node, clauses=clauses)

    def _clause(self, clause: Clause) -> Clause:
        pattern = with_pattern_vars(clause.pattern, self._var)
        return clause if pattern is clause.pattern else Clause(pattern, clause.body)


def _name(node: Expr) -> str:
    if isinstance(node, Var):
        return f"%{node.name}"
    return f"a {type(node).__name__}"

"""Every dim gets its value in one place: a branch or clause has its own names for the dims that it brings.

    match (%b) { Box(%x: Tensor[(d,), float32]) => %x }        which is of type Tensor[(d,), float32]
        =>
    match (%b) { Box(%x: Tensor[(d',), float32]) => %x }       of type Tensor[(d,), float32] still

Here the match brings d, the result's extent, and its clause d'. Expects A-normal form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.arith.substitute import substitute, variables
from legato.base.dataclass import dataclass
from legato.ir._dims import free_dims
from legato.ir.atoms import is_primitive
from legato.ir.clauses import Clause
from legato.ir.constraint import Constraint
from legato.ir.contents import body_nodes
from legato.ir.expr import Expr, Function, If, Match, MatchCast
from legato.ir.let import Binding, chain
from legato.ir.module import Module
from legato.ir.scope import pattern_vars, post_order
from legato.ir.types import Type
from legato.transform._blocks import with_bindings
from legato.transform._copy import Copy
from legato.transform.pass_ import FunctionPass

__all__ = ["SeparateDims"]


@dataclass(frozen=True, slots=True)
class SeparateDims(FunctionPass):
    """A-normal form → A-normal form in which no two places bring the same dim."""

    name = "separate-dims"

    def function(self, func: Function, mod: Module) -> Function:
        known = {d for d in func.type_params if isinstance(d, DimVar)}
        types = (ty for node in body_nodes(func) for ty in _types(node))
        if known.issuperset(_all_dims(types)):
            return func
        separator = _Separator(known, func.attrs.get("constraints", ()))
        body = separator.block(func.body, frozenset(known))
        if body is func.body:
            return func
        attrs = {**func.attrs, "constraints": separator.constraints} if separator.constraints else func.attrs
        return replace(func, body=body, attrs=attrs)


def _types(node: Expr) -> Iterator[Type | None]:
    """The types whose dims `node` may bring: its own, and those of variables in its patterns."""
    if not isinstance(node, Function):
        yield node.ty
    if isinstance(node, Match):
        yield from (v.ty for clause in node.clauses for v in pattern_vars(clause.pattern))


def _all_dims(types: Iterable[Type | None]) -> Iterator[DimVar]:
    """The dims of types, each of which is looked at once: all of a let chain have that of its result."""
    for ty in {id(ty): ty for ty in types}.values():
        yield from () if ty is None else free_dims(ty)


class _Separator:
    """One function; `bound` are the dims that have a place, `constraints` hold under the new names as well."""

    def __init__(self, bound: set[DimVar], constraints: tuple[Constraint, ...]) -> None:
        self._bound = bound
        self.constraints = constraints

    def block(self, body: Expr, known: frozenset[DimVar]) -> Expr:
        """`body`, in which the dims `known` have values; those that it brings have their places from now on."""
        old, result = chain(body)
        new: list[Binding] = []
        for var, value in old:
            brought = {d for d in _dims_of_value(value) if d not in known}
            self._bound |= brought
            new.append((var, self._inside(value, known)))
            known = known | brought
        return with_bindings(body, old, new, result)

    def _inside(self, value: Expr, known: frozenset[DimVar]) -> Expr:
        """`value` with blocks that share no dims with others."""
        match value:
            case If():
                then, orelse = self._side(value.then, known), self._side(value.orelse, known)
                same = then is value.then and orelse is value.orelse
                return value if same else replace(value, then=then, orelse=orelse)
            case Match():
                clauses = tuple(self._clause(c, known) for c in value.clauses)
                same = all(a is b for a, b in zip(clauses, value.clauses, strict=True))
                return value if same else replace(value, clauses=clauses)
            case _:
                return value

    def _side(self, body: Expr, known: frozenset[DimVar]) -> Expr:
        names = self._taken(_all_dims(n.ty for n in post_order(body)), known)
        return self.block(Copy(dims=names).expr(body) if names else body, known)

    def _clause(self, clause: Clause, known: frozenset[DimVar]) -> Clause:
        own = dict.fromkeys(_all_dims(v.ty for v in pattern_vars(clause.pattern)))
        names = self._taken([*own, *_all_dims(n.ty for n in post_order(clause.body))], known)
        if names:
            copy = Copy(dims=names)
            for var in pattern_vars(clause.pattern):
                copy.bind(var)
            clause = Clause(copy.pattern(clause.pattern), copy.expr(clause.body))
        own = dict.fromkeys(_all_dims(v.ty for v in pattern_vars(clause.pattern)))
        self._bound.update(d for d in own if d not in known)
        body = self.block(clause.body, known.union(own))
        return clause if body is clause.body else Clause(clause.pattern, body)

    def _taken(self, dims: Iterable[DimVar], known: frozenset[DimVar]) -> dict[DimVar, DimVar]:
        """New names for those of `dims` that have a place elsewhere."""
        taken = dict.fromkeys(d for d in dims if d in self._bound and d not in known)
        names = {d: fresh(d.name, d.lo, d.hi) for d in taken}
        self.constraints += tuple(
            replace(c, a=substitute(c.a, names), b=substitute(c.b, names))
            for c in self.constraints
            if not taken.keys().isdisjoint(variables(c.a, c.b))
        )
        return names


def _dims_of_value(value: Expr) -> Iterator[DimVar]:
    """The dims in what a binding gives."""
    if isinstance(value, MatchCast):
        yield from free_dims(value.target)
    yield from () if value.ty is None or is_primitive(value) else free_dims(value.ty)

"""Flat matches: every match looks at one variable of a data type, and takes its fields apart no further.

    match ((%x, %y)) {                         match (%x) {
      (Cons(%a, _), Cons(%b, _)) => f,    =>     Cons(%a, _) => match (%y) { Cons(%b, _) => f, Nil => g },
      _ => g                                     Nil => g
    }                                          }

A clause that is reached on several ways is copied where it is small, and otherwise becomes a local function, so
programs grow no more than their decision trees. Where a `match?` has no clause for a value, so has the flat one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.infer.replace import replace_dim
from legato.ir._dims import free_dims
from legato.ir.clauses import Clause, PatternConstructor, PatternVar, PatternWildcard
from legato.ir.constraint import Constraint
from legato.ir.contents import body_nodes
from legato.ir.expr import Call, Expr, Function, Let, Match, TupleGetItem, Var
from legato.ir.let import lets
from legato.ir.module import Module
from legato.ir.scope import pattern_vars, post_order
from legato.ir.types import Dim, FuncType, GlobalTypeVar, TypeCall, TypeData
from legato.transform._copy import Copy
from legato.transform._decision import Decision, decide
from legato.transform.pass_ import FunctionPass
from legato.transform.place_shared import PlaceShared
from legato.transform.to_a_normal import ToANormal

__all__ = ["FlattenMatch", "is_flat"]

Renamed = list[dict[DimVar, Dim]]  # what a clause calls its own dims, on each of the ways that lead to it
SMALL: Final = 6  # nodes of a clause that is copied


@dataclass(frozen=True, slots=True)
class FlattenMatch(FunctionPass):
    """Module → module whose matches are flat. A function with others comes out in A-normal form, but for aliases."""

    name = "flatten-match"

    def prepared(self, mod: Module) -> Module:
        """Nodes with effects have one place."""
        return PlaceShared()(mod)

    def function(self, func: Function, mod: Module) -> Function:
        if all(is_flat(node) for node in body_nodes(func) if isinstance(node, Match)):
            return func
        renamed: list[Renamed] = []

        def flat(node: Expr) -> Expr | None:
            if isinstance(node, Function):
                return _with_constraints(node, renamed)
            if not isinstance(node, Match) or is_flat(node):
                return None
            flattener = _Flattener(node, mod.types)
            made = flattener.run()
            renamed.extend(flattener.renamed.values())
            return made

        func = ToANormal().function(func, mod)
        func = replace(func, body=transform(func.body, flat))
        return _with_constraints(func, renamed)


def _with_constraints(func: Function, renamed: Iterable[Renamed]) -> Function:
    """`func` with its constraints over the dims that clauses now have, on each way to them."""
    old: tuple[Constraint, ...] = func.attrs.get("constraints", ())
    new = old
    for ways in renamed:
        of = {c for c in new if any(d in ways[0] for d in variables(c.a, c.b))}
        own = (replace(c, a=replace_dim(c.a, w), b=replace_dim(c.b, w)) for w in ways for c in new if c in of)
        new = (*(c for c in new if c not in of), *own) if of else new
    return func if new is old else replace(func, attrs={**func.attrs, "constraints": new})


def is_flat(match: Match) -> bool:
    """True if `match` looks at a variable by constructors, each once, of variables and wildcards; the last clause may
    take anything, and there may be none."""
    if not isinstance(match.data, Var) or not isinstance(match.data.ty, TypeCall | GlobalTypeVar):
        return False
    if not match.clauses:  # of a type without constructors: there is nothing to look at
        return True
    *first, last = [c.pattern for c in match.clauses]
    if isinstance(last, PatternConstructor):
        first.append(last)
    heads = [p.constructor for p in first if isinstance(p, PatternConstructor)]
    parts = [q for p in first for q in p.children()]
    return len(heads) == len(first) == len(set(heads)) > 0 and all(
        isinstance(q, PatternVar | PatternWildcard) for q in parts
    )


class _Flattener:
    """One match, whose scrutinee is an operand."""

    def __init__(self, match: Match, types: Mapping[GlobalTypeVar, TypeData]) -> None:
        self._match = match
        self._types = types
        self._tree = decide(match, types)
        self._ways = Counter(d.clause for d in self._tree if d.clause >= 0)
        self._names = self._shared_names()
        self._used = set(self._names)  # variables of the tree that something looks at
        self._joins: dict[int, Var] = {}
        self.renamed: dict[int, Renamed] = {}

    def _shared_names(self) -> dict[Var, Var]:
        """For variables of the tree, the variable of a clause to be called as: of one that is reached in one way."""
        own = {var for d in self._tree for var, _ in d.lets}
        own.update(var for d in self._tree for branch in d.branches for var in branch.fields)
        names: dict[Var, Var] = {}
        for d in self._tree:
            if self._ways[d.clause] == 1:
                for var, at in d.bound:
                    if isinstance(at, Var) and at in own:
                        names.setdefault(at, var)
        return names

    def run(self) -> Expr:
        """The tree as an expression, inside the functions of clauses that are reached in several ways."""
        done: dict[int, Expr] = {}
        for n in reversed(range(len(self._tree))):
            d = self._tree[n]
            expr = self._clause(d) if d.clause >= 0 else self._branches(d, done)
            for var, value in reversed(d.lets):
                if var in self._used:
                    assert isinstance(value, TupleGetItem)
                    value = replace(value, value=self._operand(value.value))
                    expr = Let(self._name(var), value, expr, ty=expr.ty, span=value.span)
            done[n] = expr
        joins = [(var, self._join_function(clause, var)) for clause, var in self._joins.items()]
        return lets(joins, done[0])

    def _name(self, var: Var) -> Var:
        return self._names.get(var, var)

    def _operand(self, at: Expr) -> Expr:
        """What stands in the program for an occurrence."""
        if not isinstance(at, Var):
            return at
        self._used.add(at)
        return self._name(at)

    def _branches(self, d: Decision, done: Mapping[int, Expr]) -> Match:
        assert d.on is not None
        data = self._operand(d.on)
        clauses = []
        for branch in d.branches:
            fields = tuple(PatternVar(self._name(v)) if v in self._used else PatternWildcard() for v in branch.fields)
            clauses.append(Clause(PatternConstructor(branch.constructor, fields), done[branch.next]))
        if d.default is not None:
            clauses.append(Clause(PatternWildcard(), done[d.default]))
        every = len(self._types[d.branches[0].constructor.belongs_to].constructors)
        is_complete = d.default is not None or len(d.branches) == every
        return Match(data, tuple(clauses), is_complete, ty=self._match.ty, span=self._match.span)

    def _clause(self, d: Decision) -> Expr:
        body = self._match.clauses[d.clause].body
        stands = dict(d.bound)  # in the order in which this way met the variables; every way has one of its own
        bound = [(var, self._operand(stands[var])) for var in pattern_vars(self._match.clauses[d.clause].pattern)]
        dims = _own_dims(bound)
        if dims:
            self.renamed.setdefault(d.clause, []).append(dims)
        if self._ways[d.clause] == 1 and not dims:
            return lets([(var, at) for var, at in bound if at is not var], body)
        if self._ways[d.clause] == 1 or _is_small(body):
            copy = Copy(dims=dims)
            copy.vars.update(bound)
            return copy.expr(body)
        join = self._joins.get(d.clause)
        if join is None:
            join = self._joins[d.clause] = Var(f"clause{d.clause}", ty=_join_type(bound, body), span=body.span)
        assert isinstance(join.ty, FuncType)
        args = tuple(dims.get(p, p) for p in join.ty.type_params if isinstance(p, DimVar))
        return Call(join, tuple(at for _, at in bound), None, args, ty=self._match.ty, span=body.span)

    def _join_function(self, clause: int, join: Var) -> Function:
        params = tuple(pattern_vars(self._match.clauses[clause].pattern))
        body = self._match.clauses[clause].body
        assert isinstance(join.ty, FuncType)
        return Function(params, body, join.ty.ret, join.ty.type_params, ty=join.ty, span=body.span)


def _own_dims(bound: Sequence[tuple[Var, Expr]]) -> dict[DimVar, Dim]:
    """What the dims that patterns have of their own are called where their variables stand for something else."""
    found: dict[DimVar, Dim] = {}
    for var, at in bound:
        if var.ty is None or at.ty is None:
            continue
        pairs = zip(free_dims(var.ty), free_dims(at.ty), strict=False)
        found.update((a, b) for a, b in pairs if a is not b)
    return found


def _join_type(bound: Sequence[tuple[Var, Expr]], body: Expr) -> FuncType:
    params = tuple(var.ty for var, _ in bound if var.ty is not None)
    assert body.ty is not None
    return FuncType(params, body.ty, tuple(_own_dims(bound)))


def _is_small(body: Expr) -> bool:
    """True if a copy of `body` costs no more than a call, and none of it is a function."""
    first = list(islice(post_order(body), SMALL + 1))
    return len(first) <= SMALL and not any(isinstance(node, Function) for node in first)

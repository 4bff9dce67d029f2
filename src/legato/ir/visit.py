"""Walks over expressions: variables that occur, substitution, fresh copies. Depth is bounded by memory only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from legato.base.node import transform
from legato.ir.clauses import Clause, Pattern, PatternConstructor, PatternTuple, PatternVar
from legato.ir.expr import Dataflow, Expr, Function, GlobalVar, Let, Match, Var
from legato.ir.module import GlobalFunc
from legato.ir.scope import binders, operands, pattern_vars, post_order

__all__ = ["bound_vars", "free_vars", "nodes", "rename_bound", "rename_globals", "substitute", "with_operands"]

Rename = Callable[[Var], Var]


def nodes(expr: Expr) -> Iterator[Expr]:
    """Every node of `expr`, operands before the node that uses them, each once; variables only where they are used."""
    return post_order(expr)


def free_vars(expr: Expr) -> tuple[Var, ...]:
    """The variables that `expr` uses and does not bind, in order of first use (every variable is bound once)."""
    bound = set(bound_vars(expr))
    used = dict.fromkeys(node for node in post_order(expr) if isinstance(node, Var))
    return tuple(v for v in used if v not in bound)


def bound_vars(expr: Expr) -> tuple[Var, ...]:
    """The variables that functions, lets, patterns and dataflow blocks in `expr` bind, inner nodes first."""
    return tuple(v for node in post_order(expr) for scope in binders(node) for v in scope)


def substitute(expr: Expr, mapping: Mapping[Var, Expr]) -> Expr:
    """`expr` with its free variables replaced, all at once; the same object where none occurs.

    Variables have identities, so nothing is captured. What is rebuilt keeps its type.
    """
    wanted = {v: mapping[v] for v in free_vars(expr) if v in mapping}
    if not wanted:
        return expr
    return _rebuild(expr, lambda v: v, lambda v: wanted.get(v, v))


def rename_bound(expr: Expr) -> Expr:
    """`expr` with a fresh variable for each that it binds: a copy that may stand beside the original."""
    fresh = {v: Var(v.name, ty=v.ty, span=v.span) for v in bound_vars(expr)}
    if not fresh:
        return expr
    return _rebuild(expr, lambda v: fresh.get(v, v), lambda v: fresh.get(v, v))


def rename_globals(func: GlobalFunc, new: Mapping[GlobalVar, GlobalVar]) -> GlobalFunc:
    """`func` with other functions of the module in the place of those that are keys of `new`."""
    if not new or not isinstance(func, Function):
        return func

    def step(node: Expr) -> Expr | None:
        return new.get(node) if isinstance(node, GlobalVar) else None

    root: Expr = func
    changed = transform(root, step)
    assert isinstance(changed, Function)
    return changed


def _rebuild(root: Expr, bind: Rename, use: Callable[[Var], Expr]) -> Expr:
    new: dict[int, Expr] = {}
    for node in post_order(root):
        if isinstance(node, Var):
            new[id(node)] = use(node)
            continue
        old = operands(node)
        kids = tuple([new[id(kid)] for kid in old])
        scopes = binders(node)
        renamed = tuple(tuple(map(bind, scope)) for scope in scopes)
        same = all(a is b for a, b in zip(old, kids, strict=True)) and all(
            a is b for there, here in zip(scopes, renamed, strict=True) for a, b in zip(there, here, strict=True)
        )
        new[id(node)] = node if same else _with(node, kids, bind)
    return new[id(root)]


def with_operands(node: Expr, new: Mapping[int, Expr]) -> Expr:
    """`node` with its operands replaced through `new` (by id), its own variables kept; the same object where none is
    another."""
    old = operands(node)
    kids = tuple([new.get(id(kid), kid) for kid in old])
    return node if all(a is b for a, b in zip(old, kids, strict=True)) else _with(node, kids, lambda v: v)


def _with(node: Expr, kids: tuple[Expr, ...], bind: Rename) -> Expr:
    """`node` with other operands, and with its own variables renamed."""
    match node:
        case Let(var):
            return replace(node, var=bind(var), value=kids[0], body=kids[1])
        case Function(params):
            return replace(node, params=tuple(map(bind, params)), body=kids[0])
        case Dataflow(bindings):
            values, outputs = kids[: len(bindings)], kids[len(bindings) :]
            pairs = tuple((bind(var), value) for (var, _), value in zip(bindings, values, strict=True))
            return replace(node, bindings=pairs, outputs=outputs)
        case Match(_, clauses):
            new = [Clause(_pattern(c.pattern, bind), body) for c, body in zip(clauses, kids[1:], strict=True)]
            return replace(node, data=kids[0], clauses=tuple(new))
        case _:
            return node.with_children(kids)


def _pattern(pattern: Pattern, bind: Rename) -> Pattern:
    """`pattern` with its variables renamed (patterns nest shallowly)."""
    if all(bind(v) is v for v in pattern_vars(pattern)):
        return pattern
    match pattern:
        case PatternVar(var):
            return replace(pattern, var=bind(var))
        case PatternConstructor(_, patterns):
            return replace(pattern, patterns=tuple(_pattern(p, bind) for p in patterns))
        case PatternTuple(patterns):
            return replace(pattern, patterns=tuple(_pattern(p, bind) for p in patterns))
        case _:
            return pattern

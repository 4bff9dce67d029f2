"""Variables of expressions: which occur, which are bound, whether each is bound once and used where it is seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legato.base.errors import VerifyError
from legato.base.node import post_order
from legato.ir.blocks import shared_by_blocks
from legato.ir.expr import Constant, Constructor, Dataflow, Expr, Function, GlobalVar, Let, Match, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import Scope, binders, operands, pattern_vars, place

__all__ = ["all_vars", "bound_vars", "check_basic_block_normal_form", "free_vars", "is_atomic", "post_order_visit",
           "well_formed"]  # fmt: skip


def post_order_visit(expr: Expr, fvisit: Any) -> None:
    """Calls `fvisit` with every node of `expr`, children first, each once; variables also where they are bound."""
    seen: set[Var] = set()
    for node in post_order([expr]):
        if isinstance(node, Var):
            if node in seen:
                continue
            seen.add(node)
        fvisit(node)


def free_vars(expr: Expr) -> list[Var]:
    """The variables that `expr` uses and does not bind, in order of first use."""
    found = list(_occurrences(expr))
    bound = {v for v, is_bound in found if is_bound}
    return list(dict.fromkeys(v for v, _ in found if v not in bound))


def bound_vars(expr: Expr) -> list[Var]:
    """The variables that functions, lets and patterns in `expr` bind, outer ones first."""
    return list(dict.fromkeys(v for v, is_bound in _occurrences(expr) if is_bound))


def all_vars(expr: Expr) -> list[Var]:
    """The variables that occur in `expr`, in order of first occurrence, as bound or as used."""
    return list(dict.fromkeys(v for v, _ in _occurrences(expr)))


def _occurrences(expr: Expr) -> Iterator[tuple[Var, bool]]:
    """Every variable with whether it is bound there: binders before what they scope over, operands left to right."""
    seen: set[int] = set()
    stack: list[Expr | tuple[Var, ...]] = [expr]
    while stack:
        top = stack.pop()
        if isinstance(top, tuple):
            yield from ((v, True) for v in top)
        elif isinstance(top, Var):
            yield top, False
        elif id(top) not in seen:
            seen.add(id(top))
            stack += reversed(_parts(top))


def _parts(node: Expr) -> list[Expr | tuple[Var, ...]]:
    match node:
        case Function(params):
            return [params, node.body]
        case Let(var):
            return [(var,), node.value, node.body]
        case Match(data, clauses):
            parts: list[Expr | tuple[Var, ...]] = [data]
            for c in clauses:
                parts += [tuple(pattern_vars(c.pattern)), c.body]
            return parts
        case Dataflow(bindings):
            return [tuple(v for v, _ in bindings), *operands(node)]
        case _:
            return list(node.children())


def well_formed(expr: Any) -> bool:
    """Whether every variable of an expression or module is bound at most once, and used only inside what binds it.

    Free variables are allowed. `legato.ir.verify.verify` checks much more and says what is wrong.
    """
    module = getattr(expr, "module", expr)
    if isinstance(module, Module):
        return all(_well_formed(f) for _, f in module.graph_functions())
    return _well_formed(expr)


def _well_formed(expr: Expr) -> bool:
    placed = place(expr)
    home: dict[Var, Scope] = {}
    for node in placed.order:
        for scope, bound in zip(placed.inner.get(id(node), ()), binders(node), strict=False):
            for v in bound:
                if v in home:
                    return False
                home[v] = scope
    uses = [(n, placed.of[id(n)]) for n in placed.order if isinstance(n, Var)]
    return all(v not in home or home[v].encloses(scope) for v, scope in uses)


def is_atomic(node: Expr) -> bool:
    """Whether to evaluate `node` is to look something up, so that it may stand in many places."""
    return isinstance(node, Var | GlobalVar | Constant | Op | Constructor)


def check_basic_block_normal_form(expr: Expr) -> bool:
    """True where no value is used in several blocks: bodies of functions, branches and clauses (`ir.blocks`).

    VerifyError, with the value, where one is.
    """
    for value in shared_by_blocks(expr).values:
        hint = "relay.transform.ToBasicBlockNormalForm binds it to a variable"
        raise VerifyError(f"{value!r} is used in several blocks and bound in none", span=value.span, hint=hint)
    return True

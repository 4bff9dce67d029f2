"""Index expressions as sums: `const + Σ coefficient · atom`, the normal form that everything here works on.

An atom is whatever is not a sum: a variable, a product of non-literals, a division, min, max, select, a Load … Sums are
rebuilt with the atoms in a fixed order: by the oldest variable in them, then size, then structure.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache
from math import gcd
from typing import Any, TypeVar

from legato.arith.expr import Binary, Const, Expr, Op, Var, const, floordiv
from legato.arith.substitute import nodes
from legato.base import dtype as dt
from legato.base.node import post_order

__all__ = ["Terms", "add_scaled", "bottom_up", "build", "content", "divide", "gather", "solve", "tree_size"]

Terms = dict[Expr, int]
Sum = tuple[Terms, int]
T = TypeVar("T")

_OPS = {op: n for n, op in enumerate(Op)}
_NO_VAR = _HUGE = 1 << 60
_FACTS = 1 << 16  # nodes whose facts are remembered
_facts: dict[Expr, tuple[int, int]] = {}  # a cache: what it says of a node never changes
_SMALL = 64  # atoms of up to so many nodes are ordered by their whole structure


def gather(e: Expr) -> Sum:
    """`e` (of dtype index) as (terms, constant); coefficients may be 0. Atoms are not looked into."""
    terms: Terms = {}
    total = 0
    stack = [(e, 1)]
    while stack:
        node, c = stack.pop()
        if type(node) is Const:
            total += c * int(node.value)
            continue
        if type(node) is Binary:
            op, a, b = node.op, node.a, node.b
            if op is Op.ADD or op is Op.SUB:
                stack.append((b, c if op is Op.ADD else -c))
                stack.append((a, c))
                continue
            if op is Op.MUL and (type(a) is Const or type(b) is Const):
                stack.append((a, c * int(b.value)) if type(b) is Const else (b, c * _int(a)))
                continue
        terms[node] = terms.get(node, 0) + c
    return terms, total


def _int(e: Expr) -> int:
    assert isinstance(e, Const)
    return int(e.value)


def is_sum(e: Expr) -> bool:
    """True if `gather` takes `e` apart."""
    if type(e) is not Binary or e.dtype is not dt.index:
        return False
    return e.op is Op.ADD or e.op is Op.SUB or (e.op is Op.MUL and (type(e.a) is Const or type(e.b) is Const))


def add_scaled(terms: Terms, other: Terms, c: int = 1) -> None:
    """terms += c · other, in place."""
    for t, k in other.items():
        terms[t] = terms.get(t, 0) + c * k


def content(terms: Terms) -> int:
    """The greatest common divisor of the coefficients; 0 for an empty sum."""
    return gcd(*terms.values())


def build(terms: Mapping[Expr, int], total: int = 0) -> Expr:
    """The expression of a sum, terms in their fixed order, subtraction where a coefficient is negative."""
    items = [(t, c) for t, c in terms.items() if c]
    if not items:
        return const(total)
    if len(items) > 1:
        items.sort(key=lambda item: atom_key(item[0]))
    first = next((n for n, item in enumerate(items) if item[1] > 0), None)
    if first is None and total > 0:
        out: Expr = const(total)
        total = 0
    else:
        t, c = items.pop(first or 0)
        out = _scaled(t, c)
    for t, c in items:
        out = Binary(Op.ADD, out, _scaled(t, c)) if c > 0 else Binary(Op.SUB, out, _scaled(t, -c))
    if total:
        out = Binary(Op.ADD, out, const(total)) if total > 0 else Binary(Op.SUB, out, const(-total))
    return out


def _scaled(t: Expr, c: int) -> Expr:
    return t if c == 1 else Binary(Op.MUL, t, const(c))


def atom_key(e: Expr) -> tuple[int, int, Any]:
    """The sort key of an atom."""
    return (e.uid, 0, ()) if type(e) is Var else _atom_key(e)


@lru_cache(maxsize=1 << 14)
def _atom_key(e: Expr) -> tuple[int, int, Any]:
    lead, size = _lead_and_size(e)
    return (lead, size, _structure(e) if size <= _SMALL else ())


def _lead_and_size(e: Expr) -> tuple[int, int]:
    """The oldest variable of `e`, and its size as a tree (the structure of a small graph may be huge)."""
    if len(_facts) > _FACTS:
        _facts.clear()
    for node in post_order([e], lambda n: n not in _facts):
        if node not in _facts:
            found = [_facts[k] for k in node.children()]
            own = node.uid if type(node) is Var else _NO_VAR
            _facts[node] = (min([own, *(f[0] for f in found)]), min(_HUGE, 1 + sum(f[1] for f in found)))
    return _facts[e]


def tree_size(e: Expr) -> int:
    """The number of nodes of `e` as a tree, in which what is shared counts wherever it stands."""
    return _lead_and_size(e)[1]


def _structure(e: Expr) -> tuple[Any, ...]:
    if isinstance(e, Var):
        return (0, e.uid)
    if isinstance(e, Const):
        return (1, e.value)
    if isinstance(e, Binary):
        return (2, _OPS[e.op], _structure(e.a), _structure(e.b))
    return (3, type(e).__name__, tuple([_structure(k) for k in e.children()]))


def bottom_up(e: Expr, memo: dict[Expr, T], visit: Callable[[Expr, Sum | None], T]) -> T:
    """The value of `e` where that of a node depends on its operands' values in `memo`.

    `visit(node, sum)` gets a sum as a whole (its atoms are then in `memo`, the nodes in between are not visited), and
    every other node with None (its children are then in `memo`). Iterative.
    """
    stack = [e]
    sums: dict[Expr, Sum] = {}
    while stack:
        node = stack[-1]
        if node in memo:
            stack.pop()
            continue
        parts = sums.get(node)
        if parts is None and is_sum(node):
            parts = sums[node] = gather(node)
        needed: Iterable[Expr] = node.children() if parts is None else parts[0]
        pending = [n for n in needed if n not in memo]
        if pending:
            stack += pending
            continue
        memo[node] = visit(node, parts)
        stack.pop()
    return memo[e]


def factors(e: Expr) -> list[Expr]:
    """The factors of a product of non-literals; `[e]` for any other atom."""
    out: list[Expr] = []
    stack = [e]
    while stack:
        node = stack.pop()
        if type(node) is Binary and node.op is Op.MUL:
            stack += (node.b, node.a)
        else:
            out.append(node)
    return out


def product(parts: list[Expr]) -> Expr:
    """The product of atoms, in their fixed order; `parts` is not empty."""
    first, *rest = sorted(parts, key=atom_key)
    for p in rest:
        first = Binary(Op.MUL, first, p)
    return first


def _mentions(e: Expr, wanted: Container[Expr]) -> bool:
    return any(node in wanted for node in nodes(e))


def solve(a: Expr, b: Expr, unknowns: Iterable[Var] | None = None) -> dict[Var, Expr] | None:
    """The value of one variable that makes `a` equal `b`: {v: e} with an `e` that does not mention `v`.

    Only solutions that hold for all values of the other variables are given: v has coefficient ±1, or one that divides
    all the others. Of several candidates the youngest variable is taken. {} if a and b are equal already, None if there
    is no solution of this form. `unknowns` restricts which variables may be solved for (default: any).
    """
    terms, total = gather(a - b)
    terms = {t: c for t, c in terms.items() if c}
    if not terms:
        return None if total else {}
    wanted = None if unknowns is None else set(unknowns)
    candidates = [t for t in terms if isinstance(t, Var) and (wanted is None or t in wanted)]
    for v in sorted(candidates, key=lambda v: -v.uid):
        c = terms[v]
        others = {t: k for t, k in terms.items() if t is not v}
        if total % c or any(k % c for k in others.values()) or any(_mentions(t, (v,)) for t in others):
            continue
        return {v: build({t: -k // c for t, k in others.items()}, -total // c)}
    return None


def divide(a: Expr, b: Expr, unknowns: Iterable[Var]) -> tuple[Var, Expr] | None:
    """The only value that the one variable of `unknowns` may have where `a` equals `b`, if they can be equal at all.

    None if `a - b` has several of them, or one that is not a term of the sum alone: the value is a quotient, rounded
    down, by the variable's coefficient.
    """
    terms, total = gather(a - b)
    terms = {t: c for t, c in terms.items() if c}
    found = [v for v in dict.fromkeys(unknowns) if any(_mentions(t, (v,)) for t in terms)]
    if len(found) != 1 or found[0] not in terms:
        return None
    v = found[0]
    c = terms.pop(v)
    if any(_mentions(t, (v,)) for t in terms):
        return None
    sign = -1 if c > 0 else 1
    return v, floordiv(build({t: sign * k for t, k in terms.items()}, sign * total), const(abs(c)))

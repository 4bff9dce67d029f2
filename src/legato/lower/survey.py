"""What of a program is proven, and what is left to the calls: for people, before it is compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.ir import expr as ir
from legato.ir.constraint import Constraint, demanded, sides
from legato.ir.module import Module
from legato.ir.op import Op
from legato.lower.accesses import call_accesses, known_facts
from legato.te.access import Proof

__all__ = ["Survey", "survey"]


@dataclass(frozen=True, slots=True)
class Survey:
    """`accesses`: subscripts of operators' definitions, by how each is known to be inside; `checks`: what calls of
    functions check, as (what, left side, right side, place)."""

    accesses: Mapping[str, int]
    checks: tuple[tuple[str, str, str, str], ...]


def survey(mod: Module) -> Survey:
    """What is known of `mod` (typed). A subscript that is not proven is clamped, or checked when it is linear."""
    counts = Counter({proof.value: 0 for proof in (Proof.PROVEN, Proof.CHECKED, Proof.CLAMPED)})
    checks: list[tuple[str, str, str, str]] = []
    for _, func in mod.graph_functions():
        constraints: tuple[Constraint, ...] = func.attrs.get("constraints", ())
        facts = known_facts(constraints)
        for call in _computed(func):
            counts.update(a.proof.value for a in call_accesses(call, facts))
        checks += [(c.what, *_sides(c), "" if c.span is None else str(c.span)) for c in constraints]
    counts[Proof.CLAMPED.value] += counts.pop(Proof.OPEN.value, 0)
    return Survey(dict(counts), tuple(dict.fromkeys(checks)))


def _sides(c: Constraint) -> tuple[str, str]:
    a, b, otherwise = demanded(c.a, c.b)
    left, right = sides(a, b)
    return left, right + otherwise


def _computed(func: ir.Function) -> Iterator[ir.Call]:
    for node in post_order([func.body]):
        if isinstance(node, ir.Call) and isinstance(node.op, Op) and node.op.compute is not None:
            yield node

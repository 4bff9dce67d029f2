"""The memory of a whole call: the frame of a function, and those of the functions that it calls."""

from __future__ import annotations

from collections.abc import Mapping

from legato.arith.expr import Expr, Var, const, max_
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute, variables
from legato.lower.plan import Plan
from legato.tir.stmt import Func, Invoke
from legato.tir.walk import statements

__all__ = ["peak_memory"]


def peak_memory(functions: Mapping[str, Func], plans: Mapping[str, Plan], name: str = "main") -> tuple[Expr, bool]:
    """The bytes that the frames of one call of host function `name` occupy at most, over its dims, and whether that is
    all: a function that calls itself, directly or not, is counted once, since nobody knows how often it will.

    Dims that a function brings count as 0 where it calls another with them.
    """
    total: dict[str, Expr] = {}
    is_all = True
    stack = [(name, False)]
    active: set[str] = set()
    while stack:
        at, done = stack.pop()
        calls = [s for s in statements(functions[at].body) if isinstance(s, Invoke)]
        if done:
            active.discard(at)
            inner: Expr = const(0)
            known = {p for p in functions[at].params if isinstance(p, Var)}
            for call in calls:
                if call.func in total:
                    size = _instantiated(total[call.func], functions[call.func], call)
                    inner = max_(inner, substitute(size, {d: const(0) for d in variables(size) if d not in known}))
            total[at] = simplify(plans[at].size + inner)
        elif at in active:
            is_all = False
        elif at not in total:
            active.add(at)
            stack.append((at, True))
            stack += [(call.func, False) for call in calls]
    return total[name], is_all


def _instantiated(size: Expr, callee: Func, call: Invoke) -> Expr:
    """`size`, over the dims of `callee`, for the dims that `call` passes."""
    pairs = zip(callee.params, call.args, strict=True)
    return substitute(size, {p: a for p, a in pairs if isinstance(p, Var) and isinstance(a, Expr)})

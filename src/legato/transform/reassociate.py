"""Sums and products of floats with constants, formed in an order that computes less.

(x + c) + d          =>  x + (c + d)                 (x·c)·d             =>  x·(c·d)
(x + c)·d            =>  x·d + c·d                   (x + c) + (y + d)   =>  (x + y) + (c + d)
a·a + 2·a·b + b·b    =>  (a + b)·(a + b)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.infer.builder import Builder
from legato.ir.effects import Effects
from legato.ir.expr import Call, Constant, Expr, Function, constant
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.ops.binary import add, multiply
from legato.runtime.floats import float_environment
from legato.transform._normal import is_normal
from legato.transform._scales import LARGE, is_sound
from legato.transform.pass_ import FunctionPass

__all__ = ["Reassociate"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Reassociate(FunctionPass):
    """Typed module → typed module. Constants move where what they become is finite and normal, or 0, and none is so
    large that it is there to round. (Integers wrap, so that `simplify` does the same for them.)"""

    name = "reassociate"
    rounds = True

    def function(self, func: Function, mod: Module) -> Function:
        effects = Effects(func, mod)
        with float_environment():
            body = transform(func.body, lambda node: _settled(node, effects))
        return func if body is func.body else replace(func, body=body)


def _settled(node: Expr, effects: Effects) -> Expr | None:
    """What `node` becomes when no rule fits any more."""
    found: Expr | None = None
    while (new := _once(node if found is None else found, effects)) is not None:
        found = new
    return found


def _once(node: Expr, effects: Effects) -> Expr | None:
    if not isinstance(node, Call) or (node.op is not add and node.op is not multiply):
        return None
    if not isinstance(node.ty, TensorType) or not node.ty.dtype.is_float:
        return None
    for rule in _RULES:
        new = rule(node)
        if new is not None and new.ty == node.ty and (rule is not _square or not effects.inside(node)):
            return new
    return None


def _parts(e: Expr, op: Expr) -> tuple[Expr, Array] | None:
    """x and c of x + c, or x·c; None for anything else."""
    if not isinstance(e, Call) or e.op is not op:
        return None
    a, b = e.args
    if isinstance(a, Constant):
        a, b = b, a
    return (a, b.data) if isinstance(b, Constant) and not isinstance(a, Constant) else None


def _chain(call: Call) -> Expr | None:
    """(x + c) + d and (x·c)·d."""
    outer = _parts(call, call.op)
    inner = None if outer is None else _parts(outer[0], call.op)
    if outer is None or inner is None:
        return None
    both = _sum(inner[1], outer[1]) if call.op is add else _product(inner[1], outer[1])
    return None if both is None else Builder(span=call.span).call(call.op, inner[0], both)


def _distributed(call: Call) -> Expr | None:
    """(x + c)·d."""
    outer = _parts(call, multiply) if call.op is multiply else None
    inner = None if outer is None else _parts(outer[0], add)
    if outer is None or inner is None or (np.abs(inner[1]) > LARGE).any():
        return None
    moved, b = _product(inner[1], outer[1]), Builder(span=call.span)
    if moved is None:
        return None
    return b.call(add, b.call(multiply, inner[0], constant(outer[1])), moved)


def _sums(call: Call) -> Expr | None:
    """(x + c) + (y + d)."""
    if call.op is not add:
        return None
    left, right = (_parts(a, add) for a in call.args)
    if left is None or right is None:
        return None
    both, b = _sum(left[1], right[1]), Builder(span=call.span)
    return None if both is None else b.call(add, b.call(add, left[0], right[0]), both)


def _square(call: Call) -> Expr | None:
    """a·a + 2·a·b + b·b."""
    terms = _addends(call) if call.op is add else None
    if terms is None:
        return None
    for n, cross in enumerate(terms):
        roots = [_root(t) for m, t in enumerate(terms) if m != n]
        if roots[0] is None or roots[1] is None or roots[0] is roots[1]:
            continue
        found = _factors(cross)
        twos = [f for f in found if isinstance(f, Constant) and bool((f.data == 2).all())]
        others = [f for f in found if not isinstance(f, Constant)]
        if len(twos) == 1 and len(found) == 3 and {id(f) for f in others} == {id(r) for r in roots}:
            b = Builder(span=call.span)
            total = b.call(add, roots[0], roots[1])
            return b.call(multiply, total, total)
    return None


def _addends(call: Call) -> list[Expr] | None:
    """The three of a sum of three."""
    for n, arg in enumerate(call.args):
        if isinstance(arg, Call) and arg.op is add:
            return [*arg.args, call.args[1 - n]]
    return None


def _root(e: Expr) -> Expr | None:
    """a of a·a."""
    return e.args[0] if isinstance(e, Call) and e.op is multiply and e.args[0] is e.args[1] else None


def _factors(e: Expr) -> list[Expr]:
    """Of a product, and of one within it."""
    if not isinstance(e, Call) or e.op is not multiply:
        return [e]
    return [f for a in e.args for f in (a.args if isinstance(a, Call) and a.op is multiply else (a,))]


def _sum(c: Array, d: Array) -> Constant | None:
    total = np.asarray(c + d)
    if max(np.abs(c).max(initial=0), np.abs(d).max(initial=0)) > LARGE or total.size > max(c.size, d.size):
        return None
    is_kept = ((total == 0) | (np.isfinite(total) & is_normal(total))).all()
    return constant(total) if is_kept else None


def _product(c: Array, d: Array) -> Constant | None:
    product = np.asarray(c * d)
    return constant(product) if product.size <= max(c.size, d.size) and is_sound(product, c, d) else None


_RULES: Final[tuple[Callable[[Call], Expr | None], ...]] = (_chain, _distributed, _sums, _square)

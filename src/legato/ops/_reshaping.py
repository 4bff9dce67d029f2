"""Row-major index arithmetic between shapes of equally many elements."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from legato.arith.expr import Binary, Const, Expr, const
from legato.arith.expr import Op as Arith
from legato.ir.types import Dim
from legato.ops._rules import is_one, product
from legato.te.tensor import Tensor, compute

__all__ = ["ShapeError", "cancel", "factors", "flatten_index", "quotient", "reshaped", "unflatten_index"]


class ShapeError(Exception):
    """A new shape that does not fit; the message says why."""


def factors(dims: Sequence[Dim]) -> tuple[int, Counter[Dim]]:
    """A product of dims as a literal and the other factors with their multiplicity."""
    literal, others = 1, Counter[Dim]()
    stack = list(dims)
    while stack:
        d = stack.pop()
        if isinstance(d, Const):
            literal *= int(d.value)
        elif isinstance(d, Binary) and d.op is Arith.MUL:
            stack += (d.a, d.b)
        else:
            others[d] += 1
    return literal, others


def cancel(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[Dim, Dim]:
    """The products of `a` and `b` without their common factors."""
    x, left = factors(a)
    y, right = factors(b)
    if x and y:
        common = math.gcd(x, y)  # of any size: literals in a text may be larger than a machine integer
        x, y = x // common, y // common
    shared = left & right
    return _product_of(x, left - shared), _product_of(y, right - shared)


def _product_of(literal: int, others: Counter[Dim]) -> Dim:
    result: Dim = const(literal)
    for d in others.elements():
        result = d if is_one(result) else result * d
    return result


def quotient(a: Sequence[Dim], b: Sequence[Dim]) -> Dim:
    """product(a) / product(b), known to be exact. A dim on both sides cancels, also where it is 0; what that leaves
    need not be exact: there are no elements."""
    is_empty = False
    for d in [d for d in b if isinstance(d, Const) and d.value == 0]:
        if d in a:
            a, b, is_empty = _without(a, d), _without(b, d), True
    x, y = cancel(a, b)
    if isinstance(y, Const) and y.value == 0:
        return const(0)
    if isinstance(x, Const) and isinstance(y, Const) and x.value % y.value and not is_empty:
        raise ShapeError(f"{product(a)} elements do not divide into rows of {product(b)}")
    return x if is_one(y) else x // y


def flatten_index(index: Sequence[Expr], shape: Sequence[Dim]) -> Expr:
    """The row-major position of `index`."""
    position: Expr = const(0)
    for i, d in zip(index, shape, strict=True):
        position = position * d + i
    return position


def _without(dims: Sequence[Dim], d: Dim) -> Sequence[Dim]:
    at = list(dims).index(d)
    return [*dims[:at], *dims[at + 1 :]]


def unflatten_index(position: Expr, shape: Sequence[Dim]) -> tuple[Expr, ...]:
    """The index at row-major `position`, which is in range."""
    if not shape:
        return ()
    index: list[Expr] = []
    for d in reversed(shape[1:]):
        index.append(position % d)
        position = position // d
    return (position, *reversed(index))


def reshaped(x: Tensor, shape: Sequence[Dim], name: str = "reshape") -> Tensor:
    """`x` with its elements laid out in `shape`. Dims that correspond keep their own index arithmetic."""
    groups = _groups(x.shape, shape)

    def body(*i: Expr) -> Expr:
        index: list[Expr] = []
        for inner, outer in groups:
            old, new = x.shape[inner.start : inner.stop], shape[outer.start : outer.stop]
            index += unflatten_index(flatten_index(i[outer.start : outer.stop], new), old)
        return x[tuple(index)]

    return compute(shape, body, name)


def _groups(old: Sequence[Dim], new: Sequence[Dim]) -> list[tuple[range, range]]:
    """Runs of dims of both shapes with equal products, as short as can be told; dims of 1 join the run before them."""
    groups: list[tuple[range, range]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        i2, j2 = _run(old, new, i, j)
        groups.append((range(i, i2), range(j, j2)))
        i, j = i2, j2
    return groups


def _run(old: Sequence[Dim], new: Sequence[Dim], i: int, j: int) -> tuple[int, int]:
    """The ends of the shortest runs from i and j on whose products are equal; everything where that cannot be told."""
    a, b = min(i + 1, len(old)), min(j + 1, len(new))
    while True:
        left, right = cancel(old[i:a], new[j:b])
        if left is right:
            break
        if is_one(right) and b < len(new):
            b += 1
        elif is_one(left) and a < len(old):
            a += 1
        elif isinstance(left, Const) and isinstance(right, Const) and left.value and right.value:
            if left.value > right.value and b < len(new):
                b += 1
            elif a < len(old):
                a += 1
            else:
                return len(old), len(new)
        else:
            return len(old), len(new)
    while a < len(old) and is_one(old[a]):
        a += 1
    while b < len(new) and is_one(new[b]):
        b += 1
    return a, b

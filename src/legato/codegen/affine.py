"""Index expressions as sums of products, so that literal parts and loop-invariant parts of addresses separate.

    polynomial(e)   Σ coefficient · atom · atom…     symbolic, once per expression
    resolve(…)      the same under the current binding of variables: a literal, scalar terms, and lane offsets

An atom is a variable or an expression that is not a sum or product (floordiv, a Load, …).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from legato.arith.expr import Binary, Const, Expr, Op, floordiv
from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.codegen.builder import Builder
from legato.codegen.value import Value, vector_constant

__all__ = ["Affine", "Resolved"]

Monomial = tuple[Expr, ...]
Polynomial = dict[Monomial, int]
_SUMS = frozenset({Op.ADD, Op.SUB, Op.MUL})
_MAX_TERMS = 24  # a product of sums with more terms stays a product


@dataclass(frozen=True, slots=True)
class Resolved:
    """const + Σ coefficient · scalar + one literal per lane (None: 0 in all) + Σ coefficient · vector."""

    const: int
    terms: tuple[tuple[Value, int], ...]
    lanes: tuple[int, ...] | None
    vectors: tuple[tuple[Value, int], ...]

    @property
    def is_literal(self) -> bool:
        """Whether it is a known int in every lane."""
        return not self.terms and not self.vectors


class Affine:
    """Resolves index expressions; `env` has the current values of variables, `value(atom)` gives that of any atom."""

    def __init__(self, builder: Builder, value: Callable[[Expr], Value], env: Mapping[Expr, Value]) -> None:
        self.builder, self.value, self.env = builder, value, env
        self.polynomials: dict[Expr, Polynomial] = {}
        self.ranks: dict[Expr, int] = {}  # atoms in order of appearance: text must not depend on addresses

    def polynomial(self, e: Expr) -> Polynomial:
        """`e` as a sum of products of atoms."""
        known = self.polynomials
        if e not in known:
            for node in post_order([e], lambda n: isinstance(n, Binary) and n.op in _SUMS and n not in known):
                if node not in known:
                    known[node] = self._polynomial(node)
        return known[e]

    def _polynomial(self, e: Expr) -> Polynomial:
        if isinstance(e, Const):
            return {(): int(e.value)} if e.value else {}
        if isinstance(e, Binary) and e.op in _SUMS:
            a, b = self.polynomials[e.a], self.polynomials[e.b]
            if e.op is Op.ADD:
                return add(a, b)
            if e.op is Op.SUB:
                return add(a, b, -1)
            if len(a) * len(b) <= _MAX_TERMS:
                return self._product(a, b)
        self.ranks.setdefault(e, len(self.ranks))
        return {(e,): 1}

    def _product(self, a: Polynomial, b: Polynomial) -> Polynomial:
        result: Polynomial = {}
        for m, c in a.items():
            for n, d in b.items():
                key = (*m, *n)
                if len(key) > 1:
                    key = tuple(sorted(key, key=self.ranks.__getitem__))
                result[key] = result.get(key, 0) + c * d
        return {m: c for m, c in result.items() if c}

    def offset(self, e: Expr) -> Polynomial:
        """`e` as a sum of products in which x // n · n + x % n is x: the place in memory of what lies along several
        dimensions and is walked along in one loop."""
        poly = self.polynomial(e)
        while True:
            joined = next((p for p in map(partial(self._joined, poly), poly) if p is not None), None)
            if joined is None:
                return poly
            poly = joined

    def _joined(self, poly: Polynomial, atoms: Monomial) -> Polynomial | None:
        """`poly` with the remainder among `atoms` and its quotient as one; None if there are no two such."""
        for n, atom in enumerate(atoms):
            if isinstance(atom, Binary) and atom.op is Op.FLOORMOD:
                others = {(*atoms[:n], *atoms[n + 1 :]): poly[atoms]}
                quotient = self._product(self.polynomial(floordiv(atom.a, atom.b)), self.polynomial(atom.b))
                parts = add(self._product(others, quotient), {atoms: poly[atoms]})
                if all(poly.get(m) == c for m, c in parts.items()):
                    return add(add(poly, parts, -1), self._product(others, self.polynomial(atom.a)))
        return None

    def resolve(self, poly: Polynomial) -> Resolved:
        """`poly` under the current bindings."""
        const = 0
        terms: dict[str, tuple[Value, int]] = {}
        lanes: tuple[int, ...] | None = None
        vectors: list[tuple[Value, int]] = []
        for atoms, given in poly.items():
            factor, scalar, vector, offsets = self._product_of(atoms, given)
            if vector is not None or (scalar is not None and offsets is not None):
                vectors.append((self._vector_product(vector, offsets, scalar), factor))
            elif scalar is not None:
                old = terms.get(scalar.text)
                terms[scalar.text] = (scalar, factor if old is None else old[1] + factor)
            elif offsets is None:
                const += factor
            elif lanes is None:
                lanes = offsets if factor == 1 else tuple([factor * x for x in offsets])
            else:
                lanes = tuple([old + factor * x for old, x in zip(lanes, offsets, strict=True)])
        if lanes is not None and lanes.count(lanes[0]) == len(lanes):
            const, lanes = const + lanes[0], None
        kept = sorted([t for t in terms.values() if t[1]], key=lambda t: t[0].level)
        return Resolved(const, tuple(kept), lanes, tuple(vectors))

    def _product_of(
        self, atoms: Monomial, factor: int
    ) -> tuple[int, Value | None, Value | None, tuple[int, ...] | None]:
        """factor · atom · atom… as a literal, a scalar, a vector and a literal per lane; 0 alone where it is that."""
        env = self.env
        scalars: list[Value] = []
        vector: Value | None = None
        offsets: tuple[int, ...] | None = None
        for atom in atoms:
            v = env.get(atom) or self.value(atom)
            known = v.const
            if known is None and v.lanes == 1:
                scalars.append(v)
            elif known is None:
                vector = v if vector is None else self.builder.binary("mul", vector, v, hoist=True)
            elif isinstance(known, tuple):
                offsets = known if offsets is None else tuple([x * y for x, y in zip(offsets, known, strict=True)])
            else:
                factor *= int(known)
        if not factor:
            return 0, None, None, None
        return factor, self._scalar_product(scalars) if scalars else None, vector, offsets

    def _scalar_product(self, scalars: list[Value]) -> Value:
        scalars.sort(key=lambda v: v.level)
        product = scalars[0]
        for v in scalars[1:]:
            product = self.builder.binary("mul", product, v, hoist=True)
        return product

    def _vector_product(self, vector: Value | None, offsets: tuple[int, ...] | None, scalar: Value | None) -> Value:
        factors = [v for v in (vector, vector_constant(offsets, "i64") if offsets else None, scalar) if v is not None]
        product = factors[0]
        for v in factors[1:]:
            product = self.builder.binary("mul", product, v, hoist=True)
        return product

    # ---------------------------------------------------------------------------------------------- as values

    def scaled(self, v: Value, factor: int) -> Value:
        """v · factor, a literal where `v` is one."""
        return _literal(v.const * factor) if type(v.const) is int else scaled(self.builder, v, factor)

    def materialise(self, r: Resolved) -> Value:
        """The i64 that `r` stands for: a literal, a scalar, or a vector."""
        builder = self.builder
        if r.is_literal:
            if r.lanes is None:
                return _literal(r.const)
            return vector_constant(tuple([r.const + x for x in r.lanes]), "i64")
        total = self.sum(r.terms)
        if r.lanes is not None:
            total = _plus(builder, total, vector_constant(tuple([r.const + x for x in r.lanes]), "i64"))
        for v, c in r.vectors:
            total = _plus(builder, total, scaled(builder, v, c))
        if r.lanes is None and r.const:
            total = _plus(builder, total, _literal(r.const))
        assert total is not None
        return total

    def sum(self, terms: tuple[tuple[Value, int], ...]) -> Value | None:
        """Σ coefficient · value, the most invariant terms first; None if there are none."""
        total: Value | None = None
        for v, c in terms:
            total = _plus(self.builder, total, scaled(self.builder, v, c))
        return total


def add(a: Polynomial, b: Polynomial, sign: int = 1) -> Polynomial:
    """a + sign·b."""
    result = dict(a)
    for m, c in b.items():
        total = result.get(m, 0) + sign * c
        if total:
            result[m] = total
        else:
            result.pop(m, None)
    return result


def scaled(builder: Builder, v: Value, factor: int) -> Value:
    """v · factor."""
    return v if factor == 1 else builder.binary("mul", v, _literal(factor), hoist=True)


def _plus(builder: Builder, a: Value | None, b: Value) -> Value:
    return b if a is None else builder.binary("add", a, b, hoist=True)


def _literal(value: int) -> Value:
    return Value(str(value), "i64", 1, 0, value)

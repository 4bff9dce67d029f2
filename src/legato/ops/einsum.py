"""einsum: sums of products given by an equation such as "bik,bkj->bij".

Letters name dimensions; "..." stands for leading dimensions. Both broadcast: an operand may have an extent of 1 where
another has more. Without "->" the result has, in
alphabetical order after "...", the letters that occur once. The compute is one reduction of one product.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

import numpy as np

from legato.arith.expr import Expr, const
from legato.arith.prove import prove_equal
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.infer.holes import is_hole
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, TupleType, Type
from legato.ops._families import broadcast_index, quiet
from legato.ops._gradients import Contribution, dtype_of, extents, in_shape, shape_of, sum_to
from legato.ops._rules import common_dim, known_dim, same_dtype, stretched, tensors
from legato.ops._tensors import Array, accumulator, cast_to, known_int, narrowed, product, tensor_bytes
from legato.te.tensor import Tensor, compute, reduce
from legato.tir.expr import cast

__all__ = ["EinsumAttrs", "einsum"]


@dataclass(frozen=True, slots=True)
class EinsumAttrs(Attrs):
    """The equation, in NumPy's notation."""

    equation: str


@dataclass(frozen=True, slots=True)
class _Equation:
    """Labels of each operand's dimensions, of the result's and of the summed ones. "…0" is the last broadcast one."""

    operands: tuple[tuple[str, ...], ...]
    result: tuple[str, ...]
    summed: tuple[str, ...]


def _labels(term: str, dots: int) -> tuple[str, ...]:
    """The labels of a term whose "..." stands for `dots` dimensions."""
    before, ellipsis, after = term.partition("...")
    spread = tuple(f"…{n}" for n in reversed(range(dots))) if ellipsis else ()
    return (*before, *spread, *after)


def _parse(equation: str, ranks: Sequence[int]) -> _Equation | str:
    """The equation for operands of these ranks, or what is wrong with it."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        return f"has {len(terms)} operands, got {len(ranks)}"
    dots = []
    for term, rank in zip([*terms, right], [*ranks, len(right)], strict=True):
        letters = term.replace("...", "", 1)
        if not all(c.isalpha() for c in letters):
            return f"has the malformed term {term!r}"
        dots.append(rank - len(letters))
    for term, rank, extra in zip(terms, ranks, dots, strict=False):
        if extra < 0 or (extra > 0 and "..." not in term):
            return f"gives {term!r} for an operand of rank {rank}"
    operands = tuple(_labels(t, n) for t, n in zip(terms, dots, strict=False))
    every = [label for labels in operands for label in labels]
    shared = max(dots[:-1], default=0)
    ellipsis = tuple(f"…{n}" for n in reversed(range(shared)))
    result = _labels(right, shared)
    if not arrow:
        result = (*ellipsis, *sorted({c for c in every if c not in ellipsis and every.count(c) == 1}))
    if len(set(result)) != len(result) or not set(result) <= set(every):
        return f"gives the result {right!r}, which repeats a label or has one that no operand has"
    if any(label not in result for label in ellipsis):
        return 'leaves "..." out of the result'
    return _Equation(operands, result, tuple(dict.fromkeys(c for c in every if c not in result)))


def _extents(equation: _Equation, shapes: Sequence[Sequence[Dim]], rel: Relation | None) -> Mapping[str, Dim]:
    """The dim of every label: what those of the operands broadcast to."""
    found: dict[str, Dim] = {}
    for labels, shape in zip(equation.operands, shapes, strict=True):
        own: dict[str, Dim] = {}
        for label, d in zip(labels, shape, strict=True):
            own[label] = d if rel is None or label not in own else rel.same(own[label], d, f"dimension {label!r}")
        for label, d in own.items():
            found[label] = _common(rel, found[label], d, label) if label in found else d
    return found


def _common(rel: Relation | None, a: Dim, b: Dim, label: str) -> Dim:
    """The dim that those of two operands broadcast to; equal where they are not known yet, if it is a letter's."""
    if rel is None or a is b or 1 in (known_int(a), known_int(b)):
        return b if known_int(a) == 1 else a if known_int(b) == 1 else common_dim(a, b)
    if not label.startswith("…") and (is_hole(a) or is_hole(b)):
        return rel.same(a, b, f"dimension {label!r}")
    return stretched(rel, known_dim(a), known_dim(b), f"dimension {label!r}")


def _equation(a: EinsumAttrs, ranks: Sequence[int]) -> _Equation:
    parsed = _parse(a.equation, ranks)
    assert isinstance(parsed, _Equation)
    return parsed


def _relation(rel: Relation, data: Type, a: EinsumAttrs) -> Type | None:
    fields = tensors(rel, data, "operands")
    parsed = _parse(a.equation, [f.rank for f in fields])
    if isinstance(parsed, str):
        raise rel.fail(f"the equation {a.equation!r} {parsed}")
    dtype = same_dtype(rel, *fields)
    extents = _extents(parsed, [f.shape for f in fields], rel)
    return TensorType(tuple(extents[label] for label in parsed.result), dtype)


def _reference(data: tuple[Array, ...], a: EinsumAttrs) -> Array:
    dtype = dt.dtype(data[0].dtype)
    operands = [cast_to(x, accumulator(dtype)) for x in data]
    equation = _equation(a, [x.ndim for x in data])
    # In order, an operand would be summed alone first where others lack the label: inf·2 - inf·1 is none, inf·1 is.
    alone = any(sum(label in labels for labels in equation.operands) < 2 for label in equation.summed)
    result = np.einsum(a.equation, *operands, optimize=len(operands) > 1 and not alone)
    return np.array(cast_to(np.asarray(result), dtype))


def _compute(data: tuple[Tensor, ...], a: EinsumAttrs, out: TensorType) -> Tensor:
    equation = _equation(a, [x.rank for x in data])
    extents = _extents(equation, [x.shape for x in data], None)
    total = accumulator(out.dtype)

    def term(*index: Expr) -> Expr:
        at = dict(zip((*equation.result, *equation.summed), index, strict=True))
        value: Expr | None = None
        for x, labels in zip(data, equation.operands, strict=True):
            place = broadcast_index([at[k] for k in labels], x.shape, [extents[k] for k in labels])
            element = cast(x[place], total)
            value = element if value is None else value * element
        assert value is not None
        return value

    if not equation.summed:
        return narrowed(compute(out.shape, term, "einsum"), out.dtype)
    return narrowed(reduce("sum", out.shape, [extents[s] for s in equation.summed], term, "einsum"), out.dtype)


def _cost(args: Sequence[Type], out: Type, a: EinsumAttrs) -> Cost:
    (data,) = args
    fields = [f for f in data.fields if isinstance(f, TensorType)] if isinstance(data, TupleType) else []
    equation = _equation(a, [f.rank for f in fields])
    extents = _extents(equation, [f.shape for f in fields], None)
    terms = product(extents[label] for label in (*equation.result, *equation.summed))
    return Cost(terms * (2 * max(len(fields) - 1, 1)), tensor_bytes((*fields, out)))


def _grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """For each operand the sum of products of `dy` and the others."""
    (data,) = call.args
    assert isinstance(data.ty, TupleType)
    given = [b.get(data, n) for n in range(len(data.ty.fields))]
    equation = _equation(call.attrs, [len(shape_of(x)) for x in given])
    sums = _Sums(b, equation, _extents(equation, [shape_of(x) for x in given], None))
    factors = [*zip(given, equation.operands, strict=True)]
    return [tuple(sums.grad(x, own, [(dy, equation.result), *factors[:n], *factors[n + 1 :]])
                  for n, (x, own) in enumerate(factors))]  # fmt: skip


class _Sums:
    """The gradients of an equation's operands, as other equations."""

    def __init__(self, b: Builder, equation: _Equation, extents: Mapping[str, Dim]) -> None:
        self.b, self.extents = b, extents
        every = dict.fromkeys(k for labels in (*equation.operands, equation.result) for k in labels)
        free = (c for c in string.ascii_letters if c not in every)
        self.letters = {k: next(free) if k.startswith("…") else k for k in every}

    def _einsum(self, factors: Sequence[tuple[Node, Sequence[str]]], result: Sequence[str]) -> Node:
        if len(factors) == 1 and tuple(factors[0][1]) == tuple(result):
            return factors[0][0]
        left, right = (["".join(self.letters[k] for k in part) for part in parts] for parts in
                       ([labels for _, labels in factors], [result]))  # fmt: skip
        return self.b.einsum(*(x for x, _ in factors), equation=f"{','.join(left)}->{right[0]}")

    def grad(self, x: Node, own: Sequence[str], factors: Sequence[tuple[Node, Sequence[str]]]) -> Node:
        """The gradient of operand `x` with labels `own`, of which `factors` have some."""
        dims = dict(zip(own, shape_of(x), strict=True))
        known = {k for _, labels in factors for k in labels}
        # what `x` has one of is summed here; what it alone has is the same for all
        kept = [k for k in dims if k in known and (known_int(dims[k]) != 1 or known_int(self.extents[k]) == 1)]
        found = self._einsum(factors, kept)
        here = dict(zip(kept, shape_of(found), strict=True))
        found = in_shape(self.b, found, [here.get(k, const(1)) for k in dims])
        wide = [self.extents[k] if k in kept or k not in known else const(1) for k in dims]
        if not all(map(prove_equal, shape_of(found), wide)):
            found = self.b.broadcast_to(found, shape=extents(wide))
        found = sum_to(self.b, found, list(dims.values()))
        return found if len(dims) == len(own) else self._on_diagonal(found, own, dims)

    def _on_diagonal(self, x: Node, own: Sequence[str], dims: Mapping[str, Dim]) -> Node:
        """`x`, which has each label once, where the subscripts of repeated ones are equal; zeros elsewhere."""
        factors, labels, seen = [(x, list(dims))], list[str](), set[str]()
        for k in own:
            labels.append(k if k not in seen else f"{k}{len(labels)}")
            if k in seen:
                factors.append((self._identity(dims[k], x), [k, labels[-1]]))
                self.letters[labels[-1]] = next(c for c in string.ascii_letters if c not in self.letters.values())
            seen.add(k)
        return self._einsum(factors, labels)

    def _identity(self, n: Dim, like: Node) -> Node:
        one, zero = (self.b.constant(v, dtype_of(like)) for v in (1.0, 0.0))
        (depth,) = extents((n,))
        return self.b.one_hot(self.b.arange(stop=depth, dtype="int64"), one, zero, depth=depth)


einsum = Op(
    name="einsum",
    args=("*data",),
    attrs=EinsumAttrs,
    type_rel=_relation,
    reference=quiet(_reference),
    compute=_compute,
    grad=_grad,
    fusion=Fusion.CONTRACTION,
    cost=_cost,
    samples=(
        Sample((((2, 3), "float32"), ((3, 4), "float32")), {"equation": "ij,jk->ik"}),
        Sample((((2, 2, 3), "float32"), ((1, 3, 4), "float32")), {"equation": "...ij,...jk"}),
        Sample((((3, 3), "float32"),), {"equation": "ii->i"}),
        Sample((((3, 3), "int32"),), {"equation": "ii"}, exact=True),
        Sample((((2, 3), "float32"), ((4,), "float32")), {"equation": "ij,k->kji"}),
        Sample((((2, 3), "float32"), ((3, 2), "float32"), ((2,), "float32")), {"equation": "ab,bc,c->a"}),
        Sample((((3, 1), "float32"), ((2, 2), "float32")), {"equation": "ij,jk->ik"}),
        Sample((((3, 2), "float32"), ((1, 2), "float32")), {"equation": "ij,jk->ijk"}),
        Sample((((2, 3), "float32"), ((4,), "float32")), {"equation": "ij,k->i"}),
        Sample((((2, 3, 2, 2), "float32"), ((3, 1), "float32")), {"equation": "iaii,ai->a"}),
        Sample((((2, 1, 3), "float32"), ((1, 3, 5), "float32")), {"equation": "...ij,...jk->k...i"}),
        Sample((((3,), "float32"), ((), "float32"), ((3,), "float32")), {"equation": "i,,i->"}),
        Sample((((0, 3), "float32"), ((3, 2), "float32")), {"equation": "ij,jk->k"}),
    ),
    doc="""Einstein summation: products of the operands' elements, summed over the labels that the result lacks.

`equation` is NumPy's notation ("ij,jk->ik", "...ij,...jk", "ii->i"). All operands have one dtype.""",
)

"""What type relations have in common. Every helper raises the relation's own error, or NotYet where a hole is met.

NotYet means "ask me again when more is known": `infer` catches it, so relations are straight-line code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NoReturn

from legato.arith.assume import Assumptions, surely_equal
from legato.arith.bounds import bounds
from legato.arith.broadcast import broadcast, parts
from legato.arith.expr import Binary, Const, Op, const, expr, floordiv, max_
from legato.arith.linear import gather
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.infer.holes import Hole, NotYet, is_hole, show
from legato.ir._literals import array_of, scalar_text
from legato.ir.op import Relation
from legato.ir.types import Dim, TensorType, TupleType, Type

__all__ = ["FLOAT", "INT", "NUMBER", "WIDE", "at_least", "at_most_one", "broadcast_shapes", "common_dim",
           "common_dtype", "divides", "is_one", "known_dim", "normalize_axes", "normalize_axis", "product",
           "require_dtype", "require_rank", "same_dtype", "same_shape", "stretch", "stretched",
           "tensor", "tensors"]  # fmt: skip

DTypeTest = Callable[[DType], bool]


def FLOAT(d: DType) -> bool:  # used as a constant: require_dtype(rel, x, FLOAT)
    """Floating-point dtypes."""
    return d.is_float


def INT(d: DType) -> bool:
    """Integer dtypes (bool is none)."""
    return d.is_int


def NUMBER(d: DType) -> bool:
    """What is counted with: neither bool nor strings."""
    return not d.is_bool and not d.is_string


def WIDE(d: DType) -> bool:
    """Floats that are computed with as they are."""
    return d in (dt.float32, dt.float64)


def tensor(relation: Relation, ty: Type, what: str = "argument") -> TensorType:
    """`ty` as a tensor type."""
    if isinstance(ty, TensorType):
        return ty
    if isinstance(ty, Hole):
        raise NotYet
    raise relation.fail(f"the {what} must be a tensor, got {show(ty)}")


def tensors(relation: Relation, ty: Type, what: str = "arguments", least: int = 1) -> tuple[TensorType, ...]:
    """`ty` as a tuple of at least `least` tensors."""
    if isinstance(ty, Hole):
        raise NotYet
    if not isinstance(ty, TupleType) or len(ty.fields) < least:
        raise relation.fail(f"the {what} must be a tuple of {least} or more tensors, got {show(ty)}")
    return tuple(tensor(relation, f, f"{what}[{n}]") for n, f in enumerate(ty.fields))


def known_dim(d: Dim) -> Dim:
    """`d`, which must not be a hole: for decisions such as "is it 1"."""
    if is_hole(d):
        raise NotYet
    return d


def is_one(d: Dim) -> bool:
    """True for the literal 1."""
    return isinstance(d, Const) and d.value == 1


def at_least(relation: Relation, d: Dim, least: Dim | int, what: str) -> None:
    """Requires d >= least; where that is not known, when the program runs. `what` names it in the message."""
    relation.same(*sides_of_least(known_dim(d), expr(least)), what)


def sides_of_least(d: Dim, least: Dim) -> tuple[Dim, Dim]:
    """The sides of an equality that says that `d` >= `least`."""
    d, least = simplify(d), simplify(least)
    if isinstance(least, Const) and not isinstance(d, Const):
        d, least = _of_one_atom(d, int(least.value))
    return simplify(max_(d, least)), d


def _of_one_atom(d: Dim, least: int) -> tuple[Dim, Dim]:
    """`d` >= `least` in terms of what `d` is made of: (n + 1) // 2 >= 1 is n >= 1, and so are its like."""
    while True:
        terms, total = gather(d)
        ((atom, c),) = terms.items() if len(terms) == 1 else ((d, 0),)
        if c > 0 and (c > 1 or total):
            d, least = atom, -((total - least) // c)
        elif isinstance(d, Binary) and d.op is Op.FLOORDIV and isinstance(k := d.b, Const) and k.value > 0:
            d, least = d.a, least * int(k.value)
        else:
            return d, const(least)


def divides(relation: Relation, d: Dim, by: int, what: str) -> Dim:
    """d / by, where `by` has to divide d; where that is not known, it is checked when the program runs."""
    part = floordiv(known_dim(d), const(by))
    relation.same(part * by, d, what)
    return part


def require_rank(relation: Relation, ty: TensorType, *ranks: int, what: str = "argument") -> None:
    """Fails unless the rank of `ty` is one of `ranks`."""
    if ty.rank not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise relation.fail(f"the {what} has rank {ty.rank}, wanted {wanted}")


_KINDS = {
    "FLOAT": "a floating-point dtype",
    "INT": "an integer dtype",
    "NUMBER": "a number, not bool or string",
    "WIDE": "float32 or float64",
}


def require_dtype(relation: Relation, ty: TensorType, test: DTypeTest, what: str = "argument") -> None:
    """Fails unless `test` holds for the dtype of `ty`."""
    if not test(ty.dtype):
        wanted = _KINDS.get(test.__name__, test.__name__)
        raise relation.fail(f"the {what} has dtype {ty.dtype}, wanted {wanted}", hint="use cast")


def same_dtype(relation: Relation, *types: TensorType) -> DType:
    """The common dtype."""
    for ty in types[1:]:
        if ty.dtype != types[0].dtype:
            raise relation.fail(f"the dtypes differ, {types[0].dtype} and {ty.dtype}", hint="use cast on one of them")
    return types[0].dtype


def common_dtype(relation: Relation, left: TensorType, right: TensorType) -> DType:
    """The common dtype of the two arguments. The failure says how to write a literal that has another."""
    if left.dtype == right.dtype:
        return left.dtype
    for n, ty, other in ((0, left, right), (1, right, left)):
        known = relation.value(n) if ty.rank == 0 else None
        data = array_of(int(known[0].value), other.dtype) if known and isinstance(known[0], Const) else None
        if data is not None and not other.dtype.is_bool and not other.dtype.is_storage:
            hint = f"write {scalar_text(data)}, or use cast on one of them"
            raise relation.fail(f"the dtypes differ, {left.dtype} and {right.dtype}", hint=hint)
    return same_dtype(relation, left, right)


def same_shape(relation: Relation, a: Sequence[Dim], b: Sequence[Dim], what: str) -> tuple[Dim, ...]:
    """The common shape."""
    if len(a) != len(b):
        raise relation.fail(f"{what}: the ranks differ, {len(a)} and {len(b)}")
    return tuple(relation.same(x, y, f"{what}, dim {n}") for n, (x, y) in enumerate(zip(a, b, strict=True)))


def normalize_axis(relation: Relation, axis: int, rank: int, what: str = "axis") -> int:
    """`axis` counted from the front; -1 is the last of `rank`."""
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise relation.fail(f"the {what} must be an integer, got {axis!r}")
    if not -rank <= axis < rank:
        _out_of_range(relation, axis, rank, what)
    return axis % rank


def _out_of_range(relation: Relation, axis: int, rank: int, what: str) -> NoReturn:
    raise relation.fail(f"{what} {axis} is out of range for rank {rank}", hint=f"from {-rank} to {rank - 1}")


def normalize_axes(
    relation: Relation, axes: Sequence[int] | int | None, rank: int, what: str = "axis"
) -> tuple[int, ...]:
    """`axes` counted from the front, ascending; None means all of them."""
    if axes is None:
        return tuple(range(rank))
    listed = (axes,) if isinstance(axes, int) else tuple(axes)
    found = tuple(sorted(normalize_axis(relation, a, rank, what) for a in listed))
    if len(set(found)) != len(found):
        raise relation.fail(f"{what} {listed} names a dimension twice")
    return found


def broadcast_shapes(relation: Relation, *shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The shape that all `shapes` broadcast to, by NumPy's rule: aligned at the end, a 1 stretches.

    Whether a dim is 1 may be known only when the program runs: n and m broadcast to m where n is 1, else to n, and what
    is checked is that this is n where m is 1, else m.
    """
    rank = max(map(len, shapes), default=0)
    out: list[Dim] = []
    for n in range(rank):
        dims = [s[n - rank + len(s)] for s in shapes if n - rank + len(s) >= 0]
        out.append(_broadcast_dim(relation, dims, n - rank))
    return tuple(out)


def _broadcast_dim(relation: Relation, dims: Sequence[Dim], axis: int) -> Dim:
    result = dims[0]
    for d in dims[1:]:
        if d is result or is_one(d):
            continue
        if is_one(result):
            result = d
            continue
        if is_hole(d) or is_hole(result):
            raise NotYet
        if isinstance(d, Const) and isinstance(result, Const):
            raise relation.fail(f"the shapes do not broadcast: dim {axis} is {result} and {d}")
        result = stretched(relation, result, d, f"broadcast dim {axis}")
    return result


def stretched(relation: Relation, a: Dim, b: Dim, what: str) -> Dim:
    """The dim that `a` and `b` broadcast to: `b` where `a` is 1, and the other way round."""
    for whole, other in ((a, b), (b, a)):
        known = parts(whole)
        if set(known).issuperset(parts(other)):
            for n in sorted(known.index(d) for d in parts(other)):
                _require_fit(relation, reduce(broadcast, known[:n], known[0]), known[n], what)
            return whole
    return _require_fit(relation, a, b, what)


def _require_fit(relation: Relation, a: Dim, b: Dim, what: str) -> Dim:
    left, right = _either_way(a, b)
    if left is a and right is b:
        return relation.same(a, b, what)
    if left is not right:
        relation.same(left, right, what)
    return right if right is b else left


def common_dim(a: Dim, b: Dim) -> Dim:
    """The dim that `a` and `b`, which are equal or one of which is 1, broadcast to."""
    if set(parts(a)).issuperset(parts(b)):
        return a
    left, right = _either_way(a, b)
    return right if right is b else left


def _either_way(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """What `a` and `b` broadcast to as the first and as the second of them says; one dim where both say the same.

    Dims that are made of several are not looked into: their proofs have as many cases.
    """
    left, right = broadcast(a, b), broadcast(b, a)
    if len(parts(a)) > 1 or len(parts(b)) > 1:
        return left, right
    left, right = (a if surely_equal(left, a) else left), (b if surely_equal(right, b) else right)
    for d in () if left is a and right is b else (a, b):
        if surely_equal(left, d) and surely_equal(right, d):
            return d, d
    return left, right


def stretch(relation: Relation, d: Dim, wanted: Dim, what: str) -> None:
    """Requires a dim to be `wanted`, or 1; where that is not known, when the program runs."""
    if not is_one(known_dim(d)):
        relation.same(_either_way(d, known_dim(wanted))[0], wanted, what)


def at_most_one(d: Dim) -> bool:
    """True if a dim is provably 0 or 1."""
    hi = bounds(d).hi
    return (hi is not None and hi <= 1) or bool(d.children() and Assumptions({}).nonnegative(1 - d))


def product(dims: Sequence[Dim]) -> Dim:
    """The product of dims."""
    total: Dim = const(1)
    for d in dims:
        total = total * d
    return total

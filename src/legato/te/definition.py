"""An operator's call as its record defines it: stages, held against the type of the call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Final

from legato.arith.assume import Assumptions
from legato.arith.evaluate import evaluate
from legato.arith.expr import Expr
from legato.arith.prove import provably_different, prove_equal
from legato.arith.substitute import variables
from legato.base.errors import CompileError, InternalError
from legato.base.span import Span
from legato.ir.op import Op
from legato.ir.types import TensorType, TupleType, Type
from legato.te.tensor import Tensor

__all__ = ["defined"]

_SIZES: Final = 200  # that extents are compared at
_RANGE: Final = 40  # of each dim, above the least that it may be


def defined(
    op: Op, operands: Sequence[Any], attrs: Any, ty: Type | None, span: Span | None = None,
    facts: Iterable[Expr] | None = None,
) -> Any:  # fmt: skip
    """What the record's `compute` makes of `operands`: a tensor, or a tuple of them.

    CompileError where that is not what its relation says, `ty`: code would write past what is allocated, or leave some
    of it as it is. Extents must be equal where each of `facts` is at least 0 (None: somebody else looks at them): those
    for which that is not proven are compared at sizes drawn by a seed, as symbols that come from elsewhere may have
    forms that no proof relates.
    """
    assert op.compute is not None
    found = op.compute(*operands, *op.tail(attrs), ty)
    if not _is_of(found, ty, None if facts is None else Assumptions({}, facts)):
        message = f"{op.name}: its compute gives {_shown(found)}, its relation says {ty}"
        hint = "legato.te.tensor.compute(out.shape, …) of out.dtype is of that type: `out` is the last argument"
        raise CompileError(message, span=span, hint=hint)
    return found


def _is_of(value: Any, ty: Type | None, known: Assumptions | None) -> bool:
    if isinstance(ty, TupleType):
        is_tuple = isinstance(value, tuple) and len(value) == len(ty.fields)
        return is_tuple and all(_is_of(v, t, known) for v, t in zip(value, ty.fields, strict=True))
    if not isinstance(value, Tensor) or not isinstance(ty, TensorType):
        return False
    if value.dtype != ty.dtype or value.rank != ty.rank:
        return False
    return known is None or all(_are_equal(a, b, known) for a, b in zip(value.shape, ty.shape, strict=True))


def _are_equal(a: Expr, b: Expr, known: Assumptions) -> bool:
    if a is b or prove_equal(a, b) or (known.nonnegative(a - b) and known.nonnegative(b - a)):
        return True
    return not provably_different(a, b) and not _differ_somewhere(a, b, known.facts)


def _differ_somewhere(a: Expr, b: Expr, facts: Sequence[Expr]) -> bool:
    """Whether two extents differ at one of the sizes tried, at which each of `facts` is at least 0."""
    rng = Random(0)
    found = variables(a, b, *facts)
    for _ in range(_SIZES):
        values = {v: rng.randint(v.lo or 0, min((v.lo or 0) + _RANGE, _RANGE if v.hi is None else v.hi)) for v in found}
        try:
            if all(evaluate(f, values) >= 0 for f in facts) and evaluate(a, values) != evaluate(b, values):
                return True
        except InternalError:  # a division by zero has no value
            continue
    return False


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return str(TensorType(value.shape, value.dtype)) if isinstance(value, Tensor) else repr(value)

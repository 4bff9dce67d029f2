"""Operators: their references, asked for nothing that the type relation does not allow.

A relation holds for types whose dims are literals as for others. So before a reference runs, the extents that the
call's type gives to the result have to be 0 or more, and the relation is asked about the types that the operands have
by now. What it refuses is an error of the call, of the operator's own words, and no reference sees what it cannot do.
The result has the extents that the call's type says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from legato.arith.evaluate import evaluate
from legato.arith.expr import Const, Var, fresh
from legato.arith.simplify import simplify
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.errors import LegatoError, RunError, TypeCheckError
from legato.interp.values import Value, evaluate_op
from legato.ir.op import Op
from legato.ir.types import Dim, ShapeType, TensorType, TupleType, Type, dims

__all__ = ["Asked", "apply_operator", "extent", "require_dtypes"]

Asked = dict[int, tuple[Op, Any, tuple[Type | None, ...]]]  # by id of the call: what was allowed last


def apply_operator(
    asked: Asked, key: int, op: Op, args: Sequence[Value], attrs: Any, ty: Type | None, env: Mapping[Var, int]
) -> Value:
    """The value of `op` on `args`, a call of type `ty` (None: not inferred) where dims have the values `env`.

    `asked` keeps what the relation allowed last for each call, by `key`: loops ask the same again and again.
    RunError for what the relation refuses, for a negative extent, and for a result of other extents than the type's.
    """
    wanted = _extents(op, ty, env)
    types = tuple(map(_type_of, args))
    before = asked.get(key)
    if before is None or before[0] is not op or before[1] is not attrs or before[2] != types:
        _ask(op, types, attrs)
        asked[key] = op, attrs, types
    try:
        result = evaluate_op(op, args, attrs)
    except LegatoError:
        raise
    except Exception as error:
        raise RunError(f"{op.name}: its reference failed: {error}") from error
    return result if wanted is None else _fitted(op, result, wanted)


# ------------------------------------------------------------------ the call's type


def _extents(op: Op, ty: Type | None, env: Mapping[Var, int]) -> Any:
    """The shapes of the tensors in `ty`, an entry None for a dim that has no value yet. RunError for a negative one."""
    if isinstance(ty, TensorType):
        return tuple([extent(op, d, env) for d in ty.shape])
    if isinstance(ty, TupleType):
        return [_extents(op, f, env) for f in ty.fields]
    return None


def extent(op: Op, d: Dim, env: Mapping[Var, int]) -> int | None:
    """An extent of what a call of `op` gives; None if it has no value yet. RunError for a negative one."""
    if isinstance(d, Const):
        return int(d.value)
    if any(v not in env for v in variables(d)):
        return None
    n = int(evaluate(d, env))
    if n < 0:
        raise RunError(f"{op.name}: an extent of the result is {d} = {n}, wanted 0 or more")
    return n


def _fitted(op: Op, result: Value, wanted: Any) -> Value:
    """`result`, whose shapes must be `wanted`. The shape of what is empty is all of it, and the type says it."""
    if isinstance(wanted, list):
        fits = isinstance(result, tuple) and len(result) == len(wanted)
        if not fits:
            raise RunError(f"{op.name}: its reference gave no tuple of {len(wanted)}")
        return tuple(_fitted(op, r, w) for r, w in zip(result, wanted, strict=True))
    if wanted is None or not isinstance(result, np.ndarray) or _agree(result.shape, wanted):
        return result
    if 0 in result.shape and 0 in wanted and None not in wanted:
        return np.empty(wanted, result.dtype)
    raise RunError(f"{op.name}: the result has the shape {result.shape}, wanted {wanted}")


def require_dtypes(op: Op, result: Value, ty: Type | None) -> None:
    """RunError where a reference's result is of another dtype than its type says."""
    if isinstance(ty, TupleType):
        for part, t in zip(result, ty.fields, strict=True):
            require_dtypes(op, part, t)
    elif isinstance(ty, TensorType) and isinstance(result, np.ndarray) and result.dtype != ty.dtype.numpy:
        raise RunError(f"{op.name}: its reference gives {result.dtype}, wanted {ty.dtype}")


def _agree(got: Sequence[int], wanted: Sequence[int | None]) -> bool:
    return len(got) == len(wanted) and all(w is None or g == w for g, w in zip(got, wanted, strict=True))


# ------------------------------------------------------------------ the relation


def _type_of(value: Value) -> Type | None:
    """The type of a value that operators take; None for others."""
    if isinstance(value, np.ndarray):
        return TensorType(dims(value.shape), dt.dtype(value.dtype))
    if not isinstance(value, tuple):
        return None
    if value and all(isinstance(v, int) for v in value):
        return ShapeType(dims(value))
    fields = [_type_of(v) for v in value]
    known = [f for f in fields if f is not None]
    return TupleType(tuple(known)) if len(known) == len(fields) else None


def _ask(op: Op, types: Sequence[Type | None], attrs: Any) -> None:
    """RunError where the relation refuses operands of `types`."""
    known = [t for t in types if t is not None]
    if len(known) != len(types):
        return
    try:
        question = _Question(op, known)
        found = op.type_rel(question, *known, *op.tail(attrs))
        op.require_computed(question, attrs, (*known, *([] if found is None else [found])), "computes with no {}")
    except TypeCheckError as error:
        raise RunError("\n  ".join((error.message, *error.details))) from None


class _Question:
    """One question to a type relation, `ir.op.Relation` where all dims of the operands are literals."""

    def __init__(self, op: Op, types: Sequence[Type]) -> None:
        self._op, self._types = op, types

    def same(self, a: Dim, b: Dim, what: str) -> Dim:
        """Requires a == b."""
        a, b = simplify(a), simplify(b)
        if isinstance(a, Const) and isinstance(b, Const) and a.value != b.value:
            raise self.fail(f"{what}: the dims differ, {a} and {b}")
        return b if isinstance(b, Const) else a

    def unify(self, a: Type, b: Type, what: str) -> Type:
        """Requires two types to be equal."""
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            if a.dtype != b.dtype:
                raise self.fail(f"{what}: the dtypes differ, {a.dtype} and {b.dtype}")
            return TensorType(self._all(a.shape, b.shape, self.same, what), a.dtype)
        if isinstance(a, TupleType) and isinstance(b, TupleType):
            return TupleType(self._all(a.fields, b.fields, self.unify, what))
        if type(a) is not type(b):
            raise self.fail(f"{what}: the types differ, {a} and {b}")
        return a

    def _all(self, a: Sequence[Any], b: Sequence[Any], one: Callable[[Any, Any, str], Any], what: str) -> Any:
        if len(a) != len(b):
            raise self.fail(f"{what}: {len(a)} against {len(b)}")
        return tuple([one(x, y, what) for x, y in zip(a, b, strict=True)])

    def fresh(self, name: str, hi: int | None = None) -> Dim:
        """A dim that only the reference finds."""
        return fresh(name, 0, hi)

    def value(self, arg: int) -> tuple[Dim, ...] | None:
        """Nothing: what values say, the call's type says already."""
        return None

    def fail(self, message: str, hint: str | None = None, details: Sequence[str] = ()) -> TypeCheckError:
        """An error, to be raised by the relation."""
        operands = zip((name.lstrip("*") for name in self._op.args), self._types, strict=False)
        return TypeCheckError(f"{self._op.name}: {message}", details=[*(f"{n} : {t}" for n, t in operands), *details])

"""Whether a rule keeps the meaning: its two sides on random operands, by the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

import numpy as np

from legato.arith.evaluate import evaluate as evaluate_dim
from legato.arith.expr import Const
from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.dtype import dtype as as_dtype
from legato.base.errors import CompileError, RunError, TypeCheckError
from legato.infer.holes import dim_vars
from legato.infer.infer import infer_function
from legato.interp import evaluate
from legato.ir.expr import Expr, Function, GlobalVar, Var
from legato.ir.module import Module
from legato.ir.types import Dim, TensorType, TupleType, Type, scalar_type, tensor_type, walk
from legato.ir.visit import free_vars, substitute
from legato.patterns import Equation, Rule, match

__all__ = ["Checked", "check_rule"]

_DTYPES: Final = ("float32", "int32", "bool", "float64", "int64")
_SIZES: Final = (0, 1, 2, 3)
_SPECIAL: Final = (0.0, -0.0, 1.0, np.inf, -np.inf, np.nan)


@dataclass(frozen=True, slots=True)
class Checked:
    """How many draws of types there were, and on how many of them the rule has been applied and compared."""

    tried: int
    applied: int


def check_rule(
    rule: Rule,
    example: Expr | None = None,
    *,
    types: Mapping[str, Type] | None = None,
    trials: int = 200,
    rtol: float = 0.0,
    finite: bool = False,
    seed: int = 0,
) -> Checked:
    """Applies `rule` to its left side, or to `example`, at random types of the variables and compares both by the
    interpreter on random operands: shapes of every rank up to 3, with dims of 0 and 1 and symbolic ones, that broadcast
    or do not.

    `types` of variables, by name, are not drawn. Values are equal bit for bit, or within `rtol` of the largest; unless
    `finite`, there are infinities and NaNs among the operands. CompileError with the operands for which the sides
    differ, or where none fits the rule.
    """
    if example is None:
        if not isinstance(rule, Equation):
            raise CompileError(f"{rule.name} has no left side to check it on", hint="pass an example that it matches")
        example = rule.lhs
    random = Random(seed)
    applied = 0
    for _ in range(trials):
        before = _drawn(random, example, types or {})
        after = None if before is None else _applied(rule, before)
        if before is not None and after is not None and _agree(random, rule, before, after, rtol, finite):
            applied += 1
    if not applied:
        hint = "say of what types its variables are, by types={…}, or pass an example"
        raise CompileError(f"{rule.name} does not apply to operands of any of {trials} random types", hint=hint)
    return Checked(trials, applied)


def _applied(rule: Rule, before: Function) -> Function | None:
    """A function with its body replaced; None where the rule does not apply to that."""
    found = match(rule.pattern, before.body)
    made = None if found is None else rule.replacement(before.body, before.body, found)
    if made is None or made is before.body:
        return None
    return infer_function(replace(before, body=made, ret_type=None, ty=None))


def _agree(random: Random, rule: Rule, before: Function, after: Function, rtol: float, finite: bool) -> bool:
    """Whether both give the same; False where the operands are none that the function takes. CompileError."""
    dims = {d: random.choice(_SIZES) for p in before.params for d in dim_vars(p.checked_type)}
    rng = np.random.default_rng(random.randrange(2**32))
    operands = [_value(rng, p.checked_type, dims, finite) for p in before.params]
    with np.errstate(all="ignore"):
        try:
            wanted = evaluate(Module({GlobalVar("main"): before}), operands)
        except RunError:
            return False
        try:
            got = evaluate(Module({GlobalVar("main"): after}), operands)
        except RunError as error:
            raise _wrong(rule, before, operands, wanted, error) from error
    if not _same(got, wanted, rtol):
        raise _wrong(rule, before, operands, wanted, got)
    return True


def _wrong(rule: Rule, func: Function, operands: Sequence[Any], wanted: Any, got: Any) -> CompileError:
    given = [f"%{p.name} : {p.ty} = {_shown(v)}" for p, v in zip(func.params, operands, strict=True)]
    details = [*given, f"left  : {_shown(wanted)}", f"right : {_shown(got)}"]
    return CompileError(f"{rule.name}: the sides differ", details=details)


def _shown(value: Any) -> str:
    return " ".join(np.array2string(value, threshold=16).split()) if isinstance(value, np.ndarray) else str(value)


def _same(a: Any, b: Any, rtol: float) -> bool:
    """Whether two values are equal: floats in their signs as well, unless an error is allowed."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(_same(x, y, rtol) for x, y in zip(a, b, strict=True))
    if not isinstance(a, np.ndarray | np.generic) or a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind not in "biuf":  # bfloat16 is no float to NumPy
        a, b = a.astype(np.float32), b.astype(np.float32)
    if rtol and a.dtype.kind == "f":
        sizes = np.abs(b[np.isfinite(b)])
        return bool(np.allclose(a, b, rtol=0, atol=rtol * float(sizes.max(initial=0.0)), equal_nan=True))
    signs = a.dtype.kind != "f" or np.array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b))
    return bool(signs) and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


# ---------------------------------------------------------------------- operands


def _drawn(random: Random, example: Expr, types: Mapping[str, Type]) -> Function | None:
    """The function of the variables of an expression, at random types where they are not given; None if ill-typed."""
    shape, dtype = _shape(random), as_dtype(random.choice(_DTYPES))
    drawn = {}
    for var in free_vars(example):
        known = types.get(var.name, var.ty)
        drawn[var] = Var(var.name, ty=known if known is not None else _type(random, shape, dtype))
    try:
        func = infer_function(Function(tuple(drawn.values()), substitute(example, drawn)))
    except TypeCheckError:
        return None
    return func if all(_is_data(p.checked_type) for p in func.params) else None


def _is_data(ty: Type) -> bool:
    return all(isinstance(part, TensorType | TupleType) for part in walk(ty))


def _shape(random: Random) -> list[Dim]:
    symbols = [DimVar("n", lo=0), DimVar("m", lo=0)]
    return [random.choice([*map(Const, _SIZES), *symbols]) for _ in range(random.randrange(4))]


def _type(random: Random, shape: Sequence[Dim], dtype: DType) -> Type | None:
    """A type that goes with others drawn from the same shape: it, what broadcasts to it, a truth value, any, or None:
    what inference finds."""
    kind = random.randrange(8)
    if kind < 4:
        return TensorType(tuple(shape), dtype)
    if kind == 4:
        return TensorType(tuple(d if random.random() < 0.5 else Const(1) for d in shape), dtype)
    if kind == 5:
        return TensorType(tuple(shape[random.randrange(len(shape) + 1) :]), dtype)
    if kind == 6:
        return scalar_type("bool") if random.random() < 0.5 else tensor_type(_shape(random), random.choice(_DTYPES))
    return None


def _value(rng: np.random.Generator, ty: Type, dims: Mapping[DimVar, int], finite: bool) -> Any:
    if isinstance(ty, TupleType):
        return tuple(_value(rng, field, dims, finite) for field in ty.fields)
    assert isinstance(ty, TensorType)
    shape = tuple(int(evaluate_dim(d, {v: dims[v] for v in variables(d)})) for d in ty.shape)
    if ty.dtype.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    if not ty.dtype.is_float:
        return rng.integers(0 if ty.dtype.min == 0 else -4, 5, shape).astype(ty.dtype.numpy)
    values = rng.standard_normal(shape) * 4
    if not finite:
        values = np.where(rng.random(shape) < 0.2, rng.choice(_SPECIAL, shape), values)
    return np.asarray(values, ty.dtype.numpy)

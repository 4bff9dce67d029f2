"""Tensor expressions under the names of `tvm.te`: `from legato import te`

    A = te.placeholder((n, 64), name="A")
    B = te.placeholder((64, m), name="B")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    te.create_prim_func([A, B, C])                  the tensor program that computes C from A and B

A Tensor here is a view of the compiler's own (`te.tensor`). Elements and axes are scalars with Python's operators
(`te.scalar`); integers of shapes and axes are unbounded, a tensor made of them is of int64.
"""

from __future__ import annotations

from builtins import any as any_
from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from math import log as ln
from typing import Any

from legato.arith import expr as arith
from legato.arith.expr import Const, Expr, fresh
from legato.arith.simplify import simplify
from legato.arith.substitute import replace, variables
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import InternalError, TypeCheckError, UnsupportedError
from legato.te import math
from legato.te import tensor as stages
from legato.te.order import in_order
from legato.te.programs import program
from legato.te.scalar import ReduceAxis, Reduced, ReduceVar, Scalar, lifted, plain
from legato.tir import scalars
from legato.tir.expr import Load, cast
from legato.tir.expr import identity as neutral
from legato.tir.stmt import Func

__all__ = ["Tensor", "abs", "acos", "acosh", "all", "any", "asin", "asinh", "atan", "atanh", "ceil", "compute",
           "const", "cos", "cosh", "create_prim_func", "div", "erf", "exp", "floor", "floordiv", "floormod",
           "if_then_else", "indexdiv", "indexmod", "isfinite", "isinf", "isnan", "log", "log2", "log10", "max",
           "max_value", "min", "min_value", "placeholder", "power", "prod", "reduce_axis", "round", "rsqrt",
           "sigmoid", "sin", "sinh", "size_var", "sqrt", "sum", "tan", "tanh", "trunc", "truncdiv", "truncmod",
           "var"]  # fmt: skip


class Tensor:
    """A tensor of a tensor expression; `tensor` is the compiler's own."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: stages.Tensor) -> None:
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int | Expr, ...]:
        """The extents; numbers where they are known."""
        return tuple(int(d) if isinstance(d, Const) else d for d in self.tensor.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.tensor.rank

    @property
    def dtype(self) -> DType:
        """Element type; equal to its name."""
        return self.tensor.dtype

    @property
    def name(self) -> str:
        """What it is called."""
        return self.tensor.name

    def __getitem__(self, indices: object) -> Scalar:
        """The element at `indices`, one for each dimension (`()` for a scalar)."""
        listed = indices if isinstance(indices, tuple) else (indices,)
        if len(listed) != self.ndim:
            raise TypeCheckError(f"{self.name} is of rank {self.ndim}, got {len(listed)} indices")
        return Scalar(Load(self.tensor, tuple(scalars.as_index(plain(i), f"an index of {self.name}") for i in listed)))

    def __call__(self, *indices: Any) -> Scalar:
        """The element at `indices`."""
        return self[indices]

    def __iter__(self) -> Any:
        raise TypeError(f"{self.name} cannot be iterated over: its elements are known when the program runs")

    def __repr__(self) -> str:
        return f"<te.Tensor {self.name}: {self.dtype} of ({', '.join(map(str, self.shape))})>"


def var(name: str = "n", dtype: str = "int64") -> arith.Var:
    """A dim: an integer from 0 on. TypeCheckError for a dtype that is no integer's."""
    if dtype not in ("int32", "int64"):
        raise TypeCheckError(f"dim {name} of dtype {dtype}", hint="dims are integers: int32 or int64")
    return fresh(name)


size_var = var


def placeholder(shape: Any, dtype: DType | str = "float32", name: str = "placeholder") -> Tensor:
    """An input."""
    return Tensor(stages.placeholder(name, _extents(shape), dtype))


def _extents(shape: Any) -> list[Expr]:
    listed = shape if isinstance(shape, tuple | list) else (shape,)
    found = [simplify(scalars.as_index(plain(d), "an extent")) for d in listed]
    if any_(isinstance(d, Const) and d.value < 0 for d in found):
        raise TypeCheckError(f"the extents {', '.join(map(str, found))}", hint="extents are from 0 on")
    return found


def reduce_axis(dom: Any, name: str = "r") -> ReduceAxis:
    """An axis for a reduction, of the integers from `dom[0]` up to, and without, `dom[1]`."""
    if not isinstance(dom, tuple | list) or len(dom) != 2:
        raise TypeCheckError(f"an axis from {dom!r}", hint="te.reduce_axis((0, n))")
    begin, end = (scalars.as_index(plain(d), "an end of an axis") for d in dom)
    return ReduceAxis(name, begin, simplify(end - begin))


def compute(
    shape: Any, fcompute: Callable[..., Any], name: str = "compute", tag: str = "", attrs: object = None
) -> Any:
    """The tensor whose element at (i, j, …) is `fcompute(i, j, …)`; several, where that gives a tuple.

    An element is a scalar, a number, or a reduction alone. (tag, attrs: for schedules, which are derived here.)
    """
    extents = _extents(shape)
    axes = [fresh(n) for n in _axis_names(fcompute, len(extents))]
    try:
        found = fcompute(*(Scalar(a) for a in axes))
    except InternalError as error:  # of what stands to the left of a scalar: shapes take no part in `scalars.join`
        raise TypeCheckError(
            f"{name}: {error}", hint="i.astype(dtype) converts a scalar, te.const makes one"
        ) from error
    if isinstance(found, tuple | list):
        return tuple(_stage(extents, axes, e, f"{name}_{n}") for n, e in enumerate(found))
    return _stage(extents, axes, found, name)


def _axis_names(fcompute: Callable[..., Any], rank: int) -> list[str]:
    params = list(signature(fcompute).parameters.values())
    names = [p.name for p in params if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    is_open = any_(p.kind is Parameter.VAR_POSITIONAL for p in params)
    if len(names) > rank or (len(names) < rank and not is_open):
        raise TypeCheckError(f"a tensor of rank {rank} from a function of {len(names)} indices")
    return names + [f"i{n}" for n in range(len(names), rank)]


def _stage(extents: Sequence[Expr], axes: Sequence[arith.Var], found: Any, name: str) -> Tensor:
    reduction = found.reduction if isinstance(found, Reduced) else None
    body = found.value if isinstance(found, Reduced) else _element(found)
    loose = [v.name for v in variables(body) if isinstance(v, ReduceVar)]
    if loose:
        raise TypeCheckError(f"{name}: nothing is reduced over {', '.join(loose)}", hint="te.sum(…, axis=[…])")
    own = [fresh(a.name) for a in axes]  # of several results each has its own
    body = replace(body, dict(zip(axes, own, strict=True)))
    stage = stages.Stage(tuple(map(stages.Axis, own, extents)), body, reduction)
    return Tensor(stages.Tensor(name, extents, body.dtype, stage))


def _element(value: Any) -> Expr:
    """A scalar as an element of a tensor: integers without a dtype of their own are int64, or int32 as literals."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _literal(value, dt.int32)
    e = scalars.as_scalar(plain(value))
    return cast(e, dt.int64) if e.dtype == dt.index else e


def create_prim_func(ops: Sequence[Tensor]) -> Func:
    """The tensor program that computes those of the tensors that are not placeholders, from those that are."""
    tensors = [t.tensor for t in ops]
    inputs = [t for t in tensors if t.stage is None]
    outputs = [t for t in tensors if t.stage is not None]
    missing = [t.name for t in in_order(outputs) if t.stage is None and t not in inputs]
    if missing or not outputs:
        what = f"{', '.join(missing)} is not among its tensors" if missing else "it computes nothing"
        raise TypeCheckError(f"a tensor program: {what}", hint="te.create_prim_func([inputs …, outputs …])")
    return program("main", inputs, outputs)[0]


# ---------------------------------------------------------------------- reductions


def _reduction(combiner: str) -> Callable[..., Reduced]:
    def function(expr: Any, axis: Any, where: Any = None, init: Any = None) -> Reduced:
        axes = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
        odd = [a for a in axes if not isinstance(a, ReduceAxis)]
        if odd or not axes:
            raise TypeCheckError(f"te.{combiner} over {odd or 'no axis'}", hint="te.reduce_axis((0, n)) makes an axis")
        body = _element(expr)
        if body.dtype.is_bool:
            raise TypeCheckError(f"te.{combiner} of bool", hint='x.astype("int32")')
        if where is not None:
            body = arith.select(scalars.logical(plain(where), "where"), body, neutral(_COMBINED[combiner], body.dtype))
        first = None if init is None else scalars.converted(plain(init), body.dtype, "init")
        own = tuple(stages.Axis(fresh(a.name), a.extent) for a in axes)
        parts: dict[Expr, Expr] = {a.var: o.var for a, o in zip(axes, own, strict=True)}
        return Reduced(replace(body, parts), stages.Reduction(combiner, own, first))

    return function


_COMBINED = stages.COMBINERS
sum, prod = _reduction("sum"), _reduction("prod")


def _extremum(name: str) -> Callable[..., Scalar]:
    reduced = _reduction(name)

    def function(expr: Any, axis: Any, where: Any = None, init: Any = None) -> Scalar:
        first = axis[0] if isinstance(axis, list | tuple) and axis else axis
        if isinstance(first, ReduceAxis):
            return reduced(expr, axis, where, init)
        return Scalar(scalars.binary(name, plain(expr), plain(axis)))

    return function


max, min = _extremum("max"), _extremum("min")  # of two scalars, or of one over axes

# ---------------------------------------------------------------------- scalars


def _binary(op: str) -> Callable[[Any, Any], Scalar]:
    return lambda a, b: Scalar(scalars.binary(op, plain(a), plain(b)))


def _of_floats(function: Callable[[Expr], Expr]) -> Callable[[Any], Scalar]:
    def checked(e: Expr) -> Expr:
        if not e.dtype.is_float:
            raise TypeCheckError(f"{function.__name__.rstrip('_')} of {e.dtype}", hint='x.astype("float32")')
        return function(e)

    return lifted(checked)


exp, log, sqrt, rsqrt, tanh, sigmoid, erf = map(
    _of_floats, (math.exp, math.log, math.sqrt, math.rsqrt, math.tanh, math.sigmoid, math.erf)
)
sin, cos, tan, asin, acos, atan = map(
    _of_floats, (math.sin, math.cos, math.tan, math.asin, math.acos, math.atan)
)  # fmt: skip
sinh, cosh, asinh, acosh, atanh = map(_of_floats, (math.sinh, math.cosh, math.asinh, math.acosh, math.atanh))
floor, ceil, trunc, round, abs = map(lifted, (math.floor, math.ceil, math.trunc, math.round_, math.abs_))
isnan, isinf, isfinite = map(lifted, (math.isnan, math.isinf, math.isfinite))
floordiv, floormod, power, div = map(_binary, ("//", "%", "**", "/"))
indexdiv, indexmod = floordiv, floormod


def truncdiv(a: Any, b: Any) -> Scalar:
    """a / b of integers, rounded towards zero."""
    return Scalar(math.truncdiv(*scalars.join(plain(a), plain(b))))


def truncmod(a: Any, b: Any) -> Scalar:
    """What `truncdiv` leaves: with the sign of `a`."""
    return Scalar(math.truncmod(*scalars.join(plain(a), plain(b))))


def log2(x: Any) -> Scalar:
    """The logarithm to base 2."""
    return log(x) * (1 / ln(2))


def log10(x: Any) -> Scalar:
    """The logarithm to base 10."""
    return log(x) * (1 / ln(10))


def if_then_else(cond: Any, t: Any, f: Any) -> Scalar:
    """`t` where the condition holds, else `f`: only that is read."""
    first, second = scalars.join(plain(t), plain(f))
    return Scalar(arith.select(scalars.logical(plain(cond), "the condition"), first, second))


def _joined(op: str) -> Callable[..., Scalar]:
    def function(condition: Any, *more: Any) -> Scalar:
        found = scalars.logical(plain(condition), f"an operand of `{op}`")
        for c in more:
            found = scalars.binary(op, found, plain(c))
        return Scalar(found)

    return function


all, any = _joined("and"), _joined("or")


def min_value(dtype: DType | str) -> Scalar:
    """The least number of a dtype."""
    return Scalar(_limit(dt.dtype(dtype), -1))


def max_value(dtype: DType | str) -> Scalar:
    """The largest number of a dtype."""
    return Scalar(_limit(dt.dtype(dtype), 1))


def _limit(dtype: DType, sign: int) -> Expr:
    if dtype.is_float:
        from ml_dtypes import finfo

        largest: Any = finfo(dtype.numpy)  # type: ignore[no-untyped-call]
        return arith.const(sign * float(largest.max), dtype)
    return arith.const(dtype.max if sign > 0 else dtype.min, dtype)


def const(value: float | bool, dtype: DType | str | None = None) -> Scalar:
    """A number of a dtype; without one, int32 or float32. TypeCheckError where it does not fit."""
    if dtype is not None:
        return Scalar(_literal(value, dt.dtype(dtype)))
    kinds = {bool: dt.bool_, int: dt.int32, float: dt.float32}
    if type(value) not in kinds:
        raise TypeCheckError(f"te.const of {value!r}, wanted a number")
    return Scalar(_literal(value, kinds[type(value)]))


def _literal(value: Any, dtype: DType) -> Expr:
    if isinstance(value, int) and dtype.is_int and not dtype.min <= value <= dtype.max:
        raise TypeCheckError(f"{value} does not fit into {dtype}", hint=f'te.const({value}, "int64")')
    return scalars.as_type(plain(value), dtype)


_COMPILE = "te.create_prim_func makes a program of tensors as they are: compiling it derives loops and threads"
_NOT_HERE = {
    "extern": (
        "a tensor program calls nothing outside of itself",
        "call_packed in a program (docs/packed.md) calls a function of Python or of a shared library",
    ),
    "thread_axis": ("schedules are derived, and threads come with them", _COMPILE),
    "comm_reducer": (
        "reductions have names",
        "te.sum, te.prod, te.max and te.min",
    ),
    "create_schedule": ("schedules are derived", _COMPILE),
}


def __getattr__(name: str) -> Any:
    if name in _NOT_HERE:
        why, hint = _NOT_HERE[name]
        raise UnsupportedError(f"there is no te.{name}: {why}", hint=hint)
    raise AttributeError(f"te has no {name}")

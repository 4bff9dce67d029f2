"""Programs evaluated by PyTorch: every value is a torch.Tensor, every operator one of torch's, so that its autograd
gives gradients to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from legato.arith.evaluate import evaluate as dim_value
from legato.interp import Data
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple, PatternVar
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
)
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import FuncType, ShapeType, TensorType, TupleType, Type
from legato.transform.to_a_normal import ToANormal

__all__ = ["NotHere", "Twin"]


class NotHere(Exception):
    """An operator that the table lacks."""


def axes(a: Any, rank: int) -> tuple[int, ...]:
    """The axes that a reduction is over."""
    listed = range(rank) if a.axis is None else (a.axis,) if isinstance(a.axis, int) else a.axis
    found = {n % rank for n in listed}
    return tuple(n for n in range(rank) if (n in found) != a.exclude)


def pair(value: Any, count: int) -> list[int]:
    """A window's attribute for each of `count` axes."""
    return [value] * count if isinstance(value, int) else list(value) * (count // len(value))


def padded(x: torch.Tensor, padding: Any, spatial: int, value: float = 0.0) -> torch.Tensor:
    """`x` with its last axes padded."""
    given = [padding] if isinstance(padding, int) else list(padding)
    whole = given * (2 * spatial // len(given))
    befores, afters = whole[:spatial], whole[spatial:]
    return F.pad(x, [n for k in reversed(range(spatial)) for n in (befores[k], afters[k])], value=value)


def conv(x: torch.Tensor, w: torch.Tensor, a: Any) -> torch.Tensor:
    if a.data_layout != "NCHW" or a.kernel_layout != "OIHW":
        raise NotHere("layouts")
    return F.conv2d(padded(x, a.padding, 2), w, None, pair(a.strides, 2), 0, pair(a.dilation, 2), a.groups)


def max_pool(x: torch.Tensor, a: Any) -> torch.Tensor:
    return F.max_pool2d(padded(x, a.padding, 2, -np.inf), pair(a.pool_size, 2), pair(a.strides, 2),
                        ceil_mode=a.ceil_mode)  # fmt: skip


def batch_norm(x: torch.Tensor, gamma: Any, beta: Any, mean: Any, var: Any, a: Any) -> Any:
    shape = [1] * x.ndim
    shape[a.axis] = -1
    y = (x - mean.reshape(shape)) * torch.rsqrt(var.reshape(shape) + a.epsilon)
    y = y * gamma.reshape(shape) if a.scale else y
    return (y + beta.reshape(shape) if a.center else y, mean, var)


def reduced(f: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda x, a: f(x, dim=axes(a, x.ndim), keepdim=a.keepdims) if axes(a, x.ndim) else x


def dtype_of(name: Any) -> torch.dtype:
    return getattr(torch, str(name))


def bias(x: torch.Tensor, b: torch.Tensor, a: Any) -> torch.Tensor:
    shape = [1] * x.ndim
    shape[a.axis] = -1
    return x + b.reshape(shape)


OPS: dict[str, Callable[..., Any]] = {
    "add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div, "negative": torch.neg,
    "maximum": torch.maximum, "minimum": torch.minimum, "abs": torch.abs, "tanh": torch.tanh, "exp": torch.exp,
    "sigmoid": torch.sigmoid, "sin": torch.sin, "cos": torch.cos, "sqrt": torch.sqrt, "log": torch.log,
    "rsqrt": torch.rsqrt, "erf": torch.erf, "floor": torch.floor, "copy": lambda x: x, "nn.relu": torch.relu,
    "equal": torch.eq, "not_equal": torch.ne, "less": torch.lt, "less_equal": torch.le, "greater": torch.gt,
    "greater_equal": torch.ge, "logical_and": torch.logical_and, "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor, "logical_not": torch.logical_not, "where": torch.where,
    "floor_divide": lambda x, y: torch.where(y == 0, 0, torch.div(x, torch.where(y == 0, 1, y), rounding_mode="floor")),
    "cast": lambda x, a: x.to(dtype_of(a.dtype)),
    "sum": reduced(torch.sum), "mean": reduced(torch.mean), "max": reduced(torch.amax), "min": reduced(torch.amin),
    "transpose": lambda x, a: x.permute(tuple(reversed(range(x.ndim))) if a.axes is None else a.axes),
    "reshape": lambda x, a, ty: x.reshape(ty),
    "expand_dims": lambda x, a, ty: x.reshape(ty), "squeeze": lambda x, a, ty: x.reshape(ty),
    "nn.batch_flatten": lambda x, ty: x.reshape(ty),
    "concatenate": lambda xs, a: torch.cat(xs, a.axis), "stack": lambda xs, a: torch.stack(xs, a.axis),
    "zeros": lambda a, ty: torch.zeros(ty, dtype=dtype_of(a.dtype)),
    "ones": lambda a, ty: torch.ones(ty, dtype=dtype_of(a.dtype)),
    "zeros_like": torch.zeros_like, "ones_like": torch.ones_like,
    "split": lambda x, a: tuple(torch.tensor_split(x, a.indices_or_sections, a.axis)),
    "nn.dense": lambda x, w, a: x @ w.T, "nn.bias_add": bias,
    "nn.batch_matmul": lambda x, y, a: torch.matmul(x.mT if a.transpose_a else x, y.mT if a.transpose_b else y),
    "matmul": lambda x, y, *a: torch.matmul(x, y),
    "nn.softmax": lambda x, a: torch.softmax(x, a.axis), "nn.log_softmax": lambda x, a: torch.log_softmax(x, a.axis),
    "nn.conv2d": conv, "nn.max_pool2d": max_pool, "nn.batch_norm": batch_norm,
    "nn.global_avg_pool2d": lambda x, a: x.mean((2, 3), keepdim=True),
    "clip": lambda x, a: torch.clamp(x, a.a_min, a.a_max),
    "take": lambda x, i, a: torch.index_select(x, a.axis, i.reshape(-1).long()).reshape(
        *x.shape[: a.axis], *i.shape, *x.shape[a.axis + 1 :]
    ),
}  # fmt: skip
SHAPED = {"reshape", "expand_dims", "squeeze", "nn.batch_flatten", "zeros", "ones"}


class Twin:
    """Evaluates programs; NotHere for an operator that the table lacks."""

    def __init__(self, mod: Module) -> None:
        self._mod = ToANormal()(mod)  # in which every computation has one place

    def __call__(self, *args: Any) -> Any:
        """The result of @main."""
        main = self._mod["main"]
        assert isinstance(main, Function)
        return self._enter(main, args, {}, {})

    def _enter(self, func: Function, args: Any, env: Mapping[Var, Any], dims: dict[Any, int]) -> Any:
        dims = dict(dims)
        for param, arg in zip(func.params, args, strict=True):
            learn(param.ty, arg, dims)
        return self._value(func.body, {**env, **dict(zip(func.params, args, strict=True))}, dims, {})

    def _value(self, e: Expr, env: dict[Var, Any], dims: dict[Any, int], known: dict[int, Any]) -> Any:
        """The value; `known` are those of shared nodes of this scope."""
        while isinstance(e, Let):
            if isinstance(e.value, Function):
                env = dict(env)
                env[e.var] = self._closure(e.value, env, dims)
            else:
                value = self._value(e.value, env, dims, known)
                env = {**env, e.var: value}
                learn(e.value.ty, value, dims)
            e = e.body
        if id(e) not in known:
            known[id(e)] = self._new(e, env, dims, known)
        return known[id(e)]

    def _closure(self, func: Function, env: dict[Var, Any], dims: dict[Any, int]) -> Any:
        return lambda *args: self._enter(func, args, env, dims)

    def _new(self, e: Expr, env: dict[Var, Any], dims: dict[Any, int], known: dict[int, Any]) -> Any:
        match e:
            case Var():
                return env[e]
            case GlobalVar():
                return lambda *args: self._enter(self._mod[e], args, {}, {})  # type: ignore[arg-type]
            case Constant():
                return torch.from_numpy(np.array(e.data))
            case Function():
                return self._closure(e, env, dims)
            case Shape():
                return tuple(int(dim_value(d, dims)) for d in e.dims)
            case Op() | Constructor():
                return lambda *args: self._apply(e, args, None, None, dims)
            case If(cond, then, orelse):
                taken = bool(self._value(cond, env, dims, known))
                return self._value(then if taken else orelse, env, dims, dict(known))
            case Match(data):
                return self._match(e, self._value(data, env, dims, known), env, dims, known)
        return self._of_operands(e, [self._value(kid, env, dims, known) for kid in e.children()], dims)

    def _match(self, e: Match, value: Any, env: dict[Var, Any], dims: dict[Any, int], known: dict[int, Any]) -> Any:
        for clause in e.clauses:
            found: dict[Var, Any] = {}
            if fits(clause.pattern, value, found):
                return self._value(clause.body, {**env, **found}, dims, dict(known))
        raise AssertionError("no clause fits")

    def _of_operands(self, e: Expr, kids: list[Any], dims: dict[Any, int]) -> Any:
        match e:
            case Tuple():
                return tuple(kids)
            case TupleGetItem():
                return kids[0][e.index]
            case RefCreate():
                return [kids[0]]
            case RefRead():
                return kids[0][0]
            case RefWrite():
                kids[0][0] = kids[1]
                return ()
            case MatchCast():
                learn(e.target, kids[0], dims)
                return kids[0]
            case Call(op=Op() | Constructor() as op):
                return self._apply(op, kids[1:], e.attrs, e.ty, dims)
            case Call():
                return kids[0](*kids[1:])
        raise NotHere(type(e).__name__)

    def _apply(self, op: Op | Constructor, args: Any, attrs: Any, ty: Type | None, dims: dict[Any, int]) -> Any:
        if isinstance(op, Constructor):
            return Data(op, tuple(args))
        if op.name not in OPS:
            raise NotHere(op.name)
        rest = [] if op.attrs is None else [attrs]
        if op.name in SHAPED:
            assert isinstance(ty, TensorType)
            rest.append([int(dim_value(d, dims)) for d in ty.shape])
        return OPS[op.name](*args, *rest)


def learn(ty: Type | None, value: Any, dims: dict[Any, int]) -> None:
    """Notes what the dims of a type are."""
    if isinstance(ty, TensorType):
        for d, n in zip(ty.shape, value.shape, strict=True):
            dims.setdefault(d, n)
    elif isinstance(ty, ShapeType):
        for d, n in zip(ty.dims or (), value, strict=False):
            dims.setdefault(d, n)
    elif isinstance(ty, TupleType) and not isinstance(ty, FuncType):
        for field, part in zip(ty.fields, value, strict=True):
            learn(field, part, dims)


def fits(pattern: Pattern, value: Any, found: dict[Var, Any]) -> bool:
    """Whether a pattern matches, and what it binds."""
    match pattern:
        case PatternVar(var):
            found[var] = value
            return True
        case PatternTuple(patterns):
            return all(fits(p, v, found) for p, v in zip(patterns, value, strict=True))
        case PatternConstructor(constructor, patterns):
            same = isinstance(value, Data) and value.constructor.name == constructor.name
            return same and all(fits(p, v, found) for p, v in zip(patterns, value.fields, strict=True))
        case _:
            return True

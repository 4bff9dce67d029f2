"""Tensors made of sizes and numbers: full, empty (zeros here), arange, eye and their like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from legato.arith.expr import Expr as DimExpr
from legato.arith.expr import const
from legato.base.dtype import DType, bool_, float32, float64, int64
from legato.base.errors import UnsupportedError
from legato.frontend.torch.dtypes import array_of, from_torch, to_torch
from legato.frontend.torch.emitter import Emitter, Float, Number, Size, Value
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


def _dtype(b: Emitter, dtype: DType | None, *numbers: Number) -> DType:
    """The dtype that is asked for, or that PyTorch gave; else that of numbers."""
    if dtype is not None:
        return dtype
    if isinstance(b.traced, torch.Tensor):
        return from_torch(b.traced.dtype)
    return b.result_dtype(*numbers) if numbers else b.float_dtype


def _filled(b: Emitter, size: Sequence[Size], value: Number, dtype: DType) -> Expr:
    return b.broadcast(b.operand(value, dtype), b.sizes_of(size))


@aten("full")
def full(b: Emitter, size: tuple[Size, ...], fill_value: Number, *, dtype: DType | None = None) -> Expr:
    return _filled(b, size, fill_value, _dtype(b, dtype, fill_value))


@aten("zeros", "empty.memory_format", "_efficientzerotensor")
def zeros(b: Emitter, size: tuple[Size, ...], *, dtype: DType | None = None) -> Expr:
    """What PyTorch leaves undefined is zero."""
    return _filled(b, size, 0, _dtype(b, dtype))


@aten("ones")
def ones(b: Emitter, size: tuple[Size, ...], *, dtype: DType | None = None) -> Expr:
    return _filled(b, size, 1, _dtype(b, dtype))


@aten("empty_strided")
def empty_strided(b: Emitter, size: tuple[Size, ...], stride: tuple[Size, ...], *, dtype: DType | None = None) -> Expr:
    return _filled(b, size, 0, _dtype(b, dtype))


@aten("empty_permuted")
def empty_permuted(
    b: Emitter, size: tuple[Size, ...], physical_layout: tuple[int, ...], *, dtype: DType | None = None
) -> Expr:
    return _filled(b, size, 0, _dtype(b, dtype))


# ------------------------------------------------------------------ like another tensor


@aten("full_like")
def full_like(b: Emitter, self: Expr, fill_value: Number, *, dtype: DType | None = None) -> Expr:
    return _filled(b, b.dims_of(self), fill_value, dtype or b.dtype(self))


@aten("zeros_like", "empty_like")
def zeros_like(b: Emitter, self: Expr, *, dtype: DType | None = None) -> Expr:
    return _filled(b, b.dims_of(self), 0, dtype or b.dtype(self))


@aten("ones_like")
def ones_like(b: Emitter, self: Expr, *, dtype: DType | None = None) -> Expr:
    return _filled(b, b.dims_of(self), 1, dtype or b.dtype(self))


@aten("new_zeros", "new_empty")
def new_zeros(b: Emitter, self: Expr, size: tuple[Size, ...], *, dtype: DType | None = None) -> Expr:
    return _filled(b, size, 0, dtype or b.dtype(self))


@aten("new_empty_strided")
def new_empty_strided(
    b: Emitter, self: Expr, size: tuple[Size, ...], stride: tuple[Size, ...], *, dtype: DType | None = None
) -> Expr:
    return _filled(b, size, 0, dtype or b.dtype(self))


@aten("new_ones")
def new_ones(b: Emitter, self: Expr, size: tuple[Size, ...], *, dtype: DType | None = None) -> Expr:
    return _filled(b, size, 1, dtype or b.dtype(self))


@aten("new_full")
def new_full(b: Emitter, self: Expr, size: tuple[Size, ...], fill_value: Number, *, dtype: DType | None = None) -> Expr:
    return _filled(b, size, fill_value, dtype or b.dtype(self))


@aten("fill.Scalar", "fill.Tensor")
def fill(b: Emitter, self: Expr, value: Expr | Number) -> Expr:
    return b.broadcast(b.operand(value, b.dtype(self)), b.dims_of(self))


@aten("zero")
def zero(b: Emitter, self: Expr) -> Expr:
    return _filled(b, b.dims_of(self), 0, b.dtype(self))


# ------------------------------------------------------------------ numbers


@aten("scalar_tensor")
def scalar_tensor(b: Emitter, s: Number, *, dtype: DType | None = None) -> Expr:
    return b.operand(s, _dtype(b, dtype, s))


@aten("arange.start_step")
def arange(b: Emitter, start: Number, end: Number, step: Number = 1, *, dtype: DType | None = None) -> Expr:
    """start, start + step, … below `end`: computed in float64, or in integers, and rounded once."""
    kind = _dtype(b, dtype, start, end, step)
    if isinstance(step, DimExpr):
        raise UnsupportedError(f"a symbolic step {step}", hint="make it static")
    if isinstance(start, Float) or isinstance(end, Float) or isinstance(step, Float):
        raise UnsupportedError("a range of floats that depend on sizes or data", hint="count in integers and multiply")
    if isinstance(start, DimExpr) or isinstance(end, DimExpr):
        if any(isinstance(v, float) for v in (start, end, step)):
            raise UnsupportedError("a range of floats with a symbolic end", hint="count in integers and multiply")
        made = b.arange(start=start, stop=end, step=int(step), dtype=int64)
        return b.to(made, kind)
    if kind == int64:  # what is after the point counts in no way, of narrower integers it does for how many there are
        start, end, step = int(start), int(end), int(step)
    count = max(0, math.ceil((end - start) / step))
    if not kind.is_float:
        start, step = int(start), int(step)
    wide = float64 if kind.is_float else int64
    scaled = b.multiply(b.to(b.steps(0, count), wide), b.operand(step, wide))
    return b.to(b.add(scaled, b.operand(start, wide)), kind)


@aten("linspace.default")
def linspace(b: Emitter, start: Number, end: Number, steps: int, *, dtype: DType | None = None) -> Expr:
    """As PyTorch itself computes it: from both ends, up to the middle."""
    first, last = _plain(start), _plain(end)
    return b.constant(array_of(torch.linspace(first, last, steps, dtype=to_torch(_dtype(b, dtype))), "a range"))


@aten("linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor")
def linspace_between(b: Emitter, start: Value, end: Value, steps: int, *, dtype: DType | None = None) -> Expr:
    kind = _dtype(b, dtype)
    wide = float32 if kind.is_float and kind.bits == 16 else kind if kind.is_float else float64
    first, last = (b.to(b.operand(v, kind), wide) for v in (start, end))
    if steps == 1:
        return b.to(b.in_shape(first, (const(1),)), kind)
    step = b.divide(b.subtract(last, first), b.number(steps - 1, wide))
    at, back = b.to(b.steps(0, steps), wide), b.to(b.steps(steps - 1, -1, -1), wide)
    up, down = b.add(first, b.multiply(step, at)), b.subtract(last, b.multiply(step, back))
    return b.to(b.where(b.less(b.steps(0, steps), b.index(steps // 2)), up, down), kind)


@aten("logspace.default")
def logspace(
    b: Emitter, start: Number, end: Number, steps: int, base: float = 10.0, *, dtype: DType | None = None
) -> Expr:
    first, last = _plain(start), _plain(end)
    return b.constant(array_of(torch.logspace(first, last, steps, base, dtype=to_torch(_dtype(b, dtype))), "a range"))


def _plain(value: Number) -> int | float:
    if isinstance(value, DimExpr | Float):
        raise UnsupportedError(f"an end of a range that is not known: {value}", hint="make it static")
    return value


@aten("eye", "eye.m")
def eye(b: Emitter, n: Size, m: Size | None = None, *, dtype: DType | None = None) -> Expr:
    rows, columns = b.size(n), b.size(n if m is None else m)
    is_there = b.equal(b.expand_dims(b.steps(0, rows), axis=1), b.steps(0, columns))
    return b.to(is_there, _dtype(b, dtype))


@aten("tril_indices")
def tril_indices(b: Emitter, row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Expr:
    """`dtype`: PyTorch's default is a code; the trace has the dtype."""
    return b.to(b.constant(torch.tril_indices(row, col, offset).numpy()), _dtype(b, None))


@aten("triu_indices")
def triu_indices(b: Emitter, row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Expr:
    return b.to(b.constant(torch.triu_indices(row, col, offset).numpy()), _dtype(b, None))


@aten("native_dropout")
def native_dropout(b: Emitter, input: Expr, p: float, train: bool | None) -> tuple[Expr, Expr]:
    """What it does where nothing is dropped, or all."""
    shape = b.dims_of(input)
    if train is False or p == 0:
        return input, _filled(b, shape, True, bool_)
    if p == 1:
        return _filled(b, shape, 0, b.dtype(input)), _filled(b, shape, False, bool_)
    raise UnsupportedError(f"dropout of p={p} in training: PyTorch's random numbers", hint="call eval() on the module")

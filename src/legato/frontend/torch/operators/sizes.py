"""Sizes of tensors as numbers, numbers that tensors hold as sizes, and what a trace asserts of them."""

from __future__ import annotations

import torch

from legato.arith.expr import Expr as DimExpr
from legato.arith.expr import const, select
from legato.arith.prove import prove
from legato.arith.simplify import simplify
from legato.base.dtype import DType, bool_, float64
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.torch.emitter import Emitter, Float, Number, Size
from legato.frontend.torch.signature import aten
from legato.frontend.torch.symbols import number
from legato.ir.expr import Expr
from legato.ops._computed import require


@aten("sym_size.int")
def sym_size(b: Emitter, self: Expr, dim: Size) -> Size:
    return number(b.dim_of(self, b.literal(dim, "an axis")))


@aten("sym_numel")
def sym_numel(b: Emitter, self: Expr) -> Size:
    return number(b.product(b.dims_of(self)))


@aten("sym_stride.int")
def sym_stride(b: Emitter, self: Expr, dim: Size) -> Size:
    """That of the trace; a symbolic one of memory in row-major order."""
    if isinstance(b.traced, int):
        return b.traced
    traced = b.traced_input(0)
    if not isinstance(traced, torch.Tensor) or not traced.is_contiguous():
        raise UnsupportedError("a symbolic stride of memory that is not in row-major order", hint="call contiguous()")
    axis = b.axis(b.literal(dim, "an axis"), b.rank(self))
    return number(b.product(b.dims_of(self)[axis + 1 :]))


@aten("sym_storage_offset")
def sym_storage_offset(b: Emitter, self: Expr) -> Size:
    if isinstance(b.traced, int):
        return b.traced
    raise UnsupportedError("a symbolic offset in memory", hint="call contiguous()")


# ------------------------------------------------------------------ numbers that only the data decides


@aten("item", "_local_scalar_dense")
def item(b: Emitter, self: Expr) -> Number:
    """The element of a tensor: of integers as a dim, which has its value when the tensor is computed."""
    dtype = b.dtype(self)
    if dtype.is_float:
        return Float(b.to(b.in_shape(self, ()), float64))
    if not dtype.is_int:
        raise UnsupportedError(f"a number of Python from a tensor of {dtype}", hint="compute with the tensor itself")
    traced = b.traced
    is_size = isinstance(traced, torch.SymInt) and _lower(traced) >= 0
    return number(b.computed_dim(b.in_shape(self, ()), "item", below_0=not is_size))


def _lower(size: torch.SymInt) -> int:
    """The least that PyTorch's trace knows a number to be."""
    try:
        return int(size.node.shape_env.bound_sympy(size.node.expr).lower)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return -1


# ------------------------------------------------------------------ assertions


@aten("_assert_scalar")
def assert_scalar(b: Emitter, self: Number, assert_msg: str) -> None:
    if isinstance(self, DimExpr):
        if not prove(self):
            b.require(simplify(select(self, const(1), const(0))), const(1), assert_msg)
    elif not self:
        raise ImportModelError(f"an assertion that never holds: {assert_msg}")


@aten("sym_constrain_range", "sym_constrain_range_for_size")
def sym_constrain_range(b: Emitter, size: Size, *, min: int | None = None, max: int | None = None) -> None:
    d = b.size(size)
    if min is not None:
        b.require_least(d, const(min), "a number")
    if max is not None and max < 2**62:
        b.require_least(const(max) - d, const(0), f"what is left of {max}")


@aten("_assert_async", "_assert_async.msg")
def assert_async(b: Emitter, self: Expr, assert_msg: str = "") -> None:
    require(b, b.to(b.in_shape(self, ()), bool_), "asserted")


@aten("_functional_assert_async.msg")
def functional_assert_async(b: Emitter, self: Expr, assert_msg: str, dep_token: Expr) -> Expr:
    assert_async(b, self, assert_msg)
    return dep_token


@aten("_functional_assert_scalar")
def functional_assert_scalar(b: Emitter, self: Number, assert_msg: str, dep_token: Expr) -> Expr:
    assert_scalar(b, self, assert_msg)
    return dep_token


@aten("_assert_tensor_metadata")
def assert_tensor_metadata(
    b: Emitter,
    a: Expr,
    size: tuple[Size, ...] | None = None,
    stride: tuple[Size, ...] | None = None,
    dtype: DType | None = None,
) -> None:
    """Where it lies in memory is not looked at: it may lie elsewhere here."""
    if dtype is not None and dtype != b.dtype(a):
        raise ImportModelError(f"a tensor is asserted to be of {dtype}, and is {a.ty}")
    for n, d in enumerate(size or ()):
        b.require(b.dims_of(a)[n], b.size(d), f"dim {n} of a tensor")

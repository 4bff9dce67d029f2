"""The builder for converters of PyTorch: promotion of dtypes, and what is known of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import fx

from legato.arith.expr import Binary, Const, Op, const
from legato.arith.expr import Expr as DimExpr
from legato.base.dataclass import dataclass
from legato.base.dtype import DType, bool_, int64
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.emitter import Emitter as Common
from legato.frontend.torch.dtypes import array_of, from_torch, to_torch
from legato.ir.expr import Constant, Expr
from legato.ir.types import Dim

__all__ = ["Emitter", "Float", "Number", "Size", "Value"]


@dataclass(frozen=True, slots=True)
class Float:
    """A float of Python that depends on sizes: `value` is a float64 tensor of rank 0."""

    value: Expr


Size = int | Dim  # an extent, an index or another integer that may be symbolic
Number = int | float | bool | Dim | Float  # a scalar of a schema
Value = Expr | Number  # an operand: a tensor or a scalar

_BOOL, _INT, _FLOAT = range(3)
_COMPARISONS = {Op.LT: "less", Op.LE: "less_equal", Op.EQ: "equal", Op.NE: "not_equal"}
_JUNCTIONS = {Op.AND: "logical_and", Op.OR: "logical_or", Op.EQ: "equal"}


class Emitter(Common):
    """A builder for converters. Negative axes count from the end; a scalar has one axis.

    `node` is what is being converted, for what only PyTorch's trace of it says.
    """

    node: fx.Node | None = None

    @property
    def traced(self) -> Any:
        """What PyTorch's trace has as the result: fake tensors, SymInts; None where it says nothing."""
        return None if self.node is None else self.node.meta.get("val")

    # ------------------------------------------------------------------ dtypes

    @property
    def float_dtype(self) -> DType:
        """The dtype of floats that are made of integers, and of numbers: that of the traced result where it is one
        tensor of floats. Else (comparisons, several results) PyTorch's default here and now: where a program was
        exported under another, integers are compared with floats in this one."""
        traced = self.traced
        is_float = isinstance(traced, torch.Tensor) and traced.dtype.is_floating_point
        return from_torch(traced.dtype if is_float else torch.get_default_dtype())

    def result_dtype(self, *operands: Value) -> DType:
        """The dtype that PyTorch promotes operands to: tensors with dims decide, then those without, then numbers, each
        of which counts only where its kind (truth values, integers, floats) is higher than what came before.

        See https://docs.pytorch.org/docs/stable/tensor_attributes.html.
        """
        found: DType | None = None
        for group in self._priorities(operands):
            own = reduce(_promoted, group) if group else None
            if own is not None and (found is None or _kind(own) > _kind(found)):
                found = own
        if found is None:
            raise ImportModelError("an operator without operands")
        return found

    def _priorities(self, operands: Sequence[Value]) -> tuple[list[DType], list[DType], list[DType]]:
        with_dims: list[DType] = []
        scalars: list[DType] = []
        numbers: list[DType] = []
        for x in operands:
            if not isinstance(x, Expr):
                numbers.append(self._number_dtype(x))
            else:
                (with_dims if self.rank(x) else scalars).append(self.dtype(x))
        return with_dims, scalars, numbers

    def _number_dtype(self, value: Number) -> DType:
        if isinstance(value, bool) or (isinstance(value, DimExpr) and value.dtype.is_bool):
            return bool_
        if isinstance(value, float | Float):
            return self.float_dtype
        if isinstance(value, int | DimExpr):
            return int64
        raise UnsupportedError(f"the number {value!r}")

    def promoted(self, *operands: Value, to_float: bool = False) -> tuple[Expr, ...]:
        """The operands as tensors of the dtype that PyTorch promotes them to; integers `to_float`, where that is asked
        for, are floats."""
        dtype = self.result_dtype(*operands)
        if to_float and not dtype.is_float:
            dtype = self.float_dtype
        return tuple(self.operand(x, dtype) for x in operands)

    def operand(self, x: Value, dtype: DType) -> Expr:
        """A tensor or a number as a tensor of `dtype`."""
        if isinstance(x, Expr):
            return self.to(x, dtype)
        if isinstance(x, DimExpr):
            return self.to(self.truth(x) if x.dtype.is_bool else self.extent(x, int64), dtype)
        if isinstance(x, Float):
            return self.to(x.value, dtype)
        if not isinstance(x, int | float):
            raise UnsupportedError(f"the number {x!r}")
        return self.number(x, dtype)

    def number(self, value: float | bool, dtype: DType) -> Constant:
        """A rank-0 constant, as a cast makes it: `True` is 1, 2.5 of integers is 2."""
        wide = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
        return self.constant(array_of(wide.to(to_torch(dtype)), "a number"))

    def as_float(self, x: Expr) -> Expr:
        """`x`, integers and truth values as floats."""
        return x if self.dtype(x).is_float else self.to(x, self.float_dtype)

    # ------------------------------------------------------------------ numbers, axes and sizes

    def axes_of(self, dim: Size | Sequence[Size] | None, rank: int) -> tuple[int, ...]:
        """The axes that an argument `dim` names, from the front; None and an empty list: all."""
        if dim is None or (isinstance(dim, Sequence) and not dim):
            return tuple(range(rank))
        given = dim if isinstance(dim, Sequence) else (dim,)
        found = tuple(self.axis_of(d, rank) for d in given)
        if len(set(found)) < len(found):
            raise ImportModelError(f"an axis is named twice: {list(given)}")
        return found if rank else ()

    def axis_of(self, dim: Size, rank: int) -> int:
        """An axis from the front; of a scalar, 0."""
        return self.axis(self.literal(dim, "an axis"), max(rank, 1))

    def literal(self, value: Size, what: str) -> int:
        """An integer that must not be symbolic."""
        if isinstance(value, DimExpr):
            return self.known(value, what)
        return int(value)

    def known(self, d: Dim, what: str) -> int:
        """A dim that must be a literal."""
        if not isinstance(d, Const):
            hint = "give its dim as a number, which shapes={…} states and dynamic_shapes leaves out"
            raise UnsupportedError(f"{what} is symbolic ({d}): it must be known", hint=hint)
        return int(d.value)

    def size(self, value: Size) -> Dim:
        """An integer as a dim."""
        return value if isinstance(value, DimExpr) else const(int(value))

    def sizes_of(self, values: Sequence[Size]) -> tuple[Dim, ...]:
        """Integers as dims."""
        return tuple(self.size(v) for v in values)

    def truth(self, x: Value) -> Expr:
        """A condition (a tensor of one element, or a comparison of sizes) as a tensor of rank 0."""
        if isinstance(x, Binary):
            if x.a.dtype.is_bool:  # of conditions
                name, parts = _JUNCTIONS.get(x.op), [self.truth(c) for c in (x.a, x.b)]
            else:
                name, parts = _COMPARISONS.get(x.op), [self.extent(d, int64) for d in (x.a, x.b)]
            if name is None:
                raise UnsupportedError(f"the condition {x}")
            return self.op(name)(*parts)
        if isinstance(x, Const):
            return self.number(bool(x.value), bool_)
        x = self.operand(x, bool_)
        return self.reshape(x, newshape=()) if self.rank(x) else x

    @staticmethod
    def is_zero(d: Dim) -> bool:
        """True for the literal 0."""
        return isinstance(d, Const) and d.value == 0

    def traced_input(self, place: int) -> Any:
        """What PyTorch's trace has as an argument of the node; None where it says nothing."""
        argument = None if self.node is None or place >= len(self.node.args) else self.node.args[place]
        return argument.meta.get("val") if isinstance(argument, fx.Node) else None

    def in_shape(self, x: Expr, shape: Sequence[Dim]) -> Expr:
        """The elements of `x` in row-major order in another shape; `x` itself where it has that shape."""
        return x if self.dims_of(x) == tuple(shape) else self.reshape(x, newshape=tuple(shape), allowzero=True)

    def vector(self, x: Expr) -> Expr:
        """`x`, a scalar as a vector of one element."""
        return x if self.rank(x) else self.in_shape(x, (const(1),))

    def flat(self, x: Expr) -> Expr:
        """The elements of `x` in row-major order as a vector."""
        return self.in_shape(x, (self.product(self.dims_of(x)),))

    def permuted(self, x: Expr, axes: Sequence[int]) -> Expr:
        """`x` with its axes in another order; itself where that is the same."""
        return x if tuple(axes) == tuple(range(self.rank(x))) else self.transpose(x, axes=tuple(axes))

    def index(self, value: int) -> Constant:
        """A rank-0 constant of int64."""
        return self.constant(value, int64)

    def steps(self, start: Size, stop: Size, step: int = 1) -> Expr:
        """start, start + step, … up to but without `stop`, as int64."""
        return self.arange(start=start, stop=stop, step=step, dtype=int64)

    def zeros_of(self, shape: Sequence[Dim], dtype: DType, value: float | bool = 0) -> Expr:
        """A tensor of one number."""
        return self.broadcast(self.number(value, dtype), tuple(shape))


def _kind(dtype: DType) -> int:
    return _FLOAT if dtype.is_float else _BOOL if dtype == bool_ else _INT


def _promoted(a: DType, b: DType) -> DType:
    return a if a == b else from_torch(torch.promote_types(to_torch(a), to_torch(b)))

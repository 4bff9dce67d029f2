"""What converters of every format write programs with: the builder, questions about types, and what many write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

import legato.ops  # noqa: F401  # gives operators their names
from legato.arith.expr import Const, const
from legato.arith.expr import Var as DimVar
from legato.arith.prove import provably_different
from legato.arith.substitute import variables
from legato.base.dtype import DType
from legato.base.dtype import dtype as as_dtype
from legato.base.errors import ImportModelError, TypeCheckError, UnsupportedError
from legato.base.span import Span
from legato.infer.builder import Builder
from legato.infer.site import Site
from legato.ir.expr import Constant, Expr, Function, Var
from legato.ir.let import Binding
from legato.ir.types import Dim, FuncType, ShapeType, TensorType, tensor_type
from legato.ops._computed import as_dims, extent_scalar, signed
from legato.ops._rules import sides_of_least
from legato.ops._tensors import accumulator

__all__ = ["Emitter"]

Array = np.ndarray[Any, Any]


class Emitter(Builder):
    """A builder for converters."""

    def type_of(self, x: Expr) -> TensorType:
        """The tensor type of `x`."""
        if not isinstance(x.ty, TensorType):
            raise UnsupportedError(
                "an input that is not a tensor", hint="take tensors out of a sequence or tuple before"
            )
        return x.ty

    def dtype(self, x: Expr) -> DType:
        """The element type of `x`."""
        return self.type_of(x).dtype

    def rank(self, x: Expr) -> int:
        """The rank of `x`."""
        return self.type_of(x).rank

    def dims_of(self, x: Expr) -> tuple[Dim, ...]:
        """The dims of `x`."""
        return self.type_of(x).shape

    def dim_of(self, x: Expr, axis: int) -> Dim:
        """One dim of `x`; ImportModelError where it has none there."""
        return self.dims_of(x)[self.axis(axis, self.rank(x))]

    def dims_of_rank(self, x: Expr, rank: int, what: str) -> tuple[Dim, ...]:
        """The dims of `x`, which must be `rank` many; ImportModelError, naming `what`, where they are not."""
        found = self.dims_of(x)
        if len(found) != rank:
            raise ImportModelError(f"{what}: {x.ty}, wanted a tensor of rank {rank}")
        return found

    def axis(self, axis: int, rank: int) -> int:
        """`axis` counted from the front."""
        if not -rank <= axis < rank:
            raise ImportModelError(f"axis {axis} is out of range for rank {rank}")
        return axis % rank

    def weight(self, array: Array, name: str) -> Constant:
        """`array` as a constant called `name` in messages; not copied."""
        array.setflags(write=False)
        return Constant(array, ty=tensor_type(array.shape, as_dtype(array.dtype)), span=Span(name))

    def named(self, name: str, value: Expr) -> Var:
        """A variable that stands for `value`, of which as much is known; the caller binds it."""
        var = Var(name, ty=value.ty, span=self.span)
        self._typer.bound[var] = value
        return var

    def dims_here(self) -> frozenset[DimVar]:
        """The dims that what comes may mention."""
        return frozenset(self._typer.scope.dims)

    def settled(self, value: Expr, before: Collection[DimVar]) -> Expr:
        """`value`, let-bound if dims that were not there `before` come with it: what mentions these comes after."""
        new = self._typer.scope.dims.difference(before)
        if not new or isinstance(value, Var) or not isinstance(value.ty, TensorType):
            return value
        for var, _ in self._lets[-1]:
            shape = (var.ty.dims if isinstance(var.ty, ShapeType) else getattr(var.ty, "shape", ())) or ()
            new.difference_update(variables(*shape))
        return value if new.isdisjoint(variables(*value.ty.shape)) else self.let("made", value)

    def inside(self, bound: list[Binding]) -> None:
        """From here on, `let` adds to `bound`."""
        self._lets[-1] = bound

    def adopt(self, bound: Iterable[Binding]) -> None:
        """The lets of a body that stands here for what it gives."""
        self._lets[-1] += bound

    def closed(self, params: Sequence[Var], body: Expr, ty: FuncType, own: Collection[DimVar]) -> Function:
        """A function inside another. What has been found to be required of its `own` dims is required of its calls."""
        required = self._typer.scope.constraints
        mine = [key for key, c in required.items() if not set(own).isdisjoint(variables(c.a, c.b))]
        found = tuple(required.pop(key) for key in mine)
        attrs = {"constraints": found} if found else {}
        return Function(tuple(params), body, ty.ret, ty.type_params, attrs, ty=ty, span=self.span)

    def require(self, a: Dim, b: Dim, what: str) -> None:
        """Requires two dims to be equal, which calls check unless it is known; `what` says in words what for."""
        self._typer.solver.same(a, b, Site(what, self.span, self._typer.scope))

    def require_least(self, d: Dim, least: Dim, what: str) -> None:
        """Requires `d` to be `least` or more, which calls check unless it is known."""
        if provably_different(*sides_of_least(d, least)):
            raise TypeCheckError(f"{what}: {d}, wanted at least {least}", span=self.span)
        self.require(*sides_of_least(d, least), what)

    def trial(self) -> Callable[[], None]:
        """Begins an attempt; what is returned forgets what was found since to be required of dims."""
        scope = self._typer.scope
        before = dict(scope.constraints)

        def forget() -> None:
            scope.constraints.clear()
            scope.constraints.update(before)

        return forget

    def unknown_dim(self, name: str) -> Dim:
        """A new dim for an extent that is known only when the program runs."""
        return self._typer.solver.existential(name, None, self._typer.scope)

    def like(self, value: float, x: Expr) -> Constant:
        """A rank-0 constant of the element type of `x`; zero of strings is the empty one."""
        dtype = self.dtype(x)
        return self.nothing(dtype) if value == 0 and dtype.is_string else self.constant(value, dtype)

    def nothing(self, dtype: DType) -> Constant:
        """A rank-0 constant of zero, or of the empty string."""
        return self.constant("" if dtype.is_string else 0, dtype)

    def to(self, x: Expr, dtype: DType) -> Expr:
        """`x` as `dtype`: numbers as text, and the other way round, too."""
        if self.dtype(x) == dtype:
            return x
        if dtype.is_string:
            return self.strings.format(x)
        return (self.strings.parse if self.dtype(x).is_string else self.cast)(x, dtype=dtype)

    def wide(self, x: Expr) -> Expr:
        """`x` as what steps of one operator compute in: 16-bit floats as float32, so that they neither overflow nor
        vanish in between."""
        return self.to(x, accumulator(self.dtype(x)))

    def sum_dtype(self, x: Expr, goes_on: bool) -> DType | str:
        """The dtype to be named for a contraction of `x`: if its sums are added to or scaled, a wide one, so that all
        is rounded once; else that of `x`, which need not be named."""
        wide = accumulator(self.dtype(x))
        return wide if goes_on and wide != self.dtype(x) else ""

    def broadcast(self, x: Expr, shape: Sequence[Dim]) -> Expr:
        """`x` broadcast to `shape`; itself where it has that shape."""
        return x if self.dims_of(x) == tuple(shape) else self.broadcast_to(x, shape=tuple(shape))

    def computed_dim(self, x: Expr, name: str, below_0: bool = False) -> Dim:
        """The element of an integer tensor of rank 0 as a dim: one of the body from here on where only the data decides
        it, which must not be below 0 unless that is allowed for."""
        known = self.value_of(x)
        if known is not None:
            return known[0]
        if not below_0:
            return as_dims(self, x, name)[0]
        above, below = (as_dims(self, part, name)[0] for part in signed(self, x))
        return above - below

    def extent(self, d: Dim, dtype: DType) -> Expr:
        """A dim as a rank-0 tensor."""
        return extent_scalar(self, d, dtype)

    def columns(self, x: Expr, begin: int | Dim, end: int | Dim, step: int = 1) -> Expr:
        """A range of the last dim of `x`."""
        return self.strided_slice(x, begin=(begin,), end=(end,), strides=(step,), axes=(self.rank(x) - 1,))

    @staticmethod
    def is_one(d: Dim) -> bool:
        """True for the literal 1."""
        return isinstance(d, Const) and d.value == 1

    @staticmethod
    def product(dims: Sequence[Dim]) -> Dim:
        """The product of dims."""
        total: Dim = const(1)
        for d in dims:
            total = total * d
        return total

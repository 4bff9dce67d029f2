"""Calls of operators that give a tensor of a wanted type: by shape for any extents, and from the records' samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from legato.arith.expr import Const, Expr, const
from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.infer.builder import Builder
from legato.ir import expr as ir
from legato.ir.attrs import make_attrs
from legato.ir.op import Fusion, Op
from legato.ir.types import TensorType, TupleType, Type
from legato.ops import table
from tests.programs.choices import Choices
from tests.programs.kinds import is_const

Make = Callable[[Type], ir.Expr]  # an operand of a type

UNARY = {
    "float": ("negative", "abs", "tanh", "nn.relu", "sigmoid", "copy", "sin", "sqrt", "exp", "floor"),
    "int": ("negative", "abs", "copy"),
    "bool": ("logical_not", "copy"),
}
BINARY = {
    "float": ("add", "subtract", "multiply", "maximum", "minimum", "divide"),
    "int": ("add", "subtract", "multiply", "maximum", "minimum", "floor_divide"),
    "bool": ("logical_and", "logical_or", "logical_xor"),
}
REDUCE = {"float": ("sum", "max", "min", "mean"), "int": ("sum", "max", "min", "prod"), "bool": ("all", "any")}
COMPARE = ("equal", "less", "greater_equal", "not_equal", "less_equal", "greater")
# What small differences of the operands make large ones in the result of; not used where rounding may differ.
ROUGH = frozenset({"sqrt", "floor", "divide", "exp"})
LARGEST = 64  # elements of a tensor in a sample


def call(name: str, *args: ir.Expr, **attrs: Any) -> ir.Expr:
    """The untyped call of an operator."""
    op = table()[name]
    return ir.Call(op, args, make_attrs(op, attrs) if op.attrs is not None else None)


# ------------------------------------------------------------------ by shape


class ByShape:
    """Operators for a wanted tensor type. Every method gives an expression, or None where nothing fits."""

    def __init__(self, choose: Choices, make: Make, dims: list[DimVar], *, smooth: bool) -> None:
        self._choose, self._make, self._dims, self._smooth = choose, make, dims, smooth

    def names(self, names: tuple[str, ...]) -> str:
        """One of the operators; only smooth ones where that matters."""
        return self._choose.one_of([n for n in names if n not in ROUGH] if self._smooth else names)

    def extent(self) -> Expr:
        """The extent of an axis that the result does not have."""
        return self._choose.one_of([const(2), const(3), *self._dims])

    def unary(self, ty: TensorType) -> ir.Expr | None:
        names = UNARY.get(ty.dtype.kind)
        return None if names is None else call(self.names(names), self._make(ty))

    def binary(self, ty: TensorType) -> ir.Expr | None:
        names = BINARY.get(ty.dtype.kind)
        if names is None:
            return None
        other = TensorType(self._narrower(ty.shape), ty.dtype)
        operands = [self._make(ty), self._make(other)]
        return call(self.names(names), *(operands[::-1] if self._choose.chance(2) else operands))

    def _narrower(self, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """A shape that broadcasts to `shape`."""
        kind = self._choose.below(4) if shape else 0
        if kind < 2:
            return shape
        if kind == 2:
            return shape[1:]
        at = self._choose.below(len(shape))
        return tuple(const(1) if n == at else d for n, d in enumerate(shape))

    def compare(self, ty: TensorType) -> ir.Expr | None:
        if not ty.dtype.is_bool:
            return None
        dtype = dt.int32 if self._smooth else self._choose.one_of([dt.int32, dt.float32])
        operand = TensorType(ty.shape, dtype)
        return call(self._choose.one_of(COMPARE), self._make(operand), self._make(operand))

    def where(self, ty: TensorType) -> ir.Expr | None:
        condition = TensorType(self._narrower(ty.shape), dt.bool_)
        return call("where", self._make(condition), self._make(ty), self._make(ty))

    def cast(self, ty: TensorType) -> ir.Expr | None:
        sources = [dt.int32, dt.bool_] if self._smooth else [dt.int32, dt.float32, dt.bool_]
        source = self._choose.one_of(sources)
        return call("cast", self._make(TensorType(ty.shape, source)), dtype=ty.dtype)

    def reduce(self, ty: TensorType) -> ir.Expr | None:
        names = REDUCE.get(ty.dtype.kind)
        if names is None:
            return None
        name, axis = self._choose.one_of(names), self._choose.below(ty.rank + 1)
        extent = self.extent() if name == "sum" else const(2 + self._choose.below(2))
        shape = (*ty.shape[:axis], extent, *ty.shape[axis:])
        return call(name, self._make(TensorType(shape, ty.dtype)), axis=(axis,))

    def transpose(self, ty: TensorType) -> ir.Expr | None:
        if ty.rank < 2:
            return None
        shift = 1 + self._choose.below(ty.rank - 1)
        shape = (*ty.shape[shift:], *ty.shape[:shift])
        axes = tuple((axis - shift) % ty.rank for axis in range(ty.rank))
        return call("transpose", self._make(TensorType(shape, ty.dtype)), axes=axes)

    def reshape(self, ty: TensorType) -> ir.Expr | None:
        total: Expr = const(1)
        for d in ty.shape:
            total = total * d
        if is_const(total) and not is_const(total, 1):
            return None
        target = tuple(int(d.value) if isinstance(d, Const) else d for d in ty.shape)
        source = TensorType((total,) if ty.rank != 1 else (const(1), total), ty.dtype)
        return call("reshape", self._make(source), newshape=target)

    def concatenate(self, ty: TensorType) -> ir.Expr | None:
        places = [
            (axis, part)
            for axis, d in enumerate(ty.shape)
            for part in (const(1), *self._dims)
            if is_const(d - part, 1) or isinstance(d - part, DimVar)
        ]
        if not places:
            return None
        axis, part = self._choose.one_of(places)
        parts = [
            self._make(TensorType((*ty.shape[:axis], d, *ty.shape[axis + 1 :]), ty.dtype))
            for d in (part, ty.shape[axis] - part)
        ]
        return call("concatenate", ir.Tuple(tuple(parts)), axis=axis)

    def stack(self, ty: TensorType) -> ir.Expr | None:
        places = [(axis, int(d.value)) for axis, d in enumerate(ty.shape) if isinstance(d, Const) and 1 <= d.value <= 3]
        if not places:
            return None
        axis, count = self._choose.one_of(places)
        part = TensorType((*ty.shape[:axis], *ty.shape[axis + 1 :]), ty.dtype)
        return call("stack", ir.Tuple(tuple(self._make(part) for _ in range(count))), axis=axis)

    def slice(self, ty: TensorType) -> ir.Expr | None:
        places = [(axis, int(d.value)) for axis, d in enumerate(ty.shape) if isinstance(d, Const) and d.value >= 1]
        if not places:
            return None
        axis, count = self._choose.one_of(places)
        shape = (*ty.shape[:axis], const(count + 1), *ty.shape[axis + 1 :])
        first = self._choose.below(2)
        source = self._make(TensorType(shape, ty.dtype))
        return call("strided_slice", source, begin=(first,), end=(first + count,), axes=(axis,))

    def expand(self, ty: TensorType) -> ir.Expr | None:
        axes = [axis for axis, d in enumerate(ty.shape) if d == const(1)]
        if not axes:
            axis = self._choose.below(ty.rank + 1)
            shape = (*ty.shape[:axis], const(1), *ty.shape[axis:])
            return call("squeeze", self._make(TensorType(shape, ty.dtype)), axis=(axis,))
        axis = axes[0]
        part = TensorType((*ty.shape[:axis], *ty.shape[axis + 1 :]), ty.dtype)
        return call("expand_dims", self._make(part), axis=axis)

    def broadcast(self, ty: TensorType) -> ir.Expr | None:
        source = self._make(TensorType(self._narrower(ty.shape), ty.dtype))
        return call("broadcast_to", source, shape=ty.shape)

    def matmul(self, ty: TensorType) -> ir.Expr | None:
        if ty.rank != 2 or ty.dtype != dt.float32:
            return None
        (a, b), k = ty.shape, const(2 + self._choose.below(2))
        left = self._make(TensorType((a, k), ty.dtype))
        if self._choose.chance(2) and is_const(b):
            return call("nn.dense", left, self._make(TensorType((b, k), ty.dtype)))
        return call("matmul", left, self._make(TensorType((k, b), ty.dtype)))

    def split(self, ty: TensorType) -> ir.Expr | None:
        axes = [axis for axis, d in enumerate(ty.shape) if is_const(d, 1)]
        if not axes:
            return None
        axis = self._choose.one_of(axes)
        shape = (*ty.shape[:axis], ty.shape[axis] * 2, *ty.shape[axis + 1 :])
        both = call("split", self._make(TensorType(shape, ty.dtype)), indices_or_sections=2, axis=axis)
        return ir.TupleGetItem(both, self._choose.below(2))

    def softmax(self, ty: TensorType) -> ir.Expr | None:
        if not ty.rank or ty.dtype != dt.float32:
            return None
        return call("nn.softmax", self._make(ty), axis=-1)

    RULES = (unary, binary, unary, binary, compare, where, cast, reduce, transpose, reshape, concatenate, stack, slice,
             expand, broadcast, matmul, split, softmax)  # fmt: skip

    def any(self, ty: TensorType) -> ir.Expr | None:
        """A call of some operator that gives `ty`."""
        return self._choose.one_of(self.RULES)(self, ty)


# ------------------------------------------------------------------ from samples


@dataclass(frozen=True, slots=True)
class Example:
    """A call as an operator's sample shows it: types to be filled, or arrays that are part of the example."""

    op: Op
    args: tuple[Any, ...]  # a type, an array, or a tuple of them
    attrs: Any
    ty: Type
    smooth: bool

    def build(self, make: Make) -> ir.Expr:
        """The call on operands of those types."""
        return ir.Call(self.op, tuple(_operand(a, make) for a in self.args), self.attrs)


def _operand(arg: Any, make: Make) -> ir.Expr:
    if isinstance(arg, tuple):
        return ir.Tuple(tuple(_operand(a, make) for a in arg))
    return make(arg) if isinstance(arg, Type) else ir.constant(arg)


def _sampled(b: Builder, a: Any) -> ir.Expr:
    """An argument of a sample: a list of them is a tuple."""
    if isinstance(a, list):
        return b.tuple_([_sampled(b, v) for v in a])
    return b.var("x", *a) if _is_pair(a) else b.constant(a)


@cache
def examples() -> tuple[Example, ...]:
    """The samples of all operators that have static results, small arguments and no state."""
    found = []
    for op in table().values():
        # Annotations have to fit each other: tests/generators has them.
        for sample in () if op.stateful or op.name.startswith("annotation.") else op.samples:
            b = Builder()
            args = [_sampled(b, a) for a in sample.args]
            node = b.call(op, *args, **sample.attrs)
            assert isinstance(node, ir.Call)
            parts = tuple(_part(a) for a in node.args)
            if node.ty is not None and all(map(_is_small, [node.ty, *_types(parts)])):
                floats = any(t.dtype.is_float for t in _types(parts) if isinstance(t, TensorType))
                smooth = op.fuses(node.attrs) in (Fusion.INJECTIVE, Fusion.CONTRACTION) or not floats
                found.append(Example(op, parts, node.attrs, node.ty, smooth))
    return tuple(found)


@cache
def examples_by_type() -> dict[Type, tuple[Example, ...]]:
    """`examples()` by what they give."""
    found: dict[Type, list[Example]] = defaultdict(list)
    for e in examples():
        found[e.ty].append(e)
    return {ty: tuple(es) for ty, es in found.items()}


@cache
def example_types() -> tuple[TensorType, ...]:
    """The tensor types that examples give, the most frequent ones first."""
    by_type = examples_by_type()
    return tuple(sorted((t for t in by_type if isinstance(t, TensorType)), key=lambda t: -len(by_type[t])))


def _is_pair(arg: Any) -> bool:
    return isinstance(arg, tuple) and len(arg) == 2 and isinstance(arg[1], str)


def _part(e: ir.Expr) -> Any:
    if isinstance(e, ir.Tuple):
        return tuple(_part(f) for f in e.fields)
    return e.data if isinstance(e, ir.Constant) else e.ty


def _types(parts: tuple[Any, ...]) -> list[Type]:
    return [t for p in parts for t in (_types(p) if isinstance(p, tuple) else [p] if isinstance(p, Type) else [])]


def _is_small(ty: Type) -> bool:
    if isinstance(ty, TupleType):
        return all(map(_is_small, ty.fields))
    return isinstance(ty, TensorType) and ty.is_static and int(np.prod(ty.static_shape())) <= LARGEST

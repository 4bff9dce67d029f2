"""Samples of operators with their numbers written as dims: a rule that holds for a literal holds for a symbol.

    strided_slice(x: (5, 6), begin=(1, 2))      =>      strided_slice(x: (a, b), begin=(p - q, r - s))

Each extent above 0 is a dim of its own name (equal extents have one dim), each integer in an attribute that takes dims
is a difference of two dims, so that it may become negative. All of them are told by `witness`, an argument whose shape
has each dim as an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from types import UnionType
from typing import Any, get_args, get_origin

from legato.arith.evaluate import evaluate as value_of
from legato.arith.expr import Expr, Var, const, fresh
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.base.dtype import dtype
from legato.infer.builder import Builder
from legato.ir.attr_types import field_types
from legato.ir.attrs import make_attrs
from legato.ir.expr import Call
from legato.ir.module import Module
from legato.ir.op import Op, Sample
from legato.ir.types import TensorType, TupleType, Type

__all__ = ["Symbols", "at_sizes", "sizes_around", "symbols_of"]

Sizes = dict[Var, int]


@dataclass(frozen=True, eq=False, slots=True)
class Symbols:
    """A sample with dims: the types of its arguments (behind the witness), its attributes, and what each dim is."""

    op: Op
    types: tuple[Type, ...]
    attrs: Any
    sizes: Sizes
    numbers: tuple[Expr, ...]  # what stands for the integers in attributes

    def module(self) -> Module:
        """@main(witness, arguments…) that calls the operator; TypeCheckError where it refuses the dims."""
        b = Builder()
        params = [b.var("witness", tuple(self.sizes), "bool"), *(b.var(f"x{n}", t) for n, t in enumerate(self.types))]
        call = b.call_op(self.op, params[1:], self.attrs)
        assert isinstance(call, Call)
        return Module.from_expr(b.function(params, call))

    def without_numbers(self) -> Symbols:
        """The same with the integers of its attributes as they are."""
        own = {v for n in self.numbers for v in variables(n)}
        sizes = {v: size for v, size in self.sizes.items() if v not in own}
        return replace(self, attrs=_at(self.attrs, self.sizes), sizes=sizes, numbers=())

    def without_extents(self) -> Symbols:
        """The same with the extents of its arguments as they are."""
        own = {v for n in self.numbers for v in variables(n)}
        sizes = {v: size for v, size in self.sizes.items() if v in own}
        return replace(self, types=tuple(at_sizes(t, self.sizes) for t in self.types), sizes=sizes)

    def at(self, sizes: Mapping[Var, int]) -> tuple[Op, tuple[Type, ...], Any]:
        """The operator, types and attributes with literals for the dims."""
        return self.op, tuple(at_sizes(t, sizes) for t in self.types), _at(self.attrs, sizes)


def _at(value: Any, sizes: Mapping[Var, int]) -> Any:
    if isinstance(value, Expr):
        return int(value_of(value, sizes))
    if isinstance(value, tuple):
        return tuple(_at(v, sizes) for v in value)
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, Type):
        return replace(value, **{f.name: _at(getattr(value, f.name), sizes) for f in fields(value)})
    return value


def at_sizes(ty: Type, sizes: Mapping[Var, int]) -> Type:
    """A type with literals for the dims that have sizes; one that the operator made stays."""
    if isinstance(ty, TensorType):
        return TensorType(tuple(_const(d, sizes) for d in ty.shape), ty.dtype)
    return ty.with_children(tuple(at_sizes(k, sizes) for k in ty.children()))


def _const(dim: Expr, sizes: Mapping[Var, int]) -> Expr:
    return const(int(value_of(dim, sizes))) if all(v in sizes for v in variables(dim)) else dim


def symbols_of(op: Op, values: list[Any], sample: Sample) -> Symbols:
    """The sample with dims for its numbers; `values` are its arguments."""
    sizes: Sizes = {}
    by_extent: dict[int, Var] = {}

    def dim(extent: int) -> Expr:
        if extent == 0:
            return const(0)
        if extent not in by_extent:
            by_extent[extent] = fresh(f"d{len(by_extent)}")
            sizes[by_extent[extent]] = extent
        return by_extent[extent]

    def type_of(value: Any) -> Type:
        if isinstance(value, tuple):
            return TupleType(tuple(map(type_of, value)))
        return TensorType(tuple(dim(n) for n in value.shape), dtype(value.dtype))

    numbers: list[Expr] = []

    def number(value: int) -> Expr:
        p, q = fresh(f"p{len(numbers)}"), fresh(f"q{len(numbers)}")
        sizes[p], sizes[q] = max(value, 0) + 1, max(-value, 0) + 1
        numbers.append(p - q)
        return p - q

    types = tuple(map(type_of, values))
    attrs = make_attrs(op, sample.attrs)
    if attrs is not None:
        kinds = field_types(op.attrs) if op.attrs is not None else {}
        taking = {name for name, kind in kinds.items() if _takes_dims(kind)}
        attrs = replace(attrs, **{n: _with_numbers(getattr(attrs, n), kinds[n], number) for n in taking})
    return Symbols(op, types, attrs, sizes, tuple(numbers))


def _takes_dims(kind: Any) -> bool:
    return kind is Expr or any(_takes_dims(k) for k in get_args(kind))


def _with_numbers(value: Any, kind: Any, number: Callable[[int], Expr]) -> Any:
    """`value`, of a field of type `kind`, with a dim for each integer in a place that takes dims."""
    options = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if isinstance(value, tuple):
        inner = [get_args(k) for k in options if get_origin(k) is tuple]
        kinds = [k for k in inner if len(k) == len(value) or Ellipsis in k]
        at = kinds[0] if kinds else ()
        return tuple(_with_numbers(v, at[0] if Ellipsis in at else at[n], number) for n, v in enumerate(value))
    is_number = Expr in options and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1000
    return number(value) if is_number else value  # "to the end" is no number


def sizes_around(symbols: Symbols, large: int) -> Iterator[Sizes]:
    """The sample's sizes; then each of its dims 0, 1 and one more; each of its numbers -2, -1, 0, 1 and too large."""
    start = symbols.sizes
    yield start
    own = {v for n in symbols.numbers for v in variables(n)}
    for v, size in start.items():
        if v not in own:
            yield from ({**start, v: n} for n in (0, 1, size + 1) if n != size)
    for n in symbols.numbers:
        p, q = variables(n)
        now = start[p] - start[q]
        yield from ({**start, p: max(w, 0), q: max(-w, 0)} for w in (-2, -1, 0, 1, large) if w != now)

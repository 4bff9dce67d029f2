"""What a program being written has so far, and the types and variables that may come next."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from legato.arith.expr import Expr as Dim
from legato.arith.expr import const
from legato.ir.expr import Var
from legato.ir.types import (
    FuncType,
    GlobalTypeVar,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeData,
    tensor_type,
)
from tests.programs.choices import Choices
from tests.programs.kinds import BOOL, FLOAT, INT, applied, has_cell, has_function, list_of
from tests.programs.operators import example_types
from tests.programs.scope import Scope

__all__ = ["Draft"]


class Draft:
    """A program as far as it is written. `budget` is the number of expressions that may still be written."""

    def __init__(self, choose: Choices, types: Mapping[GlobalTypeVar, TypeData], budget: int, *, smooth: bool) -> None:
        self.choose = choose
        self.types = types
        self.scope = Scope()
        self.budget = budget
        self.smooth = smooth
        self.partial = False  # whether matches may have no clause for a value
        self.cells = False  # whether everything may have cells
        self.pure = False  # in a dataflow block
        self.uses_kernel = False
        self.effects = 0  # how many nodes so far have effects, or may have
        self.numbers = itertools.count()  # of the variables
        self._examples = [t for t in example_types() if t.rank <= 3]

    @contextmanager
    def block(self) -> Iterator[None]:
        """What is bound and written inside is forgotten behind it."""
        mark = self.scope.mark()
        yield
        self.scope.release(mark)

    def var(self, ty: Type, *, known: bool = False) -> Var:
        """A new variable; annotated where its value does not determine its type, otherwise now and then."""
        annotated = known or has_function(ty) or self.choose.chance(3)
        return Var(f"x{next(self.numbers)}", ty=ty if annotated else None)

    def type(self, depth: int = 2) -> Type:
        """A type: scalars and tensors, types of variables, and what is made of them."""
        kind = self.choose.below(14 if depth else 5)
        if kind == 0:
            return self.choose.one_of([INT, FLOAT, BOOL, *self.scope.type_vars])
        if kind <= 3:
            return self.tensor()
        if kind <= 5:
            known = [t for t in reversed(self.scope.types[-8:]) if not (self.pure and has_cell(t))]
            return self.choose.one_of([*known, FLOAT])
        if kind == 6:
            return self.choose.one_of(self._examples)
        if kind <= 8:
            return TupleType(tuple(self.type(depth - 1) for _ in range(self.choose.below(4))))
        if kind == 9:
            return list_of(self.type(depth - 1))
        if kind <= 11:
            data = self.choose.one_of([t for t in self.types.values() if not t.extern])
            return applied(data, [self.type(0) for _ in data.type_vars])
        if kind == 12 and self.cells and not self.pure and self.choose.chance(2):
            return RefType(self.tensor())
        if kind == 12:
            return FuncType(tuple(self.type(depth - 1) for _ in range(self.choose.below(3))), self.type(depth - 1))
        if self.choose.chance(2):
            return ShapeType(self.tensor().shape)
        return self.tensor()

    def tensor(self) -> TensorType:
        """A tensor type over the dims in scope."""
        n: Dim = self.choose.one_of([const(2), *self.scope.dims])
        shapes: list[tuple[Dim | int, ...]] = [(), (3,), (2, 3), (n,), (n, 3), (2, n), (1, n), (n + 1,), (n * 2, 2)]
        return tensor_type(self.choose.one_of(shapes), self.choose.one_of(["float32", "int32", "float32", "bool"]))

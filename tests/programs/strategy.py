"""Random well-typed programs over the whole language, for properties of everything that reads or changes programs.

    @given(programs())
    def test_…(program: Program) -> None: …

A program has functions (plain, polymorphic in types and dims, recursive with fuel or over a data type, mutually
recursive), data types of its own and the prelude's, and a @main of tensors, tuples and lists that gives a tuple.
Inside it has every kind of expression, with operators as their records' samples show them and at symbolic shapes.
Every program ends, and raises nothing, unless that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.infer.infer import infer
from legato.ir._dims import free_dims
from legato.ir.expr import Expr, Function, GlobalVar, Let, RefCreate, RefRead, Tuple
from legato.ir.module import Module
from legato.ir.types import FuncType, GlobalTypeVar, RefType, TupleType, Type
from legato.prelude import library, link
from tests.programs.choices import Choices
from tests.programs.functions import functions
from tests.programs.kinds import INT, data_type, list_of
from tests.programs.scope import Callee
from tests.programs.values import value
from tests.programs.writer import DOUBLE, Writer, double

__all__ = ["Program", "programs"]

# Of the prelude: what is total. iterate takes its fuel second.
TOTAL = ("id", "compose", "flip", "map", "foldl", "foldr", "concat", "filter", "zip", "rev", "map_accuml",
         "map_accumr", "length", "sum", "tmap", "size", "iterate")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Program:
    """A module and arguments for its @main.

    source: as written, with types where inference needs them; result: the type that @main's value has.
    """

    source: Module
    args: tuple[Any, ...]
    dims: Mapping[DimVar, int]
    result: Type

    @property
    def module(self) -> Module:
        """The typed module."""
        return infer(self.source)

    @property
    def gives_functions(self) -> bool:
        """True if there may be functions in the value of @main: in tuples, cells, and data types at any depth."""
        todo, seen = [self.result], set[Type]()
        while todo:
            ty = todo.pop()
            if isinstance(ty, FuncType):
                return True
            if ty not in seen:
                seen.add(ty)
                todo += ty.children()
                if isinstance(ty, GlobalTypeVar):
                    todo += [i for con in self.source.types[ty].constructors for i in con.inputs]
        return False

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How Hypothesis shows it."""
        printer.text(f"Program, called with {self.args!r}, for {self.result}:\n{self.source}")


@st.composite
def programs(
    draw: st.DrawFn, size: int = 30, *, smooth: bool = False, data_inputs: bool = True, partial: bool = False
) -> Program:
    """Programs of about `size` expressions.

    smooth: small changes of floats change results little, and decide nothing: for passes that round otherwise.
    data_inputs: @main may take lists, too.
    partial: matches may have no clause for a value, so that programs may fail.
    """
    choose = Choices(draw)
    types = dict(library().types)
    for n in range(choose.below(3)):
        data = data_type(choose, f"T{n}")
        types[data.header] = data
    writer = Writer(choose, types, size, smooth=smooth)
    writer.cells = choose.chance(3)
    writer.partial = partial and choose.chance(2)
    prelude = [(gv, library()[gv].ty) for gv in library().functions if gv.name in TOTAL]  # type: ignore[union-attr]  # functions
    for gv, ty in prelude:
        writer.scope.callees.append(Callee(gv, ty, gv.name in PURE, 1 if gv.name == "iterate" else None))
    made: dict[GlobalVar, Function] = {}
    for n in range(choose.below(3)):
        writer.budget = size // 3
        made |= functions(writer, f"f{n}")
    return _finish(writer, made, size, data_inputs=data_inputs)


PURE = frozenset({"id", "compose", "flip", "zip"})  # call no function that is a value: some of those may have effects


def _finish(writer: Writer, made: dict[GlobalVar, Function], size: int, *, data_inputs: bool) -> Program:
    """@main, and arguments for it."""
    choose = writer.choose
    dims = {fresh(name, 1): (3, 1, 2)[choose.below(3)] for name in ("n", "m")[: choose.below(3)]}
    writer.budget = size
    with writer.block():
        writer.scope.dims += dims
        kinds: list[Callable[[], Type]] = [writer.tensor, writer.tensor, lambda: TupleType((INT, writer.tensor()))]
        tys = [choose.one_of(kinds + [lambda: list_of(INT)] * data_inputs)() for _ in range(choose.below(4))]
        named = {d for ty in tys for d in free_dims(ty)}
        writer.scope.dims[:] = [d for d in dims if d in named]
        params = tuple(writer.var(ty, known=True) for ty in tys)
        for param, ty in zip(params, tys, strict=True):
            writer.scope.bind(param, ty)
        results = [writer.type() for _ in range(1 + choose.below(3))]
        if writer.cells:
            held = writer.tensor()
            cell, first = writer.var(RefType(held)), writer.expr(held, 1)
            writer.scope.bind(cell, RefType(held))
            results.append(held)
            fields = [*(writer.expr(ty, 4) for ty in results[:-1]), RefRead(cell)]
            body: Expr = Let(cell, RefCreate(first), Tuple(tuple(fields)))
        else:
            body = Tuple(tuple(writer.expr(ty, 4) for ty in results))
    made[GlobalVar("main")] = Function(params, body)
    loops = {DOUBLE: double()} if writer.uses_kernel else {}
    own = {h: d for h, d in writer.types.items() if h not in library().types}
    args = tuple(value(ty, dims, writer.types, choose.below(6)) for ty in tys)
    return Program(link(Module({**made, **loops}, own), library()), args, dims, TupleType(tuple(results)))

"""Random programs over every kind of node, for properties of text, equality and walks. Well-scoped, not well-typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from legato.arith.expr import Const, const, floordiv, floormod, fresh, lt, max_, min_, select
from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.ir.clauses import Clause, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Dataflow,
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
    constant,
)
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import operands
from legato.ir.types import (
    Dim,
    FuncType,
    GlobalTypeVar,
    HoleType,
    Kind,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    TypeVar,
)


@dataclass(frozen=True, slots=True)
class Attrs:
    """One field of each kind that attributes may have."""

    axis: int = -1
    epsilon: float = 1e-5
    keep: bool = False
    name: str = ""
    padding: tuple[Any, ...] = ()
    out: Any = None
    out_dtype: Any = None


def op(name: str, *args: str, attrs: type | None = None) -> Op:
    """An operator without a meaning."""
    return Op(name, args, lambda *_: None, lambda *_: None, attrs=attrs)


OPS = [
    *(op(name, "a", "b") for name in ("add", "subtract", "multiply", "divide", "less", "less_equal", "greater",
                                      "greater_equal", "equal", "not_equal")),
    op("negative", "x"), op("nn.relu", "x", attrs=Attrs), op("concatenate", "*xs", attrs=Attrs),
    op("my domain::Op", "x"), op("Cons", "x"), op("let", "x"),
]  # fmt: skip
BY_NAME = {o.name: o for o in OPS}

LIST = GlobalTypeVar("List")
PAIR = GlobalTypeVar("a pair")
_A, _B = TypeVar("A"), TypeVar("float32", Kind.BASE_TYPE)
CONS = Constructor("Cons", (_A, TypeCall(LIST, (_A,))), LIST, 0)
NIL = Constructor("Nil", (), LIST, 1)
BOTH = Constructor("Both", (_A, _B), PAIR, 0)
OTHER_NIL = Constructor("Nil", (), PAIR, 1)
STORAGE = GlobalTypeVar("Storage")
TYPES = {
    LIST: TypeData(LIST, (_A,), (CONS, NIL)),
    PAIR: TypeData(PAIR, (_A, _B), (BOTH, OTHER_NIL)),
    STORAGE: TypeData(STORAGE, (), (), extern=True),
}
CONSTRUCTORS = (CONS, NIL, BOTH, OTHER_NIL)

names = st.sampled_from(
    ["x", "x", "y", "x_1", "0", "12", "input.1", "", "a b", "let", "naïve", 'q"\\\n', "conv/w", "_"]
)
dtypes = st.sampled_from((*dt.ALL_DTYPES, *dt.STORAGE_DTYPES))


@st.composite
def dims(draw: st.DrawFn, variables: Sequence[DimVar]) -> Dim:
    """Arithmetic over the given variables."""
    leaves = st.one_of(st.integers(-3, 1 << 40).map(const), *([st.sampled_from(variables)] if variables else []))
    a, b = draw(leaves), draw(leaves)
    build = draw(st.sampled_from([
        lambda: a, lambda: a, lambda: a + b, lambda: a * b - 1, lambda: floordiv(a + 1, const(4)),
        lambda: floormod(a - b, const(3)), lambda: min_(a, b), lambda: max_(a * 2, b), lambda: select(lt(a, b), a, b),
    ]))  # fmt: skip
    found: Dim = build()
    return const(abs(int(found)) % (1 << 12)) if isinstance(found, Const) else found  # as an extent may be


@st.composite
def types(draw: st.DrawFn, variables: Sequence[DimVar] = (), type_vars: Sequence[TypeVar] = (), depth: int = 2) -> Type:
    """Types of every kind over the given dims and type variables."""
    kind = draw(st.integers(0, 9 if depth else 3))
    inner = types(variables, type_vars, depth - 1)
    match kind:
        case 0 | 1:
            return TensorType(tuple(draw(st.lists(dims(variables), max_size=3))), draw(dtypes))
        case 2:
            return draw(st.sampled_from([HoleType(), STORAGE, ShapeType(), *type_vars]))
        case 3:
            return ShapeType(tuple(draw(st.lists(dims(variables), max_size=2))))
        case 4:
            return TupleType(tuple(draw(st.lists(inner, max_size=3))))
        case 5:
            own, ours = fresh(draw(st.sampled_from(["n", "k", "batch size"])), 1, 8), TypeVar("A")
            nested = types((*variables, own), (*type_vars, ours), depth - 1)
            return FuncType(tuple(draw(st.lists(nested, max_size=2))), draw(nested), (ours, own))
        case 6:
            return RefType(draw(inner))
        case 7:
            return TypeCall(LIST, (draw(inner),))
        case 8:
            return TypeCall(PAIR, (draw(inner), draw(inner)))
        case _:
            return draw(inner)


values = st.recursive(
    st.one_of(
        st.integers(-(1 << 62), 1 << 62), st.floats(), st.booleans(), st.none(), st.text(max_size=5), dtypes,
        types(depth=1),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@st.composite
def constants(draw: st.DrawFn) -> Constant:
    """Scalars and small arrays of every dtype, with any bits."""
    dtype = draw(dtypes)
    shape = draw(st.sampled_from([(), (), (), (0,), (3,), (2, 1), (1, 0, 4)]))
    count = int(np.prod(shape))
    if dtype.is_bool:
        raw = bytes(draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)))
    else:
        raw = draw(st.binary(min_size=count * dtype.bytes, max_size=count * dtype.bytes))
    if draw(st.booleans()):
        raw = np.array(draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)), dtype.numpy).tobytes()
    return constant(np.frombuffer(raw, dtype.numpy).reshape(shape))


def _is_pure(e: Expr) -> bool:
    """True if evaluating `e` touches no reference, and calls nothing that may."""
    todo, seen = [e], set[int]()
    while todo:
        top = todo.pop()
        if isinstance(top, RefCreate | RefRead | RefWrite):
            return False
        if isinstance(top, Call) and not isinstance(top.op, Op | Constructor):
            return False
        if id(top) not in seen and not isinstance(top, Function):
            seen.add(id(top))
            todo += operands(top)
    return True


class _Writer:
    """Draws nodes over a pool of what is in scope; drawing from the pool makes sharing."""

    def __init__(self, draw: st.DrawFn, variables: Sequence[DimVar], functions: Sequence[GlobalVar]) -> None:
        self.draw = draw
        self.dims = tuple(variables)
        self.functions = functions
        self.pure = False  # in a dataflow block

    def annotation(self) -> Type | None:
        return self.draw(st.none() | types(self.dims, depth=1))

    def var(self) -> Var:
        return Var(self.draw(names), ty=self.annotation())

    def pick(self, pool: list[Expr]) -> Expr:
        if pool and self.draw(st.integers(0, 5)):
            return pool[-1 - self.draw(st.integers(0, min(5, len(pool) - 1)))]
        leaves: list[Any] = [constants(), st.sampled_from([*OPS, *CONSTRUCTORS, *self.functions])]
        leaves.append(st.lists(dims(self.dims), max_size=2).map(lambda d: Shape(tuple(d))))
        leaf: Expr = self.draw(st.one_of(leaves))
        return leaf

    def several(self, pool: list[Expr], most: int = 3) -> tuple[Expr, ...]:
        return tuple(self.pick(pool) for _ in range(self.draw(st.integers(0, most))))

    def block(self, pool: list[Expr], depth: int) -> Expr:
        pool = list(pool)
        for _ in range(self.draw(st.integers(0, 4))):
            pool.append(self.node(pool, depth))
        return self.pick(pool)

    def node(self, pool: list[Expr], depth: int) -> Expr:
        plain = [self.call, self.call, self.operator, self.operator, self.small]
        nested = [self.let, self.let, self.closure, self.branch, self.match, self.dataflow]
        make = self.draw(st.sampled_from(plain + nested if depth else plain))
        return make(pool, depth)

    def call(self, pool: list[Expr], depth: int) -> Expr:
        type_args = self.draw(st.just(()) | st.tuples(types(self.dims, depth=1), dims(self.dims)))
        plain = self.pure or self.draw(st.booleans())  # in a dataflow block, what has no effects
        callee = self.draw(st.sampled_from(CONSTRUCTORS)) if plain else self.pick(pool)
        if isinstance(callee, Op):
            return self.operator(pool, depth)
        return Call(callee, self.several(pool), None, type_args)

    def operator(self, pool: list[Expr], depth: int) -> Expr:
        callee = self.draw(st.sampled_from(OPS))
        attrs = None
        if callee.attrs is not None:
            value = self.draw(values | dims(self.dims))
            scalars = st.tuples(st.integers(-9, 9), st.floats(), st.booleans(), st.text(max_size=3))
            attrs = Attrs(*self.draw(scalars), (value, 1), out=value, out_dtype=self.draw(dtypes))
        if callee.name == "concatenate":
            return Call(callee, (Tuple(self.several(pool)),), attrs)
        return Call(callee, tuple(self.pick(pool) for _ in callee.args), attrs)

    def small(self, pool: list[Expr], depth: int) -> Expr:
        a, b = self.pick(pool), self.pick(pool)
        makers = [
            lambda: Tuple(self.several(pool)),
            lambda: self.field(a),
            lambda: MatchCast(a, self.draw(types((*self.dims, fresh("k", 0, 9))))),
        ]
        effects = [lambda: RefCreate(a), lambda: RefRead(a), lambda: RefWrite(a, b)]
        return self.draw(st.sampled_from(makers if self.pure else makers + effects))()

    def field(self, value: Expr) -> Expr:
        count = len(value.ty.fields) if isinstance(value.ty, TupleType) else 4
        return TupleGetItem(value, self.draw(st.integers(0, count - 1))) if count else value

    def let(self, pool: list[Expr], depth: int) -> Expr:
        var = self.var()
        calls_itself = self.draw(st.booleans())
        value = self.closure([*pool, var], depth - 1) if calls_itself else self.block(pool, depth - 1)
        return Let(var, value, self.block([*pool, var], depth - 1))

    def closure(self, pool: list[Expr], depth: int) -> Function:
        params = tuple(self.var() for _ in range(self.draw(st.integers(0, 2))))
        outer, own = self.dims, fresh("m")
        self.dims = (*outer, own)
        extra = Var("p", ty=TensorType((own,), dt.float32))
        body = self.block([*pool, *params, extra], depth - 1) if depth > 0 else self.pick([*pool, *params])
        self.dims = outer
        attrs = self.draw(st.dictionaries(st.sampled_from(["Primitive", "a.b", "odd name", "let"]), values, max_size=2))
        return Function((*params, extra), body, self.annotation(), (own,), attrs)

    def branch(self, pool: list[Expr], depth: int) -> Expr:
        return If(self.pick(pool), self.block(pool, depth - 1), self.block(pool, depth - 1))

    def match(self, pool: list[Expr], depth: int) -> Expr:
        clauses = []
        for _ in range(self.draw(st.integers(0, 3))):
            bound: list[Expr] = []
            pattern = self.pattern(bound, 2)
            clauses.append(Clause(pattern, self.block([*pool, *bound], depth - 1)))
        return Match(self.pick(pool), tuple(clauses), self.draw(st.booleans()))

    def pattern(self, bound: list[Expr], depth: int) -> Pattern:
        kind = self.draw(st.integers(0, 3 if depth else 1))
        if kind == 0:
            return PatternWildcard()
        if kind == 1:
            var = self.var()
            bound.append(var)
            return PatternVar(var)
        if kind == 2:
            constructor = self.draw(st.sampled_from(CONSTRUCTORS))
            return PatternConstructor(constructor, tuple(self.pattern(bound, depth - 1) for _ in constructor.inputs))
        return PatternTuple(tuple(self.pattern(bound, depth - 1) for _ in range(self.draw(st.integers(0, 3)))))

    def dataflow(self, pool: list[Expr], depth: int) -> Expr:
        pool, bindings = [e for e in pool if _is_pure(e)], []
        outer, self.pure = self.pure, True
        for _ in range(self.draw(st.integers(0, 3))):
            value, var = self.block(pool, depth - 1), self.var()
            bindings.append((var, value))
            pool.append(var)
        outputs = self.several(pool)
        self.pure = outer
        return Dataflow(tuple(bindings), outputs)


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """Modules of one or two functions, with data types, attributes and constants."""
    functions = [GlobalVar(name) for name in ("main", "odd name", "f")[: draw(st.integers(1, 3))]]
    defined = {}
    for gv in functions:
        n, m, k = fresh("n"), fresh(draw(st.sampled_from(["n", "m", "min", "4 d"])), 1, 512), fresh("k", None, 7)
        writer = _Writer(draw, (n, m, k), functions)
        params = tuple(writer.var() for _ in range(draw(st.integers(0, 3))))
        a = TypeVar("A")
        attrs = draw(st.dictionaries(st.text(min_size=1, max_size=3), values, max_size=2))
        body = writer.block(list(params), 3)
        listed = (a, n, m, k) if draw(st.booleans()) else (a,)
        defined[gv] = Function(params, body, writer.annotation(), listed, attrs)
    held = {name: draw(constants()).data for name in draw(st.sets(st.text(max_size=3), max_size=2))}
    facts = draw(st.dictionaries(st.text(max_size=3), values, max_size=2))
    return Module(defined, TYPES, facts, held)

"""Writes expressions of wanted types, by rules for every kind of node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from legato.arith.expr import Var as DimVar
from legato.arith.expr import const, fresh
from legato.base import dtype as dt
from legato.ir.call_tir import call_tir
from legato.ir.clauses import Clause
from legato.ir.expr import (
    Call,
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
from legato.ir.types import (
    UNIT,
    FuncType,
    GlobalTypeVar,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    TypeVar,
    tensor_type,
    walk,
)
from legato.ops import table
from legato.te.lower import to_tir
from legato.te.tensor import compute, placeholder
from legato.tir.stmt import Func
from tests.programs import patterns
from tests.programs.choices import Choices
from tests.programs.draft import Draft
from tests.programs.kinds import (
    BOOL,
    FLOAT,
    INT,
    Binding,
    family,
    has_cell,
    has_function,
    list_of,
    literal,
)
from tests.programs.operators import ByShape, call, examples_by_type
from tests.programs.scope import Callee

OPERATORS = {1: ("tanh", "negative"), 2: ("add", "maximum")}  # of floats, by the number of arguments

DOUBLE = GlobalVar("double")

Rule = Callable[["Writer", Type, int], Expr | None]


@cache
def double() -> Func:
    """The loop program of @double: twice a vector."""
    k = DimVar("k", dt.index, 0)
    a = placeholder("a", (k,), "float32")
    return to_tir([compute((k,), lambda i: a[i] + a[i])], [a], "double")


class Writer(Draft):
    """Writes one program."""

    def expr(self, ty: Type, depth: int) -> Expr:
        """An expression of type `ty`; at depth 0 a variable or what is as simple."""
        self.budget -= 1
        if depth <= 0 or self.budget <= 0:
            return self.leaf(ty)
        effects = self.effects
        rules = _rules(ty)
        if not self.pure and any(isinstance(t, RefType) for t in self.scope.types):
            rules += CELLS
        found = self.choose.one_of(rules)(self, ty, depth - 1)
        if found is None:
            return self.leaf(ty)
        self.scope.shared.append((found, ty, self.effects == effects))
        return found

    def leaf(self, ty: Type) -> Expr:
        """A variable, or a literal where there is none (and now and then where there is)."""
        known = self.scope.of(ty)
        if known and (isinstance(ty, TypeVar) or not self.choose.chance(4)):
            return self.choose.one_of(known)
        return self.literal(ty)

    def literal(self, ty: Type) -> Expr:
        """The simplest expression of a type that needs no variable of it."""
        match ty:
            case TensorType():
                if ty.is_static:
                    return literal(self.choose, ty)
                return call("broadcast_to", literal(self.choose, TensorType((), ty.dtype)), shape=ty.shape)
            case TupleType():
                return Tuple(tuple(self.leaf(f) for f in ty.fields))
            case FuncType():
                return self.function(ty, 0)
            case RefType():
                self.effects += 1
                return RefCreate(self.leaf(ty.value))
            case ShapeType():
                return Shape(ty.dims or ())
            case _:
                found = family(ty, self.types)
                assert found is not None, f"{ty} needs a variable"
                return self.construct(ty, found.smallest.tag, 0)

    def branch(self, ty: Type, depth: int) -> Expr:
        """An expression in a block of its own."""
        with self.block():
            return self.expr(ty, depth)

    def function(self, ty: FuncType, depth: int) -> Function:
        """A function of a type that is not polymorphic."""
        params = tuple(self.var(p, known=True) for p in ty.params)
        outer, self.pure = self.pure, False
        with self.block():
            for param, p in zip(params, ty.params, strict=True):
                self.scope.bind(param, p)
            body = self.expr(ty.ret, depth)
        self.pure = outer
        annotated = has_function(ty.ret) or self.choose.chance(2)
        return Function(params, body, ty.ret if annotated else None)

    def construct(self, ty: Type, tag: int, depth: int) -> Expr:
        """A value of a data type; the type arguments are given where the fields do not determine them."""
        found = family(ty, self.types)
        assert found is not None
        con = found.data.constructors[tag]
        fields = tuple(self.expr(f, depth) for f in found.fields(con))
        args = ty.args if isinstance(ty, TypeCall) and (self.choose.chance(3) or not con.inputs or depth <= 0) else ()
        mentioned = {p for i in con.inputs for p in _parts(i)}
        if isinstance(ty, TypeCall) and not set(found.data.type_vars) <= mentioned:
            args = ty.args
        return Call(con, fields, None, args)

    # ------------------------------------------------------------------ rules for every type

    def known(self, ty: Type, depth: int) -> Expr | None:
        return self.leaf(ty)

    def again(self, ty: Type, depth: int) -> Expr | None:
        """A node that is there already."""
        found = [(e, free) for e, t, free in self.scope.shared if t == ty and (free or not self.pure)]
        if not found:
            return None
        node, free = self.choose.one_of(found[::-1])
        self.effects += not free
        return node

    def ahead(self, ty: Type, depth: int) -> Expr | None:
        """A node for what follows to share, in branches and functions, or not at all; then something that may."""
        bound = self.choose.one_of([ty, self.type(1)])
        self.expr(bound, depth)
        first, second = self.branch(ty, depth), self.again(bound, depth)
        return first if second is None else TupleGetItem(Tuple((first, second)), 0)

    def let(self, ty: Type, depth: int) -> Expr | None:
        bound = self.type()
        value = self.expr(bound, depth)
        var = self.var(bound)
        with self.block():
            self.scope.bind(var, bound)
            return Let(var, value, self.expr(ty, depth))

    def if_(self, ty: Type, depth: int) -> Expr | None:
        return If(self.expr(BOOL, depth), self.branch(ty, depth), self.branch(ty, depth))

    def match(self, ty: Type, depth: int) -> Expr | None:
        """A match on a variable if one has fields, else on anything."""
        known = [(v, t) for v, t in zip(self.scope.vars, self.scope.types, strict=True) if _has_fields(t, self.types)]
        if known and not self.choose.chance(3):
            data, scrutinee = self.choose.one_of(known[::-1])
        else:
            scrutinee = TupleType((self.type(1), self.type(1))) if self.choose.chance(3) else list_of(self.type(1))
            data = self.expr(scrutinee, depth)
        clauses = []
        for shape in patterns.cover(self.choose, scrutinee, self.types):
            with self.block():
                pattern = patterns.pattern(shape, scrutinee, self)
                clauses.append(Clause(pattern, self.expr(ty, depth)))
        if self.partial and len(clauses) > 1 and self.choose.chance(3):
            del clauses[self.choose.below(len(clauses))]
            return Match(data, tuple(clauses), complete=False)
        return Match(data, tuple(clauses), complete=not self.choose.chance(4))

    def project(self, ty: Type, depth: int) -> Expr | None:
        """A field of a variable's tuple, or of a new one."""
        found = [
            TupleGetItem(v, n)
            for v, t in zip(self.scope.vars, self.scope.types, strict=True)
            if isinstance(t, TupleType)
            for n, f in enumerate(t.fields)
            if f == ty
        ]
        if found and not self.choose.chance(4):
            return self.choose.one_of(found)
        fields = [ty, self.type(0)][:: -1 if self.choose.chance(2) else 1]
        return TupleGetItem(self.expr(TupleType(tuple(fields)), depth), fields.index(ty))

    def apply(self, ty: Type, depth: int) -> Expr | None:
        """A call of a variable that is a function, or of a function written in place."""
        known = [
            (v, t)
            for v, t in zip(self.scope.vars, self.scope.types, strict=True)
            if isinstance(t, FuncType) and t.ret == ty
        ]
        if self.pure:
            return None  # nobody knows what it does
        if known and not self.choose.chance(4):
            callee, func = self.choose.one_of(known[::-1])
        else:
            func = FuncType(tuple(self.type(1) for _ in range(self.choose.below(3))), ty)
            callee = self.function(func, depth)
        self.effects += 1
        return Call(callee, tuple(self.expr(p, depth) for p in func.params))

    def call(self, ty: Type, depth: int) -> Expr | None:
        """A call of a function of the module, or of a local polymorphic or recursive one, at an instance that fits."""
        fits = []
        for callee in reversed(self.scope.callees):
            binding = Binding()
            if callee.calls <= 0 or (self.pure and not callee.pure) or callee.smaller == []:
                continue
            open_types, open_dims = ([], []) if callee.is_inside else (callee.types, callee.dims)
            if binding.match(callee.ty.ret, ty, open_types, open_dims):
                fits.append((callee, binding))
        if not fits:
            return None
        callee, binding = self.choose.one_of(fits)
        return self.call_of(callee, binding, depth)

    def call_of(self, callee: Callee, binding: Binding, depth: int) -> Expr:
        """A call of `callee`; what `binding` leaves open is chosen."""
        callee.calls -= 1
        if not callee.pure or callee.is_inside:
            self.effects += 1
        first = None if callee.smaller is None else callee.smaller.pop()
        if not callee.is_inside:
            for t in callee.types:
                binding.types.setdefault(t, self.type(1))
            for d in callee.dims:
                binding.dims.setdefault(d, self.choose.one_of([const(2), *self.scope.dims]))
        args = []
        for n, p in enumerate(callee.ty.params):
            if n == callee.fuel:
                args.append(callee.fuel_left or literal_fuel(self.choose))
            else:
                args.append(first if first is not None and n == 0 else self.expr(binding.apply(p), depth))
        params = callee.ty.type_params
        determined = {p for ty in callee.ty.params for p in _parts(ty)}
        explicit = self.choose.chance(4) or not {*callee.types} <= determined
        explicit = explicit and not callee.is_inside
        given = (binding.types[p] if isinstance(p, TypeVar) else binding.dims[p] for p in params if explicit)
        return Call(callee.expr, tuple(args), None, tuple(given))

    def cell(self, ty: Type, depth: int) -> Expr | None:
        """A new cell, written and read."""
        if self.pure:
            return None
        self.effects += 1
        held = ty if self.choose.chance(2) else self.type(1)
        cell = self.var(RefType(held))
        value = RefCreate(self.expr(held, depth))
        with self.block():
            self.scope.bind(cell, RefType(held))
            return Let(cell, value, self.expr(ty, depth) if held != ty else self.written(ty, depth) or RefRead(cell))

    def written(self, ty: Type, depth: int) -> Expr | None:
        """A write to a cell, then something else."""
        cells = [(v, t) for v, t in zip(self.scope.vars, self.scope.types, strict=True) if isinstance(t, RefType)]
        if not cells or self.pure:
            return None
        self.effects += 1
        cell, held = self.choose.one_of(cells[::-1])
        write = RefWrite(cell, self.expr(held.value, depth))
        rest = RefRead(cell) if held.value == ty and not self.choose.chance(2) else self.expr(ty, depth)
        return Let(Var("_", ty=UNIT if self.choose.chance(3) else None), write, rest)

    def read(self, ty: Type, depth: int) -> Expr | None:
        """What a cell holds."""
        cells = self.scope.of(RefType(ty))
        if not cells or self.pure:
            return None
        self.effects += 1
        return RefRead(self.choose.one_of(cells))

    def dataflow(self, ty: Type, depth: int) -> Expr | None:
        """A field of a dataflow block."""
        if has_cell(ty):
            return None
        outer, self.pure = self.pure, True
        bindings = []
        with self.block():
            for _ in range(1 + self.choose.below(3)):
                bound = self.type(1)
                value, var = self.expr(bound, depth), self.var(bound)
                self.scope.bind(var, bound)
                bindings.append((var, value))
            outputs = [self.expr(ty, depth), *([bindings[-1][0]] if self.choose.chance(2) else [])]
        self.pure = outer
        return TupleGetItem(Dataflow(tuple(bindings), tuple(outputs)), 0)

    def cast(self, ty: Type, depth: int) -> Expr | None:
        """A tensor seen with a new dim for one of its extents, and something with that dim in scope."""
        known = zip(self.scope.vars, self.scope.types, strict=True)
        tensors = [(v, t) for v, t in known if isinstance(t, TensorType) and t.rank]
        if tensors and not self.choose.chance(4):
            value, seen = self.choose.one_of(tensors[::-1])
        else:
            seen = tensor_type((3, 2))
            value = self.expr(seen, depth)
        dim, axis = fresh("k"), self.choose.below(seen.rank)
        target = TensorType((*seen.shape[:axis], dim, *seen.shape[axis + 1 :]), seen.dtype)
        var = self.var(target)
        with self.block():
            self.scope.dims.append(dim)
            self.scope.bind(var, target)
            return Let(var, MatchCast(value, target), self.expr(ty, depth))

    def loop(self, ty: Type, depth: int) -> Expr | None:
        """A local function that calls itself while its fuel lasts."""
        state = self.type(1)
        func = FuncType((INT, state), ty)
        name = Var(f"f{next(self.numbers)}", ty=func if self.choose.chance(2) else None)
        effects = self.effects
        made = self.recursive(name, func)
        pure = self.effects == effects and not self.pure
        with self.block():
            self.scope.callees.append(Callee(name, func, pure, 0))
            return Let(name, made, self.expr(ty, depth) if self.choose.chance(3) else self.call(ty, depth))

    def recursive(self, name: Expr, func: FuncType, also: Sequence[Callee] = ()) -> Function:
        """`fn (fuel, …) { if (fuel <= 0) {…} else {… name(fuel - 1, …) …} }`; `also`: others called so."""
        fuel = Var("fuel", ty=INT)
        params = (fuel, *(self.var(p, known=True) for p in func.params[1:]))
        outer, self.pure = self.pure, False
        with self.block():
            for param, p in zip(params[1:], func.params[1:], strict=True):
                self.scope.bind(param, p)
            base = self.branch(func.ret, 1)
            left = call("subtract", fuel, _int(1))
            self.scope.callees.append(Callee(name, func, False, 0, 2, left))
            for other in also:
                self.scope.callees.append(Callee(other.expr, other.ty, False, 0, 1, left))
            inner = self.call(func.ret, 2) if self.choose.chance(2) else self.expr(func.ret, 3)
            assert inner is not None
        self.pure = outer
        return Function(params, If(call("less_equal", fuel, _int(0)), base, inner), func.ret, func.type_params)

    def generic(self, ty: Type, depth: int) -> Expr | None:
        """A local function that is polymorphic in a type."""
        a = TypeVar("T")
        params: list[Type] = [a, *([FuncType((a,), a)] if self.choose.chance(2) else [])]
        ret = self.choose.one_of([a, TupleType((a, a)), list_of(a)])
        func = FuncType(tuple(params), ret, (a,))
        name = Var(f"f{next(self.numbers)}")
        names = tuple(self.var(p, known=True) for p in params)
        effects, outer, self.pure = self.effects, self.pure, False
        with self.block():
            self.scope.type_vars.append(a)
            for param, p in zip(names, params, strict=True):
                self.scope.bind(param, p)
            made = Function(names, self.expr(ret, depth), ret, (a,))
        self.pure = outer
        with self.block():
            self.scope.callees.append(Callee(name, func, self.effects == effects))
            return Let(name, made, self.expr(ty, depth))

    # ------------------------------------------------------------------ rules for some types

    def operator(self, ty: Type, depth: int) -> Expr | None:
        assert isinstance(ty, TensorType)
        make = lambda operand: self.expr(operand, depth)  # noqa: E731  # the depth is known here
        return ByShape(self.choose, make, self.scope.dims, smooth=self.smooth).any(ty)

    def kernel(self, ty: Type, depth: int) -> Expr | None:
        """A call of the loop program that doubles a vector."""
        if not isinstance(ty, TensorType) or ty.rank != 1 or ty.dtype != FLOAT.dtype:
            return None
        self.uses_kernel = True
        return call_tir(DOUBLE, [self.expr(ty, depth)], [ty], ty.shape)

    def sample(self, ty: Type, depth: int) -> Expr | None:
        """A call as an operator's samples show it."""
        fits = examples_by_type().get(ty, ())
        if self.smooth:
            fits = tuple(e for e in fits if e.smooth)
        return self.choose.one_of(fits).build(lambda t: self.expr(t, depth)) if fits else None

    def tuple_(self, ty: Type, depth: int) -> Expr | None:
        assert isinstance(ty, TupleType)
        return Tuple(tuple(self.expr(f, depth) for f in ty.fields))

    def data(self, ty: Type, depth: int) -> Expr | None:
        found = family(ty, self.types)
        return None if found is None else self.construct(ty, self.choose.below(len(found.data.constructors)), depth)

    def closure(self, ty: Type, depth: int) -> Expr | None:
        assert isinstance(ty, FuncType)
        return self.function(ty, depth)

    def value(self, ty: Type, depth: int) -> Expr | None:
        """Something that is a function already: a function of the module, an operator or a constructor."""
        assert isinstance(ty, FuncType)
        found: list[Expr] = [c.expr for c in self.scope.callees if c.ty == ty and c.fuel is None and not c.is_inside]
        if all(isinstance(p, TensorType) and p == ty.ret and p.dtype == FLOAT.dtype for p in ty.params):
            found += [table()[name] for name in OPERATORS.get(len(ty.params), ())]
        made = family(ty.ret, self.types)
        if made is not None:
            found += [c for c in made.data.constructors if c.inputs and made.fields(c) == ty.params]
        if not found:
            return None
        name = self.var(ty, known=True)  # says at which of its types the operator or constructor is used
        return Let(name, self.choose.one_of(found), name)

    def new_cell(self, ty: Type, depth: int) -> Expr | None:
        assert isinstance(ty, RefType)
        self.effects += 1
        return RefCreate(self.expr(ty.value, depth))

    ANY: tuple[Rule, ...] = (known, again, ahead, let, let, if_, match, match, project, apply, call, call, call, cell,
                             written, read, dataflow, cast, loop, generic)  # fmt: skip


TENSOR: tuple[Rule, ...] = (*Writer.ANY[:3], *[Writer.operator] * 10, *[Writer.sample] * 4, Writer.kernel, *Writer.ANY)
TUPLE: tuple[Rule, ...] = (*[Writer.tuple_] * 8, *Writer.ANY)
DATA: tuple[Rule, ...] = (*[Writer.data] * 10, *Writer.ANY)
FUNCTION: tuple[Rule, ...] = (*[Writer.closure] * 6, *[Writer.value] * 4, *Writer.ANY)
CELLS: tuple[Rule, ...] = (*[Writer.written] * 6, *[Writer.read] * 6)  # where there are cells
CELL: tuple[Rule, ...] = (Writer.known, Writer.new_cell, *Writer.ANY)


def _rules(ty: Type) -> tuple[Rule, ...]:
    match ty:
        case TensorType():
            return TENSOR
        case TupleType():
            return TUPLE
        case TypeCall() | GlobalTypeVar():
            return DATA
        case FuncType():
            return FUNCTION
        case RefType():
            return CELL
        case _:
            return Writer.ANY


def literal_fuel(choose: Choices) -> Expr:
    """How deep a recursion goes."""
    return _int(choose.below(3))


def _int(value: int) -> Expr:
    return constant(value, "int32")


def _parts(ty: Type) -> set[Type]:
    return {p for p in walk(ty) if isinstance(p, TypeVar)}


def _has_fields(ty: Type, types: Mapping[GlobalTypeVar, TypeData]) -> bool:
    return isinstance(ty, TupleType) or family(ty, types) is not None

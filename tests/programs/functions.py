"""Functions of the module: plain, recursive with fuel, over a data type, or in pairs; polymorphic in types and dims."""

from __future__ import annotations

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.ir.clauses import Clause, PatternConstructor, PatternVar
from legato.ir.expr import Function, GlobalVar, Match
from legato.ir.types import FuncType, Type, TypeVar, tensor_type
from tests.programs.kinds import INT, applied, family, list_of
from tests.programs.scope import Callee
from tests.programs.writer import Writer

__all__ = ["functions"]

Bound = tuple[TypeVar | DimVar, ...]
Made = tuple[dict[GlobalVar, Function], list[Callee]]  # and how to call them


def functions(writer: Writer, name: str) -> dict[GlobalVar, Function]:
    """One function, or two that call each other; the writer may call them from then on."""
    choose, gv = writer.choose, GlobalVar(name)
    make = choose.one_of([_plain, _plain, _with_fuel, _over_data, _in_pairs])
    effects = writer.effects
    with writer.block():
        type_params = _type_params(writer)
        found, callees = make(writer, gv, type_params)
    for callee in callees:
        callee.pure = writer.effects == effects
    writer.scope.callees += callees
    return found


def _type_params(writer: Writer) -> Bound:
    """Type variables and dims, brought into scope."""
    choose = writer.choose
    type_vars = [TypeVar(name) for name in ("A", "B")[: choose.below(3)]]
    dims = [fresh("k", 0)] if choose.chance(3) else []
    writer.scope.type_vars += type_vars
    writer.scope.dims += dims
    return (*type_vars, *dims)


def _params(writer: Writer, type_params: Bound) -> tuple[Type, ...]:
    """Types of parameters: one of each type variable, one that has each dim, and some more."""
    needed: list[Type] = [p if isinstance(p, TypeVar) else tensor_type((p, 3)) for p in type_params]
    return (*needed, *(writer.type() for _ in range(writer.choose.below(3))))


def _plain(writer: Writer, gv: GlobalVar, bound: Bound) -> Made:
    params = _params(writer, bound)
    func = FuncType(params, writer.type(), bound)
    names = tuple(writer.var(p, known=True) for p in params)
    for param, p in zip(names, params, strict=True):
        writer.scope.bind(param, p)
    body = writer.expr(func.ret, 4)
    ret = func.ret if writer.choose.chance(2) else None
    return {gv: Function(names, body, ret, bound)}, [Callee(gv, func)]


def _with_fuel(writer: Writer, gv: GlobalVar, bound: Bound) -> Made:
    func = FuncType((INT, *_params(writer, bound)), writer.type(), bound)
    return {gv: writer.recursive(gv, func)}, [Callee(gv, func, fuel=0)]


def _in_pairs(writer: Writer, gv: GlobalVar, bound: Bound) -> Made:
    params = _params(writer, bound)
    first = Callee(gv, FuncType((INT, *params), writer.type(), bound), fuel=0)
    second = Callee(GlobalVar(f"{gv.name}b"), FuncType((INT, *params), writer.type(), bound), fuel=0)
    made = {}
    for one, other in ((first, second), (second, first)):
        assert isinstance(one.expr, GlobalVar)
        made[one.expr] = writer.recursive(one.expr, one.ty, [other])
    return made, [first, second]


def _over_data(writer: Writer, gv: GlobalVar, bound: Bound) -> Made:
    """A function that calls itself on parts of its first argument."""
    choose = writer.choose
    datas = [t for t in writer.types.values() if not t.extern]
    data = choose.one_of(datas)
    over = list_of(writer.type(1)) if choose.chance(2) else applied(data, [writer.type(0) for _ in data.type_vars])
    params = (over, *_params(writer, bound))
    func = FuncType(params, writer.type(), bound)
    names = tuple(writer.var(p, known=True) for p in params)
    found = family(over, writer.types)
    assert found is not None
    clauses = []
    for con in found.data.constructors:
        with writer.block():
            for param, p in zip(names[1:], params[1:], strict=True):
                writer.scope.bind(param, p)
            fields = found.fields(con)
            parts = tuple(writer.var(f) for f in fields)
            for part, f in zip(parts, fields, strict=True):
                writer.scope.bind(part, f)
            smaller = [part for part, f in zip(parts, fields, strict=True) if f == over]
            writer.scope.callees.append(Callee(gv, func, False, smaller=smaller))
            body = writer.call(func.ret, 3) if smaller and choose.chance(2) else writer.expr(func.ret, 3)
            assert body is not None
            clauses.append(Clause(PatternConstructor(con, tuple(map(PatternVar, parts))), body))
    made = Function(names, Match(names[0], tuple(clauses)), func.ret, bound)
    return {gv: made}, [Callee(gv, func)]

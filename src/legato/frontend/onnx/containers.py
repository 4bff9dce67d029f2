"""Sequences and optional values, and the common type of values that come from several places.

A sequence whose length is known is a tuple; where it must be one value of several lengths (the state of a loop, the
result of an If) it is the prelude's `List`, whose elements have one shape. An optional value is the prelude's `Option`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from legato.arith.expr import Var as DimVar
from legato.arith.expr import const, fresh
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import (
    Call,
    Clause,
    Constructor,
    Expr,
    Match,
    PatternConstructor,
    PatternVar,
    Var,
)
from legato.ir.let import Binding, lets
from legato.ir.types import Dim, FuncType, TensorType, TupleType, Type, TypeCall, TypeData
from legato.prelude import library

__all__ = [
    "Free",
    "as_list",
    "coerced",
    "element_of",
    "get_element",
    "has_element",
    "is_list",
    "is_option",
    "join",
    "joined_list",
    "list_type",
    "map_of",
    "nothing",
    "option_type",
    "several",
    "some",
    "taken_apart",
]

Free = set[DimVar]  # dims that may differ from one round of a loop to the next


@cache
def _data(name: str) -> TypeData:
    return next(data for header, data in library().types.items() if header.name == name)


@cache
def _constructor(name: str) -> Constructor:
    """Cons, Nil, Some or None."""
    return next(c for data in ("List", "Option") for c in _data(data).constructors if c.name == name)


def list_type(element: Type) -> TypeCall:
    """`List[element]`."""
    return TypeCall(_data("List").header, (element,))


def option_type(element: Type) -> TypeCall:
    """`Option[element]`."""
    return TypeCall(_data("Option").header, (element,))


def is_list(ty: Type | None) -> bool:
    """True for a List."""
    return isinstance(ty, TypeCall) and ty.func == _data("List").header


def is_option(ty: Type | None) -> bool:
    """True for an Option."""
    return isinstance(ty, TypeCall) and ty.func == _data("Option").header


def _made(name: str, fields: Sequence[Expr], ty: Type) -> Call:
    """A value of data type `ty`."""
    assert isinstance(ty, TypeCall)
    return Call(_constructor(name), tuple(fields), None, ty.args, ty=ty)


def list_of(items: Sequence[Expr], element: Type) -> Expr:
    """A List of `items`."""
    ty = list_type(element)
    found: Expr = _made("Nil", (), ty)
    for item in reversed(items):
        found = _made("Cons", (item, found), ty)
    return found


def some(value: Expr) -> Expr:
    """The optional value that is there."""
    assert value.ty is not None
    return _made("Some", (value,), option_type(value.ty))


def nothing(element: Type) -> Expr:
    """The optional value that is not there."""
    return _made("None", (), option_type(element))


def element_of(xs: Expr) -> Type:
    """The type of what a List or an Option holds."""
    assert isinstance(xs.ty, TypeCall)
    return xs.ty.args[0]


def as_list(b: Emitter, xs: Expr, what: str) -> Expr:
    """A sequence as a List; UnsupportedError, naming `what`, where its elements are of several types."""
    if is_list(xs.ty):
        return xs
    assert isinstance(xs.ty, TupleType)
    if not xs.ty.fields:
        raise ImportModelError(f"{what} has no elements")
    return coerced(b, xs, _container(xs.ty, xs.ty, xs.ty.fields, what))


# ------------------------------------------------------------------ taking apart


def taken_apart(
    b: Emitter, xs: Expr, there: Callable[..., Expr], otherwise: Callable[[], Expr] | None, ty: Type | None = None
) -> Expr:
    """`there` of what is in an Option, or of the first element of a List and the others; `otherwise` of none.

    Without `otherwise` the program ends where nothing is there. The result is of type `ty`, or of that of `there`.
    """
    names = ("Cons", "Nil") if is_list(xs.ty) else ("Some", "None")
    fields = [Var("x", ty=element_of(xs))] + ([Var("rest", ty=xs.ty)] if is_list(xs.ty) else [])
    body = there(*fields)
    pattern = PatternConstructor(_constructor(names[0]), tuple(PatternVar(v) for v in fields))
    clauses = [Clause(pattern, body)]
    if otherwise is not None:
        clauses.append(Clause(PatternConstructor(_constructor(names[1])), otherwise()))
    return Match(xs, tuple(clauses), otherwise is not None, ty=body.ty if ty is None else ty, span=b.span)


def has_element(b: Emitter, x: Expr) -> Expr:
    """Whether an Option holds something."""
    if isinstance(x, Call) and isinstance(x.op, Constructor):
        return b.constant(x.op.name == "Some", dt.bool_)
    return taken_apart(b, x, lambda _: b.constant(True, dt.bool_), lambda: b.constant(False, dt.bool_))


def get_element(b: Emitter, x: Expr) -> Expr:
    """What an Option holds; the program ends where it is nothing."""
    if isinstance(x, Call) and isinstance(x.op, Constructor) and x.args:
        return x.args[0]
    return taken_apart(b, x, lambda value: value, None)


def joined_list(b: Emitter, xs: Expr, axis: int, *, new: bool) -> Expr:
    """The tensors of a List, of which there is one at least, side by side along `axis`, which may be a `new` one."""
    element = element_of(xs)
    assert isinstance(element, TensorType)
    shape = list(element.shape)
    if new:
        shape.insert(axis, const(1))

    def tensor(extent: Dim) -> TensorType:
        return TensorType((*shape[:axis], extent, *shape[axis + 1 :]), element.dtype)

    def part(x: Expr) -> Expr:
        return b.expand_dims(x, axis=axis) if new else x

    size = fresh("n", 0)
    rest, so_far = b.var("rest", list_type(element)), b.var("all", tensor(size))
    ty = FuncType((rest.ty or element, tensor(size)), tensor(fresh("n", 0)), (size,))
    fn = Var("join", ty=ty)
    body = taken_apart(
        b,
        rest,
        lambda x, others: b.apply(fn, [others, b.concatenate((so_far, part(x)), axis=axis)]),
        lambda: so_far,
        tensor(b.unknown_dim("n")),
    )
    made = b.closed([rest, so_far], body, ty, {size})
    begin = taken_apart(b, xs, lambda x, others: b.apply(fn, [others, part(x)]), None)
    return lets([(fn, made)], begin)


def map_of(
    b: Emitter,
    lists: Sequence[Expr],
    heads: Sequence[Var],
    tails: Sequence[Var],
    results: Sequence[Expr],
    outside: Sequence[Binding],
    bound: Sequence[Binding],
) -> Expr:
    """The tuple of the Lists of `results` for the elements of `lists`, called `heads`; `tails` are those after them.

    `outside` has what the results read of the surroundings, `bound` the lets around them. A list that is shorter than
    the first ends the program.
    """
    types = tuple(list_type(_typed(r)) for r in results)
    params = [Var(f"xs{n}", ty=v.ty) for n, v in enumerate(lists)]
    fn = Var("map", ty=FuncType(tuple(_typed(p) for p in params), TupleType(types)))
    others = Var("others", ty=TupleType(types))
    made = [_made("Cons", (r, b.get(others, n)), ty) for n, (r, ty) in enumerate(zip(results, types, strict=True))]
    body: Expr = lets([*bound, (others, b.apply(fn, tails))], b.tuple_(made))
    none = b.tuple_([_made("Nil", (), ty) for ty in types])
    for n in reversed(range(len(lists))):
        pattern = PatternConstructor(_constructor("Cons"), (PatternVar(heads[n]), PatternVar(tails[n])))
        clauses = [Clause(pattern, body)] + [Clause(PatternConstructor(_constructor("Nil")), none)] * (n == 0)
        body = Match(params[n], tuple(clauses), n == 0, ty=TupleType(types), span=b.span)
    assert isinstance(fn.ty, FuncType)
    return lets([*outside, (fn, b.closed(params, body, fn.ty, ()))], b.apply(fn, lists))


def _typed(e: Expr) -> Type:
    assert e.ty is not None
    return e.ty


# ------------------------------------------------------------------ one type for several values


def join(a: Type, b: Type, free: Free | None, what: str) -> Type:
    """The type that values of types `a` and `b` can both be given; UnsupportedError, naming `what`, if there is none.

    Dims that differ become new ones, which join `free`; without it they are left to the caller as `a` has them.
    """
    match a, b:
        case TensorType(), TensorType() if a.rank == b.rank and a.dtype == b.dtype:
            return TensorType(tuple(_dim(x, y, free) for x, y in zip(a.shape, b.shape, strict=True)), a.dtype)
        case TupleType(), TupleType() if len(a.fields) == len(b.fields):
            return TupleType(tuple(join(x, y, free, what) for x, y in zip(a.fields, b.fields, strict=True)))
        case (TupleType() | TypeCall(), TupleType() | TypeCall()) if is_option(a) == is_option(b):
            parts = [*_elements(a), *_elements(b)]
            return _container(a, b, parts, what)
        case _:
            raise UnsupportedError(f"{what} has several types: {a} and {b}")


def several(what: str, a: Type, b: Type) -> str:
    """Why a sequence cannot be a List."""
    return f"{what}: its length, or a position in it, is known only at run time: its elements cannot be {a} and {b}"


def _container(a: Type, b: Type, parts: Sequence[Type], what: str) -> Type:
    found: Type | None = None
    for part in parts:
        if found is None or found == part:
            found = part
        elif isinstance(found, TensorType) and isinstance(part, TensorType):
            raise UnsupportedError(several(what, found, part))
        else:
            found = join(found, part, None, what)
    if found is None:
        return a
    return option_type(found) if is_option(a) else list_type(found)


def _elements(ty: Type) -> tuple[Type, ...]:
    if isinstance(ty, TupleType):
        return ty.fields
    assert isinstance(ty, TypeCall)
    return tuple(arg for arg in ty.args if not _is_unit(arg))


def _is_unit(ty: Type) -> bool:
    return isinstance(ty, TupleType) and not ty.fields


def _dim(a: Dim, b: Dim, free: Free | None) -> Dim:
    if a == b or free is None or (isinstance(a, DimVar) and a in free):
        return a
    new = fresh("d", 0)
    free.add(new)
    return new


def coerced(b: Emitter, value: Expr, ty: Type) -> Expr:
    """`value` as the type that `join` found for it."""
    own = value.ty
    if is_list(ty) and isinstance(own, TupleType):
        assert isinstance(ty, TypeCall)
        element = ty.args[0]
        return list_of([coerced(b, b.get(value, n), element) for n in range(len(own.fields))], element)
    if is_option(ty) and own != ty and isinstance(value, Call) and isinstance(value.op, Constructor):
        assert isinstance(ty, TypeCall)
        return _made(value.op.name, [coerced(b, arg, ty.args[0]) for arg in value.args], ty)
    return value

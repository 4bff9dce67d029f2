"""Sequences and optional values, and the common type of values that come from several places.

A sequence whose length is known is a tuple; where it must be one value of several lengths (the state of a loop, the
result of an If) it is the prelude's `List`, whose elements have one type, in `cells` where their shapes differ. An
optional value is the prelude's `Option`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache

from legato.arith.expr import Const, const, fresh
from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.cells import cell_of, contents, filled, head_of, head_pattern, held
from legato.frontend.onnx.emitter import Emitter
from legato.infer.holes import dim_vars
from legato.ir.clauses import Clause, PatternConstructor, PatternVar
from legato.ir.expr import Call, Constructor, Expr, Match, Var
from legato.ir.let import Binding, lets
from legato.ir.types import Dim, FuncType, TensorType, TupleType, Type, TypeCall, TypeData
from legato.prelude import library

__all__ = [
    "Free",
    "as_list",
    "coerced",
    "consed",
    "element_of",
    "element_type",
    "get_element",
    "has_element",
    "is_list",
    "is_option",
    "join",
    "joined_list",
    "list_of",
    "list_of_parts",
    "list_type",
    "map_of",
    "mapped",
    "nothing",
    "of_own_shape",
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


def consed(b: Emitter, item: Expr, rest: Expr) -> Expr:
    """A List with one more element at its front."""
    return _made("Cons", (item, rest), _typed(rest))


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
    """A sequence as a List; UnsupportedError, naming `what`, where its elements are of several types or ranks."""
    if is_list(xs.ty):
        return xs
    assert isinstance(xs.ty, TupleType)
    if not xs.ty.fields:
        raise ImportModelError(f"{what} has no elements")
    return coerced(b, xs, _container(b, xs.ty, xs.ty, xs.ty.fields, what))


# ------------------------------------------------------------------ taking apart


def taken_apart(
    b: Emitter,
    xs: Expr,
    there: Callable[..., Expr],
    otherwise: Callable[[], Expr] | None,
    ty: Type | None = None,
    head: Var | None = None,
) -> Expr:
    """`there` of what is in an Option, or of the first element of a List and the others; `otherwise` of none. Of a
    cell, `there` gets the tensor.

    Without `otherwise` the program ends where nothing is there. The result is of type `ty`, or of that of `there`.
    `head` is the variable for the element, if there is one already (`head_of`).
    """
    names = ("Cons", "Nil") if is_list(xs.ty) else ("Some", "None")
    head = head_of(b, element_of(xs), "x") if head is None else head
    rest = [Var("rest", ty=xs.ty)] if is_list(xs.ty) else []
    body = there(head, *rest)
    parts = (head_pattern(b, element_of(xs), head), *map(PatternVar, rest))
    pattern = PatternConstructor(_constructor(names[0]), parts)
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
        return held(b, x.args[0])
    return taken_apart(b, x, lambda value: value, None)


def joined_list(b: Emitter, xs: Expr, axis: int, *, new: bool) -> Expr:
    """The tensors of a List, of which there is one at least, side by side along `axis`, which may be a `new` one."""
    element = element_of(xs)
    whole = contents(b, element)
    assert whole is not None
    shape, is_cell = list(whole.shape), whole != element
    if new:
        shape.insert(axis, const(1))
    own = [n for n, d in enumerate(shape) if n == axis or (is_cell and not isinstance(d, Const))]

    def tensor(dim: Callable[[], Dim]) -> TensorType:
        return TensorType(tuple(dim() if n in own else d for n, d in enumerate(shape)), whole.dtype)

    def part(x: Expr) -> Expr:
        return b.expand_dims(x, axis=axis) if new else x

    def joined(x: Expr) -> Expr:
        row = part(x)
        if is_cell:  # which does not say what its extents are
            wanted = list(b.dims_of(so_far))
            wanted[axis] = b.dims_of(row)[axis]
            row = b.match_cast(row, TensorType(tuple(wanted), whole.dtype))
        return b.concatenate((so_far, row), axis=axis)

    head = head_of(b, element, "x")  # its dims are older than those of the function, as when its text is read
    rest, so_far = b.var("rest", list_type(element)), b.var("all", tensor(lambda: fresh("n", 0)))
    sizes = tuple(d for n, d in enumerate(b.dims_of(so_far)) if n in own and isinstance(d, DimVar))
    ty = FuncType((list_type(element), b.type_of(so_far)), tensor(lambda: fresh("n", 0)), sizes)
    fn = Var("join", ty=ty)
    body = taken_apart(
        b,
        rest,
        lambda x, others: b.apply(fn, [others, joined(x)]),
        lambda: so_far,
        tensor(lambda: b.unknown_dim("n")),
        head,
    )
    made = b.closed([rest, so_far], body, ty, set(sizes))
    begin = taken_apart(b, xs, lambda x, others: b.apply(fn, [others, part(x)]), None)
    return lets([(fn, made)], begin)


def list_of_parts(b: Emitter, count: Dim, part: Callable[[Expr], Expr]) -> Expr:
    """The List of what `part` gives for the numbers below `count`; each may have extents of its own."""
    i, known = b.var("i", (), "int64"), b.dims_here()
    with b.bindings() as bound:
        made = of_own_shape(b, part(i), known)
    so_far = b.var("parts", list_type(_typed(made)))
    ty = FuncType((_typed(i), _typed(so_far)), _typed(so_far))
    fn = Var("collect", ty=ty)
    again = lets(bound, b.apply(fn, [b.subtract(i, b.constant(1, dt.int64)), consed(b, made, so_far)]))
    body = b.if_(b.less(i, b.constant(0, dt.int64)), so_far, again)
    last = b.subtract(b.extent(count, dt.int64), b.constant(1, dt.int64))
    return lets([(fn, b.closed([i, so_far], body, ty, ()))], b.apply(fn, [last, _made("Nil", (), _typed(so_far))]))


def map_of(
    b: Emitter,
    lists: Sequence[Expr],
    heads: Sequence[Var],
    tails: Sequence[Var],
    results: Sequence[Expr],
    outside: Sequence[Binding],
    bound: Sequence[Binding],
) -> Expr:
    """The tuple of the Lists of `results` for the elements of `lists`, called `heads` (see `head_of`); `tails` are the
    elements after them.

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
        pattern = PatternConstructor(
            _constructor("Cons"), (head_pattern(b, element_of(lists[n]), heads[n]), PatternVar(tails[n]))
        )
        clauses = [Clause(pattern, body)] + [Clause(PatternConstructor(_constructor("Nil")), none)] * (n == 0)
        body = Match(params[n], tuple(clauses), n == 0, ty=TupleType(types), span=b.span)
    assert isinstance(fn.ty, FuncType)
    return lets([*outside, (fn, b.closed(params, body, fn.ty, ()))], b.apply(fn, lists))


def of_own_shape(b: Emitter, x: Expr, known: Collection[DimVar]) -> Expr:
    """`x` as an element of a List: in a cell where not all its dims are `known` outside of what makes each element."""
    ty = _typed(x)
    cell = None if all(d in known for d in dim_vars(ty)) else cell_of(b, ty, ty)
    return x if cell is None else filled(b, x, cell)


def mapped(b: Emitter, xs: Expr, make: Callable[[Expr], Expr]) -> Expr:
    """The List of what `make` gives for the elements of a List."""
    head, tail = head_of(b, element_of(xs), "x"), Var("rest", ty=xs.ty)
    return b.get(map_of(b, [xs], [head], [tail], [make(head)], (), ()), 0)


def _typed(e: Expr) -> Type:
    assert e.ty is not None
    return e.ty


# ------------------------------------------------------------------ one type for several values


def join(b: Emitter, x: Type, y: Type, free: Free | None, what: str) -> Type:
    """The type that values of types `x` and `y` can both be given; UnsupportedError, naming `what`, if there is none.

    Dims that differ become new ones, which join `free`; without it they are left to the caller as `x` has them.
    """
    match x, y:
        case TensorType(), TensorType() if x.rank == y.rank and x.dtype == y.dtype:
            return TensorType(tuple(_dim(d, e, free) for d, e in zip(x.shape, y.shape, strict=True)), x.dtype)
        case TupleType(), TupleType() if len(x.fields) == len(y.fields):
            return TupleType(tuple(join(b, t, u, free, what) for t, u in zip(x.fields, y.fields, strict=True)))
        case (TupleType() | TypeCall(), TupleType() | TypeCall()) if is_option(x) == is_option(y):
            return _container(b, x, y, [*_elements(x), *_elements(y)], what)
        case _:
            raise UnsupportedError(f"{what} has several types: {x} and {y}")


def element_type(b: Emitter, types: Sequence[Type], what: str) -> Type:
    """The type that all elements of a List can have, where they are of `types`; UnsupportedError, naming `what`, if
    there is none."""
    found = types[0]
    for ty in types[1:]:
        if found == ty:
            continue
        if contents(b, found) is None or contents(b, ty) is None:
            found = join(b, found, ty, None, what)
            continue
        cell = cell_of(b, found, ty)
        if cell is None:
            raise UnsupportedError(several(what, found, ty))
        found = cell
    return found


def several(what: str, a: Type, b: Type) -> str:
    """Why a sequence cannot be a List."""
    return f"{what}: its length, or a position in it, is known only at run time: its elements cannot be {a} and {b}"


def _container(b: Emitter, x: Type, y: Type, parts: Sequence[Type], what: str) -> Type:
    if not parts:
        return x
    found = element_type(b, parts, what)
    return option_type(found) if is_option(x) else list_type(found)


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
    if not isinstance(ty, TypeCall):
        return filled(b, value, ty)
    element = ty.args[0]
    if is_list(ty) and isinstance(own, TupleType):
        return list_of([coerced(b, b.get(value, n), element) for n in range(len(own.fields))], element)
    if own == ty:
        return value
    if is_list(ty):
        return mapped(b, value, lambda x: coerced(b, x, element))
    if isinstance(value, Call) and isinstance(value.op, Constructor):
        return _made(value.op.name, [coerced(b, arg, element) for arg in value.args], ty)
    return taken_apart(b, value, lambda x: _made("Some", [coerced(b, x, element)], ty), lambda: _made("None", (), ty))

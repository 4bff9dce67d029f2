"""The functional, typed language: Relay's expressions and three of Relax's.

    expr = Var(name)                                  bound by a function, let or pattern
         | GlobalVar(name)                            a function of the module
         | Constant(data)                             an array
         | Op                                         an operator; its record is the node (see `ir.op`)
         | Constructor(name, inputs, belongs_to)      of a data type
         | Function(params, body, ret_type, type_params, attrs)
         | Call(op, args, attrs, type_args)           op: any expression of function type
         | Let(var, value, body)
         | If(cond, then, orelse)
         | Match(data, clauses, complete)             see `ir.clauses`
         | Tuple(fields) | TupleGetItem(value, index)
         | RefCreate(value) | RefRead(ref) | RefWrite(ref, value)
         | MatchCast(value, target)                   checks at run time that value has type target; binds its new dims
         | Dataflow(bindings, outputs)                pure bindings in order; gives the tuple of its outputs
         | Shape(dims)                                dims as a value

Nodes are immutable and compared by identity: a node used twice is computed once. Var and GlobalVar compare by a unique
id, so a typed rebuild of `%x` is still `%x`. Every expression has a type `ty` (None before inference) and a `span`;
`with_type` and the passes make new nodes. `repr` is one line and never recurses; `str` is the expression as text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, TypeCheckError
from legato.base.scripts import script_of
from legato.base.span import Span
from legato.base.strings import is_text, string_array
from legato.ir._operators import Operators
from legato.ir.clauses import Clause
from legato.ir.types import Dim, GlobalTypeVar, TupleType, Type, TypeVar, tensor_type
from legato.runtime.floats import float_environment

if TYPE_CHECKING:
    from legato.arith.expr import Var as DimVar
    from legato.runtime.values import Data

__all__ = ["Call", "Constant", "Constructor", "Dataflow", "Expr", "Function", "GlobalVar", "If", "Let", "Match",
           "MatchCast", "RefCreate", "RefRead", "RefWrite", "Shape", "Tuple", "TupleGetItem", "Var", "callee_name",
           "constant", "tuple_of"]  # fmt: skip

_ids = itertools.count(1)
NO_ATTRS: Mapping[str, Any] = MappingProxyType({})


def _no_attrs() -> Mapping[str, Any]:
    return NO_ATTRS


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Expr(Operators):
    """An expression; see the module's grammar."""

    ty: Type | None = field(default=None, kw_only=True)
    span: Span | None = field(default=None, kw_only=True)

    def children(self) -> tuple[Expr, ...]:
        return ()

    def with_children(self, children: tuple[Any, ...]) -> Expr:
        return self

    def with_type(self, ty: Type | None) -> Self:
        """This node with type `ty`; the same object where it has it already."""
        return self if ty is self.ty else replace(self, ty=ty)

    @property
    def checked_type(self) -> Type:
        """The type that inference found; TypeCheckError where it has not been run (`ty` is None then)."""
        if self.ty is None:
            raise TypeCheckError(
                f"{self!r} has no type yet", span=self.span, hint="infer the types of its module first"
            )
        return self.ty

    @property
    def struct_info(self) -> Type:
        """`checked_type`, as older versions of Relax call it."""
        return self.checked_type

    def astext(self, show_meta_data: bool = True) -> str:
        """This expression as text; `show_meta_data`: with the section that holds constants."""
        from legato.ir.printer import show  # the printer walks the classes defined here

        return show(self, metadata=show_meta_data)

    def show(self) -> None:
        """Prints this expression, without the values of its constants."""
        print(self)

    def same_as(self, other: object) -> bool:
        """Whether `other` is this node."""
        return self is other

    def __repr__(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name in ("name", "index", "attrs")}
        inner = ", ".join(f"{k}={v!r}" for k, v in shown.items() if v)
        return f"<{type(self).__name__}{' ' if inner else ''}{inner}{'' if self.ty is None else f': {self.ty}'}>"

    def __str__(self) -> str:
        return self.astext(show_meta_data=False)

    def __getitem__(self, index: int) -> Expr:
        return TupleGetItem(self, index)

    def __iter__(self) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be iterated; index it or use its type's fields")


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Var(Expr):
    """A local variable; `ty` is its annotation or inferred type. Equal if the ids are equal."""

    name: str
    uid: int = field(default_factory=lambda: next(_ids), kw_only=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Var) and other.uid == self.uid

    def __hash__(self) -> int:
        return hash(("Var", self.uid))

    @property
    def name_hint(self) -> str:
        """`name`, as Relay calls it."""
        return self.name

    @property
    def type_annotation(self) -> Type | None:
        """`ty`, as Relay calls it where it is written rather than inferred."""
        return self.ty


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class GlobalVar(Expr):
    """A function of the module. Equal if the ids are equal."""

    name: str
    uid: int = field(default_factory=lambda: next(_ids), kw_only=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalVar) and other.uid == self.uid

    def __hash__(self) -> int:
        return hash(("GlobalVar", self.uid))

    @property
    def name_hint(self) -> str:
        """`name`, as Relay calls it."""
        return self.name


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Constant(Expr):
    """An array (read-only); always typed. Build with `constant`."""

    data: np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Constructor(Expr):
    """A constructor of data type `belongs_to`; `tag` is its position there."""

    name: str
    inputs: tuple[Type, ...]
    belongs_to: GlobalTypeVar
    tag: int = 0

    @property
    def name_hint(self) -> str:
        """`name`, as Relay calls it."""
        return self.name

    @property
    def belong_to(self) -> GlobalTypeVar:
        """`belongs_to`, as Relay calls it."""
        return self.belongs_to


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, repr=False)
class Function(Expr):
    """A function; closures are allowed. `attrs` holds facts (Primitive, …); type_params: TypeVars and dim variables."""

    params: tuple[Var, ...]
    body: Expr
    ret_type: Type | None = None
    type_params: tuple[TypeVar | DimVar, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=_no_attrs)

    def children(self) -> tuple[Expr, ...]:
        return (*self.params, self.body)

    def with_children(self, children: tuple[Any, ...]) -> Expr:
        return replace(self, params=children[:-1], body=children[-1])

    def script(self, constants: MutableMapping[str, Any] | None = None) -> str:
        """This function as a script; see `legato.script.show`."""
        return script_of(self, constants)

    def with_attr(self, name: str, value: Any) -> Function:
        """This function with attribute `name`."""
        return replace(self, attrs={**self.attrs, name: value})

    def without_attr(self, name: str) -> Function:
        """This function without attribute `name`."""
        return replace(self, attrs={k: v for k, v in self.attrs.items() if k != name})


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Call(Expr):
    """An application. `attrs` is the operator's frozen attribute record (None for other callees)."""

    op: Expr
    args: tuple[Expr, ...]
    attrs: Any = None
    type_args: tuple[Type | Dim, ...] = ()

    def as_data(self) -> Data | None:
        """The value that a constructor's call writes out, whose fields may be such calls again; None for others."""
        from legato.runtime.values import Data  # on use: programs are built without it

        fields = _all_written_out(self.args)
        return None if fields is None or not isinstance(self.op, Constructor) else Data(self.op, fields)

    def children(self) -> tuple[Expr, ...]:
        return (self.op, *self.args)

    def with_children(self, children: tuple[Any, ...]) -> Expr:
        return replace(self, op=children[0], args=children[1:])


def _all_written_out(args: Sequence[Expr]) -> tuple[Any, ...] | None:
    """What the arguments of a constructor write out; None where one computes something."""
    found = [
        a.data if isinstance(a, Constant) else _all_written_out(a.fields) if isinstance(a, Tuple) else a for a in args
    ]
    return tuple(found) if all(isinstance(f, np.ndarray | tuple | Call) for f in found) else None


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Let(Expr):
    """`let var = value; body`. A function value may call itself through `var`."""

    var: Var
    value: Expr
    body: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.var, self.value, self.body)

    def with_children(self, children: tuple[Any, ...]) -> Expr:
        return replace(self, var=children[0], value=children[1], body=children[2])


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class If(Expr):
    """`cond` is a rank-0 bool; only the taken branch is evaluated."""

    cond: Expr
    then: Expr
    orelse: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.cond, self.then, self.orelse)

    def with_children(self, children: tuple[Any, ...]) -> Expr:
        return replace(self, cond=children[0], then=children[1], orelse=children[2])

    @property
    def true_branch(self) -> Expr:
        """`then`, as Relay calls it."""
        return self.then

    @property
    def false_branch(self) -> Expr:
        """`orelse`, as Relay calls it."""
        return self.orelse


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Tuple(Expr):
    """A tuple; `()` is the unit value."""

    fields: tuple[Expr, ...]

    def __getitem__(self, index: int) -> Expr:
        return self.fields[index]

    def children(self) -> tuple[Expr, ...]:
        return self.fields

    def with_children(self, children: tuple[Any, ...]) -> Expr:
        return replace(self, fields=children)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class TupleGetItem(Expr):
    """Field `index` of a tuple."""

    value: Expr
    index: int

    @property
    def tuple_value(self) -> Expr:
        """`value`, as Relay calls it."""
        return self.value

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def with_children(self, children: tuple[Any, ...]) -> Expr:
        return replace(self, value=children[0])


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class RefCreate(Expr):
    """A new cell holding `value`."""

    value: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def with_children(self, children: tuple[Any, ...]) -> Expr:
        return replace(self, value=children[0])


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class RefRead(Expr):
    """The cell's value."""

    ref: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.ref,)

    def with_children(self, children: tuple[Any, ...]) -> Expr:
        return replace(self, ref=children[0])


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class RefWrite(Expr):
    """Sets the cell; the result is the unit value."""

    ref: Expr
    value: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.ref, self.value)

    def with_children(self, children: tuple[Any, ...]) -> Expr:
        return replace(self, ref=children[0], value=children[1])


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class MatchCast(Expr):
    """`value` seen at type `target`, checked at run time; dim variables new in `target` are bound by it."""

    value: Expr
    target: Type

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def with_children(self, children: tuple[Any, ...]) -> Expr:
        return replace(self, value=children[0])


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Dataflow(Expr):
    """Pure bindings, evaluated in order; the value is the tuple of `outputs`."""

    bindings: tuple[tuple[Var, Expr], ...]
    outputs: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return (*(e for pair in self.bindings for e in pair), *self.outputs)

    def with_children(self, children: tuple[Any, ...]) -> Expr:
        split = 2 * len(self.bindings)
        pairs = zip(children[:split:2], children[1:split:2], strict=True)
        return replace(self, bindings=tuple(pairs), outputs=children[split:])


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Shape(Expr):
    """Dims as a value of ShapeType."""

    dims: tuple[Dim, ...]

    @property
    def values(self) -> tuple[Dim, ...]:
        """`dims`, as Relax calls them."""
        return self.dims


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Match(Expr):
    """The body of the first clause whose pattern matches. `complete` promises that one always does (checked)."""

    data: Expr
    clauses: tuple[Clause, ...]
    complete: bool = True

    def children(self) -> tuple[Expr, ...]:
        return (self.data, *(c.body for c in self.clauses))

    def with_children(self, children: tuple[Any, ...]) -> Expr:
        pairs = zip(self.clauses, children[1:], strict=True)
        return replace(self, data=children[0], clauses=tuple(Clause(c.pattern, body) for c, body in pairs))


def constant(value: Any, dtype: dt.DType | str | None = None, span: Span | None = None) -> Constant:
    """`value` (anything NumPy takes) as a typed Constant; Python floats become float32, Python ints int32.

    Arrays are copied unless they are read-only. CompileError for objects that are no strings.
    """
    if dtype is None and type(value) in (bool, int, float):  # not NumPy's scalars, of which some are floats as well
        dtype = {bool: dt.bool_, int: dt.int32, float: dt.float32}[type(value)]
    wanted = None if dtype is None else dt.dtype(dtype).numpy
    with float_environment():  # what a literal means does not depend on the caller
        data = np.array(value, wanted, order="C", copy=None if _is_frozen(value) else True)
    if is_text(data):
        if not isinstance(value, np.ndarray):
            data = np.array(value, object)  # NumPy's text ends before a \0
        data = string_array(data, "a constant", CompileError)
    data.setflags(write=False)
    return Constant(data, ty=tensor_type(data.shape, dt.dtype(data.dtype)), span=span)


def tuple_of(fields: Iterable[Expr]) -> Tuple:
    """The tuple of these, typed if all of them are."""
    members = tuple(fields)
    types = tuple(m.ty for m in members if m.ty is not None)
    return Tuple(members, ty=TupleType(types) if len(types) == len(members) else None)


def callee_name(callee: Expr) -> str:
    """What messages call the function of a call."""
    match callee:
        case Var():
            return f"%{callee.name}"
        case GlobalVar():
            return f"@{callee.name}"
        case Constructor():
            return callee.name
        case _:
            return "a function"


def _is_frozen(value: Any) -> bool:
    """True for an array that nobody can write to: neither itself nor the arrays that it is a view of."""
    while isinstance(value, np.ndarray):
        if value.flags.writeable:
            return False
        value = value.base
    return value is None

"""Equality and hash of programs up to the names of what they bind.

Two programs are alpha-equal if they differ only in the identity and names of bound variables, dims and type variables:

* bound variables, dims and type variables correspond one to one, and have equal types, ranges and kinds; free ones are
  themselves. Functions, data types, constructors of a module correspond by name, operators are themselves;
* constants are equal in dtype, shape and bits, attributes by value (so NaN equals NaN, and 0.0 is not -0.0);
* nodes that compute something correspond one to one: `(f(x), f(x))` with two calls is not `let y = f(x); (y, y)`, nor
  the tuple that holds one call twice. Tuples, projections and leaves may be shared or not.

Not compared: inferred types (variables' types are part of the program), spans.

A dim is bound by the type parameters that list it and by the types of a function's parameters; beside these, the first
use in the type of a variable or in a match_cast introduces it. In a module there are no free dims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from legato.arith.expr import Binary, Const
from legato.arith.expr import Expr as DimExpr
from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.base.strings import bits
from legato.ir._dims import parameters
from legato.ir._hash import structural_hash
from legato.ir.clauses import Pattern, PatternConstructor, PatternVar
from legato.ir.constraint import Constraint
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    MatchCast,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
)
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import operands
from legato.ir.types import (
    Dim,
    FuncType,
    GlobalTypeVar,
    ShapeType,
    TensorType,
    Type,
    TypeData,
    TypeVar,
)
from legato.tir.equal import alpha_equal as tir_equal
from legato.tir.stmt import Func

__all__ = ["alpha_equal", "structural_hash"]

Bound = TypeVar | DimVar


def alpha_equal(a: Module | Expr | Type, b: Module | Expr | Type, *, map_free_vars: bool = False) -> bool:
    """True if two modules, expressions or types are the same up to the names of what they bind.

    With `map_free_vars`, free variables and dims need only correspond one to one. Linear in the size of the programs.
    """
    if isinstance(a, Module) or isinstance(b, Module):
        return isinstance(a, Module) and isinstance(b, Module) and _modules(a, b)
    if isinstance(a, Type) or isinstance(b, Type):
        return isinstance(a, Type) and isinstance(b, Type) and _Types(map_free_vars).type(a, b, map_free_vars)
    return _Exprs(map_free_vars, is_module=False).equal(a, b)


def _modules(a: Module, b: Module) -> bool:
    by_name = {gv.name: f for gv, f in b.functions.items()}
    types = {gtv.name: data for gtv, data in b.types.items()}
    if len(a.functions) != len(by_name) or len(a.types) != len(types) or a.constants.keys() != b.constants.keys():
        return False
    if not all(gtv.name in types and _type_data(data, types[gtv.name]) for gtv, data in a.types.items()):
        return False
    if not _Types(lenient=True).value(a.attrs, b.attrs):
        return False
    if not all(_Types(lenient=True).value(v, b.constants[k]) for k, v in a.constants.items()):
        return False
    return all(gv.name in by_name and _functions(f, by_name[gv.name]) for gv, f in a.functions.items())


def _functions(a: Any, b: Any) -> bool:
    if isinstance(a, Function) and isinstance(b, Function):
        return _Exprs(map_free_vars=False, is_module=True).equal(a, b)
    if isinstance(a, Function) or isinstance(b, Function):
        return False
    return isinstance(a, Func) and isinstance(b, Func) and tir_equal(a, b)


def _type_data(a: TypeData, b: TypeData) -> bool:
    types = _Types(lenient=True)
    if a.extern != b.extern or len(a.constructors) != len(b.constructors):
        return False
    if types.bind(a.type_vars, b.type_vars) is None:
        return False
    return all(
        x.name == y.name and x.tag == y.tag and types.types(x.inputs, y.inputs, False)
        for x, y in zip(a.constructors, b.constructors, strict=True)
    )


class _Pairs:
    """A correspondence, one to one."""

    __slots__ = ("_left", "_right")

    def __init__(self) -> None:
        self._left: dict[Any, Any] = {}
        self._right: dict[Any, Any] = {}

    def bind(self, a: Any, b: Any) -> Callable[[], None]:
        """Makes `a` correspond to `b`, whatever they did before; the result restores that."""
        old = self._left.get(a), self._right.get(b)
        self._left[a], self._right[b] = b, a

        def restore() -> None:
            self._left[a], self._right[b] = old

        return restore

    def known(self, a: Any, b: Any) -> bool:
        """True if one of them corresponds to something."""
        return self._left.get(a) is not None or self._right.get(b) is not None

    def match(self, a: Any, b: Any) -> bool:
        """True if they correspond to each other."""
        return bool(self._left.get(a) == b) and bool(self._right.get(b) == a)


class _Types:
    """Compares types, dims and attribute values. Free dims correspond if `lenient`, else they must be the same."""

    def __init__(self, lenient: bool) -> None:
        self._lenient = lenient
        self._bound = _Pairs()

    def bind(self, a: Iterable[Bound], b: Iterable[Bound]) -> list[Callable[[], None]] | None:
        """Makes two lists of type parameters correspond; None if they cannot, else what undoes it."""
        left, right = tuple(a), tuple(b)
        same = len(left) == len(right) and all(map(_same_kind, left, right))
        return [self._bound.bind(x, y) for x, y in zip(left, right, strict=True)] if same else None

    def optional(self, a: Type | None, b: Type | None, introduces: bool) -> bool:
        """Two types that may be absent."""
        if a is None or b is None:
            return a is b
        return self.type(a, b, introduces)

    def types(self, a: tuple[Type, ...], b: tuple[Type, ...], introduces: bool) -> bool:
        """Types in pairs."""
        return len(a) == len(b) and all(self.type(x, y, introduces) for x, y in zip(a, b, strict=True))

    def type(self, a: Type, b: Type, introduces: bool) -> bool:
        """Two types; one that `introduces` dims lets new ones correspond."""
        if type(a) is not type(b):
            return False
        match a, b:
            case TensorType(), TensorType():
                return a.dtype == b.dtype and self.dims(a.shape, b.shape, introduces)
            case ShapeType(dims), ShapeType(others):
                if dims is None or others is None:
                    return dims is others
                return self.dims(dims, others, introduces)
            case FuncType(), FuncType():
                undo = self.bind(a.type_params, b.type_params)
                if undo is None:
                    return False
                same = self.types(a.children(), b.children(), introduces)
                for restore in reversed(undo):
                    restore()
                return same
            case TypeVar(), TypeVar():
                return self._variable(a, b, introduces)
            case GlobalTypeVar(), GlobalTypeVar():
                return a.name == b.name
            case _:
                return self.types(a.children(), b.children(), introduces)

    def dims(self, a: tuple[Dim, ...], b: tuple[Dim, ...], introduces: bool) -> bool:
        """Dims in pairs."""
        return len(a) == len(b) and all(self.dim(x, y, introduces) for x, y in zip(a, b, strict=True))

    def dim(self, a: Dim, b: Dim, introduces: bool) -> bool:
        """Two dims."""
        todo = [(a, b)]
        while todo:
            x, y = todo.pop()
            if isinstance(x, DimVar) and isinstance(y, DimVar):
                if not self._variable(x, y, introduces):
                    return False
            elif not _same_node(x, y):
                return False
            else:
                kids, others = x.children(), y.children()
                if len(kids) != len(others):
                    return False
                todo += zip(reversed(kids), reversed(others), strict=True)
        return True

    def _variable(self, a: Bound, b: Bound, introduces: bool) -> bool:
        if self._bound.known(a, b):
            return self._bound.match(a, b)
        if not (introduces or self._lenient):
            return a is b
        if not _same_kind(a, b):
            return False
        self._bound.bind(a, b)
        return True

    def value(self, a: Any, b: Any) -> bool:
        """Two attribute values: equal in type and value. Lists equal tuples, and a literal dim its integer."""
        a, b = _plain(a), _plain(b)
        if type(a) is not type(b) and not any(isinstance(a, t) and isinstance(b, t) for t in (DimExpr, Mapping)):
            return False
        match a:
            case float():
                return repr(a) == repr(b)
            case DimExpr():
                return self.dim(a, b, introduces=False)
            case Type():
                return self.type(a, b, introduces=False)
            case np.ndarray():
                return same_bits(a, b)
            case tuple():
                return len(a) == len(b) and all(map(self.value, a, b))
            case Mapping():
                return a.keys() == b.keys() and all(self.value(v, b[k]) for k, v in a.items())
            case Constraint():
                return a.what == b.what and self.value((a.a, a.b), (b.a, b.b))
            case _ if is_dataclass(a):
                return all(self.value(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
            case _:
                return bool(a == b)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, np.generic):
        return value.item()
    return int(value.value) if isinstance(value, Const) and value.dtype == dt.index else value


def _same_node(a: DimExpr, b: DimExpr) -> bool:
    """True if two parts of dims agree beside their operands."""
    if type(a) is not type(b) or a.dtype != b.dtype or isinstance(a, Const):
        return a is b
    return not (isinstance(a, Binary) and isinstance(b, Binary)) or a.op is b.op


def _same_kind(a: Bound, b: Bound) -> bool:
    if isinstance(a, DimVar) and isinstance(b, DimVar):
        return (a.lo, a.hi, a.dtype) == (b.lo, b.hi, b.dtype)
    return isinstance(a, TypeVar) and isinstance(b, TypeVar) and a.kind is b.kind


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """True if two arrays have the same dtype, shape and bits."""
    return a is b or (a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b))


class _Exprs:
    """Compares two expressions, iteratively: `_todo` holds pairs of nodes, and what to do when a scope is left."""

    def __init__(self, map_free_vars: bool, is_module: bool) -> None:
        self._types = _Types(map_free_vars or is_module)
        self._map_free = map_free_vars
        self._vars = _Pairs()
        self._nodes = _Pairs()  # by identity
        self._seen: set[tuple[int, int]] = set()  # pairs of tuples and projections
        self._todo: list[tuple[Expr, Expr] | Callable[[], None]] = []

    def equal(self, a: Expr, b: Expr) -> bool:
        """True if the two are alpha-equal. A function as root binds the dims of its parameters."""
        if isinstance(a, Function) and isinstance(b, Function):
            if not self._function(a, b, parameters(a), parameters(b)):
                return False
        else:
            self._todo.append((a, b))
        while self._todo:
            item = self._todo.pop()
            if not isinstance(item, tuple):
                item()
            elif not self._pair(*item):
                return False
        return True

    def _pair(self, a: Expr, b: Expr) -> bool:
        if type(a) is not type(b):
            return False
        if isinstance(a, Tuple | TupleGetItem):
            if (id(a), id(b)) in self._seen:
                return True
            self._seen.add((id(a), id(b)))
        elif operands(a):
            if self._nodes.known(id(a), id(b)):
                return self._nodes.match(id(a), id(b))
            self._nodes.bind(id(a), id(b))
        return self._here(a, b) and self._below(a, b)

    def _below(self, a: Expr, b: Expr) -> bool:
        """Schedules the operands of two nodes; a function schedules its own."""
        if isinstance(a, Function):
            return True
        kids, others = operands(a), operands(b)
        if len(kids) != len(others):
            return False
        self._todo += zip(reversed(kids), reversed(others), strict=True)
        return True

    def _here(self, a: Any, b: Any) -> bool:
        """Compares what two nodes of one class hold beside their operands, and binds their variables."""
        match a:
            case Var():
                return self._var(a, b)
            case Let():
                return self._bind((a.var,), (b.var,))
            case Call():
                return self._types.value(a.attrs, b.attrs) and self._types.value(a.type_args, b.type_args)
            case Function():
                return self._function(a, b, a.type_params, b.type_params)
            case TupleGetItem():
                return bool(a.index == b.index)
            case Match():
                return self._match(a, b)
            case MatchCast():
                return self._types.type(a.target, b.target, introduces=True)
            case Dataflow():
                return len(a.bindings) == len(b.bindings) and self._bind(
                    (v for v, _ in a.bindings), (v for v, _ in b.bindings)
                )
            case _:
                return self._leaf(a, b)

    def _leaf(self, a: Any, b: Any) -> bool:
        match a:
            case Constant():
                return same_bits(a.data, b.data)
            case GlobalVar():
                return bool(a.name == b.name)
            case Op():
                return a is b
            case Constructor():
                return _same_constructor(a, b)
            case Shape():
                return self._types.dims(a.dims, b.dims, introduces=False)
            case _:
                return True  # nodes that are nothing but their operands

    def _var(self, a: Var, b: Var) -> bool:
        if self._vars.known(a, b):
            return self._vars.match(a, b)
        return self._bind((a,), (b,)) if self._map_free else a == b

    def _bind(self, a: Iterable[Var], b: Iterable[Var]) -> bool:
        """Binds variables in pairs (as many here as there)."""
        for x, y in zip(a, b, strict=True):
            if not self._types.optional(x.ty, y.ty, introduces=True):
                return False
            self._vars.bind(x, y)
        return True

    def _function(self, a: Function, b: Function, a_bound: tuple[Bound, ...], b_bound: tuple[Bound, ...]) -> bool:
        undo = self._types.bind(a_bound, b_bound)
        if undo is None or len(a.params) != len(b.params) or not self._bind(a.params, b.params):
            return False
        same = self._types.optional(a.ret_type, b.ret_type, introduces=True)
        self._todo += [*undo, (a.body, b.body)]
        return same and self._types.value(a.attrs, b.attrs)

    def _match(self, a: Match, b: Match) -> bool:
        if a.complete != b.complete or len(a.clauses) != len(b.clauses):
            return False
        return all(self._pattern(x.pattern, y.pattern) for x, y in zip(a.clauses, b.clauses, strict=True))

    def _pattern(self, a: Pattern, b: Pattern) -> bool:
        todo = [(a, b)]
        while todo:
            x, y = todo.pop()
            if type(x) is not type(y) or len(x.children()) != len(y.children()):
                return False
            if isinstance(x, PatternConstructor) and isinstance(y, PatternConstructor):
                if not _same_constructor(x.constructor, y.constructor):
                    return False
            elif isinstance(x, PatternVar) and isinstance(y, PatternVar) and not self._bind((x.var,), (y.var,)):
                return False
            todo += zip(reversed(x.children()), reversed(y.children()), strict=True)
        return True


def _same_constructor(a: Constructor, b: Constructor) -> bool:
    return a.name == b.name and a.tag == b.tag and a.belongs_to.name == b.belongs_to.name

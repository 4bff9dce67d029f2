"""A hash of programs that agrees with `equal.alpha_equal`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from legato.arith.expr import Binary, Const
from legato.arith.expr import Expr as DimExpr
from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.node import post_order
from legato.base.strings import bits
from legato.ir._dims import parameters
from legato.ir.clauses import Pattern, PatternConstructor
from legato.ir.constraint import Constraint
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Match,
    MatchCast,
    Shape,
    TupleGetItem,
    Var,
)
from legato.ir.module import GlobalFunc, Module
from legato.ir.op import Op
from legato.ir.scope import binders, operands
from legato.ir.types import FuncType, GlobalTypeVar, ShapeType, TensorType, Type, TypeVar
from legato.tir.equal import program_key

__all__ = ["structural_hash"]


def structural_hash(x: Module | Expr | Type) -> int:
    """A 64-bit hash that is equal for alpha-equal modules, expressions or types.

    Programs without free variables have the same hash in every process. Linear in the size of the program.
    """
    if isinstance(x, Module):
        return _module(x)
    if isinstance(x, Type):
        return _digest(_Types(lenient=False).type(x))
    return _Exprs(is_module=False).hash(x)


def _digest(*parts: object) -> int:
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def _module(module: Module) -> int:
    functions = sorted((gv.name, _function(f)) for gv, f in module.functions.items())
    types = _Types(lenient=True)
    facts = types.value(module.attrs), types.value(module.constants)
    data = []
    for gtv, definition in module.types.items():
        local = _Types(lenient=True)
        local.bind(definition.type_vars)
        inputs = [(c.name, c.tag, [local.type(t) for t in c.inputs]) for c in definition.constructors]
        data.append((gtv.name, definition.extern, inputs))
    return _digest(functions, sorted(data, key=lambda entry: entry[0]), facts)


def _function(func: GlobalFunc) -> int:
    if isinstance(func, Function):
        return _Exprs(is_module=True).hash(func)
    return _digest(program_key(func))


class _Types:
    """Types, dims and attribute values as nested tuples that `repr` tells apart. Bound variables are numbered."""

    def __init__(self, lenient: bool) -> None:
        self._lenient = lenient
        self._numbers: dict[Any, int] = {}
        self._count = 0

    def bind(self, bound: Iterable[TypeVar | DimVar]) -> dict[Any, int | None]:
        """Numbers type parameters anew; the result is what they were before."""
        old: dict[Any, int | None] = {}
        for var in bound:
            old[var] = self._numbers.get(var)
            self._number(var)
        return old

    def restore(self, old: Mapping[Any, int | None]) -> None:
        """Undoes `bind`."""
        for var, number in old.items():
            if number is None:
                del self._numbers[var]
            else:
                self._numbers[var] = number

    def _number(self, var: Any) -> None:
        self._numbers[var] = self._count
        self._count += 1

    def type(self, ty: Type | None, introduces: bool = False) -> object:
        """A type; one that `introduces` dims numbers those that are new."""
        match ty:
            case None:
                return None
            case TensorType(shape, dtype):
                return ("T", dtype.name, *(self.dim(d, introduces) for d in shape))
            case ShapeType(dims):
                return ("S", None if dims is None else tuple(self.dim(d, introduces) for d in dims))
            case FuncType(_, _, bound):
                old = self.bind(bound)
                count, found = len(bound), tuple(self.type(t, introduces) for t in ty.children())
                self.restore(old)
                return ("F", count, found)
            case TypeVar():
                return self._variable(ty, introduces)
            case GlobalTypeVar(name):
                return ("G", name)
            case _:
                return (type(ty).__name__, *(self.type(t, introduces) for t in ty.children()))

    def dim(self, dim: DimExpr, introduces: bool) -> object:
        """A dim."""
        found: dict[DimExpr, object] = {}
        for node in post_order([dim]):
            found[node] = self._dim(node, found, introduces)
        return found[dim]

    def _dim(self, node: DimExpr, found: Mapping[DimExpr, object], introduces: bool) -> object:
        if isinstance(node, DimVar):
            return self._variable(node, introduces)
        if isinstance(node, Const):
            return (node.value, node.dtype.name)
        name = node.op.value if isinstance(node, Binary) else type(node).__name__
        return _digest(name, [found[kid] for kid in node.children()])  # a digest: shared parts are not written out

    def _variable(self, var: Any, introduces: bool) -> object:
        if var not in self._numbers and introduces:
            self._number(var)
        if var in self._numbers:
            return ("v", self._numbers[var])
        return "free" if self._lenient else ("free", var.uid if isinstance(var, DimVar) else id(var))

    def value(self, value: Any) -> object:
        """An attribute's value."""
        match value:
            case np.generic():
                return value.item()
            case Const() if value.dtype == dt.index:
                return int(value.value)
            case DimExpr():
                return self.dim(value, introduces=False)
            case Type():
                return self.type(value)
            case DType(name):
                return ("dtype", name)
            case np.ndarray():
                return _array(value)
            case list() | tuple():
                return ("seq", *map(self.value, value))
            case Mapping():
                return ("map", *sorted((str(k), repr(self.value(v))) for k, v in value.items()))
            case Constraint(a, b, what):
                return ("constraint", what, self.value(a), self.value(b))
            case _ if is_dataclass(value):
                return (type(value).__name__, *(self.value(getattr(value, f.name)) for f in fields(value)))
            case _:
                return value


def _array(data: np.ndarray[Any, Any]) -> object:
    return (str(data.dtype), data.shape, blake2b(bits(data), digest_size=8).hexdigest())


class _Exprs:
    """Hashes an expression bottom-up. Variables are numbered when the node that binds them is entered.

    Such nodes are shared alike in alpha-equal programs, so they are entered in the same order there.
    """

    def __init__(self, is_module: bool) -> None:
        self._types = _Types(lenient=is_module)
        self._vars: dict[Var, int] = {}
        self._hashes: dict[int, int] = {}
        self._notes: dict[int, object] = {}  # what is hashed when a node is entered
        self._undo: dict[int, dict[Any, int | None]] = {}

    def hash(self, root: Expr) -> int:
        """The hash of an expression; a function as root binds the dims of its parameters."""
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            node, done = stack.pop()
            if done:
                self._leave(node)
            elif id(node) not in self._hashes:
                kids = operands(node)
                if not kids:
                    self._hashes[id(node)] = _digest(self._leaf(node))
                    continue
                if id(node) not in self._notes:
                    self._notes[id(node)] = self._enter(node, is_root=node is root)
                    stack.append((node, True))
                    stack += [(kid, False) for kid in reversed(kids)]
        return self._hashes[id(root)]

    def _leave(self, node: Expr) -> None:
        kids = [self._hashes[id(kid)] for kid in operands(node)]
        if id(node) in self._undo:
            self._types.restore(self._undo[id(node)])
        self._hashes[id(node)] = _digest(type(node).__name__, self._notes[id(node)], kids)

    def _enter(self, node: Any, is_root: bool) -> object:
        bound: object = None
        if isinstance(node, Function):
            listed = parameters(node) if is_root else node.type_params
            self._undo[id(node)] = self._types.bind(listed)
            bound = len(listed)
        variables = [self._bind(var) for scope in binders(node) for var in scope]
        return (bound, variables, self._held(node))

    def _bind(self, var: Var) -> object:
        self._vars[var] = len(self._vars)
        return self._types.type(var.ty, introduces=True)

    def _held(self, node: Any) -> object:
        """What a node holds beside its operands and the variables that it binds."""
        match node:
            case Call():
                return (self._types.value(node.attrs), self._types.value(node.type_args))
            case Function():
                return (self._types.type(node.ret_type, introduces=True), self._types.value(node.attrs))
            case TupleGetItem():
                return node.index
            case MatchCast():
                return self._types.type(node.target, introduces=True)
            case Match():
                return (node.complete, [_pattern(c.pattern) for c in node.clauses])
            case _:
                return len(operands(node))

    def _leaf(self, node: Expr) -> object:
        match node:
            case Var():
                return ("var", self._vars[node]) if node in self._vars else ("free", node.uid)
            case Constant(data):
                return _array(data)
            case GlobalVar(name):
                return ("global", name)
            case Op():
                return ("op", node.name)
            case Constructor():
                return ("constructor", node.belongs_to.name, node.name, node.tag)
            case Shape(dims):
                return ("shape", *(self._types.dim(d, introduces=False) for d in dims))
            case _:
                return (type(node).__name__, self._enter(node, is_root=False))


def _pattern(pattern: Pattern) -> object:
    held: object = type(pattern).__name__
    if isinstance(pattern, PatternConstructor):
        held = (pattern.constructor.belongs_to.name, pattern.constructor.name, pattern.constructor.tag)
    return (held, *(_pattern(p) for p in pattern.children()))

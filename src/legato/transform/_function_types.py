"""Function types as data types: which there are, and what other types become.

A class is a function type without its dims: functions of types that differ in dims only may meet in one variable. Its
data type has a constructor for every function whose closures are of it, with what they hold as fields. A dim of the
class is a literal where all its types agree on that.

A data type with functions inside becomes one for each of its uses that differ in classes (`type Cell[T] { One(fn () ->
T) }` is one at Cell[int32] and another at Cell[float32]); its other fields stay polymorphic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from typing import Final

from legato.arith.expr import Const, const, fresh
from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
from legato.infer.replace import replace_vars
from legato.ir._dims import free_dims
from legato.ir.expr import Constructor, GlobalVar
from legato.ir.module import Module
from legato.ir.types import (
    Dim,
    FuncType,
    GlobalTypeVar,
    ShapeType,
    TensorType,
    Type,
    TypeCall,
    TypeData,
    TypeVar,
    map_dims,
    walk,
)
from legato.transform._closures import Names
from legato.transform._values import WRAP

__all__ = ["FunctionTypes", "TypeClass", "dims_in"]

MAX_TYPES: Final = 1000  # data types that come of one with functions inside
MAX_PARTS: Final = 5_000  # of the arguments of one: they may double from one to the next
_ERASED: Final = const(0)


@dataclass(eq=False, slots=True)
class TypeClass:
    """A class: its data type, the function that applies one, the dims that all its types agree on (None where they
    differ), the positions of those that some calls bring with their results, and the constructor of every function (of
    none, where there is no function).

    Of the function that applies: its type, and whether each dim of the function type is a parameter of it.
    """

    key: Type
    header: GlobalTypeVar
    apply: GlobalVar
    literals: list[Dim | None]
    ty: FuncType | None = None
    brought: set[int] = field(default_factory=set)
    parameters: tuple[bool, ...] = ()
    constructors: dict[GlobalVar | None, Constructor] = field(default_factory=dict)


class FunctionTypes:
    """The classes of a module, and its types without function types."""

    def __init__(self, mod: Module, names: Names) -> None:
        self._mod = mod
        self._names = names
        self.classes: dict[Type, TypeClass] = {}
        self._is_complete = False
        self.types: dict[GlobalTypeVar, TypeData] = {}
        self._functional = _functional(mod)
        self._instances: dict[tuple[GlobalTypeVar, tuple[Type, ...]], GlobalTypeVar] = {}
        self._new: dict[Type, Type] = {}

    def holds_function(self, ty: Type | None) -> bool:
        """True if values of type `ty` may hold functions, in data too."""
        return ty is not None and any(isinstance(p, FuncType) or p in self._functional for p in walk(ty))

    def of(self, ty: FuncType) -> TypeClass:
        """The class of a function type."""
        if ty.type_params:
            raise UnsupportedError(f"a polymorphic function is a value: {ty}", hint=WRAP)
        key = map_dims(ty, lambda _: _ERASED)
        found = self.classes.get(key)
        if found is None:
            name = self._names.new("Fn")
            apply = GlobalVar(self._names.new(f"apply_{name}"))
            first: list[Dim | None] = [d if isinstance(d, Const) else None for d in dims_in(ty)]
            found = self.classes[key] = TypeClass(key, GlobalTypeVar(name), apply, first)
        elif not self._is_complete:
            found.literals = [a if a is b else None for a, b in zip(found.literals, dims_in(ty), strict=True)]
        return found

    def called(self, ty: FuncType, known: Collection[DimVar]) -> None:
        """Notes that a function of type `ty` is called where these dims are known: others come with the result."""
        found, before = self.of(ty), sum(1 for p in ty.params for _ in dims_in(p))
        given = {d for p in ty.params for d in free_dims(p)}.union(known)
        found.brought.update(n for n, d in enumerate(dims_in(ty.ret), before) if not given.issuperset(variables(d)))

    def type(self, ty: Type) -> Type:
        """`ty` with data types for function types."""
        if not self.holds_function(ty):
            return ty
        found = self._new.get(ty)
        if found is None:
            found = self._new[ty] = self._replaced(ty, {})
        return found

    def applied(self, found: TypeClass) -> FuncType:
        """The type of the function that applies those of a class; from now on, its literals are settled."""
        self._is_complete = True
        if found.ty is None:
            dims = [d or fresh(f"d{n}") for n, d in enumerate(found.literals)]
            left = iter(dims)
            whole = map_dims(found.key, lambda _: next(left))
            assert isinstance(whole, FuncType)
            new = FuncType((found.header, *(self.type(p) for p in whole.params)), self.type(whole.ret))
            brought = {dims[n] for n in found.brought}
            own = {d for d in dims_in(new) if isinstance(d, DimVar) and d not in brought}
            found.parameters = tuple(d in own for d in dims)
            found.ty = FuncType(new.params, new.ret, tuple(d for d in dims if isinstance(d, DimVar) and d in own))
        return found.ty

    def constructor_of(self, found: TypeClass, gv: GlobalVar | None, inputs: Sequence[Type]) -> Constructor:
        """The constructor of a class for what function `gv` holds; its dims are its own."""
        con = found.constructors.get(gv)
        if con is None:
            own = {d: fresh(d.name) for ty in inputs for d in free_dims(ty)}
            types = tuple(self.type(replace_vars(ty, {}, own)) for ty in inputs)
            name = self._names.constructor(f"no_{found.header.name}" if gv is None else gv.name)
            con = found.constructors[gv] = Constructor(name, types, found.header, len(found.constructors))
        return con

    def signature(self, ty: FuncType) -> FuncType:
        """The type of a function of the module, which is no value."""
        return FuncType(tuple(self.type(p) for p in ty.params), self.type(ty.ret), ty.type_params)

    def constructor(self, con: Constructor, ty: Type | None) -> Constructor:
        """What becomes of a constructor that makes values of type `ty`."""
        if con.belongs_to not in self._functional or ty is None:
            return con
        args = ty.args if isinstance(ty, TypeCall) else ()
        return self.types[self._instance(con.belongs_to, args)].constructors[con.tag]

    def untouched(self) -> dict[GlobalTypeVar, TypeData]:
        """The data types of the module that stay."""
        return {header: data for header, data in self._mod.types.items() if header not in self._functional}

    def _replaced(self, ty: Type, stands: dict[TypeVar, Type]) -> Type:
        """`ty` with data types for function types, its type variables kept where they are no part of one."""
        if isinstance(ty, FuncType):
            whole = replace_vars(ty, stands, {})
            assert isinstance(whole, FuncType)
            return self.of(whole).header
        header, args = (ty.func, ty.args) if isinstance(ty, TypeCall) else (ty, ())
        if isinstance(header, GlobalTypeVar) and header in self._functional:
            found = self._instance(header, tuple(replace_vars(a, stands, {}) for a in args))
            new = tuple(self._replaced(a, stands) for a in args)
            return TypeCall(found, new) if new else found
        kids = ty.children()
        return ty.with_children(tuple(self._replaced(k, stands) for k in kids)) if kids else ty

    def _instance(self, header: GlobalTypeVar, args: tuple[Type, ...]) -> GlobalTypeVar:
        """A data type with functions inside, at arguments."""
        key = header, tuple(map_dims(a, lambda _: _ERASED) for a in args)
        found = self._instances.get(key)
        if found is not None:
            return found
        if len(self._instances) >= MAX_TYPES or sum(1 for a in args for _ in walk(a)) > MAX_PARTS:
            raise UnsupportedError(
                f"data type {header.name} holds functions of ever more types",
                hint="it holds itself at other types; give these data types of their own",
            )
        old = self._mod.types[header]
        is_first = all(h is not header for h, _ in self._instances)
        new = GlobalTypeVar(header.name if is_first else self._names.new(header.name), header.kind)
        self._instances[key] = new
        stands: dict[TypeVar, Type] = dict(zip(old.type_vars, args, strict=True))
        constructors: list[Constructor] = []
        for con in old.constructors:
            name = con.name if is_first else self._names.constructor(con.name)
            inputs = tuple(self._replaced(i, stands) for i in con.inputs)
            constructors.append(Constructor(name, inputs, new, con.tag, span=con.span))
        self.types[new] = TypeData(new, old.type_vars, tuple(constructors), old.extern)
        return new


def dims_in(ty: Type) -> Iterator[Dim]:
    """The dims of a type, every occurrence, from left to right."""
    for part in walk(ty):
        if isinstance(part, TensorType):
            yield from part.shape
        elif isinstance(part, ShapeType):
            yield from part.dims or ()


def _functional(mod: Module) -> set[GlobalTypeVar]:
    """The data types that have functions inside, themselves or in data types that they hold."""
    inside = {h: [p for c in data.constructors for i in c.inputs for p in walk(i)] for h, data in mod.types.items()}
    found = {h for h, parts in inside.items() if any(isinstance(p, FuncType) for p in parts)}
    more = True
    while more:
        new = {h for h, parts in inside.items() if h not in found and any(p in found for p in parts)}
        found |= new
        more = bool(new)
    return found

"""Types of a program whose tensors have companions: tangents, or cells for cotangents.

    Tensor[(n), float32]      =>      (Tensor[(n), float32], companion)
    fn (A) -> B               =>      fn (A') -> B'              A' is what A becomes

A data type that holds floats gets a twin; one that holds values of its parameters alone does not need any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from legato.base.node import post_order
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple
from legato.ir.expr import Constructor
from legato.ir.module import Module
from legato.ir.types import GlobalTypeVar, TensorType, TupleType, Type, TypeData, walk
from legato.transform._closures import Names

__all__ = ["DualTypes", "holds_floats", "is_float"]


def is_float(ty: Type | None) -> bool:
    """Whether a type is that of a tensor with a companion."""
    return isinstance(ty, TensorType) and ty.dtype.is_float


def holds_floats(ty: Type | None, mod: Module) -> bool:
    """Whether a value of this type of `mod`, a tensor, a tuple or data, holds floats."""
    holders = _holders(mod.types)
    return ty is not None and any(is_float(part) or part in holders for part in walk(ty))


class DualTypes:
    """What the types of a module become; `companion` says the type of a tensor's companion."""

    def __init__(self, mod: Module, names: Names, companion: Callable[[TensorType], Type]) -> None:
        self._companion = companion
        self._headers: dict[Type, GlobalTypeVar] = {}
        self._constructors: dict[Constructor, Constructor] = {}
        self._known: dict[int, tuple[Type, Type]] = {}  # by identity of the type, which is kept alive
        holders = [data for header, data in mod.types.items() if header in _holders(mod.types)]
        for data in holders:
            self._headers[data.header] = GlobalTypeVar(names.new(f"{data.header.name}_dual"))
        self.twins = {self._headers[data.header]: self._twin(data, names) for data in holders}

    def _twin(self, data: TypeData, names: Names) -> TypeData:
        header = self._headers[data.header]
        for con in data.constructors:
            inputs = tuple(map(self.type, con.inputs))
            name = names.constructor(f"{con.name}_dual")
            self._constructors[con] = replace(con, name=name, inputs=inputs, belongs_to=header)
        return replace(data, header=header, constructors=tuple(map(self.constructor, data.constructors)))

    def type(self, ty: Type) -> Type:
        """What `ty` becomes; the same object where it holds no floats."""
        found = self._known.get(id(ty))
        if found is None:
            found = self._known[id(ty)] = (ty, self._made(ty))
        return found[1]

    def _made(self, ty: Type) -> Type:
        new: dict[int, Type] = {}
        for part in post_order([ty]):
            old = part.children()
            kids = tuple(new[id(kid)] for kid in old)
            made = part if all(a is b for a, b in zip(kids, old, strict=True)) else part.with_children(kids)
            if isinstance(part, TensorType) and is_float(part):
                made = TupleType((part, self._companion(part)))
            new[id(part)] = self._headers.get(part, made)
        return new[id(ty)]

    def constructor(self, con: Constructor) -> Constructor:
        """The constructor of the twin, if there is one."""
        return self._constructors.get(con, con)

    def pattern(self, pattern: Pattern) -> Pattern:
        """`pattern` with constructors of the twins (patterns nest shallowly)."""
        if not isinstance(pattern, PatternConstructor | PatternTuple):
            return pattern
        parts = tuple(map(self.pattern, pattern.patterns))
        if isinstance(pattern, PatternConstructor):
            return replace(pattern, constructor=self.constructor(pattern.constructor), patterns=parts)
        return replace(pattern, patterns=parts)


def _holders(types: Mapping[GlobalTypeVar, TypeData]) -> set[Type]:
    """The data types that hold floats whatever their parameters are, in others as well."""
    parts = {
        h: {part for con in data.constructors for ty in con.inputs for part in walk(ty)} for h, data in types.items()
    }
    found: set[Type] = {header for header, inside in parts.items() if any(map(is_float, inside))}
    todo = list(found)
    while todo:
        last = todo.pop()
        more = [header for header, inside in parts.items() if last in inside and header not in found]
        found.update(more)
        todo += more
    return found

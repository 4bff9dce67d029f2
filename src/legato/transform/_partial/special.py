"""Specialisations: functions of the module for arguments of which something is known, shared between equal calls.

    @map(fn (%x) { %x * %k }, %xs)      =>      @map_1(%k, %xs)

What is not known in the arguments is what the new function takes: the leaves. Its types are those of the leaves where
it is called first, with dims and type variables of its own; a call that differs in these alone is equal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute, variables
from legato.base.dataclass import dataclass
from legato.infer.replace import replace_vars
from legato.ir._dims import free_dims
from legato.ir.expr import Expr, Function, GlobalVar, Var
from legato.ir.types import Dim, Type, TypeVar, free_type_vars
from legato.transform._partial.code import Block, Later, Steps, run
from legato.transform._partial.scope import Activation, outer_variables
from legato.transform._partial.values import Closure, Fields, Keys, Known, Literal, Made, Unknown, Value
from legato.transform._types import split

__all__ = ["Flat", "Special"]

MAX_PARTS: Final = 2_000  # of arguments that are taken apart

TypeOrDim = Type | Dim


class Renaming:
    """Types and dims with other variables, made where one is met first."""

    def __init__(self, new_dim: Callable[[int, DimVar], DimVar], new_type: Callable[[int, TypeVar], TypeVar]) -> None:
        self._new_dim, self._new_type = new_dim, new_type
        self.new_dims: list[DimVar] = []
        self.new_types: list[TypeVar] = []
        self.dims: dict[DimVar, Dim] = {}
        self.types: dict[TypeVar, Type] = {}

    def __call__(self, old: TypeOrDim) -> TypeOrDim:
        if isinstance(old, Type):
            for d in free_dims(old):
                self._dim_var(d)
            for t in free_type_vars(old):
                if t not in self.types:
                    self.new_types.append(self._new_type(len(self.types), t))
                    self.types[t] = self.new_types[-1]
            return replace_vars(old, self.types, self.dims)
        for d in variables(old):
            self._dim_var(d)
        return simplify(substitute(old, self.dims))

    def _dim_var(self, d: DimVar) -> None:
        if d not in self.dims:
            self.new_dims.append(self._new_dim(len(self.dims), d))
            self.dims[d] = self.new_dims[-1]


@dataclass(frozen=True, eq=False, slots=True)
class Flat:
    """Arguments taken apart: their leaves, the variables of their types, and what equal ones have in common."""

    leaves: tuple[Expr, ...]
    type_args: tuple[TypeOrDim, ...]
    signature: tuple[Hashable, ...]

    @staticmethod
    def of(
        kept: Sequence[Value | None], args: Sequence[Value], type_args: Sequence[TypeOrDim], keys: Keys
    ) -> Flat | None:
        """The arguments `args`, of which those that are None in `kept` are leaves; None where there are too many
        parts."""
        flattener = _Flattener(keys)
        whole = [Unknown(a.atom) if k is None else a for k, a in zip(kept, args, strict=True)]
        if not flattener.run(whole, type_args):
            return None
        named = flattener.renaming
        return Flat(tuple(flattener.leaves), (*named.types, *named.dims), tuple(flattener.signature))


class _Flattener:
    def __init__(self, keys: Keys) -> None:
        self.leaves: list[Expr] = []
        self.signature: list[Hashable] = []
        self.renaming = Renaming(lambda n, d: keys.dim(n), lambda n, t: keys.type_var(n))
        self._seen: dict[int, int] = {}
        self._kept: list[Value] = []

    def run(self, values: Sequence[Value], type_args: Sequence[TypeOrDim]) -> bool:
        """False where there are too many parts."""
        for arg in type_args:
            self.signature.append(self.renaming(arg))
        todo = list(reversed(values))
        while todo:
            value = todo.pop()
            if id(value) in self._seen:
                self.signature.append(("again", self._seen[id(value)]))
                continue
            self._seen[id(value)] = len(self._seen)
            self._kept.append(value)
            if len(self._kept) > MAX_PARTS:
                return False
            todo += reversed(self._open(value))
        return True

    def _open(self, value: Value) -> Sequence[Value]:
        ty = None if value.ty is None else self.renaming(value.ty)
        match value:
            case Known() | Literal():
                self.signature.append((type(value), value.key))
                return ()
            case Fields(fields=fields):
                self.signature.append((Fields, len(fields)))
                return fields
            case Made(constructor=constructor, fields=fields):
                self.signature.append((Made, id(constructor), ty))
                return fields
            case Closure(function=func, env=env, captured=captured):
                outer = [self.renaming(found) for named in outer_variables(func, env) for found in named.values()]
                self.signature.append((Closure, func, ty, *outer))
                return captured
            case _:
                self.leaves.append(value.atom)
                self.signature.append(("leaf", ty))
                return ()


@dataclass(frozen=True, eq=False, slots=True)
class Opened:
    """A specialisation from inside: its parameters, the arguments in terms of them, what type parameters stand for."""

    params: tuple[Var, ...]
    type_params: tuple[TypeVar | DimVar, ...]
    args: tuple[Value, ...]
    types: dict[TypeVar, Type]
    dims: dict[DimVar, Dim]


@dataclass(frozen=True, eq=False, slots=True)
class Special:
    """A specialisation `gv` of the function `origin`: the first call of it."""

    gv: GlobalVar
    origin: GlobalVar
    func: Function
    args: tuple[Value, ...]
    mask: tuple[bool, ...]
    type_args: tuple[TypeOrDim, ...]
    flat: Flat

    def open(self, keys: Keys, block: Block) -> Opened:
        """The specialisation from inside; data and closures that are known in it are bound in `block`."""
        renaming = Renaming(lambda n, d: fresh(d.name, d.lo, d.hi), lambda n, t: TypeVar(t.name, t.kind))
        for arg in self.flat.type_args:
            renaming(arg)
        builder = _Builder(self, keys, block, renaming)
        args = tuple(run(builder.value(a, kept=k)) for a, k in zip(self.args, self.mask, strict=True))
        types, dims = split(self.func.type_params, [renaming(a) for a in self.type_args])
        type_params: tuple[TypeVar | DimVar, ...] = (*renaming.new_types, *renaming.new_dims)
        return Opened(tuple(builder.params), type_params, args, types, dims)


class _Builder:
    """Arguments in terms of the leaves that a specialisation takes, in the order of `_Flattener`."""

    def __init__(self, special: Special, keys: Keys, block: Block, renaming: Renaming) -> None:
        self._keys, self._block, self._renaming = keys, block, renaming
        self._found: dict[int, Value] = {}
        self.params: list[Var] = []

    def value(self, value: Value, *, kept: bool = True) -> Steps:
        """What stands for `value`; for a leaf, a new parameter."""
        if kept and id(value) in self._found:
            return self._found[id(value)]
        found: Value
        match value:
            case _ if not kept:
                return self._leaf(value)
            case Known() | Literal():
                return value
            case Fields(fields=fields):
                parts = []
                for f in fields:
                    parts.append((yield self.value(f)))
                found = Fields(parts, self._keys)
            case Made(constructor=constructor, fields=fields):
                parts = []
                for f in fields:
                    parts.append((yield self.value(f)))
                found = Made(constructor, parts, self._var(value.var), self._keys)
                self._block.entries.append(Later(found))
            case Closure():
                found = yield self._closure(value)
            case _:
                found = self._leaf(value)
        self._found[id(value)] = found
        return found

    def _leaf(self, value: Value) -> Value:
        atom = value.atom
        name = atom.name if isinstance(atom, Var) else "x"
        var = Var(name, ty=None if value.ty is None else self._ty(value.ty))
        self.params.append(var)
        return Unknown(var)

    def _closure(self, value: Closure) -> Steps:
        env = Activation()
        dims, types = outer_variables(value.function, value.env)
        for d, found_dim in dims.items():
            dim = self._renaming(found_dim)
            assert isinstance(dim, Dim)
            env.dims[d] = dim
        env.types.update((t, self._ty(ty)) for t, ty in types.items())
        found = Closure(value.function, env, self._var(value.var))
        found.own = value.own
        captured = []
        for var, part in zip(value.reads, value.captured, strict=True):
            made = yield self.value(part)
            env.vars[var] = made
            captured.append(made)
        if value.own is not None:
            env.vars[value.own] = found
        found.close(value.reads, captured, self._keys)
        self._block.entries.append(Later(found))
        return found

    def _var(self, var: Var) -> Var:
        return Var(var.name, ty=None if var.ty is None else self._ty(var.ty), span=var.span)

    def _ty(self, ty: Type) -> Type:
        found = self._renaming(ty)
        assert isinstance(found, Type)
        return found

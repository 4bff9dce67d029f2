"""Activations: what the variables, dims and type variables of one call of a function stand for in the new program."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute, variables
from legato.base.errors import InternalError
from legato.infer.replace import replace_vars
from legato.ir._dims import free_dims
from legato.ir.expr import Call, Expr, Function, Shape, Var
from legato.ir.scope import binders, post_order
from legato.ir.types import Dim, FuncType, ShapeType, TensorType, Type, TypeVar, free_type_vars
from legato.ir.visit import free_vars
from legato.transform._copy import Copy
from legato.transform.to_graph import named_dims

if TYPE_CHECKING:
    from legato.transform._partial.values import Value

__all__ = ["Activation", "outer_variables"]


class Activation:
    """One call of a function, or the one time that its body is written as it stands (`own`): dims keep their names
    then, else those that the body brings are new ones."""

    __slots__ = ("dims", "own", "parent", "types", "vars")

    def __init__(self, parent: Activation | None = None, *, own: bool = False) -> None:
        self.parent = parent
        self.own = own
        self.vars: dict[Var, Value] = {}
        self.dims: dict[DimVar, Dim] = {}
        self.types: dict[TypeVar, Type] = {}

    def value(self, var: Var) -> Value:
        """What `var` stands for, here or in the activations around."""
        at: Activation | None = self
        while at is not None:
            found = at.vars.get(var)
            if found is not None:
                return found
            at = at.parent
        raise InternalError(f"%{var.name} is read before it is bound")

    def is_bound(self, dim: DimVar) -> bool:
        """True if `dim` has a value here."""
        at: Activation | None = self
        while at is not None:
            if dim in at.dims:
                return True
            at = at.parent
        return False

    def dim_var(self, dim: DimVar) -> Dim:
        """What `dim` stands for; it is brought here if it stands for nothing yet."""
        at: Activation | None = self
        while at is not None:
            found = at.dims.get(dim)
            if found is not None:
                return found
            at = at.parent
        new = self.dims[dim] = dim if self.own else fresh(dim.name, dim.lo, dim.hi)
        return new

    def dim(self, dim: Dim) -> Dim:
        """A dim with what its variables stand for."""
        found = {d: self.dim_var(d) for d in variables(dim)}
        return dim if all(a is b for a, b in found.items()) else simplify(substitute(dim, found))

    def type_var(self, var: TypeVar) -> Type | None:
        """What a type variable stands for; None for one that a function in this one binds."""
        at: Activation | None = self
        while at is not None:
            found = at.types.get(var)
            if found is not None:
                return found
            at = at.parent
        return None

    def new_dims(self, ty: Type) -> list[DimVar]:
        """The dims of `ty` that have no value yet: a value of this type brings them.

        Not those that only functions in it name: each call of one of these brings its own.
        """
        return [d for d in _free(ty).dims if not self.is_bound(d)]

    def type(self, ty: Type) -> Type:
        """`ty` with what its variables stand for; new dims are brought here."""
        free = _free(ty)
        if not free.dims and not free.types and not free.of_functions:
            return ty
        known = {d: self.dim_var(d) for d in free.dims}
        for d in free.of_functions:
            if self.is_bound(d):
                known[d] = self.dim_var(d)
            elif not self.own:
                known[d] = fresh(d.name, d.lo, d.hi)
        stand = {t: self.type_var(t) or t for t in free.types}
        if all(a is b for a, b in known.items()) and all(a is b for a, b in stand.items()):
            return ty
        return replace_vars(ty, stand, known)

    def argument(self, arg: Type | Dim) -> Type | Dim:
        """A type argument, likewise."""
        return self.type(arg) if isinstance(arg, Type) else self.dim(arg)

    def node(self, node: Expr, kids: tuple[Expr, ...], ty: Type | None) -> Expr:
        """`node`, which binds nothing, on other operands, with its attributes here and the type `ty`."""
        dims = {d: self.dim_var(d) for d in named_dims(node)} if isinstance(node, Call | Shape) else {}
        if dims or (isinstance(node, Call) and node.type_args):
            types = {t: self.type_var(t) or t for a in getattr(node, "type_args", ()) if isinstance(a, Type)
                     for t in _free(a).types}  # fmt: skip
            return Copy(types, dims).node(node.with_type(None), kids).with_type(ty)
        return node.with_children(kids).with_type(ty)

    def copy(self, func: Function) -> Function:
        """`func` as it is here, with atoms for the variables that it reads; the same object where nothing differs."""
        dims, types = outer_variables(func, self)
        stand = {v: self.value(v).atom for v in free_vars(func)}
        same = all(a is b for m in (dims, types, stand) for a, b in m.items())
        if self.own and same:
            return func
        copy = Copy(types, dims)
        copy.vars.update(stand)
        made = copy.expr(func)
        assert isinstance(made, Function)
        return made


def outer_variables(func: Function, env: Activation) -> tuple[dict[DimVar, Dim], dict[TypeVar, Type]]:
    """The dims and type variables that types and attributes in `func` name and that stand for something in `env`."""
    dims, types = dict[DimVar, None](), dict[TypeVar, None]()
    for node in post_order(func):
        dims.update(dict.fromkeys(named_dims(node)))
        args = [a for a in node.type_args if isinstance(a, Type)] if isinstance(node, Call) else []
        for ty in (node.ty, *args, *(v.ty for scope in binders(node) for v in scope)):
            free = None if ty is None else _free(ty)
            if free is not None:
                dims.update(dict.fromkeys((*free.dims, *free.of_functions)))
                types.update(dict.fromkeys(free.types))
    stand = {t: found for t in types if (found := env.type_var(t)) is not None}
    return {d: env.dim_var(d) for d in dims if env.is_bound(d)}, stand


class _Free(NamedTuple):
    """The variables that are free in a type; `of_functions` are dims that only functions in it name."""

    dims: tuple[DimVar, ...]
    of_functions: tuple[DimVar, ...]
    types: tuple[TypeVar, ...]


@lru_cache(maxsize=8192)
def _free(ty: Type) -> _Free:
    """The dims and the type variables that are free in `ty`."""
    dims, todo = dict[DimVar, None](), [ty]
    while todo:
        part = todo.pop()
        if isinstance(part, TensorType | ShapeType):
            dims.update(dict.fromkeys(free_dims(part)))
        elif not isinstance(part, FuncType):
            todo += reversed(part.children())
    inner = tuple(d for d in free_dims(ty) if d not in dims)
    return _Free(tuple(dims), inner, tuple(dict.fromkeys(free_type_vars(ty))))

"""The local functions of a function in A-normal form: where they are, and what they use of their surroundings."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import field

from legato.arith.expr import Var as DimVar
from legato.base.dataclass import dataclass
from legato.ir._dims import free_dims
from legato.ir.atoms import is_primitive
from legato.ir.expr import Call, Expr, Function, Let, Match, MatchCast, Shape, Var
from legato.ir.scope import operands, pattern_vars, post_order
from legato.ir.types import FuncType, Type, TypeVar, free_type_vars
from legato.transform._closures import is_closure
from legato.transform.to_graph import named_dims

__all__ = ["Local", "Scan"]


@dataclass(eq=False, slots=True)
class Local:
    """A local function (or, with no variable, the function around all of them).

    captured: the variables of its surroundings that it needs, functions aside; type_vars, dims: likewise.
    values: the local functions that are values in it, not counting the functions in it.
    """

    node: Function
    var: Var | None
    parent: Local | None
    start: int
    used: dict[Var, Var] = field(default_factory=dict)
    values: dict[Var, None] = field(default_factory=dict)
    captured: dict[Var, Var] = field(default_factory=dict)
    type_vars: dict[TypeVar, None] = field(default_factory=dict)
    dims: dict[DimVar, None] = field(default_factory=dict)


class Scan:
    """What is known of the local functions of `func`: `locals` in the order of their definitions.

    Where only some are `wanted`, the others are values like any other, in the functions that they are in.
    """

    def __init__(self, func: Function, wanted: Container[Function] | None = None) -> None:
        self._wanted = wanted
        self.root = Local(func, None, None, 0)
        self.locals: list[Local] = []
        self.by_var: dict[Var, Local] = {}
        self._owner: dict[Var, Local] = {}
        self._known: dict[DimVar, int] = {}  # dims by when they were bound
        self._called = {n.op for n in post_order(func.body) if isinstance(n, Call) and isinstance(n.op, Var)}
        self._parts: dict[int, tuple[Type, tuple[TypeVar, ...], tuple[DimVar, ...]]] = {}
        self._clock = 0
        self._walk(func)
        self._complete()

    # ------------------------------------------------------------------ the walk

    def _walk(self, func: Function) -> None:
        seen: set[tuple[int, int]] = set()
        self._enter(func, self.root)
        stack: list[tuple[Expr, Local, bool]] = [(func.body, self.root, False)]
        while stack:
            node, place, bound = stack.pop()
            if bound:
                assert isinstance(node, Var)
                self._bind(node, place)
                continue
            if isinstance(node, Var):
                self._use(node, place)
                if node in self.by_var:
                    place.values[node] = None
                continue
            if (id(node), id(place)) in seen:
                continue
            seen.add((id(node), id(place)))
            self._mention(node, place)
            stack += reversed(list(self._steps(node, place)))

    def _steps(self, node: Expr, place: Local) -> Iterator[tuple[Expr, Local, bool]]:
        """What is to be done for the parts of a node: visit them, bind a variable."""
        match node:
            case Let(var, value, body):
                home = self._home(var, value, place)
                if home is place and isinstance(value, Function):
                    self._bind(var, place)  # it may call itself
                yield value, home, False
                yield var, place, True
                yield body, place, False
            case Function(params):
                if node is place.node:
                    self._enter(node, place)
                else:
                    for param in params:
                        self._bind(param, place)
                yield node.body, place, False
            case Match(data, clauses):
                yield data, place, False
                for clause in clauses:
                    for var in pattern_vars(clause.pattern):
                        yield var, place, True
                    yield clause.body, place, False
            case Call(op=Var() as callee) if callee in self.by_var:
                self._use(callee, place)
                yield from ((arg, place, False) for arg in node.args)
            case _:
                yield from ((kid, place, False) for kid in operands(node))

    def _home(self, var: Var, value: Expr, place: Local) -> Local:
        """The function that the nodes of a let's value are in: a new one where it is one."""
        if not isinstance(value, Function) or is_primitive(value) or self._stays(var, value):
            return place
        self.by_var[var] = inner = Local(value, var, place, self._clock)
        self.locals.append(inner)
        self._owner[var] = place
        return inner

    def _stays(self, var: Var, value: Function) -> bool:
        """True for a closure that is only a value, and for what is not wanted."""
        if self._wanted is not None:
            return value not in self._wanted
        return var not in self._called and is_closure(var, value)

    def _enter(self, func: Function, place: Local) -> None:
        self._clock += 1
        place.start = self._clock
        for p in func.type_params:
            if isinstance(p, DimVar):
                self._known.setdefault(p, self._clock)
        for param in func.params:
            self._bind(param, place)

    def _bind(self, var: Var, place: Local) -> None:
        self._owner[var] = place
        if var.ty is None:
            return
        self._mention_type(var.ty, place)
        if not isinstance(var.ty, FuncType):
            for d in self._parts_of(var.ty)[2]:
                self._known.setdefault(d, self._clock)

    def _use(self, var: Var, place: Local) -> None:
        """Notes a use for every function between it and where the variable is bound."""
        owner = self._owner[var]
        at: Local | None = place
        while at is not None and at is not owner:
            at.used.setdefault(var, var)
            at = at.parent

    # ------------------------------------------------------------------ types and dims

    def _mention(self, node: Expr, place: Local) -> None:
        if node.ty is not None:
            self._mention_type(node.ty, place)
        match node:
            case Call():
                for arg in node.type_args:
                    if isinstance(arg, Type):
                        self._mention_type(arg, place)
            case MatchCast(_, target):
                self._mention_type(target, place)
                for d in free_dims(target):
                    self._known.setdefault(d, self._clock)
        if isinstance(node, Call | Shape):
            place.dims.update(dict.fromkeys(named_dims(node)))

    def _mention_type(self, ty: Type, place: Local) -> None:
        _, variables, dims = self._parts_of(ty)
        place.type_vars.update(dict.fromkeys(variables))
        place.dims.update(dict.fromkeys(dims))

    def _parts_of(self, ty: Type) -> tuple[Type, tuple[TypeVar, ...], tuple[DimVar, ...]]:
        found = self._parts.get(id(ty))
        if found is None:
            found = self._parts[id(ty)] = (ty, tuple(dict.fromkeys(free_type_vars(ty))), free_dims(ty))
        return found

    # ------------------------------------------------------------------ conclusions

    def _complete(self) -> None:
        """What functions need for others: those in them, and those that they call."""
        for local in reversed(self.locals):
            assert local.parent is not None
            own = local.node.type_params
            local.type_vars = {v: None for v in local.type_vars if v not in own}
            local.dims = {d: None for d in local.dims if self._known.get(d, local.start) < local.start}
            if local.parent is not self.root:
                local.parent.type_vars.update(local.type_vars)
                local.parent.dims.update(local.dims)
        for local in self.locals:
            for var in local.used:
                other = self.by_var.get(var)
                if other is None:
                    local.captured[var] = var
                elif other is not local:
                    local.captured.update(other.captured)
                    local.type_vars.update(other.type_vars)
                    local.dims.update(other.dims)
            for var in local.captured:
                if var.ty is not None:
                    _, variables, dims = self._parts_of(var.ty)
                    local.type_vars.update(dict.fromkeys(variables))
                    local.dims.update(dict.fromkeys(dims))

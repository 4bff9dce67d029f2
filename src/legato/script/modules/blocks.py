"""Blocks of tensor programs: their axes are checked against what they read and store, and they become statements.

    with T.sblock("Y"):                                    if vk == 0 { Y[vi] = 0; }
        vi, vk = T.axis.remap("SR", [i, k])        ⇒       Y[vi] = Y[vi] + X[vi, vk];
        with T.init(): Y[vi] = 0
        Y[vi] = Y[vi] + X[vi, vk]

Iterations of spatial axes are independent: what a block stores lies at places that all of them tell apart. Reduction
axes do not occur in these places, and `T.init` says what a place holds before their first iteration. A value that is
not proven to lie in its axis's domain guards the block.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from legato.arith.assume import Assumptions, facts_of
from legato.arith.expr import Binary, Const, Expr, Op, Var, const, eq, land, le, lt
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute as put
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.script.modules.forms import Attributes, Axes, Domain, Guarded, InitForm, Regions
from legato.tir import scalars
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.stmt import For, If, Let, Stmt, Store, block
from legato.tir.walk import bound_buffers, loads, statements, substitute

if TYPE_CHECKING:
    from legato.script.modules.tensor import TensorReader

__all__ = ["Axis", "Block", "Place"]

_KINDS: Final = {"S": "spatial", "R": "reduction"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block stands: its name, its statement, and the loops around it, from outermost to innermost."""

    name: str
    node: ast.With
    loops: tuple[For, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Axis:
    """An axis of a block: `var` runs over [begin, end) and has `value` in an iteration of the loops."""

    var: Var
    kind: str
    begin: Expr
    end: Expr
    value: Expr
    node: ast.AST


class Block:
    """Reads one block."""

    def __init__(self, reader: TensorReader, place: Place) -> None:
        self.reader = reader
        self.place = place
        self.axes: list[Axis] = []
        self.guards: list[Expr] = []
        self.regions: dict[bool, list[Buffer]] = {}
        self.init: Stmt | None = None

    def read(self) -> Stmt:
        """The statements that the block stands for."""
        before = set(self.reader.stored)
        rest = list(self.place.node.body)
        while rest and self._is_head(rest[0]):
            rest.pop(0)
        body = self.reader.body(rest)
        if not self.reader.faults:
            self._check(body, before)
        if self.init is not None:
            body = block(If(self._first(), self.init), body)
        return self._placed(body)

    # ------------------------------------------------------------------ the head

    def _is_head(self, s: ast.stmt) -> bool:
        """Whether a statement belongs to the block's head: what it says of the block is noted then."""
        reader = self.reader
        if isinstance(s, ast.With):
            form = reader.value(s.items[0].context_expr)
            if isinstance(form, InitForm):
                self._init(s)
            return isinstance(form, InitForm)
        if isinstance(s, ast.Assign) and _calls(s.value):
            value = reader.value(s.value)
            if isinstance(value, Axes | Domain):
                with reader.at(s):
                    self._axes(s.targets, value, s)
                return True
        if isinstance(s, ast.Expr) and _calls(s.value):
            value = reader.value(s.value)
            with reader.at(s):
                return self._fact(value)
        return False

    def _init(self, s: ast.With) -> None:
        if self.init is not None:
            raise self.reader.error(s, "a block has one T.init")
        if not any(a.kind == "R" for a in self.axes):
            raise self.reader.error(s, "T.init without a reduction axis", "store it in front of the block")
        self.init = self.reader.body(s.body)
        used = {v for st in statements(self.init) for e in st.exprs() for v in variables(e)}
        wrong = next((a.var.name for a in self.axes if a.kind == "R" and a.var in used), None)
        if wrong is not None:
            raise self.reader.error(s, f"T.init uses the reduction axis {wrong}: it holds before its first iteration")

    def _fact(self, value: Any) -> bool:
        match value:
            case Regions():
                found = self.regions.setdefault(value.is_write, [])
                found += [_buffer(r) for r in value.regions]
            case Guarded():
                self.guards.append(scalars.logical(value.cond, "what T.where says"))
            case Attributes(of_function=False):
                pass  # hints to schedules of others
            case _:
                return False
        return True

    def _axes(self, targets: Sequence[ast.expr], form: Axes | Domain, s: ast.Assign) -> None:
        target = targets[0]
        names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        forms = [form] if isinstance(form, Domain) else self._remapped(form)
        if len(names) != len(forms) or not all(isinstance(n, ast.Name) for n in names):
            raise self.reader.error(s, f"{len(names)} names for {len(forms)} axes")
        for name, one in zip(names, forms, strict=True):
            assert isinstance(name, ast.Name)
            begin, end = (scalars.as_index(e, "an end of a domain") for e in (one.begin, one.end))
            var = Var(name.id, dt.index, 0 if _is_zero(begin) else None)
            value = scalars.as_index(one.value, f"the value of {name.id}")
            self.axes.append(Axis(var, one.kind, begin, end, value, s))
            self.reader.names[name.id] = var

    def _remapped(self, form: Axes) -> list[Domain]:
        if len(form.kinds) != len(form.values):
            raise TypeCheckError(f"{len(form.kinds)} kinds for {len(form.values)} axes")
        found = []
        for kind, value in zip(form.kinds, form.values, strict=True):
            loop = self._loop(value)
            if loop is None:
                raise TypeCheckError("T.axis.remap takes variables of loops", hint="T.axis.spatial(extent, value)")
            if kind not in _KINDS:
                raise TypeCheckError(f"an axis of kind {kind!r}, wanted S (spatial) or R (reduction)")
            found.append(Domain(kind, self._begin(loop, value), value - loop.var + loop.extent, value))
        return found

    def _loop(self, value: Any) -> For | None:
        """The loop whose variable, moved to where it begins, a value is."""
        if not isinstance(value, Expr):
            return None
        return next(
            (loop for loop in self.place.loops if loop.var in variables(value) and _is_moved(value, loop)), None
        )

    @staticmethod
    def _begin(loop: For, value: Expr) -> Expr:
        return put(value, {loop.var: const(0)})

    # ------------------------------------------------------------------ what is checked

    def _check(self, body: Stmt, before: set[Buffer]) -> None:
        own = set(bound_buffers(body))
        stores = [s for s in statements(body) if isinstance(s, Store) and s.buffer not in own]
        told = _told(body)
        self._check_twice()
        for s in stores:
            used = {w for i in s.indices for v in variables(i) for w in told.get(v, {v})}
            for a in self.axes:
                self._check_axis(a, s, a.var in used)
        if self.init is None and any(a.kind == "R" for a in self.axes):
            self._check_begun(body, {s.buffer for s in stores} - before)
        self._check_regions(body, stores, own)

    def _check_axis(self, a: Axis, s: Store, is_used: bool) -> None:
        place = f"{s.buffer.name}[{', '.join(map(str, s.indices)) or '()'}]"
        if a.kind == "R" and is_used:
            message = f"the reduction axis {a.var.name} says where {place} is stored"
            raise self.reader.error(a.node, message, f"{a.var.name} is a spatial axis: T.axis.spatial, or S")
        extent = simplify(a.end - a.begin)
        if a.kind == "S" and not is_used and not (isinstance(extent, Const) and extent.value <= 1):
            message = f"iterations of the spatial axis {a.var.name} all store to {place}"
            raise self.reader.error(a.node, message, f"{a.var.name} is a reduction axis: T.axis.reduce, or R")

    def _check_begun(self, body: Stmt, new: set[Buffer]) -> None:
        """Without an init, what a reduction adds to was stored before."""
        read = {x.buffer for x in loads(body)} & new
        if read:
            name = min(b.name for b in read)
            message = f"the reduction reads {name}, to which nothing is stored before its first iteration"
            raise self.reader.error(self.place.node, message, f"with T.init(): {name}[…] = …")

    def _check_twice(self) -> None:
        seen: dict[Var, Axis] = {}
        for a in self.axes:
            if isinstance(a.value, Var):
                other = seen.setdefault(a.value, a)
                if other is not a:
                    names = f"{other.var.name} and {a.var.name}"
                    raise self.reader.error(a.node, f"the axes {names} are both the loop {a.value.name}")

    def _check_regions(self, body: Stmt, stores: Sequence[Store], own: set[Buffer]) -> None:
        parts = [body] if self.init is None else [body, self.init]
        touched = {True: {s.buffer for s in stores}, False: {x.buffer for p in parts for x in loads(p)}}
        for is_write, said in self.regions.items():
            missing = touched[is_write] - {*said, *own}
            if not is_write:
                missing -= touched[True]  # a reduction reads what it stores
            if missing:
                verb, form = ("stores to", "T.writes") if is_write else ("reads", "T.reads")
                name = min(b.name for b in missing)
                raise self.reader.error(self.place.node, f"the block {verb} {name}, which {form} does not name")

    # ------------------------------------------------------------------ where it runs

    def _first(self) -> Expr:
        """Whether this is the first iteration of all reduction axes."""
        found: Expr = const(True, dt.bool_)
        for a in self.axes:
            if a.kind == "R":
                found = land(found, eq(a.var, a.begin))
        return found

    def _placed(self, body: Stmt) -> Stmt:
        """The body under its guards, with the values of its axes in place of them."""
        plain = {a.var: a.value for a in self.axes if isinstance(a.value, Var | Const)}
        guard: Expr = const(True, dt.bool_)
        for g in self.guards:
            guard = land(guard, g)
        known = Assumptions({loop.var: loop.extent for loop in self.place.loops}, list(facts_of(guard)))
        for a in self.axes:
            if not known.nonnegative(a.value - a.begin):
                guard = land(guard, le(a.begin, a.value))
            if not known.below(a.value, a.end):
                guard = land(guard, lt(a.value, a.end))
        body = substitute(body, plain)
        for a in reversed(self.axes):
            if a.var not in plain:
                body = Let(a.var, a.value, body)
        return body if isinstance(guard, Const) else If(guard, body)


def _told(body: Stmt) -> dict[Var, set[Var]]:
    """The variables that the value of each let comes from, through other lets."""
    found: dict[Var, set[Var]] = {}
    for s in statements(body):  # outer lets come first
        if isinstance(s, Let):
            found[s.var] = {w for v in variables(s.value) for w in found.get(v, {v})}
    return found


def _is_moved(value: Expr, loop: For) -> bool:
    """Whether `value` is the loop's variable, or that plus what does not depend on a loop's."""
    if value is loop.var:
        return True
    return isinstance(value, Binary) and value.op is Op.ADD and loop.var in (value.a, value.b)


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0


def _calls(e: ast.expr) -> bool:
    return isinstance(e, ast.Call)


def _buffer(region: Any) -> Buffer:
    found = region[0] if isinstance(region, tuple) else region
    found = found.buffer if isinstance(found, Load) else found
    if not isinstance(found, Buffer):
        raise TypeCheckError("T.reads and T.writes take regions of buffers: X[i, 0:n]")
    return found

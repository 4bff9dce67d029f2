"""The function that is being lowered: what its variables stand for, and the buffers that it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import partial

from legato.arith.expr import Expr, Var
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.device import HOST
from legato.base.errors import UnsupportedError
from legato.infer.devices import Devices
from legato.infer.domains import leaves
from legato.ir import expr as ir
from legato.ir._dims import free_dims
from legato.ir.constraint import Constraint, demanded, sides
from legato.ir.types import Type
from legato.lower.describe import describe_copy
from legato.lower.functions import LoweredModule
from legato.lower.group import tensor_types
from legato.lower.homes import Homes, Views
from legato.lower.hosts.body import Body
from legato.lower.hosts.magnitude import MAX_BYTES, buffer_fits, held, same_size
from legato.lower.hosts.ownership import Borrowed, Owners
from legato.lower.hosts.program import HostProgram
from legato.lower.hosts.values import Value, flat, new_value
from legato.lower.supported import DEFAULT_PASSES
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Address, Load, cast
from legato.tir.stmt import Check, Launch, Let, Stmt, Store

__all__ = ["Frame", "Jump"]


@dataclass(frozen=True, slots=True)
class Jump:
    """How a function that is a loop calls itself: `calls` are variables bound to such calls, `emit` appends the
    statements that make the arguments of one the state of the next turn. `state` are tensors in memory of the loop's
    own."""

    calls: frozenset[ir.Var]
    emit: Callable[[ir.Call, Body], None]
    state: frozenset[Buffer]


@dataclass(slots=True)
class Frame:
    """One function. `env` maps variables to values.

    items: where results of launches are wanted, by their numbers. homes, owners, out: of the block that is being built.
    jump: if the function is a loop; ends_turn: the block that is being built calls it. extents: dims that are values,
    in registers from the start.

    Dims: `planned` have their values when the function is entered, and memory for what has no others is planned. Others
    are brought in the course of it: `known` are those that have values by now. `waiting` are equalities to be checked
    as soon as their dims are known.

    devices: where tensors lie, unless all do on the host; `copied` are those that the host has of others.
    """

    lowered: LoweredModule
    program: HostProgram
    views: Views = field(default_factory=Views)
    env: dict[ir.Var, Value] = field(default_factory=dict)
    items: dict[ir.Var, dict[int, Buffer]] = field(default_factory=dict)
    constants: dict[int, tuple[Buffer, str]] = field(default_factory=dict)
    borrowed: Borrowed = field(default_factory=Borrowed)
    extents: dict[Expr, Buffer] = field(default_factory=dict)
    homes: Homes = field(init=False)
    owners: Owners = field(init=False)
    out: Body = field(default_factory=Body)
    jump: Jump | None = None
    ends_turn: bool = False
    planned: frozenset[Var] = frozenset()
    known: frozenset[Var] = frozenset()
    waiting: tuple[Constraint, ...] = ()
    devices: Devices | None = None
    copied: list[Buffer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.homes = Homes(self.views)
        self.owners = Owners(self.borrowed, {})

    @property
    def buffers(self) -> list[Buffer]:
        """What is to be placed by the memory plan."""
        return self.views.own

    def atom(self, expr: ir.Expr) -> Value:
        """The value of an expression that computes nothing."""
        match expr:
            case ir.Var():
                return self.env[expr]
            case ir.Constant():
                return self._constant(expr)
            case ir.Tuple():
                return tuple(self.atom(f) for f in expr.fields)
            case ir.Shape():
                return tuple(map(self._extent, expr.dims))
            case _:
                raise UnsupportedError(
                    f"{type(expr).__name__} as a value in compiled code", span=expr.span, hint=DEFAULT_PASSES
                )

    def _extent(self, dim: Expr) -> Buffer:
        if not self.planned.issuperset(variables(dim)):
            self.require_held([dim], self.out)
            register = self.out.register(Buffer("dim", (), dt.int64, scope=Scope.REGISTER))
            self.out.append(Store(register, (), cast(dim, dt.int64)))
            return register
        if dim not in self.extents:
            self.extents[dim] = Buffer("dim", (), dt.int64, scope=Scope.REGISTER)
        return self.extents[dim]

    def _constant(self, node: ir.Constant) -> Buffer:
        found = self.constants.get(id(node))
        if found is None:
            (ty,) = tensor_types(node.ty)
            name = self.program.constant(node)
            found = (Buffer(name, ty.shape, ty.dtype), name)
            self.constants[id(node)] = found
        return found[0]

    def place(self, ty: Type, name: str, dest: Value | None, out: Body) -> Value:
        """Where a value of type `ty` goes: `dest`, where it is a result of the block; else new buffers, scalars in
        registers, for the rest of the block."""
        if dest is not None:
            return dest
        value = new_value(ty, name, Scope.REGISTER)
        for buffer in flat(value):
            self.placed(buffer, out)
        return value

    def stored(self, value: Value, dest: Value | None) -> Value:
        """`value`, which has been stored in its place: the block owns its handles, unless they are its results."""
        for leaf in flat(value) if dest is None else ():
            if leaf.dtype == dt.handle:
                self.owners.own(leaf)
        return value

    def placed(self, buffer: Buffer, out: Body) -> Buffer:
        """`buffer`, for which there is room from here on: planned, or in an object where its extents are not."""
        if buffer.scope is Scope.REGISTER:
            return out.register(buffer)
        if not self.planned.issuperset(variables(*buffer.shape)):
            return self.boxed(buffer, out)
        self.buffers.append(buffer)
        return buffer

    def boxed(self, tensor: Buffer, out: Body) -> Buffer:
        """`tensor`, as the payload of a new object that the block owns."""
        if variables(*tensor.shape):
            out.append(self.require(buffer_fits(tensor)))
        out.object(tensor)
        place = out.register(Buffer(tensor.name, (), dt.handle, scope=Scope.REGISTER))
        out.append(Store(place, (), Address(tensor)))
        self.borrowed.box(tensor, self.owners.own(place))
        return tensor

    def like(self, buffer: Buffer, out: Body) -> Buffer:
        """A new buffer like `buffer`."""
        return self.placed(Buffer(buffer.name, buffer.shape, buffer.dtype, buffer.layout, buffer.scope), out)

    def copy(self, source: Buffer, target: Buffer, *, between_devices: bool = False) -> Stmt:
        """Copies a tensor, from one layout to another if need be; from one device to another, whatever lies there."""
        if not target.rank:
            return Store(target, (), Load(source, ()))
        description = describe_copy(source, target)
        lowered = self.lowered.groups.copied(source, target, description)
        (kernel,), (program,) = lowered.group.kernels, lowered.kernels
        dims = tuple(description.dims)
        return Launch(
            (source, target, *(dims[n] for n in kernel.dims)),
            self.program.copy(kernel, program, between_devices=between_devices),
        )

    def on_host(self, expr: ir.Expr, out: Body) -> Buffer:
        """A tensor that the host reads: a copy, if it lies on another device."""
        source = self.atom(expr)
        assert isinstance(source, Buffer)
        if self.devices is None or not source.rank or not isinstance(expr, ir.Var):
            return source
        (leaf,) = leaves(self.devices.of(expr))
        if self.devices.device(leaf) == HOST:
            return source
        target = self.placed(Buffer(source.name, source.shape, source.dtype), out)
        self.copied.append(target)
        out.append(self.copy(source, target, between_devices=True))
        return target

    def require(self, fits: Expr) -> Stmt:
        """The check that memory is of the size that is meant."""
        return Check(fits, self.program.check(f"out of memory: a tensor of more than {MAX_BYTES} bytes"))

    # Dims

    def late(self, ty: Type | None) -> tuple[Var, ...]:
        """The dims of `ty` that have no values yet."""
        return () if ty is None else tuple(d for d in free_dims(ty) if d not in self.known)

    def require_held(self, dims: Iterable[Expr], out: Body) -> None:
        """Appends the checks that machine integers hold the values of dims."""
        for dim in dims:
            if (condition := held(dim)) is not None:
                out.append(Check(condition, self.program.check(f"a dim is too large for 64 bits: {dim}")))

    def bring(self, values: Mapping[Var, Expr], out: Body) -> None:
        """Gives dims their values for the rest of the block, and checks what has waited for them."""
        self.require_held(values.values(), out)
        for dim, value in values.items():
            out.inside(partial(Let, dim, cast(value, dt.index)))
        before, self.known = self.known, self.known.union(values)
        out.extend(self._check(c) for c in self._ready() if not before.issuperset(variables(c.a, c.b)))

    def checks(self) -> list[Stmt]:
        """The checks of what is known by now."""
        return [self._check(c) for c in self._ready()]

    def _ready(self) -> list[Constraint]:
        return [c for c in self.waiting if self.known.issuperset(variables(c.a, c.b))]

    def _check(self, c: Constraint) -> Stmt:
        if c.a is c.b and (condition := held(c.a)) is not None:
            return Check(condition, self.program.check(f"out of memory: {c.what}, {c.a} bytes, is beyond 2^63"))
        a, b, otherwise = demanded(c.a, c.b)
        left, right = sides(a, b)
        fault = f"{c.what}: {left} and {right} must be equal{otherwise}"
        return Check(same_size(c.a, c.b), self.program.check(fault))

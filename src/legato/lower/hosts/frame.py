"""The function that is being lowered: what its variables stand for, and the buffers that it uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from legato.base.errors import UnsupportedError
from legato.ir import expr as ir
from legato.ir.module import Module
from legato.ir.types import Type
from legato.lower.describe import describe_copy
from legato.lower.group import tensor_types
from legato.lower.homes import Homes, Views
from legato.lower.hosts.program import HostProgram
from legato.lower.hosts.values import Value, flat, new_value
from legato.lower.reuse import Groups
from legato.tir.buffer import Buffer
from legato.tir.stmt import Launch, Stmt

__all__ = ["Frame", "Jump"]


@dataclass(frozen=True, slots=True)
class Jump:
    """How a function that is a loop calls itself: `calls` are variables bound to such calls, `emit` appends the
    statements that make the arguments the state of the next turn."""

    calls: frozenset[ir.Var]
    emit: Callable[[Sequence[ir.Expr], list[Stmt]], None]


@dataclass(slots=True)
class Frame:
    """One function. `env` maps variables to values.

    items: where results of launches are wanted, by their numbers. homes: of the block that is being built. jump: if the
    function is a loop.
    """

    mod: Module
    program: HostProgram
    groups: Groups
    views: Views = field(default_factory=Views)
    env: dict[ir.Var, Value] = field(default_factory=dict)
    items: dict[ir.Var, dict[int, Buffer]] = field(default_factory=dict)
    constants: dict[int, tuple[Buffer, str]] = field(default_factory=dict)
    homes: Homes = field(init=False)
    jump: Jump | None = None

    def __post_init__(self) -> None:
        self.homes = Homes(self.views)

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
            case _:
                raise UnsupportedError(f"{type(expr).__name__} as a value in compiled code", span=expr.span)

    def _constant(self, node: ir.Constant) -> Buffer:
        found = self.constants.get(id(node))
        if found is None:
            (ty,) = tensor_types(node.ty)
            name = self.program.constant(node)
            found = (Buffer(name, ty.shape, ty.dtype), name)
            self.constants[id(node)] = found
        return found[0]

    def fresh(self, ty: Type, name: str) -> Value:
        """New buffers for a value of type `ty`."""
        value = new_value(ty, name)
        self.buffers.extend(flat(value))
        return value

    def like(self, buffer: Buffer) -> Buffer:
        """A new buffer like `buffer`."""
        copy = Buffer(buffer.name, buffer.shape, buffer.dtype, buffer.layout)
        self.buffers.append(copy)
        return copy

    def copy(self, source: Buffer, target: Buffer) -> Stmt:
        """Copies a tensor, from one layout to another if need be."""
        description = describe_copy(source, target)
        lowered = self.groups.copied(source, target, description)
        (kernel,), (program,) = lowered.group.kernels, lowered.kernels
        dims = tuple(description.dims)
        return Launch((source, target, *(dims[n] for n in kernel.dims)), self.program.copy(kernel, program))

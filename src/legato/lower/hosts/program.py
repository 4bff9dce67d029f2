"""What lowering gathers of a program: host functions, kernels, constants, messages, and what is known of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from legato.arith.expr import Expr
from legato.base.dataclass import dataclass
from legato.base.device import HOST, Device
from legato.base.span import Span
from legato.base.target import Target
from legato.ir import expr as ir
from legato.ir.op import Op
from legato.ir.types import TensorType
from legato.lower.facts import KernelFacts
from legato.lower.lives import Pairs
from legato.lower.plan import Plan
from legato.lower.stored import Found, StoredKernel
from legato.runtime.outside import Message, PackedCall
from legato.runtime.violation import AccessInfo
from legato.tir.buffer import Buffer, Layout
from legato.tir.stmt import Func

__all__ = ["HostOpRecord", "HostProgram", "Site", "Written"]

Place = tuple[Buffer, tuple[Expr, ...], bool]  # what is accessed, and whether it is stored to


@dataclass(frozen=True, slots=True)
class HostOpRecord:
    """An operator that the runtime runs, by its reference or outside of the program: its record, attributes, and how
    many of the words are inputs."""

    op: Op
    attrs: object
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]

    @property
    def is_outside(self) -> bool:
        """Whether something outside of the program is called."""
        return isinstance(self.attrs, PackedCall | Message)

    @property
    def why(self) -> str:
        """What the program may fail for, if it does so here."""
        if isinstance(self.attrs, PackedCall):
            return f"packed function {self.attrs.name!r}"
        return self.op.name if self.is_outside else f"operator {self.op.name}, which is run by its reference"


@dataclass(frozen=True, slots=True)
class Site:
    """A place that launches kernel `kernel`: the operators that it computes there, and their place in the source."""

    kernel: str
    operators: tuple[str, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Written:
    """A kernel that somebody wrote: as it was, as it is launched, the memory that it has of its caller (behind its
    other buffers), which of its buffers must hold zeros before it stores to them, and the accesses that are not proven
    to be inside."""

    original: Func
    func: Func
    scratch: tuple[Buffer, ...]
    cleared: frozenset[int]
    unproven: frozenset[Place]


@dataclass(slots=True)
class HostProgram:
    """What host lowering gathers: host functions, extra kernels, constants, check messages, host operators, plans, and
    the sites of launches in the order of the program. `tests` are those of accesses, in a bounds-checked build;
    `written` has what is known of kernels that somebody wrote.

    `kernels` are programs, `found` those whose machine code is at hand; `facts` has all of both, in their order.
    """

    target: Target
    functions: dict[str, Func] = field(default_factory=dict)
    kernels: dict[str, Func] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)
    facts: dict[str, KernelFacts] = field(default_factory=dict)
    constants: dict[str, ir.Constant] = field(default_factory=dict)
    checks: list[str] = field(default_factory=list)
    tests: tuple[AccessInfo, ...] = ()
    written: dict[str, Written] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)  # of the checks' messages
    host_ops: list[HostOpRecord] = field(default_factory=list)
    plans: dict[str, Plan] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    names: dict[tuple[int, Device], str] = field(default_factory=dict)  # of constants, by identity
    copies: dict[str, str] = field(default_factory=dict)  # names of kernels that copy, by what they do
    device_copies: dict[str, str] = field(default_factory=dict)  # likewise, from one device to another
    fills: dict[str, str] = field(default_factory=dict)  # names of kernels that fill, by what they fill

    def copy(self, kernel: StoredKernel, program: Func | bytes, *, between_devices: bool = False) -> str:
        """The name of a copy kernel, which joins the kernels unless an equal one is there. What is on another device
        is never the same memory."""
        known = self.device_copies if between_devices else self.copies
        name = known.get(kernel.digest)
        if name is None:
            name = known[kernel.digest] = self.new_name("device_copy" if between_devices else "copy")
            self.facts[name] = replace(kernel.facts, in_place=()) if between_devices else kernel.facts
            if isinstance(program, Func):
                self.kernels[name] = replace(program, name=name)
            else:
                self.found[name] = Found(tuple(o.layout for o in kernel.outputs), kernel.facts, program)
        return name

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that have an arena, in the order of their names; none where the host alone has."""
        found = {device for plan in self.plans.values() for device in plan.arenas}
        return () if found <= {HOST} else tuple(sorted(found, key=str))

    def new_name(self, base: str) -> str:
        """A name that no kernel and no function has."""
        n = 0
        while f"{base}_{n}" in self.facts or f"{base}_{n}" in self.functions:
            n += 1
        return f"{base}_{n}"

    def layouts(self, kernel: str, inputs: int, inplace: Sequence[int] = ()) -> tuple[Layout, ...]:
        """The layouts of what a kernel with so many inputs stores; `inplace`: as `CallTirAttrs` has it."""
        found = self.found.get(kernel)
        if found is not None:
            return found.layouts
        func = self.written[kernel].original if kernel in self.written else self.kernels[kernel]
        buffers = [p for p in func.params if isinstance(p, Buffer)]
        own = iter(buffers[inputs:])
        return tuple((buffers[n] if n >= 0 else next(own)).layout for n in inplace or [-1] * (len(buffers) - inputs))

    def in_place(self, name: str) -> Pairs:
        """The pairs (input, output) of places among the arguments of a kernel or host function that may be the same
        memory; none of a function that is not planned yet."""
        if name in self.facts:
            return self.facts[name].in_place
        return self.plans[name].shared if name in self.plans else ()

    def constant(self, node: ir.Constant, device: Device = HOST) -> str:
        """The name of `node` in the constant segment, where each device has its own."""
        name = self.names.setdefault((id(node), device), f"c{len(self.names)}")
        self.constants[name] = node
        return name

    def check(self, message: str) -> int:
        """The code of a check that fails with `message`."""
        if message not in self.codes:
            self.codes[message] = len(self.checks)
            self.checks.append(message)
        return self.codes[message]

"""Which device each buffer of a host function lies on: what a kernel reads and writes lies on one.

The devices of the language's variables (`infer.devices`) are those of their buffers, and of others that kernels read
or write with these, or that lie in them. Whatever passes and lowering did before, this is what the program will do: it
is checked here. Scalars are words of the host function, which kernels are given; constants lie on each device that
reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from legato.base import dtype as dt
from legato.base.device import HOST, Device
from legato.base.errors import VerifyError
from legato.base.node import transform
from legato.infer.devices import Devices, entries
from legato.infer.domains import Branch, Domain, Leaf
from legato.ir.contents import called_operators
from legato.ir.devices import DEVICE_COPY, PARAMS, RESULT
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.program import HostProgram
from legato.lower.hosts.results import Place
from legato.lower.hosts.values import Value
from legato.tir.buffer import Buffer
from legato.tir.stmt import Func, HostOp, Invoke, Launch, Stmt, View
from legato.tir.walk import buffers_used, statements

__all__ = ["Lying", "lying", "module_devices", "require_arguments", "with_constants"]

_HINT: Final = "device_copy makes a copy on another device; PlanDevices makes those that on_device asks for"
Lying = Mapping[Buffer, Device]


def module_devices(mod: Module) -> Devices | None:
    """The devices of the variables of `mod`, planned and lowered; None if all is on the host.

    Functions that others call may have got other parameters since they were planned: the calls tell.
    """
    is_placed = False
    for _, func in mod.graph_functions():
        stated = (*func.attrs.get(PARAMS, ()), func.attrs.get(RESULT, ""))
        is_placed = is_placed or any(text not in ("", str(HOST)) for text in stated)
        is_placed = is_placed or DEVICE_COPY in called_operators(func)
    if not is_placed:
        return None
    found = Devices(mod, is_lowered=True, entries=entries(mod))
    for fault in found.faults:
        raise VerifyError(fault.message, span=fault.node.span, hint=_HINT)
    return found


def lying(frame: Frame, source: Function, func: Func, place: Place) -> Lying:
    """The device of each tensor that host function `func`, made of `source`, has in memory, constants aside.
    VerifyError where a kernel would read or write what lies on several."""
    devices = frame.devices
    if devices is None:
        return {}
    found = _Groups({b for b, _ in frame.constants.values()})
    for buffer in frame.copied:
        found.pin(buffer, HOST, func.name)
    for var, value in (*frame.env.items(),):
        for buffer, leaf in _pairs(value, devices.of(var)):
            found.pin(buffer, devices.device(leaf), f"%{var.name} of @{func.name}")
    for buffer, leaf in _pairs(place.value, devices.result(source)):
        found.pin(buffer, devices.device(leaf), f"the result of @{func.name}")
    for buffer, (base, _) in frame.views.within.items():
        found.join((buffer, base), f"{buffer.name} of @{func.name}")
    apart = frozenset(frame.program.device_copies.values())
    for stmt in statements(func.body):
        found.join(_together(stmt, frame.program, apart), f"@{func.name}, which runs {_name(stmt)}")
    return {buffer: found.device(buffer) for buffer in found.above}


def _together(stmt: Stmt, program: HostProgram, apart: Collection[str]) -> tuple[Buffer, ...]:
    """The buffers that have to lie on one device for `stmt`."""
    match stmt:
        case View(buffer, base):
            return buffer, base
        case Launch() if stmt.kernel not in apart:
            return tuple(a for a in stmt.args if isinstance(a, Buffer))
        case HostOp() if not program.host_ops[stmt.op].is_outside:
            return tuple(a for a in stmt.args if isinstance(a, Buffer))
        case _:
            return ()


def _name(stmt: Stmt) -> str:
    return stmt.kernel if isinstance(stmt, Launch) else type(stmt).__name__.lower()


def _pairs(value: Value, found: Domain) -> Iterator[tuple[Buffer, Leaf]]:
    """The tensors in a value that are no objects, each with its leaf."""
    if isinstance(value, Buffer):
        if isinstance(found, Leaf) and value.rank and value.dtype != dt.handle:
            yield value, found
    elif value and isinstance(found, Branch) and found.kind == "tuple":  # a jump leaves no value
        for v, part in zip(value, found.parts, strict=True):
            yield from _pairs(v, part)


class _Groups:
    """Buffers on one device each (union-find, Tarjan 1975); `everywhere` are those that are on all."""

    def __init__(self, everywhere: Collection[Buffer]) -> None:
        self.everywhere = everywhere
        self.above: dict[Buffer, Buffer] = {}
        self.pinned: dict[Buffer, Device] = {}

    def root(self, buffer: Buffer) -> Buffer:
        above = self.above.setdefault(buffer, buffer)
        while above is not buffer:
            self.above[buffer] = self.above[above]
            buffer, above = above, self.above[above]
        return buffer

    def device(self, buffer: Buffer) -> Device:
        return self.pinned.get(self.root(buffer), HOST)

    def pin(self, buffer: Buffer, device: Device, where: str) -> None:
        if buffer in self.everywhere:
            return
        known = self.pinned.setdefault(self.root(buffer), device)
        if known != device:
            raise _misplaced(buffer, known, device, where)

    def join(self, buffers: Iterable[Buffer], where: str) -> None:
        first: Buffer | None = None
        for buffer in buffers:
            if not buffer.rank or buffer.dtype == dt.handle or buffer in self.everywhere:
                continue
            root = self.root(buffer)
            if first is None or root is first:
                first = root
                continue
            device = self.pinned.pop(root, None)
            self.above[root] = first
            if device is not None:
                known = self.pinned.setdefault(first, device)
                if known != device:
                    raise _misplaced(buffer, device, known, where)


def _misplaced(buffer: Buffer, got: Device, wanted: Device, where: str) -> VerifyError:
    return VerifyError(
        f"{where}: {buffer.name} lies on {got}, wanted on {wanted}",
        hint=_HINT,
    )


def require_arguments(functions: Mapping[str, Func], devices: Mapping[str, Lying]) -> None:
    """VerifyError where a host function gives another one a tensor on a device where that one does not read it."""
    for name, func in functions.items():
        for stmt in statements(func.body) if devices[name] else ():
            if isinstance(stmt, Invoke):
                for arg, param in zip(stmt.args, functions[stmt.func].params, strict=True):
                    got, wanted = _device(devices[name], arg), _device(devices[stmt.func], param)
                    if isinstance(arg, Buffer) and got is not None and wanted is not None and got != wanted:
                        raise _misplaced(arg, got, wanted, f"@{name}, which calls @{stmt.func}")


def _device(devices: Lying, arg: object) -> Device | None:
    return devices.get(arg) if isinstance(arg, Buffer) else None


def with_constants(func: Func, program: HostProgram, devices: Mapping[str, Lying]) -> Func:
    """`func`, whose kernels read constants of the device that they run on. The host has those of the language."""
    names = {buffer: name for buffer, name in func.constants if buffer.rank}
    here = devices[func.name]
    if not here or not names:
        return func
    made: dict[tuple[Buffer, Device], Buffer] = {}

    def there(buffer: Buffer, device: Device) -> Buffer:
        if device == HOST:
            return buffer
        if (buffer, device) not in made:
            name = program.constant(program.constants[names[buffer]], device)
            made[buffer, device] = Buffer(name, buffer.shape, buffer.dtype)
        return made[buffer, device]

    def step(stmt: Stmt) -> Stmt | None:
        if not isinstance(stmt, Launch | Invoke | HostOp):
            return None
        wanted = _wanted(stmt, program, here, devices)
        args = tuple(there(a, d) if isinstance(a, Buffer) and a in names else a
                     for a, d in zip(stmt.args, wanted, strict=True))  # fmt: skip
        return stmt if args == stmt.args else replace(stmt, args=args)

    body = transform(func.body, step)
    used = frozenset(buffers_used(body))
    constants = ((b, n) for b, n in (*func.constants, *((b, b.name) for b in made.values())) if b in used or not b.rank)
    return replace(func, body=body, constants=tuple(constants))


def _wanted(
    stmt: Launch | Invoke | HostOp, program: HostProgram, here: Lying, devices: Mapping[str, Lying]
) -> list[Device]:
    """Where each argument of a call has to lie."""
    if isinstance(stmt, Invoke):
        return [devices[stmt.func].get(p, HOST) if isinstance(p, Buffer) else HOST
                for p in program.functions[stmt.func].params]  # fmt: skip
    if isinstance(stmt, Launch) and stmt.kernel in program.device_copies.values():
        return [HOST] * len(stmt.args)
    found = [d for d in (_device(here, a) for a in stmt.args) if d is not None]
    return [found[-1] if found else HOST] * len(stmt.args)

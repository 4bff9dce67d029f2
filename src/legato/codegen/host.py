"""Statements of host functions: allocation, launches, calls and services, by the ABI of the runtime's header.

    lg_call      { services, constants }
    lg_services  { version, size; launch, push, pop, host_op, poll, barrier, object, end, resize }

Every failing status is returned at once; frames of a function that fails are the runtime's to release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from legato.base.errors import InternalError
from legato.base.graph import components
from legato.codegen.analysis import Analysis
from legato.codegen.expr import Evaluator
from legato.codegen.memory import MEMORY_TYPES
from legato.codegen.objects import Objects
from legato.codegen.stmt import SERVICES, Pending, Statements
from legato.codegen.symbols import symbol
from legato.codegen.value import Value
from legato.tir.buffer import Buffer, Scope
from legato.tir.launch import LaunchKind
from legato.tir.objects import Object, Open, Release, Resize, Retain
from legato.tir.stmt import Arg, HostOp, Invoke, Launch, Stmt, Switch, View

__all__ = ["HostStatements", "recursive"]

_NO_MEMORY = "1"  # LG_MEMORY


class HostStatements(Statements):
    """Emits a host function's body. `launches` says of every kernel how it is launched."""

    def __init__(self, ev: Evaluator, analysis: Analysis, launches: Mapping[str, LaunchKind]) -> None:
        super().__init__(ev, analysis, None)
        self.launches = launches
        self.called: dict[str, str] = {}  # symbol -> its declaration
        self.objects = Objects(self.builder, self._service)
        self.slots: dict[Buffer, str] = {}  # where registers lie in memory while a call may change them
        if analysis.words:
            self.builder.allocas.append(f"%words = alloca [{analysis.words} x i64], align 8")

    def _service(self, name: str) -> str:
        b = self.builder
        table = b.pure("load ptr, ptr %call, align 8", "ptr", 1, 0)
        slot = b.pure(f"getelementptr i8, ptr {table.text}, i64 {SERVICES[name]}", "ptr", 1, 0)
        return b.pure(f"load ptr, ptr {slot.text}, align 8", "ptr", 1, 0).text

    def constants(self, buffers: Sequence[tuple[Buffer, str]], offsets: Mapping[str, int]) -> None:
        """Binds buffers to named constants of the constant segment."""
        if not buffers:
            return
        b = self.builder
        field = b.pure("getelementptr i8, ptr %call, i64 8", "ptr", 1, 0)
        base = b.pure(f"load ptr, ptr {field.text}, align 8", "ptr", 1, 0)
        for buffer, name in buffers:
            if name not in offsets:
                raise InternalError(f"the constant {name!r} has no place in the constant segment")
            self.ev.memory.bind(buffer, base, offsets[name])

    def other(self, stmt: Stmt) -> list[Pending]:
        match stmt:
            case View(buffer, base, offset, body):
                self._view(buffer, base, self.ev.value(offset))
                return [body]
            case Launch():
                self._launch(stmt)
            case Invoke():
                self._invoke(stmt)
            case HostOp():
                words = self._words(stmt.args)
                self.run_service(f"{self._service('host_op')}(ptr %call, i64 {stmt.op}, ptr {words})")
                self._reload(stmt.args)
            case Switch():
                self._switch(stmt)
            case Object() | Open() | Resize():
                self._bind_object(stmt)
                return [stmt.body]
            case Retain(handle):
                self.objects.retain(self.ev.value(handle))
            case Release(handle):
                self.objects.release(self.ev.value(handle))
            case _:
                return super().other(stmt)
        return []

    # ---------------------------------------------------------------------------------------------- memory

    def allocate(self, buffer: Buffer) -> Callable[[], None]:
        """GLOBAL buffers live in a frame of the call's workspace, all others as in kernels."""
        if buffer.scope is not Scope.GLOBAL:
            return super().allocate(buffer)
        size = self.ev.affine.scaled(self.ev.value(buffer.elements()), buffer.dtype.bytes)
        frame = self.push(size)
        self.ev.memory.bind(buffer, frame)
        return lambda: self.pop(frame)

    def push(self, size: Value) -> Value:
        """A new frame of `size` bytes; leaves the function if there is no room."""
        b = self.builder
        frame = b.effect(f"call ptr {self._service('push')}(ptr %call, i64 {size.text})", "ptr", 1)
        self.fail_if(b.effect(f"icmp eq ptr {frame.text}, null", "i1", 1), _NO_MEMORY)
        return frame

    def pop(self, frame: Value) -> None:
        """Releases a frame."""
        self.builder.line(f"call void {self._service('pop')}(ptr %call, ptr {frame.text})")

    def _view(self, buffer: Buffer, base: Buffer, offset: Value) -> None:
        pointer, displacement = self.ev.memory.base(base)
        if type(offset.const) is int:
            return self.ev.memory.bind(buffer, pointer, displacement + offset.const)
        level = max(pointer.level, offset.level)
        rhs = f"getelementptr i8, ptr {pointer.text}, i64 {offset.text}"
        return self.ev.memory.bind(buffer, self.builder.pure(rhs, "ptr", 1, level), displacement)

    def _bind_object(self, s: Object | Open | Resize) -> None:
        if isinstance(s, Open):
            return self.ev.memory.bind(s.buffer, self.objects.payload(self.ev.value(s.handle)))
        size = self.ev.affine.scaled(self.ev.value(s.buffer.elements()), s.buffer.dtype.bytes)
        if isinstance(s, Resize):
            payload = self.objects.resized(self.ev.value(s.handle), size)
        else:
            payload = self.objects.new(size, s.tag, s.pointers)
        self.fail_if(self.builder.effect(f"icmp eq ptr {payload.text}, null", "i1", 1), _NO_MEMORY)
        return self.ev.memory.bind(s.buffer, payload)

    # ---------------------------------------------------------------------------------------------- calls

    def _words(self, args: tuple[Arg, ...]) -> str:
        """Writes the arguments to the words area; its address."""
        b = self.builder
        values = [self._pointer(a) if isinstance(a, Buffer) else self.ev.value(a) for a in args]
        for n, v in enumerate(values):
            b.line(f"store {v.ty} {v.text}, ptr {self._word(n)}, align 8")
        return "%words" if args else "null"

    def _word(self, n: int) -> str:
        """Where word `n` of the words area lies."""
        return self.builder.effect(f"getelementptr i8, ptr %words, i64 {8 * n}", "ptr", 1).text if n else "%words"

    def _pointer(self, buffer: Buffer) -> Value:
        """Where the callee finds `buffer`: one in a register is put into memory for the time of the call."""
        if buffer.scope is not Scope.REGISTER:
            return self.ev.memory.pointer(buffer)
        b, registers = self.builder, self.ev.registers[buffer]
        if len(registers.slots) != 1 or registers.width != 1:
            raise InternalError(f"the register buffer {buffer.name} is given to a call, and has more than one element")
        place = self.slots.get(buffer)
        if place is None:
            place = self.slots[buffer] = b.name()
            b.allocas.append(f"{place} = alloca [8 x i8], align 8")
        value = self.ev.to_memory(registers.slots[0], buffer.dtype)
        b.line(f"store {value.ty} {value.text}, ptr {place}, align 8")
        return Value(place, "ptr", 1, 0)

    def _reload(self, args: tuple[Arg, ...]) -> None:
        """Takes the buffers that are kept in registers from where a call has left them."""
        for a in args:
            if isinstance(a, Buffer) and a.scope is Scope.REGISTER:
                ty = MEMORY_TYPES[a.dtype.name]
                loaded = self.builder.effect(f"load {ty}, ptr {self.slots[a]}, align 8", ty, 1)
                self.ev.registers[a].slots = [self.ev.from_memory(loaded, a.dtype)]

    def _launch(self, s: Launch) -> None:
        if s.kernel not in self.launches:
            raise InternalError(f"launch of the unknown kernel {s.kernel!r}")
        self.called[s.kernel] = f'declare hidden i32 @"{symbol(s.kernel)}"(ptr, i64, i64)'
        self._words(s.args)
        where, kind = self._word(len(s.args)), int(self.launches[s.kernel])
        self.builder.line(f"store ptr %call, ptr {where}, align 8")  # a kernel may ask whether the call is to end
        self.run_service(f'{self._service("launch")}(ptr %call, ptr @"{symbol(s.kernel)}", ptr %words, i64 {kind})')
        self._reload(s.args)

    def _invoke(self, s: Invoke) -> None:
        self.called[s.func] = f'declare hidden i32 @"{symbol(s.func)}"(ptr, ptr)'
        self.run_service(f'@"{symbol(s.func)}"(ptr %call, ptr {self._words(s.args)})')
        self._reload(s.args)

    # ---------------------------------------------------------------------------------------------- control flow

    def ask(self) -> None:
        self.run_service(f"{self._service('poll')}(ptr %call)")

    def _switch(self, s: Switch) -> None:
        value = self.ev.value(s.value)
        if type(value.const) is int:
            chosen = dict(s.cases).get(value.const, s.default)
            if chosen is not None:
                self.run(chosen)
            return
        join, default = self.builder.label("join"), self.builder.label("default")
        sides = [(self.builder.label("case"), body) for _, body in s.cases]
        table = " ".join(f"{value.ty} {n}, label %{label}" for (n, _), (label, _) in zip(s.cases, sides, strict=True))
        falls = s.default is None
        jump = f"switch {value.ty} {value.text}, label %{join if falls else default} [ {table} ]"
        self.sides(s, jump, sides if s.default is None else [*sides, (default, s.default)], join, falls=falls)


def recursive(calls: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The functions that may reach themselves, given what each function calls; unknown callees may call anything."""
    unknown = ""  # no function is called so
    uses = {name: {t if t in calls else unknown for t in targets} for name, targets in calls.items()}
    uses[unknown] = set(calls)
    found: set[str] = set()
    for component in components(uses):
        if len(component) > 1 or component[0] in uses[component[0]]:
            found.update(component)
    return frozenset(found - {unknown})

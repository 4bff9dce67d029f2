"""Statements of host functions: allocation, launches, calls and services, by the ABI of the runtime's header.

    lg_call      { services, constants }
    lg_services  { version, size; launch, push, pop, host_op, poll, barrier }

Every failing status is returned at once; frames of a function that fails are the runtime's to release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from legato.base.errors import InternalError
from legato.codegen.analysis import Analysis
from legato.codegen.expr import Evaluator
from legato.codegen.stmt import Pending, Statements
from legato.codegen.value import Value
from legato.tir.buffer import Buffer, Scope
from legato.tir.launch import LaunchKind
from legato.tir.stmt import Arg, HostOp, Invoke, Launch, Stmt, View, While

__all__ = ["HostStatements", "recursive"]

_SERVICES = {"launch": 8, "push": 16, "pop": 24, "host_op": 32, "poll": 40}
_NO_MEMORY = "1"  # LG_MEMORY


class HostStatements(Statements):
    """Emits a host function's body. `launches` says of every kernel how it is launched."""

    def __init__(self, ev: Evaluator, analysis: Analysis, launches: Mapping[str, LaunchKind]) -> None:
        super().__init__(ev, analysis, None)
        self.launches = launches
        self.called: dict[str, str] = {}  # symbol -> its declaration
        if analysis.words:
            self.builder.allocas.append(f"%words = alloca [{analysis.words + 1} x i64], align 8")

    def _service(self, name: str) -> str:
        b = self.builder
        table = b.pure("load ptr, ptr %call, align 8", "ptr", 1, 0)
        slot = b.pure(f"getelementptr i8, ptr {table.text}, i64 {_SERVICES[name]}", "ptr", 1, 0)
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
                self._call(f"{self._service('host_op')}(ptr %call, i64 {stmt.op}, ptr {words})")
            case While():
                self._while(stmt)
            case _:
                raise InternalError(f"code generation does not know the statement {type(stmt).__name__}")
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

    # ---------------------------------------------------------------------------------------------- calls

    def _words(self, args: tuple[Arg, ...]) -> str:
        """Writes the arguments to the words area; its address."""
        b = self.builder
        values = [self.ev.memory.pointer(a) if isinstance(a, Buffer) else self.ev.value(a) for a in args]
        for n, v in enumerate(values):
            where = b.effect(f"getelementptr i8, ptr %words, i64 {8 * n}", "ptr", 1) if n else None
            b.line(f"store {v.ty} {v.text}, ptr {where.text if where else '%words'}, align 8")
        return "%words" if args else "null"

    def _call(self, callee: str) -> None:
        """Calls something that returns a status, and leaves the function unless it is 0."""
        b = self.builder
        status = b.effect(f"call i32 {callee}", "i32", 1)
        self.fail_if(b.effect(f"icmp ne i32 {status.text}, 0", "i1", 1), status.text)

    def _launch(self, s: Launch) -> None:
        if s.kernel not in self.launches:
            raise InternalError(f"launch of the unknown kernel {s.kernel!r}")
        self.called[s.kernel] = f'declare hidden i32 @"{s.kernel}"(ptr, i64, i64)'
        words, kind = self._words(s.args), self.launches[s.kernel]
        if kind is LaunchKind.GANG:
            where = self.builder.effect(f"getelementptr i8, ptr %words, i64 {8 * len(s.args)}", "ptr", 1)
            self.builder.line(f"store ptr %call, ptr {where.text}, align 8")
        self._call(f'{self._service("launch")}(ptr %call, ptr @"{s.kernel}", ptr {words}, i64 {int(kind)})')

    def _invoke(self, s: Invoke) -> None:
        self.called[s.func] = f'declare hidden i32 @"{s.func}"(ptr, ptr)'
        self._call(f'@"{s.func}"(ptr %call, ptr {self._words(s.args)})')

    def _while(self, s: While) -> None:
        b = self.builder
        loop, body, done = b.label("while"), b.label("body"), b.label("done")
        pre, before = b.before_loop(), b.block
        b.line(f"br label %{loop}")
        b.start(loop)
        phis: list[str] = []
        b.out.append(phis)
        b.open(pre)
        old = self.phi_slots(s, b.here - 1)
        self._call(f"{self._service('poll')}(ptr %call)")
        self.ev.memo = {}
        cond = self.ev.value(s.cond)
        b.line(f"br i1 {cond.text}, label %{body}, label %{done}")
        b.start(body)
        left = [list(registers.slots) for registers, _, _ in old]
        self.run(s.body)
        b.line(f"br label %{loop}")
        self.end_phis(phis, old, before)
        b.close()
        b.start(done)
        for (registers, _, _), slots in zip(old, left, strict=True):
            registers.slots = slots


def recursive(calls: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The functions that may reach themselves, given what each function calls; unknown callees may call anything."""
    reach = {name: set(targets) for name, targets in calls.items()}
    changed = True
    while changed:
        changed = False
        for targets in reach.values():
            wider = targets.union(*(reach.get(t, calls.keys()) for t in targets))
            if len(wider) > len(targets):
                targets |= wider
                changed = True
    return frozenset(name for name, targets in reach.items() if name in targets)

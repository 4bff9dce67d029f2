"""Statements of a loop program as basic blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final

from legato.arith.expr import Const, Expr, Op
from legato.base import dtype as dt
from legato.base.errors import InternalError
from legato.codegen.analysis import POLLS, Analysis
from legato.codegen.expr import Evaluator
from legato.codegen.idle import Touched
from legato.codegen.registers import Registers
from legato.codegen.value import Value, expect_const, literal, vector_constant
from legato.tir.buffer import Buffer, Scope
from legato.tir.stmt import (
    FIRST_CHECK,
    Alloc,
    Barrier,
    Block,
    Check,
    For,
    If,
    Let,
    LoopKind,
    Prefetch,
    Stmt,
    Store,
    While,
)

__all__ = ["RARELY", "SERVICES", "Pending", "Statements"]

RARELY: Final = "!prof !0"  # a branch that is hardly ever taken: emission defines !0
SERVICES: Final = {"launch": 8, "push": 16, "pop": 24, "host_op": 32, "poll": 40, "barrier": 48, "object": 56,
                   "end": 64, "resize": 72}  # fmt: skip
_TURNS = 1000  # of Whiles, between two looks at whether the call is to end
Pending = Stmt | Callable[[], None]
Phis = list[tuple[Registers, list[Value], list[str]]]


class Statements:
    """Emits the statements that kernels and host functions share.

    In a kernel, `threads` is (tid, nt) and `words` the number of its arguments, behind which the call is.
    """

    def __init__(self, ev: Evaluator, analysis: Analysis, threads: tuple[Value, Value] | None, words: int = 0) -> None:
        self.ev, self.builder, self.analysis, self.threads = ev, ev.builder, analysis, threads
        self.words = words
        self.stack: dict[Buffer, tuple[int, Value]] = {}
        self.repeating: list[Value] = []  # the counters of the serial loops around
        self.idle: Mapping[Stmt, Touched] = {}  # loops to be left out where what they touch is empty
        self.failures: list[tuple[str, str]] = []  # a status, and the block that leaves the function with it
        polls = ev.registers[POLLS] = Registers(POLLS, 1, 1, 1)
        polls.slots = [literal(_TURNS, POLLS.dtype)]

    def run(self, root: Stmt) -> None:
        """Emits `root`. Bindings nest deeply and are walked; only loops and branches recurse."""
        pending: list[Pending] = [root]
        while pending:
            item = pending.pop()
            self.ev.memo = {}
            match item:
                case Block(stmts):
                    pending += reversed(stmts)
                case Store():
                    self.ev.store(item.buffer, item.indices, item.value)
                case Prefetch():
                    self.ev.prefetch(item.buffer, item.indices)
                case Let(var, value, body):
                    self.ev.bind(var, self.ev.value(value))
                    pending.append(body)
                case Alloc(buffer, body):
                    pending += (self.allocate(buffer), body)
                case For():
                    self._for(item)
                case If():
                    self._if(item)
                case Check():
                    self._check(item)
                case Barrier():
                    self._barrier()
                case Stmt():
                    pending += self.other(item)
                case _:
                    item()

    def other(self, stmt: Stmt) -> list[Pending]:
        """Emits a statement that few have, or host functions only; what is left to do, last first."""
        if isinstance(stmt, While):
            self._while(stmt)
            return []
        raise InternalError(f"{type(stmt).__name__} has no place in a kernel")

    def finish(self) -> None:
        """Returns 0, or from one common block what a Check or call on the way failed with."""
        b = self.builder
        b.line("ret i32 0")
        if self.failures:
            b.start("failed")
            ends = ", ".join([f"[ {status}, %{block} ]" for status, block in self.failures])
            b.line(f"%status = phi i32 {ends}")
            b.line("ret i32 %status")

    # ---------------------------------------------------------------------------------------------- buffers

    def allocate(self, buffer: Buffer) -> Callable[[], None]:
        """Makes room for `buffer`; the result ends its life."""
        count: Expr = buffer.elements()
        elements = expect_const(self.ev.value(count), f"the size of the {buffer.scope.value} buffer {buffer.name}")
        copies = 1 if buffer in self.analysis.split else self.builder.lanes
        if buffer.scope is Scope.REGISTER:
            width = self.analysis.widths.get(buffer, 1)
            self.ev.registers[buffer] = Registers(buffer, elements, width, copies)
            return lambda: self.ev.registers.__delitem__(buffer)
        lanes, pointer = self.stack.get(buffer, (0, None))
        if pointer is None or lanes != copies:
            self.ev.memory.allocate(buffer, elements, copies)
            self.stack[buffer] = (copies, self.ev.memory.pointers[buffer])
        return lambda: self.ev.memory.touch(buffer)

    def _written_registers(self, stmt: Stmt) -> list[Registers]:
        alive = self.ev.registers
        return [alive[b] for b in self.analysis.written[stmt] if b in alive]

    # ---------------------------------------------------------------------------------------------- loops

    def _for(self, s: For) -> None:
        extent = self.ev.value(s.extent)
        if s in self.idle:
            extent = self.builder.select(self._stores_something(self.idle[s]), extent, literal(0, dt.index), hoist=True)
        known = extent.const if type(extent.const) is int else None
        if s.kind is LoopKind.PARALLEL and self.threads is not None:
            return self._parallel(s, extent)
        if s.kind is LoopKind.VECTOR and known is None:
            raise InternalError(f"the vector loop over {s.var.name} needs a literal extent, got {s.extent}")
        if known is not None and (s.kind is LoopKind.UNROLL or known <= 1 or self._is_inner_vector(s)):
            for i in range(known):
                self.ev.bind(s.var, literal(i, dt.index))
                self.run(s.body)
            return None
        if s.kind is LoopKind.VECTOR:
            return self._vector(s, known or 0)
        if extent.lanes > 1:
            return self._divergent(s, extent)

        def body(stmt: Stmt) -> None:
            self.repeating.append(self.ev.env[s.var])
            self.run(stmt)
            self.repeating.pop()

        return self._loop(s, literal(0, dt.index), extent, body)

    def _stores_something(self, kinds: Touched) -> Value:
        """Whether all buffers of one of `kinds` have elements."""
        b, zero = self.builder, literal(0, dt.index)
        kept: list[Value] = []
        named = [sorted(buffers, key=lambda buffer: buffer.name) for buffers in kinds]
        for buffers in sorted(named, key=lambda buffers: [buffer.name for buffer in buffers]):
            extents = dict.fromkeys(e for buffer in buffers for e in buffer.shape if not isinstance(e, Const))
            some = [b.binary("icmp sgt", self.ev.value(e), zero, "i1", hoist=True) for e in extents]
            kept.append(reduce(lambda x, y: b.binary("and", x, y, hoist=True), some))
        return reduce(lambda x, y: b.binary("or", x, y, hoist=True), kept)

    def _is_inner_vector(self, s: For) -> bool:
        # The outer vector loop has the lanes; iterations of the inner one may as well follow each other.
        return s.kind is LoopKind.VECTOR and self.builder.lanes > 1

    def _vector(self, s: For, extent: int) -> None:
        self.builder.lanes = extent
        self.ev.bind(s.var, vector_constant(tuple(range(extent)), "i64"))
        self.run(s.body)
        self.builder.lanes = 1

    def _parallel(self, s: For, extent: Value) -> None:
        """This thread's share, [tid · extent / nt, (tid + 1) · extent / nt).

        Where a serial loop repeats it, every other time from the last to the first: what was used last is still in the
        cache. The order of iterations has no meaning.
        """
        assert self.threads is not None
        tid, nt = self.threads
        b = self.builder
        after = b.binary("add", tid, literal(1, dt.index), hoist=True)
        first, end = (b.binary("udiv", b.binary("mul", t, extent, hoist=True), nt, hoist=True) for t in (tid, after))
        if not self.repeating:
            return self._loop(s, first, end, self.run)
        odd = b.unary("trunc", self.repeating[-1], "i1", hoist=True)
        mirror = b.binary("sub", b.binary("add", first, end, hoist=True), literal(1, dt.index), hoist=True)

        def body(stmt: Stmt) -> None:
            up = self.ev.env[s.var]
            self.ev.bind(s.var, b.select(odd, b.binary("sub", mirror, up, hoist=True), up, hoist=True))
            self.run(stmt)

        return self._loop(s, first, end, body)

    def _divergent(self, s: For, extent: Value) -> None:
        """A loop whose extent differs between lanes: to the largest, each lane masked beyond its own."""
        rhs = f"call i64 @llvm.vector.reduce.smax.v{extent.lanes}i64(<{extent.lanes} x i64> {extent.text})"
        longest = self.builder.pure(rhs, "i64", 1, extent.level)

        def body(stmt: Stmt) -> None:
            inside = self.ev.arithmetic.binary(Op.LT, self.ev.env[s.var], extent, dt.index)
            self._masked(inside, stmt)

        self._loop(s, literal(0, dt.index), longest, body)

    def _loop(self, s: For, first: Value, end: Value, body: Callable[[Stmt], None]) -> None:
        b = self.builder
        surely = first.const is not None and end.const is not None
        pre = b.before_loop()
        loop, done = b.label("loop"), b.label("done")
        if surely:
            b.line(f"br label %{loop}")
        else:
            some = b.effect(f"icmp slt i64 {first.text}, {end.text}", "i1", 1)
            b.line(f"br i1 {some.text}, label %{loop}, label %{done}")
        before, counter = b.block, b.name()
        b.start(loop)
        phis: list[str] = []
        b.out.append(phis)
        b.open(pre)
        level = b.here - 1
        self.ev.bind(s.var, Value(counter, "i64", 1, level))
        old = self.phi_slots(s, level)
        body(s.body)
        following = b.effect(f"add nuw nsw i64 {counter}, 1", "i64", 1)
        more = b.effect(f"icmp slt i64 {following.text}, {end.text}", "i1", 1)
        b.line(f"br i1 {more.text}, label %{loop}, label %{done}")
        latch = b.block
        phis.append(f"{counter} = phi i64 [ {first.text}, %{before} ], [ {following.text}, %{latch} ]")
        self.end_phis(phis, old, before)
        b.close()
        b.start(done)
        if not surely:
            for registers, slots, _ in old:
                self._join(registers, [(slots, before), (registers.slots, latch)])

    def phi_slots(self, s: Stmt, level: int) -> Phis:
        """Replaces the slots that a loop writes by phis named here; forgets loads of memory that it writes."""
        for buffer in self.analysis.written[s]:
            if buffer in self.ev.memory.pointers:
                self.ev.memory.touch(buffer)
        result: Phis = []
        for registers in self._written_registers(s):
            names = [self.builder.name() for _ in registers.slots]
            result.append((registers, registers.slots, names))
            registers.slots = [Value(n, registers.ty, registers.width, level) for n in names]
        return result

    def end_phis(self, phis: list[str], old: Phis, before: str) -> None:
        """Writes the phis that `phi_slots` named, from the slots before the loop and those of the current block."""
        for registers, slots, names in old:
            for slot, name, new in zip(slots, names, registers.slots, strict=True):
                ends = f"[ {slot.text}, %{before} ], [ {new.text}, %{self.builder.block} ]"
                phis.append(f"{name} = phi {registers.slot_type} {ends}")

    def _join(self, registers: Registers, ends: Sequence[tuple[list[Value], str]]) -> None:
        """At the start of a block, with the slots at the end of each block before it: those that differ become phis."""
        blocks, joined = [block for _, block in ends], []
        for versions in zip(*(slots for slots, _ in ends), strict=True):
            one = versions[0]
            if any(v.text != one.text for v in versions):
                choices = ", ".join(f"[ {v.text}, %{block} ]" for v, block in zip(versions, blocks, strict=True))
                one = self.builder.effect(f"phi {registers.slot_type} {choices}", registers.ty, registers.width)
            joined.append(one)
        registers.slots = joined

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
        self._poll()
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

    def _poll(self) -> None:
        """Counts a turn of a loop, whichever it is, and asks every so often whether the call is to end."""
        b, polls = self.builder, self.ev.registers[POLLS]
        left = b.effect(f"sub i32 {polls.slots[0].text}, 1", "i32", 1)
        now = b.effect(f"icmp eq i32 {left.text}, 0", "i1", 1)
        ask, go = b.label("poll"), b.label("on")
        before = b.block
        b.line(f"br i1 {now.text}, label %{ask}, label %{go}, {RARELY}")
        b.start(ask)
        self.ask()
        asked = b.block
        b.line(f"br label %{go}")
        b.start(go)
        polls.slots = [b.effect(f"phi i32 [ {left.text}, %{before} ], [ {_TURNS}, %{asked} ]", "i32", 1)]

    # ---------------------------------------------------------------------------------------------- branches

    def _if(self, s: If) -> None:
        cond = self.ev.value(s.cond)
        if type(cond.const) is bool:
            chosen = s.then if cond.const else s.orelse
            if chosen is not None:
                self.run(chosen)
        elif cond.lanes > 1:
            self._masked(cond, s.then)
            if s.orelse is not None:
                self._masked(self.ev.negated(cond), s.orelse)
        else:
            self._branch(s, cond)

    def _masked(self, cond: Value, body: Stmt) -> None:
        """`body` in the lanes where `cond` holds."""
        outer = self.ev.mask
        mask = self.ev.both(outer, cond)
        if mask.const is not False:
            self.ev.mask = None if mask.const is True else mask
            self.run(body)
        self.ev.mask = outer

    def _branch(self, s: If, cond: Value) -> None:
        b = self.builder
        then, other, join = b.label("then"), b.label("else"), b.label("join")
        sides = [(then, s.then)] if s.orelse is None else [(then, s.then), (other, s.orelse)]
        falls = s.orelse is None
        self.sides(s, f"br i1 {cond.text}, label %{then}, label %{join if falls else other}", sides, join, falls=falls)

    def sides(self, s: Stmt, jump: str, sides: Sequence[tuple[str, Stmt]], join: str, *, falls: bool) -> None:
        """The sides of `s`, of which `jump` chooses one; falls: or none."""
        b, registers = self.builder, self._written_registers(s)
        before, old = b.block, [list(r.slots) for r in registers]
        b.line(jump)
        ends: list[tuple[str, list[list[Value]]]] = []
        for label, body in sides:
            for r, slots in zip(registers, old, strict=True):
                r.slots = list(slots)
            b.start(label)
            b.open()
            self.run(body)
            b.close()
            b.line(f"br label %{join}")
            ends.append((b.block, [list(r.slots) for r in registers]))
        if falls:
            ends.append((before, old))
        b.start(join)
        for n, r in enumerate(registers):
            self._join(r, [(slots[n], block) for block, slots in ends])

    def _check(self, s: Check) -> None:
        bad = self.ev.negated(self.ev.value(s.cond))
        if self.ev.mask is not None:
            bad = self.ev.both(self.ev.mask, bad)
        if bad.const is False:
            return
        if s.report is None:
            self.fail_if(self.builder.any_lane(bad), str(FIRST_CHECK + s.code))
        else:
            self._report(bad, s.report, str(FIRST_CHECK + s.code))

    def _report(self, bad: Value, report: Stmt, status: str) -> None:
        """Leaves the function with `status` where `bad` holds in a lane, after `report` in these lanes."""
        b, outer = self.builder, self.ev.mask
        some, telling, going = b.any_lane(bad), b.label("report"), b.label("go")
        b.line(f"br i1 {some.text}, label %{telling}, label %{going}")
        b.start(telling)
        b.open()
        self.ev.mask = None if bad.lanes == 1 else bad
        self.run(report)
        self.ev.mask = outer
        b.close()
        self.failures.append((status, b.block))
        b.line("br label %failed")
        b.start(going)

    def _barrier(self) -> None:
        """Waits for the other threads, if there are any; what they have stored is loaded anew."""
        if self.threads is None:
            raise InternalError("a barrier has no place in a host function")
        b, waiting, going = self.builder, self.builder.label("wait"), self.builder.label("go")
        several = b.effect(f"icmp sgt i64 {self.threads[1].text}, 1", "i1", 1)
        b.line(f"br i1 {several.text}, label %{waiting}, label %{going}")
        b.start(waiting)
        call, service = self._service_of_call("barrier")
        b.line(f"call void {service}(ptr {call}, i64 {self.threads[1].text})")
        b.line(f"br label %{going}")
        b.start(going)
        for buffer in self.ev.memory.pointers:
            self.ev.memory.touch(buffer)

    def ask(self) -> None:
        """Leaves the function if the call is to end."""
        call, service = self._service_of_call("poll")
        self.run_service(f"{service}(ptr {call})")

    def _service_of_call(self, name: str) -> tuple[str, str]:
        """The call that the kernel is a part of, and one of its services."""
        b = self.builder
        place = b.effect(f"getelementptr i8, ptr %args, i64 {8 * self.words}", "ptr", 1)
        call = b.effect(f"load ptr, ptr {place.text}, align 8", "ptr", 1)
        services = b.effect(f"load ptr, ptr {call.text}, align 8", "ptr", 1)
        slot = b.effect(f"getelementptr i8, ptr {services.text}, i64 {SERVICES[name]}", "ptr", 1)
        return call.text, b.effect(f"load ptr, ptr {slot.text}, align 8", "ptr", 1).text

    def run_service(self, callee: str) -> None:
        """Calls something that returns a status, and leaves the function unless it is 0."""
        b = self.builder
        status = b.effect(f"call i32 {callee}", "i32", 1)
        self.fail_if(b.effect(f"icmp ne i32 {status.text}, 0", "i1", 1), status.text)

    def fail_if(self, bad: Value, status: str) -> None:
        """Leaves the function with `status` where the i1 `bad` holds."""
        b = self.builder
        going = b.label("go")
        self.failures.append((status, b.block))
        b.line(f"br i1 {bad.text}, label %failed, label %{going}")
        b.start(going)

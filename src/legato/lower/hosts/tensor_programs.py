"""Tensor programs that somebody wrote and `call_tir` calls: made safe, and what their callers must know of each."""

from __future__ import annotations

from collections.abc import Iterable

from legato.arith.expr import const
from legato.base.errors import UnsupportedError
from legato.base.node import transform
from legato.lower.facts import kernel_facts
from legato.lower.hosts.program import HostProgram, Written
from legato.tir.buffer import Buffer
from legato.tir.prove_access import prove_accesses
from legato.tir.schedule._cover import stores_all
from legato.tir.scratch import with_scratch
from legato.tir.sealed import filled, sealed
from legato.tir.stmt import Check, Func, LoopKind, Stmt, block

__all__ = ["add_written", "zeros"]


def add_written(program: HostProgram, kernels: Iterable[Func]) -> None:
    """Gives `program` the kernels that somebody wrote."""
    for original in kernels:
        strange = [p.name for p in original.params if isinstance(p, Buffer) and not p.layout.is_row_major]
        if strange:
            hint = "what is passed to a tensor program is dense, the last dimension innermost"
            raise UnsupportedError(
                f"{strange[0]} of @{original.name} has a layout of its own", span=original.span, hint=hint
            )
        func, scratch = with_scratch(sealed(original))
        func = _with_codes(func, program)
        unproven = frozenset(f.key for f in prove_accesses(func) if f.reason is not None)
        program.written[func.name] = Written(original, func, scratch, _cleared(func), unproven)
        program.kernels[func.name] = func
        program.facts[func.name] = kernel_facts(func, program.target)


def _with_codes(func: Func, program: HostProgram) -> Func:
    """`func` with checks that are numbered as those of the program."""

    def step(s: Stmt) -> Stmt | None:
        if not isinstance(s, Check):
            return None
        message = s.message or f"{func.name}: check {s.code} failed"
        return Check(s.cond, program.check(message), message, s.report)

    return func.with_body(transform(func.body, step))


def _cleared(func: Func) -> frozenset[int]:
    """The buffers of which the kernel may not store all, or read some before; inputs, too."""
    buffers = [p for p in func.params if isinstance(p, Buffer)]
    return frozenset(n for n, b in enumerate(buffers) if not stores_all(func.body, b))


def zeros(program: HostProgram, written: Written, number: int) -> str:
    """The name of the kernel that fills buffer `number` of a kernel with zeros; it takes that buffer and the dims."""
    func = written.func
    buffers = [p for p in func.params if isinstance(p, Buffer)]
    key = f"zeros {number} of {func.name}"
    if key not in program.fills:
        name = program.fills[key] = program.new_name("zeros")
        buffer = buffers[number]
        body = filled(buffer, const(0, buffer.dtype), LoopKind.PARALLEL)
        fill = Func(name, (buffer, *func.params[len(buffers) :]), block(body))
        program.kernels[name] = fill
        program.facts[name] = kernel_facts(fill, program.target)
    return program.fills[key]

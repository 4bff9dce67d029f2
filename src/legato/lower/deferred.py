"""Outputs that a call may write while it can still fail.

A dim that is computed is checked where it is computed, and outputs may have been written by then. Memory that a caller
gives for such an output is to be written when the call has succeeded: the runtime has the output computed elsewhere.
Which these are is decided here, from what runs behind what, once for all calls. An interrupt, which ends any call
anywhere, does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from legato.base.dataclass import dataclass
from legato.base.graph import components
from legato.lower.hosts.program import HostProgram
from legato.runtime.outside import PackedCall
from legato.tir.buffer import Buffer, Scope
from legato.tir.objects import Object, Resize
from legato.tir.stmt import Alloc, Block, Check, For, Func, HostOp, Invoke, Launch, Stmt, View, While
from legato.tir.walk import buffers_written, statements

__all__ = ["called", "why_deferred"]

_ACCESS = "an access outside of its buffer"
_DEPTH = "calls that nest too deeply"
_MEMORY = "out of memory"
_RESULTS = "results that are objects, which are read at the end"


def why_deferred(program: HostProgram, name: str, outputs: Sequence[int], *, has_results: bool) -> dict[int, str]:
    """Which of the `outputs`, positions among the parameters of host function `name`, a call may write before it fails,
    each with what it may fail for. has_results: the function gives objects, too.
    """
    if has_results:
        return dict.fromkeys(outputs, _RESULTS)
    functions = _reached(program, name)
    reasons = _Reasons.of(program, functions)
    if name not in reasons.failing:
        return {}
    bodies = {f: _Body.of(func.body, reasons) for f, func in functions.items()}
    found = {n: _why_deferred(functions, bodies, name, n) for n in outputs}
    return {n: reason for n, reason in found.items() if reason is not None}


def _why_deferred(functions: Mapping[str, Func], bodies: Mapping[str, _Body], name: str, position: int) -> str | None:
    """What a call of `name` may fail for when it has written to the parameter at `position`."""
    todo, met = [(name, position)], {(name, position)}
    while todo:
        at, n = todo.pop()
        param = functions[at].params[n]
        assert isinstance(param, Buffer)
        for stmt, places in bodies[at].writing(param):
            if stmt in bodies[at].behind:
                return bodies[at].behind[stmt]
            inner = [(stmt.func, k) for k in places] if isinstance(stmt, Invoke) else []
            todo += [key for key in inner if key not in met]
            met.update(inner)
    return None


@dataclass(frozen=True, slots=True)
class _Body:
    """The statements of a function, outer before inner, and what may fail behind those that something follows."""

    order: list[Stmt]
    behind: dict[Stmt, str]

    @staticmethod
    def of(root: Stmt, reasons: _Reasons) -> _Body:
        """That of a function; `reasons` say what a statement may fail for, without those inside."""
        order = list(statements(root))
        inside: dict[Stmt, str] = {}
        for stmt in reversed(order):
            reason = reasons.why(stmt) or next((inside[c] for c in stmt.children() if c in inside), None)
            if reason is not None:
                inside[stmt] = reason
        behind: dict[Stmt, str] = {}
        for stmt in order if inside else ():
            if stmt in inside and reasons.may_have_stored(stmt):
                behind[stmt] = inside[stmt]
            after = behind.get(stmt)
            if isinstance(stmt, For | While):
                after = inside.get(stmt.body, after)  # the next turn
            for child in reversed(stmt.children()):
                if after is not None:
                    behind[child] = after
                if isinstance(stmt, Block):
                    after = inside.get(child, after)
        return _Body(order, behind)

    def writing(self, buffer: Buffer) -> Iterator[tuple[Stmt, list[int]]]:
        """The statements that may write to `buffer`, under any name; of calls, which arguments have it."""
        names = {buffer}
        for stmt in self.order:
            if isinstance(stmt, View) and stmt.base in names:
                names.add(stmt.buffer)
            elif not stmt.children() and not names.isdisjoint(buffers_written(stmt)):
                args = stmt.args if isinstance(stmt, Invoke) else ()
                yield stmt, [n for n, a in enumerate(args) if a in names]


def _reached(program: HostProgram, name: str) -> dict[str, Func]:
    """The host functions that a call of one runs."""
    found: dict[str, Func] = {}
    todo = [name]
    while todo:
        at = todo.pop()
        if at not in found:
            found[at] = program.functions[at]
            todo += called(found[at])
    return found


def called(func: Func) -> list[str]:
    """The host functions that one calls."""
    return [s.func for s in statements(func) if isinstance(s, Invoke)]


@dataclass(frozen=True, slots=True)
class _Reasons:
    """What statements of a program may fail for; `failing` are the kernels and host functions that may."""

    program: HostProgram
    failing: dict[str, str]

    @staticmethod
    def of(program: HostProgram, functions: Mapping[str, Func]) -> _Reasons:
        """Those of `functions`, which call no others, and of all kernels."""
        found = _Reasons(program, {})
        for kernel in program.kernels if program.tests else program.written:  # no other kernel has a check
            found._note(program.kernels[kernel])
        calls = {name: called(func) for name, func in functions.items()}
        for together in components(calls):
            if len(together) > 1 or together[0] in calls[together[0]]:
                found.failing.update(dict.fromkeys(together, _DEPTH))
            else:
                found._note(functions[together[0]])
        return found

    def _note(self, func: Func) -> None:
        reason = next(filter(None, map(self.why, statements(func))), None)
        if reason is not None:
            self.failing[func.name] = reason

    def why(self, stmt: Stmt) -> str | None:
        """What `stmt` may fail for, without the statements inside; None if it cannot."""
        match stmt:
            case Check():
                checks = self.program.checks
                return checks[stmt.code] if stmt.code < len(checks) else _ACCESS
            case Object() | Resize():
                return _MEMORY
            case Alloc():
                return _MEMORY if stmt.buffer.scope is Scope.GLOBAL else None
            case HostOp():
                return self.program.host_ops[stmt.op].why
            case Launch():
                return self.failing.get(stmt.kernel)
            case Invoke():
                return self.failing.get(stmt.func)
            case _:
                return None

    def may_have_stored(self, stmt: Stmt) -> bool:
        """Whether `stmt` may have stored something by the time that it fails: a kernel, and what fills tensors."""
        is_outside = isinstance(stmt, HostOp) and isinstance(self.program.host_ops[stmt.op].attrs, PackedCall)
        return is_outside or isinstance(stmt, Launch)

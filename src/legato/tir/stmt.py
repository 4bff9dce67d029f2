"""The loop-level language: kernels and host functions.

    func = Func(name, params, body, kind)                 kind: KERNEL | HOST; params: Buffer | Var (index scalars)
    stmt = Block(stmts)
         | For(var, extent, body, kind)                   var runs over [0, extent); kind: SERIAL UNROLL VECTOR PARALLEL
         | If(cond, then, orelse)
         | Let(var, value, body)                          a scalar, evaluated once
         | Alloc(buffer, body)                            the buffer lives while body runs; contents undefined at first
         | Store(buffer, indices, value)
         | Check(cond, code, report)                      leaves the function with a status unless cond holds,
                                                          having run report, if there is one
         | Prefetch(buffer, indices)                      buffer[indices] is wanted soon: a hint, it may lie outside
         | Barrier()                                      threads wait here for each other (kernels)
         | While(cond, body)                              runs body while cond holds, which may be for ever
      host functions only (those of objects are in `tir.objects`):
         | View(buffer, base, offset, body)               buffer names the bytes of `base` from byte `offset` on
         | Launch(kernel, args)                           runs a kernel over the thread pool; args as its params
         | Invoke(func, args)                             calls another host function
         | HostOp(index, args)                            runs operator `index` of the artifact by its reference
         | Object(buffer, tag, pointers, body)            a new object; buffer names its payload while body runs
         | Open(buffer, handle, body)                     buffer names the payload of an object while body runs
         | Resize(buffer, handle, body)                   the same of the object that it becomes with another size
         | Retain(handle) | Release(handle)               one reference more, one less
         | Switch(value, cases, default)                  runs the case of this number, or default if there is none

Meaning of loop kinds: SERIAL runs in order. UNROLL is SERIAL that code generation expands. VECTOR has a literal extent
and iterations that do not depend on each other: one vector lane each; an If inside becomes a mask. PARALLEL iterations
are independent and are divided among the threads, [tid·n/nt, (tid+1)·n/nt); it may not be nested in another PARALLEL.
A kernel either has no PARALLEL loop (it then runs on one thread) or does all its stores inside one. Every thread does
what is outside of them; a Barrier there makes what all have stored before known to all.

Nodes are immutable and compared by identity. `tir.interp` defines the meaning.
"""

from __future__ import annotations

import enum
from collections.abc import MutableMapping
from typing import Any, Final

from legato.arith.expr import Expr, Var
from legato.base.dataclass import dataclass
from legato.base.scripts import print_script, script_of
from legato.base.span import Span
from legato.tir.buffer import Buffer

__all__ = ["FIRST_CHECK", "Alloc", "Barrier", "Block", "Check", "For", "Func", "FuncKind", "HostOp", "If", "Invoke",
           "Launch", "Let", "LoopKind", "Param", "Prefetch", "Stmt",
           "Store", "Switch", "View", "While", "block"]  # fmt: skip


class LoopKind(enum.Enum):
    """How the iterations of a For run."""

    SERIAL = "for"
    UNROLL = "unroll"
    VECTOR = "vector"
    PARALLEL = "parallel"


class FuncKind(enum.Enum):
    """What calls a function: the thread pool (KERNEL) or a host function or the runtime (HOST)."""

    KERNEL = "kernel"
    HOST = "host"


Param = Buffer | Var
FIRST_CHECK: Final = 256  # LG_CHECK of the runtime's header


class Stmt:
    """A statement; see the module's grammar. `children` are sub-statements, `exprs` the scalar operands."""

    __slots__ = ()

    def children(self) -> tuple[Stmt, ...]:
        return ()

    def with_children(self, children: tuple[Stmt, ...]) -> Stmt:
        return self

    def exprs(self) -> tuple[Expr, ...]:
        return ()

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return self

    def __str__(self) -> str:
        from legato.tir.printer import show_stmt  # the printer walks the classes defined here

        return show_stmt(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Block(Stmt):
    """Statements in order; build with `block`."""

    stmts: tuple[Stmt, ...]

    def children(self) -> tuple[Stmt, ...]:
        return self.stmts

    def with_children(self, children: tuple[Stmt, ...]) -> Stmt:
        return block(*children)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class For(Stmt):
    """`for var in 0..extent`."""

    var: Var
    extent: Expr
    body: Stmt
    kind: LoopKind = LoopKind.SERIAL

    def children(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def with_children(self, children: tuple[Stmt, ...]) -> Stmt:
        return For(self.var, self.extent, children[0], self.kind)

    def exprs(self) -> tuple[Expr, ...]:
        return (self.extent,)

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return For(self.var, exprs[0], self.body, self.kind)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class If(Stmt):
    """`if cond then … else …`."""

    cond: Expr
    then: Stmt
    orelse: Stmt | None = None

    def children(self) -> tuple[Stmt, ...]:
        return (self.then,) if self.orelse is None else (self.then, self.orelse)

    def with_children(self, children: tuple[Stmt, ...]) -> Stmt:
        return If(self.cond, *children)

    def exprs(self) -> tuple[Expr, ...]:
        return (self.cond,)

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return If(exprs[0], self.then, self.orelse)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Let(Stmt):
    """`var = value` while body runs."""

    var: Var
    value: Expr
    body: Stmt

    def children(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def with_children(self, children: tuple[Stmt, ...]) -> Stmt:
        return Let(self.var, self.value, children[0])

    def exprs(self) -> tuple[Expr, ...]:
        return (self.value,)

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return Let(self.var, exprs[0], self.body)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Alloc(Stmt):
    """Memory for `buffer` while body runs: the workspace (host, GLOBAL), the stack (LOCAL) or registers."""

    buffer: Buffer
    body: Stmt

    def children(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def with_children(self, children: tuple[Stmt, ...]) -> Stmt:
        return Alloc(self.buffer, children[0])


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Store(Stmt):
    """`buffer[indices] = value`."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr

    def exprs(self) -> tuple[Expr, ...]:
        return (*self.indices, self.value)

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return Store(self.buffer, exprs[:-1], exprs[-1])


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Check(Stmt):
    """Leaves the function with status FIRST_CHECK + `code` unless `cond` holds; `message` explains it to the user.

    `report` is run before that, and only then: it stores what the message tells. In a vector loop it is run in the
    lanes where `cond` does not hold.
    """

    cond: Expr
    code: int
    message: str = ""
    report: Stmt | None = None

    def children(self) -> tuple[Stmt, ...]:
        return () if self.report is None else (self.report,)

    def with_children(self, children: tuple[Stmt, ...]) -> Stmt:
        return Check(self.cond, self.code, self.message, *children)

    def exprs(self) -> tuple[Expr, ...]:
        return (self.cond,)

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return Check(exprs[0], self.code, self.message, self.report)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Prefetch(Stmt):
    """Says that `buffer[indices]` will be read soon: it is brought near. A place outside the buffer does no harm."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    def exprs(self) -> tuple[Expr, ...]:
        return self.indices

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return Prefetch(self.buffer, exprs)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Barrier(Stmt):
    """No thread goes on before all have come here; what they stored before is then seen by all."""


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class While(Stmt):
    """Runs body while cond holds."""

    cond: Expr
    body: Stmt

    def children(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def with_children(self, children: tuple[Stmt, ...]) -> Stmt:
        return While(self.cond, children[0])

    def exprs(self) -> tuple[Expr, ...]:
        return (self.cond,)

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return While(exprs[0], self.body)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class View(Stmt):
    """`buffer` names the memory of `base` from byte `offset` on, while body runs (host)."""

    buffer: Buffer
    base: Buffer
    offset: Expr
    body: Stmt

    def children(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def with_children(self, children: tuple[Stmt, ...]) -> Stmt:
        return View(self.buffer, self.base, self.offset, children[0])

    def exprs(self) -> tuple[Expr, ...]:
        return (self.offset,)

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return View(self.buffer, self.base, exprs[0], self.body)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Switch(Stmt):
    """Runs the case whose number `value` (int32 or index) is; `default`, or nothing, if there is none (host)."""

    value: Expr
    cases: tuple[tuple[int, Stmt], ...]
    default: Stmt | None = None

    def children(self) -> tuple[Stmt, ...]:
        return (*(s for _, s in self.cases), *(() if self.default is None else (self.default,)))

    def with_children(self, children: tuple[Stmt, ...]) -> Stmt:
        cases = tuple((n, s) for (n, _), s in zip(self.cases, children, strict=False))
        return Switch(self.value, cases, None if self.default is None else children[-1])

    def exprs(self) -> tuple[Expr, ...]:
        return (self.value,)

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return Switch(exprs[0], self.cases, self.default)


Arg = Buffer | Expr


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class _CallStmt(Stmt):
    """A call whose arguments are buffers (passed as pointers) and scalars (index; handles), as the callee's params."""

    args: tuple[Arg, ...]

    def exprs(self) -> tuple[Expr, ...]:
        return tuple(a for a in self.args if isinstance(a, Expr))

    def _new_args(self, exprs: tuple[Expr, ...]) -> tuple[Arg, ...]:
        left = iter(exprs)
        return tuple(next(left) if isinstance(a, Expr) else a for a in self.args)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Launch(_CallStmt):
    """Runs kernel `kernel` over the thread pool and waits for it (host)."""

    kernel: str

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return Launch(self._new_args(exprs), self.kernel)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Invoke(_CallStmt):
    """Calls host function `func` (host)."""

    func: str

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return Invoke(self._new_args(exprs), self.func)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class HostOp(_CallStmt):
    """Runs operator number `op` of the artifact's table by its reference, outside native code (host)."""

    op: int

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return HostOp(self._new_args(exprs), self.op)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Func:
    """A kernel or host function. `constants` are buffers bound to named constants of the module (host functions)."""

    name: str
    params: tuple[Param, ...]
    body: Stmt
    kind: FuncKind = FuncKind.KERNEL
    constants: tuple[tuple[Buffer, str], ...] = ()
    span: Span | None = None

    def with_body(self, body: Stmt) -> Func:
        """This function with another body; the same object where it is the same."""
        if body is self.body:
            return self
        return Func(self.name, self.params, body, self.kind, self.constants, self.span)

    def script(self, constants: MutableMapping[str, Any] | None = None) -> str:
        """This function as a script; see `legato.script.show`."""
        return script_of(self, constants)

    def show(self) -> None:
        """Prints this function as a script: in colours on a terminal."""
        print_script(self)

    def __str__(self) -> str:
        from legato.tir.printer import show  # the printer walks the classes defined here

        return show(self)

    def __repr__(self) -> str:
        return f"<{self.kind.value} @{self.name}>"


def block(*stmts: Stmt) -> Stmt:
    """Statements in order: nested blocks are flattened, a single statement stays itself."""
    flat: list[Stmt] = []
    for s in stmts:
        flat += s.stmts if isinstance(s, Block) else (s,)
    return flat[0] if len(flat) == 1 else Block(tuple(flat))

"""Functions whose accesses are tested when they run: the bounds-checked build.

    y[i] = x[k[i]]       =>      check 0 <= i and i < n else 7 { report[0] = 0; report[1] = i; … }       of k
                                 check 0 <= k[i] and k[i] < m else 8 { … }                               of x
                                 check …                                                                 of y
                                 y[i] = x[k[i]]

Every Load and Store is tested, along each dimension, against the buffer that it names, halo included; in the lanes and
under the conditions in which it happens; in memory of every scope. So are the bytes that a View takes of another
buffer, the payload that an Open finds, and the sizes of what a call is given; and that what a kernel stores for others
depends on nothing undefined (`tir.defined`). A Prefetch is not tested: it may lie outside.

What fails ends the call. Before that it stores its number, the subscripts and the limits into `report`, the last
parameter of every function here. The tests of a program are numbered behind its own checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Final

from legato.arith.expr import Expr, Var, const, eq, land, le, lnot, lt, select
from legato.arith.substitute import substitute
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.base.node import transform
from legato.tir.accesses import Access, Guard, accesses, limits
from legato.tir.buffer import Buffer
from legato.tir.defined import Definedness
from legato.tir.expr import Size, cast
from legato.tir.objects import Open
from legato.tir.stmt import Check, For, Func, FuncKind, HostOp, If, Invoke, Launch, Let, Stmt, Store, View, While, block
from legato.tir.stored import Outputs, marked

__all__ = ["WORDS", "AccessTest", "AccessTests", "checked"]

_NO_FUNCTIONS: Final[Mapping[str, Func]] = MappingProxyType({})
WORDS = 17  # of the report: the number of a test, and what its message tells
_TRUE, _FALSE = const(True, dt.bool_), const(False, dt.bool_)

Wanted = Callable[[Access], bool]


@dataclass(frozen=True, slots=True)
class AccessTest:
    """What one test says when it fails: `{0}`, `{1}` … stand for what it reports. `is_ours`: of code that was
    generated, not of a program that somebody wrote."""

    message: str
    is_ours: bool


@dataclass(slots=True)
class AccessTests:
    """The tests of a program; `first` is the code of the first one."""

    first: int
    found: list[AccessTest] = field(default_factory=list)

    def add(self, test: AccessTest) -> int:
        """The number of a new test."""
        self.found.append(test)
        return len(self.found) - 1


def checked(
    func: Func,
    tests: AccessTests,
    functions: Mapping[str, Func],
    *,
    wanted: Wanted | None = None,
    complete: Mapping[str, Func] = _NO_FUNCTIONS,
    shared: Sequence[tuple[int, int]] = (),
    is_ours: bool = True,
) -> Func:
    """`func` with tests, whose messages join `tests`, and one parameter more.

    `functions` are those that are to be given the report, as they were before. `wanted` says which accesses are tested
    (None: all, and what is not an access, too). `complete` are the kernels that have to store all of their outputs;
    `shared` are places of parameters that may be the same memory.
    """
    report = Buffer("report", (const(WORDS),), dt.int64)
    says = Definedness.of(func) if wanted is None else Definedness()
    outputs = Outputs.of(func, complete, shared) if func.kind is FuncKind.HOST else Outputs({})
    made = _Tester(func, tests, functions, report, wanted, is_ours, says, outputs)
    body = transform(func.body, made.step)
    return Func(func.name, (*func.params, report), body, func.kind, func.constants, func.span)


@dataclass(slots=True)
class _Tester:
    func: Func
    tests: AccessTests
    functions: Mapping[str, Func]
    report: Buffer
    wanted: Wanted | None
    is_ours: bool
    says: Definedness
    outputs: Outputs

    def step(self, s: Stmt) -> Stmt | None:
        """`s`, whose parts are done, behind its tests."""
        before = self._before(s)
        if self.wanted is None:
            s = self.says.step(s)
        if isinstance(s, While):
            s = While(s.cond, block(s.body, self._behind(s.body, s)))
        elif isinstance(s, Launch | Invoke) and (s.kernel if isinstance(s, Launch) else s.func) in self.functions:
            args = (*s.args, self.report)
            if isinstance(s, Launch):
                s = marked(s, Launch(args, s.kernel), self.outputs, partial(self._stored, s.kernel))
            else:
                s = Invoke(args, s.func)
        return before.around(s)

    def _stored(self, kernel: str, cond: Expr, out: Buffer, at: Sequence[Var]) -> Stmt:
        """The test that a kernel has stored to an element of an output."""
        found = _Prefix()
        place = ", ".join(f"{{{n}}}" for n in range(out.rank))
        self._test(cond, f"is left by {kernel} with nothing in {out.name}[{place}]", at, found)
        return found.around(block())

    def _behind(self, body: Stmt, loop: While) -> Stmt:
        """The tests of a loop's condition before the next turn."""
        return self._before(loop).around(block())

    def _before(self, s: Stmt) -> _Prefix:
        """The tests of `s` itself."""
        found = _Prefix()
        for access in accesses(s):
            if self.wanted is None or self.wanted(access):
                self._access(access, found)
        if self.wanted is None:
            self._memory(s, found)
            self._defined(s, found)
        return found

    def _access(self, a: Access, found: _Prefix) -> None:
        inside: Expr = _TRUE
        values: list[Expr] = []
        for index, (low, end) in zip(a.indices, limits(a.buffer), strict=True):
            inside = land(inside, land(le(const(low), index), lt(index, end)))
            values += (index, end)
        what = "stores to" if a.is_store else "reads"
        place = ", ".join(f"{{{2 * d}}}" for d in range(a.buffer.rank))
        extents = ", ".join(
            f"{low}..{{{2 * d + 1}}}" if low else f"{{{2 * d + 1}}}" for d, (low, _) in enumerate(limits(a.buffer))
        )
        message = f"{what} {a.buffer.name}[{place}], whose extents are [{extents}]"
        self._test(inside, message, values, found, found.guard(a.guard))

    def _defined(self, s: Stmt, found: _Prefix) -> None:
        """The tests that `s` decides on nothing undefined, and stores nothing such for others."""
        match s:
            case Store(buffer, indices, value) if buffer not in self.says.buffers:
                place = ", ".join(f"{{{n}}}" for n in range(buffer.rank))
                message = f"stores to {buffer.name}[{place}] what depends on memory that nothing has stored to"
                self._test(self.says.defined(value), message, indices, found)
            case If() | For() | Check():
                message = "decides on what depends on memory that nothing has stored to"
                self._test(self.says.defined(s.exprs()[0]), message, (), found)
            case _:
                pass

    def _memory(self, s: Stmt, found: _Prefix) -> None:
        """The tests of memory that gets another name."""
        match s:
            case View(buffer, base, offset, _):
                end = offset + _bytes(buffer)
                inside = land(le(const(0), offset), le(end, _bytes(base)))
                message = f"takes {buffer.name} to be bytes {{0}} to {{1}} of {base.name}, which has {{2}}"
                self._test(inside, message, [offset, end, _bytes(base)], found)
            case Open(buffer, handle, _):
                need, size = _bytes(buffer), Size(handle)
                message = f"takes {buffer.name} to have {{0}} bytes, and the object has {{1}}"
                self._test(le(need, size), message, [need, size], found)
            case Launch(args, name) | Invoke(args, name):
                self._call(args, name, found)
            case HostOp(args, number):
                self._host_op(args, number, found)
            case _:
                pass

    def _host_op(self, args: Sequence[Buffer | Expr], number: int, found: _Prefix) -> None:
        """An operator that is run by its reference is given dense buffers, and then the extents of each."""
        extents = iter([a for a in args if isinstance(a, Expr)])
        for b in [a for a in args if isinstance(a, Buffer)]:
            if not b.layout.is_row_major:
                raise InternalError(f"operator {number} is given {b}, which is not dense")
            given = list(islice(extents, b.rank))
            for n, (extent, held) in enumerate(zip(given, b.shape, strict=True)):
                message = f"gives operator {number} {{0}} as extent {n} of {b.name}, which is {{1}}"
                self._test(eq(extent, held), message, [extent, held], found)

    def _call(self, args: Sequence[Buffer | Expr], name: str, found: _Prefix) -> None:
        callee = self.functions[name]
        values = {p: a for p, a in zip(callee.params, args, strict=True) if isinstance(p, Var) and isinstance(a, Expr)}
        for p, a in zip(callee.params, args, strict=True):
            if isinstance(p, Buffer) and isinstance(a, Buffer):
                need, size = substitute(_bytes(p), values), _bytes(a)
                message = f"gives {name} {{1}} bytes, {a.name}, for {p.name}, of which it uses {{0}}"
                self._test(le(need, size), message, [need, size], found)

    def _test(
        self, inside: Expr, message: str, values: Sequence[Expr], found: _Prefix, guard: Var | None = None
    ) -> None:
        if inside is _TRUE:
            return
        number = self.tests.add(AccessTest(f"{self.func.kind.value} {self.func.name} {message}", self.is_ours))
        told = [const(number, dt.int64), *(cast(v, dt.int64) for v in values)][:WORDS]
        row = [Store(self.report, (const(n),), v) for n, v in enumerate(told)]
        cond = inside if guard is None else select(guard, inside, _TRUE)
        found.items.append(Check(cond, self.tests.first + number, "", block(*row)))


@dataclass(slots=True)
class _Prefix:
    """What comes before a statement: tests, and conditions that they need by name."""

    items: list[Stmt | tuple[Var, Expr]] = field(default_factory=list)
    names: dict[Guard, Var] = field(default_factory=dict)

    def guard(self, guard: Guard | None) -> Var | None:
        """The name of a condition."""
        new: list[Guard] = []
        at = guard
        while at is not None and at not in self.names:
            new.append(at)
            at = at.outer
        for g in reversed(new):
            cond = g.cond if g.holds else lnot(g.cond)
            value = cond if g.outer is None else select(self.names[g.outer], cond, _FALSE)
            self.names[g] = Var("guard", dt.bool_)
            self.items.append((self.names[g], value))
        return None if guard is None else self.names[guard]

    def around(self, s: Stmt) -> Stmt:
        """`s` with all that before it."""
        for item in reversed(self.items):
            s = block(item, s) if isinstance(item, Stmt) else Let(*item, s)
        return s


def _bytes(buffer: Buffer) -> Expr:
    return buffer.elements() * buffer.dtype.bytes

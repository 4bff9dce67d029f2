"""What every loop program must satisfy.

* Scopes: a variable or buffer is used only where a parameter, constant or enclosing statement binds it, also in shapes
  of buffers bound here; each is bound once in a function.
* Dtypes: loops, extents, subscripts, offsets and scalar arguments are index; conditions are bool; a stored or let-bound
  value has the dtype of its place; subscripts are as many as dimensions; intrinsics exist.
* Parameters are GLOBAL buffers and index scalars, in host functions handles too. A register buffer has a literal shape.
* A VECTOR loop has a literal extent. PARALLEL loops occur in kernels, not inside each other, a VECTOR loop or a While,
  whose turns threads might not count alike. A kernel
  that has one stores to GLOBAL memory only inside one, stores there to no LOCAL memory of outside, and reads in no
  PARALLEL loop what another one writes without a Barrier in between (threads do not wait for each other).
* A Barrier is met by all threads equally often: it is in a kernel that has no Check, in no If and no PARALLEL or VECTOR
  loop, and the extents of the loops around it depend on nothing that the kernel writes.
* View, Launch, Invoke, HostOp, Switch and what has to do with objects occur in host functions; so do Allocs of
  GLOBAL memory once scheduling is done. A buffer of dtype handle is dense. The payload of an object is GLOBAL, and
  of a literal size that holds its pointers, if it has any; an Address is of a payload, or compared. Nothing is
  computed from handles. None of these statements, and no While, stands in a VECTOR loop.

Whether accesses are in bounds is not checked here: `prove_access` shows it, `bounds` tests it when a function runs, and
`interp` does on concrete arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import VerifyError
from legato.base.node import post_order
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Address, Call, Cast, Load, Size, Tag
from legato.tir.intrinsics import INTRINSICS
from legato.tir.objects import Object, Open, Release, Resize, Retain
from legato.tir.printer import show_stmt
from legato.tir.stmt import (
    Alloc,
    Barrier,
    Block,
    Check,
    For,
    Func,
    FuncKind,
    HostOp,
    If,
    Invoke,
    Launch,
    Let,
    LoopKind,
    Prefetch,
    Stmt,
    Store,
    Switch,
    View,
    While,
)
from legato.tir.walk import BINDERS, buffers_read, buffers_written, loads, loops, statements

__all__ = ["may_meet", "verify", "verify_all"]

_OBJECTS = (Object, Open, Resize, Retain, Release)
_HOST_ONLY = (View, Launch, Invoke, HostOp, Switch, *_OBJECTS)
_MOST = 65535  # tag and pointers of an object are 16 bits each


def verify_all(functions: Mapping[str, Func], *, final: bool = False) -> None:
    """Raises VerifyError unless every function is well-formed and every call fits its target."""
    for func in functions.values():
        verify(func, functions, final=final)


def verify(func: Func, functions: Mapping[str, Func] | None = None, *, final: bool = False) -> None:
    """Raises VerifyError unless `func` is well-formed; with `functions`, unless its calls fit what they call, too.

    `final` adds what code generation needs: a kernel allocates LOCAL and REGISTER memory only, of literal shape.
    """
    _Verifier(func, functions, final).run()


@dataclass(slots=True)
class _Verifier:
    """A walk with the statements around (`path`) and what is bound there (`scope`)."""

    func: Func
    functions: Mapping[str, Func] | None
    final: bool
    scope: set[Var | Buffer] = field(default_factory=set)
    bound: set[Var | Buffer] = field(default_factory=set)
    path: list[Stmt] = field(default_factory=list)
    payloads: set[Buffer] = field(default_factory=set)  # buffers bound by Object, Open and Resize
    vectors: int = 0  # VECTOR loops around

    def run(self) -> None:
        wanted = (dt.index, dt.handle) if self.func.kind is FuncKind.HOST else (dt.index,)
        for p in self.func.params:
            self.bind(p)
            if isinstance(p, Var) and p.dtype not in wanted:
                raise self.error(f"parameter {p.name} has dtype {p.dtype}, wanted {' or '.join(map(str, wanted))}")
        for buffer, _ in self.func.constants:
            self.bind(buffer)
        for p in [*self.func.params, *(b for b, _ in self.func.constants)]:
            if isinstance(p, Buffer):
                self.buffer(p)
                if p.scope is not Scope.GLOBAL:
                    raise self.error(f"parameter {p.name} is a {p.scope.value} buffer, wanted a global one")
        self.walk()
        if self.func.kind is FuncKind.KERNEL:
            self.parallel_loops()

    def walk(self) -> None:
        todo: list[tuple[Stmt, bool]] = [(self.func.body, False)]
        while todo:
            s, done = todo.pop()
            if done:
                self.path.pop()
                self.unbind(s)
                continue
            self.path.append(s)
            self.enter(s)
            todo.append((s, True))
            todo += [(child, False) for child in reversed(s.children())]

    def error(self, message: str) -> VerifyError:
        where = [f"in {self.func.kind.value} @{self.func.name}"]
        if self.path:
            where.append(f"at {_head(self.path[-1])}")
        return VerifyError(message, span=self.func.span, details=where)

    # Names

    def bind(self, named: Var | Buffer) -> None:
        if named in self.bound:
            raise self.error(f"{named.name} is bound twice")
        self.bound.add(named)
        self.scope.add(named)

    def unbind(self, s: Stmt) -> None:
        self.vectors -= _is_vector(s)
        if isinstance(s, For | Let):
            self.scope.discard(s.var)
        elif isinstance(s, BINDERS):
            self.scope.discard(s.buffer)

    def buffer(self, b: Buffer) -> None:
        """Checks the shape and layout of a buffer that is bound here."""
        for d in b.shape:
            self.expr(d, dt.index, f"a dim of {b.name}")
        order, lengths = b.layout.order, {len(b.layout.halo), len(b.layout.pad)}
        if sorted(order) != list(range(b.rank)) or not lengths <= {0, b.rank}:
            raise self.error(f"the layout of {b.name} does not fit its rank, {b.rank}")
        if b.dtype == dt.handle and (self.func.kind is not FuncKind.HOST or not b.layout.is_row_major):
            raise self.error(f"{b.name} holds handles, so it is a dense buffer of a host function")
        if b.scope is Scope.REGISTER and not all(isinstance(d, Const) for d in b.shape):
            raise self.error(f"the register buffer {b.name} has a shape that is not literal")

    def used(self, b: Buffer) -> None:
        if b not in self.scope:
            raise self.error(f"buffer {b.name} is used where it is not bound")

    def expr(self, e: Expr, dtype: dt.DType, what: str) -> None:
        """Checks an operand and its dtype."""
        if e.dtype != dtype:
            raise self.error(f"{what} has dtype {e.dtype}, wanted {dtype}")
        self.parts(e)

    def parts(self, e: Expr) -> None:
        """Checks the variables, buffers and intrinsics in an expression."""
        self.addresses((e,))
        for node in post_order([e]):
            if isinstance(node, Var):
                if node not in self.scope:
                    raise self.error(f"variable {node.name} is used where it is not bound")
            elif isinstance(node, Load):
                self.used(node.buffer)
            elif isinstance(node, Call) and node.name not in INTRINSICS:
                raise self.error(f"there is no intrinsic {node.name}")
            elif isinstance(node, Call) and INTRINSICS[node.name].bits and node.args[0].dtype.width != node.dtype.width:
                raise self.error(f"{node.args[0].dtype} and {node.dtype} have not as many bits, got {node}")
            elif isinstance(node, Address):
                self.used(node.buffer)
            if not _is_comparison(node):
                self.addresses(node.children())
            used = any(child.dtype == dt.handle for child in node.children())
            if (used and not _may_use_handle(node)) or (isinstance(node, Cast) and node.dtype == dt.handle):
                raise self.error(f"nothing is computed from handles, got {node}")

    def addresses(self, handles: Iterable[Expr]) -> None:
        """Checks that those of `handles` that are Addresses are handles of objects."""
        for e in handles:
            if isinstance(e, Address) and e.buffer not in self.payloads:
                raise self.error(f"{e.buffer.name} is no payload of an object, so it has no address")

    # Statements

    def enter(self, s: Stmt) -> None:
        """Checks one statement without those in it, and binds what it binds."""
        if isinstance(s, _HOST_ONLY) and self.func.kind is not FuncKind.HOST:
            raise self.error(f"a kernel has no {type(s).__name__}")
        if isinstance(s, (While, *_HOST_ONLY)) and self.vectors:
            raise self.error("this stands in a vector loop")
        self.vectors += _is_vector(s)
        match s:
            case For():
                self.loop(s)
            case If() | While() | Check():
                self.expr(s.cond, dt.bool_, "the condition")
            case Let():
                self.parts(s.value)
                if s.value.dtype != s.var.dtype:
                    raise self.error(f"{s.var.name} has dtype {s.var.dtype}, its value has {s.value.dtype}")
                self.bind(s.var)
            case Alloc():
                self.alloc(s.buffer)
            case Store() | Prefetch():
                self.place(s)
            case Barrier():
                self.barrier()
            case Block():
                pass
            case _:
                self.enter_host(s)

    def enter_host(self, s: Stmt) -> None:
        """The same for a statement that only host functions have."""
        match s:
            case View():
                self.used(s.base)
                self.expr(s.offset, dt.index, "the offset")
                self.bind(s.buffer)
                self.buffer(s.buffer)
            case Launch() | Invoke() | HostOp():
                self.call(s)
            case Switch():
                self.switch(s)
            case Object() | Open() | Resize() | Retain() | Release():
                self.object(s)
            case _:
                raise self.error(f"{type(s).__name__} is no statement")

    def barrier(self) -> None:
        if self.func.kind is FuncKind.HOST:
            raise self.error("a host function has no barriers")
        if any(isinstance(s, Check) for s in statements(self.func)):
            raise self.error("a kernel with barriers has no checks: a thread that left would be waited for")
        written = set(buffers_written(self.func))
        for p in self.path:
            if isinstance(p, If | While) or (isinstance(p, For) and p.kind in (LoopKind.PARALLEL, LoopKind.VECTOR)):
                inside = f"the {p.kind.value} loop over {p.var.name}" if isinstance(p, For) else _kind(p)
                raise self.error(f"a barrier is inside {inside}: not all threads would come to it")
            decides = p.exprs() if isinstance(p, For | Let) else ()
            read = [x.buffer.name for e in decides for x in loads(e) if x.buffer in written]
            if read:
                raise self.error(f"how often threads come to a barrier depends on {read[0]}, which the kernel writes")

    def alloc(self, b: Buffer) -> None:
        self.bind(b)
        self.buffer(b)
        if not self.final or self.func.kind is FuncKind.HOST:
            return
        if b.scope is Scope.GLOBAL:
            raise self.error(f"a kernel cannot allocate global memory, and {b.name} is global")
        if not all(isinstance(d, Const) for d in b.shape):
            raise self.error(f"{b.name} lies on the stack and has a shape that is not literal")

    def loop(self, s: For) -> None:
        if s.var.dtype != dt.index:
            raise self.error(f"the loop variable {s.var.name} has dtype {s.var.dtype}, wanted index")
        self.expr(s.extent, dt.index, "the extent")
        self.bind(s.var)
        if s.kind is LoopKind.VECTOR and not isinstance(s.extent, Const):
            raise self.error(f"the vector loop over {s.var.name} has an extent that is not literal")
        if s.kind is LoopKind.PARALLEL:
            if self.func.kind is FuncKind.HOST:
                raise self.error("a host function has no parallel loops")
            for p in self.path[:-1]:
                if isinstance(p, While):
                    raise self.error(f"the parallel loop over {s.var.name} is inside a while")
                if isinstance(p, For) and p.kind in (LoopKind.PARALLEL, LoopKind.VECTOR):
                    outer = f"the {p.kind.value} loop over {p.var.name}"
                    raise self.error(f"the parallel loop over {s.var.name} is inside {outer}")

    def place(self, s: Store | Prefetch) -> None:
        self.used(s.buffer)
        if len(s.indices) != s.buffer.rank:
            raise self.error(f"{s.buffer.name} has {s.buffer.rank} dimensions, got {len(s.indices)} subscripts")
        for i in s.indices:
            self.expr(i, dt.index, f"a subscript of {s.buffer.name}")
        if isinstance(s, Store):
            self.expr(s.value, s.buffer.dtype, f"the value for {s.buffer.name}")

    def call(self, s: Launch | Invoke | HostOp) -> None:
        for a in s.args:
            if isinstance(a, Buffer):
                self.used(a)
            else:
                handle = a.dtype == dt.handle and isinstance(s, Invoke)
                self.expr(a, dt.handle if handle else dt.index, f"argument {a}")
        if self.functions is None or isinstance(s, HostOp):
            return
        name, kind = (s.kernel, FuncKind.KERNEL) if isinstance(s, Launch) else (s.func, FuncKind.HOST)
        callee = self.functions.get(name)
        if callee is None or callee.kind is not kind:
            raise self.error(f"there is no {kind.value} @{name}")
        if len(callee.params) != len(s.args):
            raise self.error(f"@{name} takes {len(callee.params)} arguments, got {len(s.args)}")
        for p, a in zip(callee.params, s.args, strict=True):
            wanted, got = _fact(p), _fact(a)
            if wanted != got:
                raise self.error(f"parameter {p.name} of @{name} is {wanted}, got {got}")

    # Objects

    def object(self, s: Object | Open | Resize | Retain | Release) -> None:
        if not isinstance(s, Object):
            self.expr(s.handle, dt.handle, "the operand")
        if isinstance(s, Object | Open | Resize):
            self.bind(s.buffer)
            self.buffer(s.buffer)
            self.payloads.add(s.buffer)
            if s.buffer.scope is not Scope.GLOBAL:
                raise self.error(f"the payload {s.buffer.name} must be global")
        if isinstance(s, Object):
            self.header(s)

    def header(self, s: Object) -> None:
        if not (0 <= s.tag <= _MOST and 0 <= s.pointers <= _MOST):
            raise self.error(f"tag and pointers of an object are 0 to {_MOST}, got {s.tag} and {s.pointers}")
        elements = s.buffer.elements()
        size = int(elements.value) * s.buffer.dtype.bytes if isinstance(elements, Const) else None
        if s.pointers and (size is None or size < 8 * s.pointers):
            raise self.error(f"the payload {s.buffer.name} has no room for {s.pointers} pointers")

    def switch(self, s: Switch) -> None:
        self.parts(s.value)
        if s.value.dtype not in (dt.int32, dt.index):
            raise self.error(f"the value has dtype {s.value.dtype}, wanted int32 or index")
        numbers = [n for n, _ in s.cases]
        wide = dt.int64 if s.value.dtype == dt.index else s.value.dtype
        beyond = [n for n in numbers if not wide.min <= n <= wide.max]
        if beyond:
            raise self.error(f"no {s.value.dtype} is {beyond[0]}, the number of a case")
        if len(set(numbers)) < len(numbers):
            raise self.error(f"two cases have the same number, of {numbers}")

    # Threads

    def parallel_loops(self) -> None:
        self.path.clear()
        parallel = [s for s in loops(self.func) if s.kind is LoopKind.PARALLEL]
        if not parallel:
            return
        self.outside()
        written = {s: frozenset(b for b in buffers_written(s) if b.scope is Scope.GLOBAL) for s in parallel}
        for n, one in enumerate(parallel):
            for m, other in enumerate(parallel):
                shared = [b.name for b in buffers_read(other) if b in written[one]]
                if n != m and shared and may_meet(self.func.body, one, other):
                    self.path.append(other)
                    message = f"the parallel loop over {other.var.name} reads {shared[0]}"
                    raise self.error(f"{message}, which the one over {one.var.name} writes")

    def outside(self) -> None:
        """Checks the stores of a kernel with a parallel loop against where they stand."""
        own: set[Buffer] = set()  # allocated inside the parallel loop that is open
        todo: list[tuple[Stmt, bool]] = [(self.func.body, False)]
        while todo:
            s, inside = todo.pop()
            if isinstance(s, Store) and inside != (s.buffer in own or s.buffer.scope is Scope.GLOBAL):
                self.path.append(s)
                if inside:
                    raise self.error(f"threads share {s.buffer.name}: it is allocated outside the parallel loop")
                if s.buffer.scope is Scope.GLOBAL:
                    raise self.error(f"a store to {s.buffer.name} is outside the parallel loop: every thread does it")
                self.path.pop()
            if isinstance(s, Alloc) and inside:
                own.add(s.buffer)
            inside = inside or (isinstance(s, For) and s.kind is LoopKind.PARALLEL)
            todo += [(child, inside) for child in s.children()]


def may_meet(body: Stmt, one: For, other: For) -> bool:
    """Whether threads may be in both loops at once: on some way from one to the other there is no Barrier.

    A loop around them may have no iterations, or several: it is left out, and gone through twice.
    """
    events = _events(body, one, other)
    running: frozenset[object] = frozenset()
    around: list[tuple[int, frozenset[object], bool]] = []
    n = 0
    while n < len(events):
        event = events[n]
        if event == "loop":
            around.append((n, running, False))
        elif event == "end":
            start, before, again = around.pop()
            if again:
                running |= before
            else:
                around.append((start, before, True))
                n = start
        elif isinstance(event, Barrier):
            running = frozenset()
        elif running - {event}:
            return True
        else:
            running |= {event}
        n += 1
    return False


def _events(body: Stmt, one: For, other: For) -> list[Stmt | str]:
    """The two loops, Barriers, and where loops around any of them begin and end, in program order."""
    found: list[Stmt | str] = []
    todo: list[Stmt | str] = [body]
    while todo:
        s = todo.pop()
        if s == "end" and found[-1] == "loop":
            found.pop()
        elif isinstance(s, str | Barrier) or s is one or s is other:
            found.append(s)
        else:
            if isinstance(s, For):
                found.append("loop")
                todo.append("end")
            todo += reversed(s.children())
    return found


def _is_vector(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind is LoopKind.VECTOR


def _kind(s: If | While) -> str:
    return "an if" if isinstance(s, If) else "a while"


def _may_use_handle(e: Expr) -> bool:
    """Whether handles may be operands of `e`."""
    return _is_comparison(e) or isinstance(e, Select | Size | Tag)


def _is_comparison(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op in (Op.EQ, Op.NE)


def _head(s: Stmt) -> str:
    return show_stmt(s).splitlines()[0]


def _fact(a: Buffer | Expr) -> str:
    """What must agree between a parameter and its argument."""
    if isinstance(a, Expr):
        return f"a scalar of {a.dtype}"
    halo = [a.layout.halo_of(d) for d in range(a.rank)]
    facts = f"order {a.layout.order}" + (f", halo {halo}" if any(h != (0, 0) for h in halo) else "")
    return f"{a.dtype} of rank {a.rank}, {facts}" + (f", pad {a.layout.pad}" if any(a.layout.pad) else "")

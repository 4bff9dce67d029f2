"""Python source of a loop program, for `tir.interp`: one function whose parameters are flat memories and ints.

Machine integers and index values are Python ints, bools are Python bools, floats are NumPy scalars of their dtype.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var
from legato.arith.fold import COMPARISONS
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import InternalError
from legato.base.node import post_order
from legato.base.storage import bits_of, carrier, code_of, number_of
from legato.tir.buffer import Buffer
from legato.tir.expr import Address, Call, Cast, Load, Size, Tag
from legato.tir.intrinsics import INTRINSICS
from legato.tir.objects import Object, Open, Release, Resize, Retain
from legato.tir.stmt import (
    FIRST_CHECK,
    Alloc,
    Barrier,
    Block,
    Check,
    For,
    Func,
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

__all__ = ["Generated", "generate"]

_INLINE = 60  # longer texts get a name of their own: Python limits how deep parentheses nest
_MAX_NESTED_LOOPS = 16  # Python allows 20 in one function

# Operators whose result of in-range operands may leave the range.
_WRAPS = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.FLOORDIV, Op.SHL})
_BOOL_TEXT = {Op.ADD: "|", Op.OR: "|", Op.BITOR: "|", Op.MAX: "|", Op.MUL: "&", Op.AND: "&", Op.BITAND: "&",
              Op.MIN: "&", Op.BITXOR: "^"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Generated:
    """Source text, its code object, and the objects that it names."""

    text: str
    code: CodeType
    namespace: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Memory:
    """How source text reaches a buffer: the flat array's name, per dimension (low, high, stride), and the origin."""

    name: str
    dims: tuple[tuple[str, str, str], ...]
    origin: str
    shape: tuple[str, ...]


def generate(func: Func, backwards: bool) -> Generated:
    """The Python function for `func`."""
    writer = _Writer(backwards)
    writer.function(func)
    text = "\n".join(writer.lines) + "\n"
    return Generated(text, compile(text, f"<tir {func.name}>", "exec"), writer.namespace)


class _Writer:
    def __init__(self, backwards: bool) -> None:
        self.backwards = backwards
        self.lines: list[str] = []
        self.indent = 0
        self.loops = 0  # nested in the current Python function
        self.count = 0
        self.namespace: dict[str, Any] = {"floor_div": np.floor_divide, "floor_mod": np.remainder, **_HELPERS}
        self.vars: dict[Var, str] = {}
        self.memories: dict[Buffer, _Memory] = {}
        self.handles: dict[Buffer, str] = {}  # of the objects whose payloads are known

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, hint: str) -> str:
        self.count += 1
        return f"{re.sub('[^A-Za-z0-9_]', '_', hint)}_{self.count}"

    @contextmanager
    def nested(self) -> Iterator[None]:
        self.indent += 1
        yield
        self.indent -= 1

    def bound(self, value: Any, hint: str) -> str:
        """A name for an object that source text cannot spell."""
        name = self.fresh(hint)
        self.namespace[name] = value
        return name

    # ------------------------------------------------------------------------------------------------- statements

    def function(self, func: Func) -> None:
        buffers = [p for p in func.params if isinstance(p, Buffer)] + [b for b, _ in func.constants]
        names: dict[Any, str] = {p: self.fresh(p.name) for p in (*func.params, *(b for b, _ in func.constants))}
        self.vars = {p: names[p] for p in func.params if isinstance(p, Var)}
        self.line(f"def function({', '.join(names.values())}):")
        with self.nested():
            for b in buffers:
                size = self.memory(b, names[b])
                self.line(f"if len({names[b]}) < {size}: machine.too_small({b.name!r}, len({names[b]}), {size})")
            self.stmt(func.body)
            self.line("return 0")

    def memory(self, buffer: Buffer, name: str) -> str:
        """Makes `buffer` known under `name`; the text of its number of elements."""
        scope = _Scope(self)
        dims, shape = [], []
        for d, (extent, stride) in enumerate(zip(buffer.shape, buffer.strides(), strict=True)):
            before, after = buffer.layout.halo_of(d)
            shape.append(scope.atom(extent))
            dims.append((str(-before), scope.atom(extent + after), scope.atom(stride)))
        self.memories[buffer] = _Memory(name, tuple(dims), scope.atom(buffer.origin()), tuple(shape))
        return scope.atom(buffer.elements())

    def stmt(self, root: Stmt) -> None:
        """Emits `root`. Recursion only where Python text nests: a host function nests a View per planned tensor."""
        pending = [root]
        while pending:
            s = pending.pop()
            match s:
                case Block(stmts):
                    pending += reversed(stmts)
                case Let() | Alloc() | View() | Object() | Open() | Resize():
                    self.binding(s)
                    pending.append(s.body)
                case Switch():
                    self.switch(s)
                case For():
                    self.loop(s)
                case If(cond, then, orelse):
                    self.line(f"if {self.value(cond)}:")
                    self.body(then)
                    if orelse is not None:
                        self.line("else:")
                        self.body(orelse)
                case While(cond, body):
                    self.line("while True:")
                    with self.nested():
                        self.line(f"if not {self.value(cond)}: break")
                    self.body(body)
                case _:
                    self.leaf(s)

    def switch(self, s: Switch) -> None:
        value = self.fresh("case")
        self.line(f"{value} = {self.value(s.value)}")
        for n, (number, body) in enumerate(s.cases):
            self.line(f"{'elif' if n else 'if'} {value} == {number}:")
            self.body(body)
        if s.default is not None:
            self.line("else:" if s.cases else "if True:")
            self.body(s.default)

    def binding(self, s: Let | Alloc | View | Object | Open | Resize) -> None:
        if isinstance(s, Let):
            name, value = self.fresh(s.var.name), self.value(s.value)
            self.vars[s.var] = name
            self.line(f"{name} = {value}")
            return
        name, dtype = self.fresh(s.buffer.name), self.bound(s.buffer.dtype, "dtype")
        size = self.memory(s.buffer, name)
        if isinstance(s, Alloc):
            extents = ", ".join(self.known(s.buffer).shape)
            self.line(f"machine.natural({s.buffer.name!r}, [{extents}])")
            self.line(f"{name} = machine.alloc({dtype}, {size})")
            return
        if isinstance(s, Object | Open | Resize):
            handle = self.handles[s.buffer] = self.fresh("handle")
            if isinstance(s, Object):
                self.line(f"{handle}, {name} = machine.new({dtype}, {size}, {s.tag}, {s.pointers})")
            elif isinstance(s, Resize):
                self.line(f"{handle}, {name} = machine.resized({dtype}, {size}, {self.value(s.handle)})")
            else:
                self.line(f"{handle} = {self.value(s.handle)}")
                self.line(f"{name} = machine.objects.payload({handle}, {dtype}, {size})")
            return
        base, start = self.known(s.base).name, self.value(s.offset)
        self.line(f"{name} = machine.view({s.buffer.name!r}, {base}, {start}, {dtype}, {size})")

    def leaf(self, s: Stmt) -> None:
        match s:
            case Store(buffer, indices, value):
                scope = _Scope(self)
                text = scope.text(value)
                self.line(f"{scope.place(buffer, indices)} = {text}")
            case Prefetch():
                pass
            case Barrier():
                pass  # iterations of a parallel loop run one after the other: all of them are done
            case Check(cond, code, _, report):
                self.line(f"if not {self.value(cond)}:")
                with self.nested():
                    if report is not None:
                        self.stmt(report)
                    self.line(f"return {FIRST_CHECK + code}")
            case Retain(handle):
                self.line(f"machine.objects.retain({self.value(handle)})")
            case Release(handle):
                self.line(f"machine.objects.release({self.value(handle)})")
            case Launch(args, target) | Invoke(args, target):
                values = [self.known(a).name if isinstance(a, Buffer) else self.value(a) for a in args]
                self.checked(f"machine.invoke({target!r}, [{', '.join(values)}])")
            case HostOp(args, index):
                values = [self.logical(a) if isinstance(a, Buffer) else self.value(a) for a in args]
                self.checked(f"machine.host_op({index}, [{', '.join(values)}])")
            case _:
                raise InternalError(f"tir.interp does not know the statement {type(s).__name__}")

    def checked(self, call: str) -> None:
        """Runs `call` and leaves with its status if that is not 0."""
        status = self.fresh("status")
        self.line(f"{status} = {call}")
        self.line(f"if {status}: return {status}")

    def logical(self, buffer: Buffer) -> str:
        memory = self.known(buffer)
        return f"({self.bound(buffer, 'buffer')}, {memory.name}, ({''.join(n + ', ' for n in memory.shape)}))"

    def known(self, buffer: Buffer) -> _Memory:
        memory = self.memories.get(buffer)
        if memory is None:
            raise InternalError(f"buffer {buffer.name} is used where it is not defined")
        return memory

    def body(self, s: Stmt) -> None:
        with self.nested():
            before = len(self.lines)
            self.stmt(s)
            if len(self.lines) == before:
                self.line("pass")

    def loop(self, s: For) -> None:
        name = self.vars[s.var] = self.fresh(s.var.name)
        extent = self.value(s.extent)
        turned = self.backwards and s.kind in (LoopKind.PARALLEL, LoopKind.VECTOR)
        if self.loops == _MAX_NESTED_LOOPS:
            inner, outside = self.fresh("inner"), self.loops
            self.line(f"def {inner}():")
            with self.nested():
                self.loops = 0
                self.loop(s)
                self.line("return 0")
            self.loops = outside
            self.checked(f"{inner}()")
            return
        self.line(f"for {name} in range({f'{extent} - 1, -1, -1' if turned else extent}):")
        self.loops += 1
        self.body(s.body)
        self.loops -= 1

    def value(self, e: Expr) -> str:
        return _Scope(self).text(e)


class _Scope:
    """Texts of expressions, evaluated at the current line. A node that occurs twice is evaluated once."""

    def __init__(self, writer: _Writer, outer: _Scope | None = None) -> None:
        self.writer = writer
        self.texts: dict[Expr, str] = {} if outer is None else dict(outer.texts)

    def text(self, root: Expr) -> str:
        """Source text whose value is `root`; emits the lines before it."""
        uses = _uses(root, self.texts)
        for e in post_order([root], lambda e: e not in self.texts and not _is_guard(e)):
            if e in self.texts:
                continue
            made = self.guarded(e) if isinstance(e, Select) and _is_guard(e) else self.node(e)
            if made.isidentifier() or isinstance(e, Const):
                self.texts[e] = made
            elif uses[e] > 1 or len(made) > _INLINE or isinstance(e, Load):
                self.texts[e] = self.named(made)
            else:
                self.texts[e] = made
        return self.texts[root]

    def named(self, text: str) -> str:
        name = self.writer.fresh("t")
        self.writer.line(f"{name} = {text}")
        return name

    def atom(self, e: Expr) -> str:
        """Like `text`, but a name or literal."""
        text = self.text(e)
        if not (text.isidentifier() or isinstance(e, Const)):
            text = self.texts[e] = self.named(text)
        return text

    def node(self, e: Expr) -> str:
        match e:
            case Const():
                return self.const(e)
            case Var():
                if e not in self.writer.vars:
                    raise InternalError(f"variable {e.name} is used where it is not defined")
                return self.writer.vars[e]
            case Binary():
                return self.binary(e)
            case Select(cond=cond, a=a, b=b):
                return f"({self.texts[a]} if {self.texts[cond]} else {self.texts[b]})"
            case Load(buffer=buffer, indices=indices):
                place = self.place(buffer, indices)
                return place if e.dtype.is_float or e.dtype.is_storage else place.replace("[", ".item(", 1)[:-1] + ")"
            case Cast():
                return self.cast(e)
            case Call():
                return self.call(e)
            case Address(buffer=buffer):
                if buffer not in self.writer.handles:  # where it lies
                    return f"{self.writer.known(buffer).name}.ctypes.data"
                return self.writer.handles[buffer]
            case Tag(handle=handle) | Size(handle=handle):
                return f"machine.objects.{'tag' if isinstance(e, Tag) else 'size'}({self.texts[handle]})"
            case _:
                raise InternalError(f"tir.interp does not know the expression {type(e).__name__}")

    def const(self, e: Const) -> str:
        if e.dtype.is_float or e.dtype.is_storage:
            return self.writer.bound(e.dtype.numpy.type(e.value), "c")
        return repr(e.value) if e.dtype.is_bool or int(e.value) >= 0 else f"({e.value})"

    def guarded(self, e: Select) -> str:
        """A Select that reads memory: only the chosen side is evaluated."""
        name, writer = self.writer.fresh("t"), self.writer
        cond = self.text(e.cond)
        for head, side in ((f"if {cond}:", e.a), ("else:", e.b)):
            writer.line(head)
            with writer.nested():
                inner = _Scope(writer, self)
                value = inner.text(side)
                writer.line(f"{name} = {value}")
        return name

    def place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """`memory[offset]`, after a line that checks the bounds."""
        memory = self.writer.known(buffer)
        index = [self.atom(i) for i in indices]
        checks = [f"{lo} <= {i} < {hi}" for i, (lo, hi, _) in zip(index, memory.dims, strict=True)]
        if checks:
            bounds = "".join(f"({lo}, {hi}), " for lo, hi, _ in memory.dims)
            report = f"machine.outside({buffer.name!r}, ({''.join(i + ', ' for i in index)}), ({bounds}))"
            self.writer.line(f"if not ({' and '.join(checks)}): {report}")
        terms = [f"{i} * {stride}" for i, (_, _, stride) in zip(index, memory.dims, strict=True)]
        return f"{memory.name}[{' + '.join([memory.origin, *terms])}]"

    def binary(self, e: Binary) -> str:
        a, b, dtype = self.texts[e.a], self.texts[e.b], e.a.dtype
        if e.op in COMPARISONS:
            return f"({a} {e.op.value} {b})"
        if dtype.is_bool:
            if e.op not in _BOOL_TEXT:
                raise InternalError(f"{e.op.value} has no meaning on bool")
            return f"({a} {_BOOL_TEXT[e.op]} {b})"
        if dtype.is_float:
            return self.float_binary(e.op, a, b)
        if e.op in (Op.MIN, Op.MAX):
            return f"{e.op.value}({a}, {b})"
        if e.op in (Op.FLOORDIV, Op.FLOORMOD):
            divisor = b if isinstance(e.b, Const) else self.atom(e.b)
            text = f"({a} {e.op.value} {divisor} if {divisor} else 0)" if divisor != "0" else "0"
        elif e.op in (Op.SHL, Op.SHR):
            text = f"({a} {e.op.value} ({b} % {dtype.bits}))"
        else:
            text = f"({a} {e.op.value} {b})"
        return _wrapped(text, dtype) if e.op in _WRAPS else text

    @staticmethod
    def float_binary(op: Op, a: str, b: str) -> str:
        match op:
            case Op.ADD | Op.SUB | Op.MUL | Op.DIV:
                return f"({a} {op.value} {b})"
            case Op.MIN | Op.MAX:
                return f"float_{op.value}({a}, {b})"
            case Op.FLOORDIV:
                return f"floor_div({a}, {b})"
            case Op.FLOORMOD:
                return f"floor_mod({a}, {b})"
            case _:
                raise InternalError(f"{op.value} has no meaning on floats")

    def cast(self, e: Cast) -> str:
        a, source, target = self.texts[e.a], e.a.dtype, e.dtype
        if source.is_storage:
            number = self.writer.bound(number_of, "number")
            source, a = carrier(source), f"{number}({a})"
        if target.is_storage:
            code = self.writer.bound(partial(code_of, source=source, target=target), f"{target}_of_{source}")
            return f"{code}({a})"
        if target.is_bool:
            return f"bool({a} != 0)"
        if target.is_float:
            kind = self.writer.bound(target.numpy.type, target.name)
            if source.is_float:
                return f"{kind}({a})"
            wide = "np.uint64" if source is dt.uint64 else "np.int64"
            return f"{wide}({a}).astype({kind})"  # straight from the integer: one rounding
        if source.is_float:
            limits = dt.int64 if target is dt.index else target
            return f"float_to_int({a}, {limits.min}, {limits.max})"
        return f"int({a})" if source.is_bool else _wrapped(a, _machine(target) if source is dt.uint64 else target)

    def call(self, e: Call) -> str:
        record = INTRINSICS.get(e.name)
        if record is None:
            raise InternalError(f"no intrinsic {e.name!r}")
        if record.bits:
            bits = self.writer.bound(partial(bits_of, source=e.args[0].dtype, target=e.dtype), e.name)
            return f"{bits}({self.texts[e.args[0]]})"
        reference = self.writer.bound(record.reference, e.name)
        args = [self.texts[a] for a in e.args]
        if e.args[0].dtype.is_float:
            kind = self.writer.bound(e.dtype.numpy.type, e.dtype.name) if e.dtype.is_float else e.dtype.kind
            return f"{kind.removeprefix('u')}({reference}({', '.join(args)}))"
        kind = self.writer.bound(_machine(e.args[0].dtype).numpy.type, e.args[0].dtype.name)
        result = f"{reference}({', '.join(f'{kind}({a})' for a in args)})"
        return f"bool({result})" if record.predicate else f"int({result})"


def _machine(dtype: DType) -> DType:
    return dt.int64 if dtype is dt.index else dtype


def _uses(root: Expr, known: dict[Expr, str]) -> dict[Expr, int]:
    """How often each node below `root` is an operand."""
    uses = {root: 1}
    for e in post_order([root], lambda e: e not in known):
        for child in e.children():
            uses[child] = uses.get(child, 0) + 1
    return uses


def _is_guard(e: Expr) -> bool:
    """Whether `e` is a Select with a Load in a side."""
    return isinstance(e, Select) and any(isinstance(x, Load) for x in post_order((e.a, e.b)))


def _wrapped(text: str, dtype: DType) -> str:
    if not dtype.is_int:
        return text
    mask = (1 << dtype.bits) - 1
    if not dtype.is_signed:
        return f"({text} & {mask})"
    half = 1 << (dtype.bits - 1)
    return f"(({text} + {half} & {mask}) - {half})"


def _float_min(a: Any, b: Any) -> Any:
    return a if a != a or a < b else b


def _float_max(a: Any, b: Any) -> Any:
    return a if a != a or a > b else b


def _float_to_int(a: Any, lo: int, hi: int) -> int:
    """Towards zero, saturating; 0 for NaN."""
    if a != a:
        return 0
    wide = float(a)
    if wide <= lo:
        return lo
    return hi if wide >= hi else int(wide)


_HELPERS = {"float_min": _float_min, "float_max": _float_max, "float_to_int": _float_to_int}

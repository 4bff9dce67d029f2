"""`@T.prim_func`: a Python function read as a loop program.

    @T.prim_func
    def double(x: T.Buffer(("n",), "float32"), y: T.Buffer(("n",), "float32")):
        for i in T.parallel(n): …                        kernel @double(x, y, n) { parallel i in 0..n { … } }

Parameters keep their order; dims that only shapes name follow as index parameters. Variables that are assigned once are
`let`s, the others cells of one element. A block is checked (`blocks`) and becomes the statements that it stands for.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from legato.arith.expr import Const, Expr, Var, const, floordiv
from legato.base import dtype as dt
from legato.base.errors import CompileError, TypeCheckError, UnsupportedError
from legato.script.modules import options
from legato.script.modules.blocks import Block, Place
from legato.script.modules.evaluate import Outer, raise_all
from legato.script.modules.forms import (
    Allocation,
    Attributes,
    BlockForm,
    BufferForm,
    CheckForm,
    Handle,
    LetForm,
    LetMark,
    Loops,
    MetaVar,
    NewVar,
    ScalarType,
    Viewed,
)
from legato.script.modules.host_names import ObjectForm, OpenForm, ViewForm
from legato.script.modules.tensor_params import Parameters
from legato.script.source import Source
from legato.tir import scalars
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.objects import Object, Open, Resize
from legato.tir.stmt import (
    Alloc,
    Check,
    For,
    Func,
    FuncKind,
    If,
    Let,
    LoopKind,
    Stmt,
    Store,
    Switch,
    View,
    While,
    block,
)
from legato.tir.threads import settled
from legato.tir.verify import verify

__all__ = ["TensorReader", "tensor_function"]

_NO_EFFECT: Final = {"global_symbol", "tir.noalias", "op_pattern", "tir.is_scheduled", "target", "tirx.noalias"}
_MEMBERS: Final[dict[str, Callable[[Buffer], Any]]] = {
    "shape": lambda b: b.shape, "dtype": lambda b: str(b.dtype), "name": lambda b: b.name,
    "scope": lambda b: lambda: b.scope.value,
}  # fmt: skip
Item = Stmt | Callable[[Stmt], Stmt]  # a statement, or what takes the rest of the body into itself


def tensor_function(
    source: Source, node: ast.FunctionDef, outer: Outer, *, name: str | None = None, reorder: bool = True,
    host: bool = False, constants: Mapping[str, str] | None = None,
) -> Func:  # fmt: skip
    """The loop program that a function of a script says. CompileError, with the place, for what is wrong in it.

    name: what it is called, if not as in the script. reorder: index parameters go behind the buffers. host: it is a
    host function, and constants are the arrays of the module that its last buffers are, by their names.
    """
    reader = TensorReader(source, node, outer)
    try:
        with reader.at(node):
            called = node.name if name is None else options.name(name, "the name of a function")
            return reader.function(called, bool(reorder) and not host, bool(host), constants)
    except CompileError as error:
        if error.span is None:
            error.span = source.span(node)
        source.quote(error)
        raise


class TensorReader(Parameters):
    """Reads one function."""

    def __init__(self, source: Source, node: ast.FunctionDef, outer: Outer) -> None:
        super().__init__(source, node, outer)
        self.around: list[For] = []  # loops that are open, without their bodies
        self.stored: set[Buffer] = set()
        self.checks = 0
        stores = (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        self.assigned = Counter(stores)

    def function(
        self, name: str, reorder: bool, host: bool = False, constants: Mapping[str, str] | None = None
    ) -> Func:
        """The whole function, verified."""
        self.read_parameters()
        body = self.body(self.node.body)
        raise_all(self.faults)
        held = options.words(constants, "constants")
        odd = [n for n in held if not isinstance(self.params.get(n), Buffer)]
        if odd or (held and not host):
            raise self.error(self.node, f"constants: {', '.join(odd) or name}", "they are buffers of a host function")
        bound = tuple((b, held[n]) for n, b in self.params.items() if n in held and isinstance(b, Buffer))
        params = [self.parameter(given, p) for given, p in self.params.items() if given not in held]
        buffers = [p for p in params if isinstance(p, Buffer)]
        named = [d for d in self.named_dims(params) if d not in params]
        ordered: tuple[Buffer | Var, ...] = (*buffers, *(p for p in params if isinstance(p, Var)), *named)
        if not reorder:
            ordered = (*params, *named)
        kind = FuncKind.HOST if host else FuncKind.KERNEL
        func = Func(name, ordered, body, kind, bound, span=self.source.span(self.node))
        verify(func if host else settled(func))
        return func

    # ------------------------------------------------------------------ values

    def binary(self, op: str, a: Any, b: Any) -> Any:
        return scalars.binary(op, self._scalar(a), self._scalar(b))

    def unary(self, op: str, a: Any) -> Any:
        return scalars.unary(op, scalars.as_scalar(self._scalar(a)))

    def item(self, value: Any, index: Any) -> Any:
        if not isinstance(value, Buffer):
            return super().item(value, index)
        indices = index if isinstance(index, tuple) else (index,)
        if any(isinstance(i, slice) for i in indices):
            return value, indices  # a region of T.reads and T.writes
        return Load(value, self._subscripts(value, indices))

    def _subscripts(self, buffer: Buffer, indices: Sequence[Any]) -> tuple[Expr, ...]:
        if len(indices) != buffer.rank:
            raise TypeCheckError(f"{buffer.name} has {buffer.rank} dimensions, got {len(indices)} subscripts")
        what = f"a subscript of {buffer.name}"
        return tuple(scalars.as_index(self._scalar(i), what) for i in indices)

    def member(self, value: Any, name: str) -> Any:
        if isinstance(value, Buffer) and name in _MEMBERS:
            return _MEMBERS[name](value)
        if isinstance(value, Expr | Cell) and name == "astype":
            return lambda dtype: scalars.as_type(self._scalar(value), dt.dtype(dtype))
        if isinstance(value, Expr) and name == "dtype":
            return str(value.dtype)
        if isinstance(value, Expr | Buffer | Cell):
            raise TypeCheckError(f"{self.described(value)} has no {name}")
        return super().member(value, name)

    def call(self, function: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        if function is range:
            return Loops(*_range(args))
        if not callable(function):
            raise TypeCheckError(f"{self.described(function)} cannot be called")
        return function(*map(self._scalar, args), **{k: self._scalar(v) for k, v in keywords.items()})

    @staticmethod
    def _scalar(value: Any) -> Any:
        return value.load() if isinstance(value, Cell) else value

    def described(self, value: Any) -> str:
        if isinstance(value, Buffer):
            return f"the buffer {value.name}"
        return f"a scalar of {value.dtype}" if isinstance(value, Expr) else super().described(value)

    # ------------------------------------------------------------------ statements

    def body(self, stmts: Sequence[ast.stmt]) -> Stmt:
        """Statements in order; what they bind is known to those behind them, and no longer than the body."""
        items: list[Item] = []
        with self.scope():
            for s in stmts:
                with self.keeping(s):
                    items += self._statement(s)
        return joined(items)

    def _statement(self, s: ast.stmt) -> Iterator[Item]:
        match s:
            case ast.Assign(targets=[target]):
                yield from self._assign(target, self.value(s.value), s)
            case ast.AnnAssign(value=value) if value is not None:
                yield from self._declare(s.target, self.value(s.annotation), self.value(value))
            case ast.AugAssign():
                yield from self._augment(s)
            case ast.Assert():
                yield self._assert(s)
            case ast.Expr():
                yield from self._expression(s.value)
            case ast.Pass():
                pass
            case ast.Break() | ast.Continue():
                hint = "a while whose condition says when it ends, and ifs"
                raise self.error(s, f"{ast.unparse(s)} has no meaning in a tensor program", hint, kind=UnsupportedError)
            case _:
                yield self._nested(s)

    def _nested(self, s: ast.stmt) -> Stmt:
        """A statement with bodies."""
        match s:
            case ast.For():
                return self._for(s)
            case ast.While():
                return self._while(s)
            case ast.With(items=[ast.withitem()]):
                return self._with(s)
            case ast.If():
                return self._if(s)
            case ast.Match():
                return self._switch(s)
        what = type(s).__name__
        raise self.error(s, f"{what} has no meaning in a tensor program", kind=UnsupportedError)

    def _assign(self, target: ast.expr, value: Any, s: ast.stmt) -> Iterator[Item]:
        if isinstance(target, ast.Tuple | ast.List):
            values = value if isinstance(value, tuple | list) else [value]
            if len(values) != len(target.elts):
                raise TypeCheckError(f"{len(target.elts)} names for {len(values)} values")
            for t, v in zip(target.elts, values, strict=True):
                yield from self._assign(t, v, s)
        elif isinstance(target, ast.Subscript):
            yield self._store(target, value)
        elif isinstance(target, ast.Name):
            yield from self._bind(target.id, value)
        else:
            raise self.error(target, "nothing can be assigned to this", kind=UnsupportedError)

    def _bind(self, name: str, value: Any) -> Iterator[Item]:
        match value:
            case Viewed(param=param, form=form):
                self.names[name] = self._viewed(name, param, form)
            case Allocation(form=form):
                buffer = self.names[name] = self.buffer(name, form)
                yield lambda rest: Alloc(buffer, rest)
            case ViewForm(base=base, offset=offset, form=form):
                made = self.names[name] = self.buffer(name, form)
                yield lambda rest: View(made, base, offset, rest)
            case ObjectForm(form=form, tag=tag, pointers=pointers):
                made = self.names[name] = self.buffer(name, form)
                yield lambda rest: Object(made, tag, pointers, rest)
            case OpenForm(handle=handle, form=form, is_resized=is_resized):
                made = self.names[name] = self.buffer(name, form)
                yield lambda rest: (Resize if is_resized else Open)(made, handle, rest)
            case MetaVar(value=given):
                self.names[name] = scalars.as_scalar(given)
            case LetForm(value=given, bounds=(lo, hi)):
                e = scalars.as_scalar(given)
                var = self.names[name] = Var(name, e.dtype, lo, hi)
                yield lambda rest: Let(var, e, rest)
            case NewVar():
                self.names[name] = self.dims.setdefault(name, Var(name, dt.index, 0))
            case Expr() if not isinstance(value, Const) or self.assigned[name] > 1:
                yield from self._scalar_name(name, value)
            case int() | float() if self.assigned[name] > 1:
                yield from self._scalar_name(name, scalars.as_scalar(value))
            case _:
                self.names[name] = value

    def _viewed(self, name: str, param: Any, form: BufferForm) -> Buffer:
        known = next((n for n, p in self.params.items() if p is param and isinstance(p, Handle)), None)
        if known is None:
            hint = None if isinstance(param, Handle) else "a part of a buffer has no name of its own: index the buffer"
            raise TypeCheckError("T.match_buffer takes a parameter that is a T.handle, once", hint=hint)
        buffer = self.buffer(name, form)
        self.params[known] = buffer
        return buffer

    def _scalar_name(self, name: str, value: Expr, dtype: dt.DType | None = None) -> Iterator[Item]:
        """A name for a scalar: a let where it is assigned once, else a cell."""
        known = self.names.get(name)
        if isinstance(known, Cell):
            yield known.store(scalars.converted(value, known.buffer.dtype, name))
            return
        value = value if dtype is None else scalars.converted(value, dtype, name)
        if self.assigned[name] == 1:
            var = self.names[name] = Var(name, value.dtype)
            yield lambda rest: Let(var, value, rest)
            return
        kept = dt.int64 if value.dtype == dt.index else value.dtype
        cell = self.names[name] = Cell(Buffer(name, (), kept, scope=Scope.LOCAL))
        yield lambda rest: Alloc(cell.buffer, rest)
        yield cell.store(scalars.converted(value, kept, name))

    def _declare(self, target: ast.expr, form: Any, value: Any) -> Iterator[Item]:
        if isinstance(target, ast.Name) and isinstance(form, LetMark):
            e = scalars.as_scalar(self._scalar(value))
            e = e if form.dtype is None else scalars.as_scalar(scalars.converted(e, form.dtype, target.id))
            yield from self._bind(target.id, LetForm(e, (None, None)))
            return
        if not isinstance(target, ast.Name) or not isinstance(form, ScalarType):
            raise TypeCheckError("an annotated assignment is of a scalar: x: T.float32 = …")
        dtype = dt.index if form.dtype.is_int and self.assigned[target.id] == 1 else form.dtype
        yield from self._scalar_name(target.id, scalars.as_scalar(scalars.converted(value, dtype, target.id)), dtype)

    def _augment(self, s: ast.AugAssign) -> Iterator[Item]:
        load = ast.copy_location(_loading(s.target), s.target)
        value = self.value(ast.copy_location(ast.BinOp(load, s.op, s.value), s))
        yield from self._assign(s.target, value, s)

    def _store(self, target: ast.Subscript, value: Any) -> Stmt:
        buffer = self.value(target.value)
        if not isinstance(buffer, Buffer):
            raise self.error(target, f"{self.described(buffer)} cannot be stored to")
        index = self.value(target.slice)
        indices = self._subscripts(buffer, index if isinstance(index, tuple) else (index,))
        self.stored.add(buffer)
        return Store(
            buffer, indices, scalars.converted(self._scalar(value), buffer.dtype, f"what is stored in {buffer.name}")
        )

    def _if(self, s: ast.If) -> Stmt:
        cond = self._scalar(self.value(s.test))
        if isinstance(cond, bool | int):  # known when the script is read: a choice of whoever wrote it
            return self.body(s.body if cond else s.orelse)
        return If(scalars.logical(cond, "the condition"), self.body(s.body), self.body(s.orelse) if s.orelse else None)

    def _while(self, s: ast.While) -> Stmt:
        if s.orelse:
            raise self.error(s, "else of a loop has no meaning in a tensor program", kind=UnsupportedError)
        return While(scalars.logical(self._scalar(self.value(s.test)), "the condition"), self.body(s.body))

    def _switch(self, s: ast.Match) -> Stmt:
        """`match value:` with a number in each case, and `_` for all others."""
        value = scalars.as_scalar(self._scalar(self.value(s.subject)))
        cases: list[tuple[int, Stmt]] = []
        default: Stmt | None = None
        for case in s.cases:
            match case.pattern:
                case ast.MatchValue(value=number) if isinstance(n := self.value(number), int) and default is None:
                    cases.append((n, self.body(case.body)))
                case ast.MatchAs(pattern=None, name=None) if default is None:
                    default = self.body(case.body)
                case other:
                    raise self.error(other, "a case has a number; the last one may be _", kind=UnsupportedError)
        return Switch(value, tuple(cases), default)

    def _assert(self, s: ast.Assert) -> Stmt:
        cond = scalars.logical(self._scalar(self.value(s.test)), "the condition")
        message = self.value(s.msg) if s.msg is not None else ""
        self.checks += 1
        return Check(cond, self.checks - 1, str(message))

    def _expression(self, e: ast.expr) -> Iterator[Item]:
        value = self.value(e)
        match value:
            case Attributes(of_function=True):
                odd = [k for k in value.values if k not in _NO_EFFECT]
                if odd:
                    hint = f"leave it out; {', '.join(sorted(_NO_EFFECT))} are read and have no effect"
                    raise UnsupportedError(f"function attribute {odd[0]} is not known", hint=hint)
            case str() | None:
                pass  # a docstring
            case Stmt():
                yield value
            case CheckForm(cond=cond, code=code, message=message):
                yield Check(scalars.logical(cond, "the condition"), code, message)
            case _:
                raise TypeCheckError(f"{self.described(value)} is computed and not used")

    # ------------------------------------------------------------------ loops and blocks

    def _for(self, s: ast.For) -> Stmt:
        loops = self.value(s.iter)
        if s.orelse:
            raise self.error(s, "else of a loop has no meaning in a tensor program", kind=UnsupportedError)
        if not isinstance(loops, Loops):
            raise self.error(s.iter, f"{self.described(loops)} is no loop", "range, T.grid, T.serial, T.parallel, …")
        if not isinstance(loops.step, int) or loops.step < 1:
            hint = "count from 0 by 1, and multiply or subtract inside"
            raise UnsupportedError("a loop has a step that is a number of at least 1", hint=hint)
        targets = s.target.elts if isinstance(s.target, ast.Tuple) else [s.target]
        if len(targets) != len(loops.ends):
            raise TypeCheckError(f"{len(targets)} names for {len(loops.ends)} loops")
        opened: list[For] = []
        with self.scope():
            for target, begin, end in zip(targets, loops.begins, loops.ends, strict=True):
                if not isinstance(target, ast.Name):
                    raise self.error(target, "a loop has a name for its variable")
                opened.append(self._loop(target.id, begin, end, loops))
            self.around += opened
            body = self.body(s.body)
        del self.around[len(self.around) - len(opened) :]
        for loop in reversed(opened):
            body = For(loop.var, loop.extent, body, loop.kind)
        return body

    def _loop(self, name: str, begin: Any, end: Any, loops: Loops) -> For:
        first, last = scalars.as_index(self._scalar(begin), "a begin"), scalars.as_index(self._scalar(end), "an end")
        var = Var(name, dt.index, *loops.bounds)
        extent = last - first if loops.step == 1 else floordiv(last - first + (loops.step - 1), const(loops.step))
        self.names[name] = first + var * loops.step
        return For(var, extent, block(), loops.kind)

    def _with(self, s: ast.With) -> Stmt:
        item = s.items[0]
        form = self.value(item.context_expr)
        if isinstance(form, Loops):  # `with T.grid(m, n) as (i, j)` of older scripts
            raise self.error(s, "a loop is written with for")
        if isinstance(form, CheckForm):
            return Check(scalars.logical(form.cond, "the condition"), form.code, form.message, self.body(s.body))
        if not isinstance(form, BlockForm) or item.optional_vars is not None:
            raise self.error(item.context_expr, f"{self.described(form)} is no block")
        with self.scope():
            return Block(self, Place(form.name, s, tuple(self.around))).read()


class Cell:
    """A scalar that changes: a buffer of one element."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    def load(self) -> Expr:
        """Its value."""
        return Load(self.buffer, ())

    def store(self, value: Expr) -> Stmt:
        """It gets another value."""
        return Store(self.buffer, (), value)


def joined(items: Sequence[Item]) -> Stmt:
    """Statements in order, with what holds to the end of the body around what follows it."""
    done: list[Stmt] = []  # last first
    for item in reversed(items):
        if isinstance(item, Stmt):
            done.append(item)
        else:
            done = [item(block(*reversed(done)))]
    return block(*reversed(done))


def _range(args: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...], Any, int]:
    begin, end = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) > 2 else 1
    return (begin,), (end,), LoopKind.SERIAL, step


def _loading(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice, ast.Load())
    return target

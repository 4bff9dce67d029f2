"""Loop programs as `@T.prim_func`: what `tensor` reads back is alpha-equal.

    @T.prim_func
    def double(x: T.Buffer(("n",), "float32"), y: T.Buffer(("n",), "float32")):
        n = T.int64()
        for i in T.parallel(n):
            y[i] = x[i] * T.float32(2.0)

Statements to come are on a stack, with their depth: nothing here recurses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from legato.arith.expr import Const, Expr, Var
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.errors import UnsupportedError
from legato.script.modules.print_host import HOST, host_line
from legato.script.modules.print_lines import HINT, Lines, Names, is_identifier, quoted
from legato.script.modules.print_scalars import float_text, scalar_texts, tuple_text
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.stmt import (
    Alloc,
    Barrier,
    Block,
    Check,
    For,
    Func,
    FuncKind,
    If,
    Let,
    LoopKind,
    Prefetch,
    Stmt,
    Store,
    Switch,
    While,
)
from legato.tir.walk import BINDERS, flat, vars_used

__all__ = ["show_tensor"]

_LOOPS: Final = {LoopKind.SERIAL: "T.serial", LoopKind.UNROLL: "T.unroll", LoopKind.VECTOR: "T.vectorized",
                 LoopKind.PARALLEL: "T.parallel"}  # fmt: skip
Step = tuple[Stmt | str, int]  # a statement or a line, and its depth


def show_tensor(func: Func, lines: Lines, python_name: str | None = None) -> None:
    """Writes a loop program, as a function called `python_name` in the script."""
    _Printer(func, lines).function(python_name or func.name)


class _Printer:
    """Prints one function."""

    def __init__(self, func: Func, lines: Lines) -> None:
        self.func = func
        self.lines = lines
        self.names = Names()
        self.checks = 0

    def function(self, name: str) -> None:
        """The function with its decorator."""
        func, lines = self.func, self.lines
        written = name if is_identifier(name) else self.names.new(f"f{name}")
        options = [] if written == func.name else [f"name={func.name!r}"]
        buffers = [p for p in func.params if isinstance(p, Buffer)]
        scalars = [p for p in func.params if isinstance(p, Var)]
        is_host = func.kind is FuncKind.HOST
        if is_host or list(func.params) != [*buffers, *scalars]:
            options += ["host=True"] if is_host else ["reorder=False"]
        if func.constants:
            named = ", ".join(f"{quoted(self.names(b))}: {quoted(key)}" for b, key in func.constants)
            options.append(f"constants={{{named}}}")
        lines.add(f"@T.prim_func({', '.join(options)})" if options else "@T.prim_func")
        shown, told = self._head(func.params, buffers, scalars)
        shown += [self._parameter(b, ()) for b, _ in func.constants]
        lines.listed(f"def {written}", shown, ":")
        for v in told:
            lines.add(f"{self.names(v)} = T.int64()", lines.depth + 1)
        self._run([(func.body, lines.depth + 1)])

    def _head(
        self, params: Sequence[Buffer | Var], buffers: Sequence[Buffer], scalars: Sequence[Var]
    ) -> tuple[list[str], list[Var]]:
        """The parameters as text, and the dims that the body uses and only shapes name."""
        for v in scalars:
            self.names(v)  # dims keep their names where a buffer has the same
        named = variables(*(d for b in buffers for d in b.shape))
        usual = list(named) == list(scalars) and all((v.lo, v.hi) == (0, None) for v in scalars)
        if usual and list(params) == [*buffers, *scalars]:
            used = set(vars_used(self.func.body))
            return [self._parameter(p, named) for p in buffers], [v for v in scalars if v in used]
        return [self._parameter(p, named) for p in params], []

    def _parameter(self, p: Buffer | Var, named: Sequence[Var]) -> str:
        if isinstance(p, Buffer):
            return f"{self.names(p)}: T.Buffer({self._buffer(p, quoted=True)})"
        if p.dtype == dt.handle:
            return f"{self.names(p)}: T.reference"
        if p.dtype != dt.index:
            hint = "pass a tensor without dims; str(module) is the text of any program"
            raise UnsupportedError(f"parameter {p.name} is a scalar of {p.dtype}, which scripts do not have", hint=hint)
        plain = (p.lo, p.hi) == ((0, None) if p in named else (None, None))
        return f"{self.names(p)}: {'T.int64' if plain else f'T.bounded({p.lo}, {p.hi})'}"

    def _buffer(self, b: Buffer, *, quoted: bool = False) -> str:
        """The shape, dtype and layout of a buffer."""
        dims = scalar_texts(b.shape, self.names)
        if quoted:
            dims = [d if isinstance(e, Const) else f'"{d}"' for d, e in zip(dims, b.shape, strict=True)]
        parts = [tuple_text(dims), f'"{b.dtype}"', *_layout(b.layout)]
        if b.scope is not Scope.GLOBAL:
            parts.append(f'scope="{b.scope.value}"')
        return ", ".join(parts)

    # ------------------------------------------------------------------ statements

    def _run(self, todo: list[Step]) -> None:
        while todo:
            item, depth = todo.pop()
            if isinstance(item, str):
                self.lines.add(item, depth)
            else:
                todo += reversed(self._stmt(item, depth))

    def _stmt(self, s: Stmt, depth: int) -> list[Step]:
        """Prints what can be printed of `s`; returns what is left."""
        match s:
            case Block():
                return self._block(s, depth)
            case For():
                return self._for(s, depth)
            case If():
                self.lines.add(f"if {self._text(s.cond, depth)}:", depth)
                rest: list[Step] = [(s.then, depth + 1)]
                return rest if s.orelse is None else [*rest, ("else:", depth), (s.orelse, depth + 1)]
            case While():
                self.lines.add(f"while {self._text(s.cond, depth)}:", depth)
                return [(s.body, depth + 1)]
            case Let():
                self._let(s, depth)
                return [(s.body, depth)]
            case Alloc():
                self.lines.add(f"{self.names(s.buffer)} = T.alloc_buffer({self._buffer(s.buffer)})", depth)
                return [(s.body, depth)]
            case Check():
                return self._check(s, depth)
            case Store():
                *indices, value = scalar_texts(s.exprs(), self.names, self._sharing(depth))
                self.lines.add(f"{self.names(s.buffer)}[{', '.join(indices) or '()'}] = {value}", depth)
            case Prefetch():
                indices = scalar_texts(s.indices, self.names, self._sharing(depth))
                self.lines.add(f"T.prefetch({self.names(s.buffer)}[{', '.join(indices) or '()'}])", depth)
            case Barrier():
                self.lines.add("T.barrier()", depth)
            case Switch():
                return self._switch(s, depth)
            case _:
                return self._host(s, depth)
        return []

    def _host(self, s: Stmt, depth: int) -> list[Step]:
        if not isinstance(s, HOST):
            raise UnsupportedError(f"a script has no text for {type(s).__name__}", hint=HINT)
        self.lines.add(host_line(s, lambda es: self._texts(es, depth), self.names, self._buffer), depth)
        return [(body, depth) for body in s.children()]

    def _switch(self, s: Switch, depth: int) -> list[Step]:
        value = self._text(s.value, depth)
        self.lines.add(f"match {value}:" if s.children() else f"T.switch({value})", depth)
        heads = [*(f"case {n}:" for n, _ in s.cases), *([] if s.default is None else ["case _:"])]
        return [step for head, body in zip(heads, s.children(), strict=True)
                for step in ((head, depth + 1), (body, depth + 2))]  # fmt: skip

    def _block(self, s: Block, depth: int) -> list[Step]:
        """Statements in order; of those that hold to the end of a block, all but the last get a block of their own."""
        stmts = flat(s)
        out: list[Step] = []
        for n, stmt in enumerate(stmts):
            if isinstance(stmt, (Let, *BINDERS)) and n + 1 < len(stmts):
                out += [("with T.sblock():", depth), (stmt, depth + 1)]
            else:
                out.append((stmt, depth))
        return out or [("pass", depth)]

    def _for(self, s: For, depth: int) -> list[Step]:
        nest = _nest(s)
        if len(nest) == 1 and not (s.kind is LoopKind.SERIAL and _is_plain(s)):
            bounds = "" if _is_plain(s) else f", bounds=({s.var.lo}, {s.var.hi})"
            extent = self._text(s.extent, depth)
            self.lines.add(f"for {self.names(s.var)} in {_LOOPS[s.kind]}({extent}{bounds}):", depth)
            return [(s.body, depth + 1)]
        extents = ", ".join(scalar_texts([f.extent for f in nest], self.names, self._sharing(depth)))
        variables_ = ", ".join(self.names(f.var) for f in nest)
        self.lines.add(f"for {variables_} in {'range' if len(nest) == 1 else 'T.grid'}({extents}):", depth)
        return [(nest[-1].body, depth + 1)]

    def _let(self, s: Let, depth: int) -> None:
        value, name = self._text(s.value, depth), self.names(s.var)
        if (s.var.lo, s.var.hi) != (None, None):
            self.lines.add(f"{name} = T.let({value}, bounds=({s.var.lo}, {s.var.hi}))", depth)
        elif s.var.dtype == dt.index:
            self.lines.add(f"{name}: T.int64 = {value}", depth)
        else:
            self.lines.add(f"{name} = T.let({value})" if isinstance(s.value, Const) else f"{name} = {value}", depth)

    def _check(self, s: Check, depth: int) -> list[Step]:
        cond = self._text(s.cond, depth)
        message = repr(s.message)
        if s.report is not None:
            self.lines.add(f"with T.check({cond}, {s.code}, {message}):", depth)
            return [(s.report, depth + 1)]
        if s.code == self.checks:
            self.lines.add(f"assert {cond}{f', {message}' if s.message else ''}", depth)
            self.checks += 1
        else:
            self.lines.add(f"T.check({cond}, {s.code}, {message})", depth)
        return []

    # ------------------------------------------------------------------ expressions

    def _text(self, e: Expr, depth: int) -> str:
        return self._texts([e], depth)[0]

    def _texts(self, exprs: Sequence[Expr], depth: int) -> list[str]:
        return scalar_texts(exprs, self.names, self._sharing(depth))

    def _sharing(self, depth: int) -> Any:
        def share(text: str) -> str:
            name = self.names.new("e")
            self.lines.add(f"{name} = T.meta_var({text})", depth)
            return name

        return share


def _is_plain(s: For) -> bool:
    return s.var.lo == 0 and s.var.hi is None


def _nest(s: For) -> list[For]:
    """The serial loops that begin with `s`, each directly in the one before, whose extents do not depend on these."""
    found = [s]
    while s.kind is LoopKind.SERIAL and _is_plain(s) and isinstance(s.body, For):
        s = s.body
        inside = {f.var for f in found}
        if s.kind is not LoopKind.SERIAL or not _is_plain(s) or not inside.isdisjoint(variables(s.extent)):
            break
        found.append(s)
    return found


def _layout(layout: Layout) -> list[str]:
    parts = []
    if layout.order != tuple(range(len(layout.order))):
        parts.append(f"order={tuple_text(layout.order)}")
    if any(h != (0, 0) for h in layout.halo):
        parts.append(f"halo={tuple_text([tuple_text(h) for h in layout.halo])}")
    if repr(float(layout.halo_value)) != "0.0":
        parts.append(f"halo_value={float_text(float(layout.halo_value))}")
    if any(layout.pad):
        parts.append(f"pad={tuple_text(layout.pad)}")
    return parts

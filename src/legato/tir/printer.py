"""Loop programs as text.

    kernel @add(a: Buffer[(n, 64), float32], b: Buffer[(n, 64), float32, order=(1, 0)], n: index[0..]) {
      parallel i in 0..n {
        vector j in 0..64 {
          b[i, j] = a[i, j] + 1f;
        }
      }
    }

`let`, `alloc`, `view`, `object` and `open` hold to the end of the block they stand in. Names are made unique;
`tir.parser` reads the text back. Where a statement uses large expressions more than once, each is written once before
it: `share x = a[i] * 2f;` says that x stands for the expression in what follows (it is a way of writing, nothing is
stored).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from legato.arith.expr import Binary, Const, Expr, Select, Var
from legato.arith.linear import tree_size
from legato.arith.printer import Texts, literal
from legato.arith.printer import show as show_expr
from legato.arith.substitute import nodes, replace, variables
from legato.base import dtype as dt
from legato.base.lexer import quote
from legato.base.node import post_order
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.intrinsics import INTRINSICS
from legato.tir.objects import Object, Open, Release, Resize, Retain
from legato.tir.stmt import (
    Alloc,
    Arg,
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
    Prefetch,
    Stmt,
    Store,
    Switch,
    View,
    While,
)
from legato.tir.walk import BINDERS, flat

__all__ = ["KEYWORDS", "RESERVED", "Namer", "show", "show_numbered", "show_stmt"]

KEYWORDS = frozenset({"let", "alloc", "view", "share", "if", "else", "while", "check", "at", "in", "launch", "invoke",
                      "host_op", "for", "unroll", "vector", "parallel", "kernel", "host", "constants",
                      "object", "open", "resize", "retain", "release", "switch", "case", "default", "prefetch",
                      "barrier"})  # fmt: skip
RESERVED = (
    KEYWORDS
    | {*dt.BY_NAME}
    | set(INTRINSICS)
    | {
        "index",
        "handle",
        "address",
        "payload_bytes",
        "tag",
        "Buffer",
        "min",
        "max",
        "select",
        "and",
        "or",
        "True",
        "False",
    }
    | {f"{word}{suffix}" for word in ("inf", "nan") for suffix in ("f", "f16", "f32", "f64", "bf16")}
)
_FOREIGN = re.compile(r"[^A-Za-z0-9_]")
_BINDERS = (Let, *BINDERS)  # they hold to the end of the block
_PLAIN = re.compile(r"[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*")
_TERSE = 160  # expressions with more nodes than this, as a tree, are written with shared parts
_WORTH = 6  # nodes that a shared part must have


class Namer:
    """A unique name for every variable and buffer it is asked about, made from its hint."""

    def __init__(self, reserved: frozenset[str] = RESERVED) -> None:
        self._names: dict[Any, str] = {}
        self._taken = set(reserved)
        self._next: dict[str, int] = {}

    def __call__(self, named: Any) -> str:
        found = self._names.get(named)
        return found if found is not None else self.bind(named, named.name)

    def bind(self, named: Any, hint: str) -> str:
        """Gives `named` a name like `hint`."""
        base = _FOREIGN.sub("_", hint) or "x"
        if base[0].isdigit():
            base = f"_{base}"
        name, n = base, self._next.get(base, 1)
        while name in self._taken:
            name, n = f"{base}_{n}", n + 1
        self._next[base] = n
        self._taken.add(name)
        self._names[named] = name
        return name


def show(func: Func, names: Callable[[Any], str] | None = None) -> str:
    """`func` as text, ending in a newline. `names` gives the text of variables and buffers (default: unique hints)."""
    printer = _Printer(names or Namer())
    printer.function(func)
    return "\n".join(printer.lines) + "\n"


def show_numbered(func: Func, names: Callable[[Any], str]) -> str:
    """`func` as text in which each distinct expression is written once: for comparison, not for reading."""
    printer = _Numbered(names)
    printer.function(func)
    return "\n".join(printer.lines)


def show_stmt(stmt: Stmt) -> str:
    """`stmt` as text; what is bound outside appears by its hint."""
    printer = _Printer(Namer())
    printer.body(stmt, 0)
    return "\n".join(printer.lines)


def show_buffer_type(buffer: Buffer, names: Callable[[Any], str]) -> str:
    """`Buffer[(n, 64), float32, order=(1, 0), scope=local]`; facts that are usual are left out."""
    shape = ", ".join(show_expr(d, names) for d in buffer.shape) + ("," if buffer.rank == 1 else "")
    parts = [f"({shape})", str(buffer.dtype), *_layout(buffer.layout)]
    if buffer.scope is not Scope.GLOBAL:
        parts.append(f"scope={buffer.scope.value}")
    return f"Buffer[{', '.join(parts)}]"


def _layout(layout: Layout) -> list[str]:
    parts = []
    if layout.order != tuple(range(len(layout.order))):
        parts.append(f"order={_tuple(layout.order)}")
    if any(h != (0, 0) for h in layout.halo):
        parts.append(f"halo={_tuple([_tuple(h) for h in layout.halo])}")
    if repr(float(layout.halo_value)) != "0.0":
        parts.append(f"halo_value={literal(float(layout.halo_value), dt.float64)}")
    if any(layout.pad):
        parts.append(f"pad={_tuple(layout.pad)}")
    return parts


def _tuple(items: Sequence[object]) -> str:
    return f"({', '.join(map(str, items))}{',' if len(items) == 1 else ''})"


def show_type(v: Var) -> str:
    """`float32`, or `index[0..7]` with the bounds of the variable that are known."""
    if v.lo is None and v.hi is None:
        return str(v.dtype)
    return f"{v.dtype}[{'' if v.lo is None else v.lo}..{'' if v.hi is None else v.hi}]"


def global_name(name: str) -> str:
    """`@name`, quoted if need be."""
    return "@" + (name if _PLAIN.fullmatch(name) else quote(name))


class _Printer:
    """Collects lines. Statements to come are on a stack, with their depth; so are lines that close them."""

    def __init__(self, names: Callable[[Any], str]) -> None:
        self.names = names
        self.lines: list[str] = []
        self.shared = 0
        self.texts: Texts = {}

    def function(self, func: Func) -> None:
        for v in variables(*(d for p in func.params if isinstance(p, Buffer) for d in p.shape)):
            if v in func.params:
                self.names(v)  # dims first: they keep their names where a buffer has the same
        params = [self._param(p) for p in func.params]
        head = f"{func.kind.value} {global_name(func.name)}({self._list(params)})"
        if func.constants:
            bound = [f"{self._param(b)} = {quote(key)}" for b, key in func.constants]
            head += f" constants({self._list(bound)})"
        self.lines.append(head + " {")
        self.body(func.body, 1)
        self.lines.append("}")

    def _list(self, parts: list[str]) -> str:
        line = ", ".join(parts)
        return line if len(line) <= 90 else "\n    " + ",\n    ".join(parts) + "\n"

    def _param(self, p: Buffer | Var) -> str:
        kind = show_type(p) if isinstance(p, Var) else show_buffer_type(p, self.names)
        return f"{self.names(p)}: {kind}"

    def body(self, stmt: Stmt, depth: int) -> None:
        """Prints `stmt` as the contents of a block."""
        todo: list[tuple[Stmt | str, int]] = [(stmt, depth)]
        while todo:
            item, depth = todo.pop()
            if isinstance(item, str):
                self.lines.append("  " * depth + item)
            else:
                todo += reversed(self._stmt(item, depth))

    def _stmt(self, s: Stmt, depth: int) -> list[tuple[Stmt | str, int]]:
        """Prints what can be printed of `s`; returns what is left."""
        if isinstance(s, Block):
            return self._block(s, depth)
        text = self._share(s, depth) or (lambda e: show_expr(e, self.names, self.texts))
        line = self._line(s, text)
        self.lines.append("  " * depth + line)
        if isinstance(s, _BINDERS):
            return [(s.body, depth)]
        if isinstance(s, Switch):
            return self._cases(s, depth)
        if isinstance(s, If):
            rest: list[tuple[Stmt | str, int]] = [(s.then, depth + 1)]
            if s.orelse is not None:
                rest += [("} else {", depth), (s.orelse, depth + 1)]
            return [*rest, ("}", depth)]
        return [(s.children()[0], depth + 1), ("}", depth)] if s.children() else []

    @staticmethod
    def _cases(s: Switch, depth: int) -> list[tuple[Stmt | str, int]]:
        rest: list[tuple[Stmt | str, int]] = []
        named = [(f"case {n}", body) for n, body in s.cases]
        for head, body in [*named, *([] if s.default is None else [("default", s.default)])]:
            rest += [(f"{head} {{", depth + 1), (body, depth + 2), ("}", depth + 1)]
        return [*rest, ("}", depth)]

    def _block(self, s: Block, depth: int) -> list[tuple[Stmt | str, int]]:
        out: list[tuple[Stmt | str, int]] = []
        stmts = flat(s)
        for n, stmt in enumerate(stmts):
            if isinstance(stmt, _BINDERS) and n + 1 < len(stmts):  # it ends before the block does
                out += [("{", depth), (stmt, depth + 1), ("}", depth)]
            else:
                out.append((stmt, depth))
        return out

    def _line(self, s: Stmt, text: Callable[[Expr], str]) -> str:
        match s:
            case For():
                plain = s.var.dtype == dt.index and s.var.lo == 0 and s.var.hi is None
                kind = "" if plain else f": {show_type(s.var)}"
                return f"{s.kind.value} {self.names(s.var)}{kind} in 0..{text(s.extent)} {{"
            case If():
                return f"if {text(s.cond)} {{"
            case While():
                return f"while {text(s.cond)} {{"
            case Switch():
                return f"switch {text(s.value)} {{"
            case Let():
                value = text(s.value)
                plain = s.var.dtype == s.value.dtype and s.var.lo is None and s.var.hi is None
                return f"let {self.names(s.var)}{'' if plain else ': ' + show_type(s.var)} = {value};"
            case Alloc():
                return f"alloc {self._param(s.buffer)};"
            case View():
                return f"view {self._param(s.buffer)} = {self.names(s.base)} at {text(s.offset)};"
            case Store():
                return f"{self.names(s.buffer)}[{', '.join(map(text, s.indices))}] = {text(s.value)};"
            case Prefetch():
                return f"prefetch {self.names(s.buffer)}[{', '.join(map(text, s.indices))}];"
            case Barrier():
                return "barrier;"
            case _:
                return self._plain_line(s, text)

    def _plain_line(self, s: Stmt, text: Callable[[Expr], str]) -> str:
        match s:
            case Check():
                end = ";" if s.report is None else " {"
                return f"check {text(s.cond)} else {s.code}{', ' + quote(s.message) if s.message else ''}{end}"
            case Object():
                return f"object {self._param(s.buffer)}, tag={s.tag}, pointers={s.pointers};"
            case Open():
                return f"open {self._param(s.buffer)} = {text(s.handle)};"
            case Resize():
                return f"resize {self._param(s.buffer)} = {text(s.handle)};"
            case Retain() | Release():
                return f"{'retain' if isinstance(s, Retain) else 'release'} {text(s.handle)};"
            case _:
                return self._call(s, text)

    def _call(self, s: Stmt, text: Callable[[Expr], str]) -> str:
        match s:
            case Launch():
                return f"launch {global_name(s.kernel)}({self._args(s.args, text)});"
            case Invoke():
                return f"invoke {global_name(s.func)}({self._args(s.args, text)});"
            case HostOp():
                return f"host_op {s.op}({self._args(s.args, text)});"
            case _:
                raise TypeError(f"no text for {type(s).__name__}")

    def _args(self, args: tuple[Arg, ...], text: Callable[[Expr], str]) -> str:
        return ", ".join(self.names(a) if isinstance(a, Buffer) else text(a) for a in args)

    def _share(self, s: Stmt, depth: int) -> Callable[[Expr], str] | None:
        """Prints the parts that `s` uses several times; returns how to print with them, None if it is short."""
        if sum(map(tree_size, s.exprs())) <= _TERSE:
            return None
        size: dict[Expr, int] = {}
        uses: dict[Expr, int] = {}
        for e in nodes(*s.exprs()):
            kids = e.children()
            size[e] = 1 + sum(size[k] for k in kids)
            for k in kids:
                uses[k] = uses.get(k, 0) + 1
        stands_for: dict[Expr, Expr] = {}

        def text(e: Expr) -> str:
            return show_expr(replace(e, stands_for), self.names)

        for e, n in size.items():  # operands before users
            if n >= _WORTH and uses.get(e, 0) > 1 and not isinstance(e, Var | Const):
                line = text(e)
                self.shared += 1
                stands_for[e] = Var(f"x{self.shared}", e.dtype)
                self.lines.append("  " * depth + f"share {self.names(stands_for[e])} = {line};")
        return text


class _Numbered(_Printer):
    """Writes each distinct expression once, before the statement that is the first to use it."""

    def __init__(self, names: Callable[[Any], str]) -> None:
        super().__init__(names)
        self.known: dict[Expr, str] = {}

    def _share(self, s: Stmt, depth: int) -> Callable[[Expr], str]:
        return self._number

    def _number(self, e: Expr) -> str:
        known = self.known
        if e in known:
            return known[e]
        for node in post_order([e], lambda n: n not in known):
            if node in known:
                continue
            if isinstance(node, Var):
                known[node] = self.names(node)
            elif isinstance(node, Const):
                known[node] = literal(node.value, node.dtype)
            else:
                self.lines.append(self._written(node))
                known[node] = f"x{len(self.lines)}"
        return known[e]

    def _written(self, e: Expr) -> str:
        """One operation on what is known."""
        known = self.known
        if isinstance(e, Binary):
            return f"{known[e.a]} {e.op.value} {known[e.b]}"
        if isinstance(e, Select):
            return f"select {known[e.cond]} {known[e.a]} {known[e.b]}"
        return "".join(
            p if isinstance(p, str) else known[p] if isinstance(p, Expr) else self.names(p) for p in e.pieces()
        )

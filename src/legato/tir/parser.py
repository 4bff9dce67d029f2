"""Loop programs from text; see `tir.printer` for what it looks like.

    func   := ("kernel" | "host") @name "(" param,* ")" ["constants" "(" (param "=" string),* ")"] "{" stmt* "}"
    param  := name ":" (buffer | scalar)
    buffer := "Buffer" "[" "(" e,* ")" "," dtype ("," fact)* "]"          fact: order= halo= halo_value= pad= scope=
    scalar := dtype ["[" [int] ".." [int] "]"]
    stmt   := ("for" | "unroll" | "vector" | "parallel") name [":" scalar] "in" "0" ".." e "{" stmt* "}"
            | "if" e "{" stmt* "}" ["else" "{" stmt* "}"]      | "while" e "{" stmt* "}"      | "{" stmt* "}"
            | "let" name [":" scalar] "=" e ";"                | "share" name "=" e ";"
            | "alloc" param ";"                                | "view" param "=" name "at" e ";"
            | name "[" e,* "]" "=" e ";"                       | "check" e "else" int ["," string] (";" | "{" stmt* "}")
            | "launch" @name "(" arg,* ")" ";"                 | "invoke" @name "(" arg,* ")" ";"
            | "host_op" int "(" arg,* ")" ";"                  | "barrier" ";"
            | "object" param "," "tag" "=" int "," "pointers" "=" int ";"
            | ("open" | "resize") param "=" e ";"              | ("retain" | "release") e ";"
            | "switch" e "{" ("case" int "{" stmt* "}")* ["default" "{" stmt* "}"] "}"

A name means what the innermost block says that binds it. Blocks are on a stack: nesting is limited by memory only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from legato.arith.expr import Expr, Var
from legato.arith.parser import parse_expr
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.lexer import Token
from legato.base.tokens import TokenStream
from legato.tir._parse_head import Head, Names
from legato.tir.buffer import Buffer
from legato.tir.objects import Object, Open, Release, Resize, Retain
from legato.tir.stmt import (
    Alloc,
    Arg,
    Barrier,
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
    block,
)

__all__ = ["parse_func", "parse_function"]

_LOOPS = {k.value: k for k in LoopKind}


def parse_func(text: str, source_name: str = "<text>") -> Func:
    """The function that is the whole of `text`."""
    stream = TokenStream(text, source_name, arithmetic=True)
    func = parse_function(stream)
    if not stream.at_kind("eof"):
        raise stream.unexpected("the end of the text")
    return func


def parse_function(stream: TokenStream) -> Func:
    """The function that starts at the stream's position, with `kernel` or `host`; moves behind its closing brace."""
    return _Parser(stream).function()


@dataclass(slots=True)
class _Frame:
    """An open block: what is done with its contents when it ends, and what it holds so far."""

    close: Callable[[Stmt], None]
    items: list[Stmt | Callable[[Stmt], Stmt]] = field(default_factory=list)  # a callable takes the rest of the block
    hidden: list[tuple[str, Expr | Buffer | None]] = field(default_factory=list)

    def contents(self) -> Stmt:
        """The statements, with those that hold to the end of the block around the ones behind them."""
        done: list[Stmt] = []
        for item in reversed(self.items):
            if isinstance(item, Stmt):
                done.append(item)
            else:
                done = [item(block(*reversed(done)))]
        return block(*reversed(done))


class _Parser:
    """Reads one function."""

    def __init__(self, stream: TokenStream) -> None:
        self.stream = stream
        self.names = Names(stream)
        self.head = Head(stream, self.names)
        self.frames: list[_Frame] = []

    def function(self) -> Func:
        stream = self.stream
        first = stream.peek()
        if not stream.at("kernel", "host"):
            raise stream.unexpected("`kernel` or `host`")
        kind = FuncKind(stream.next().text)
        name = stream.expect_kind("global").text
        params = self.head.params()
        constants = self.head.constants() if stream.accept("constants") else ()
        span = stream.span(first)
        return Func(name, params, self._body(), kind, constants, span)

    def _body(self) -> Stmt:
        self._block(lambda body: None)
        while True:
            if self.stream.at("}"):
                done = self._close()
                if done is not None:
                    return done
            else:
                self._stmt()

    def _close(self) -> Stmt | None:
        """Ends the innermost block; the whole body if it was the last."""
        self.stream.next()
        frame = self.frames.pop()
        for name, old in reversed(frame.hidden):
            self.names.restore(name, old)
        done = frame.contents()
        if not self.frames:
            return done
        frame.close(done)
        return None

    def _block(self, close: Callable[[Stmt], None]) -> None:
        """Begins a block, whose contents `close` gets when it ends."""
        self.stream.expect("{")
        self.frames.append(_Frame(close))

    def _open(self, make: Callable[[Stmt], Stmt]) -> None:
        """Begins the block of which `make` makes a statement."""
        self._block(lambda body: self._add(make(body)))

    def _add(self, item: Stmt | Callable[[Stmt], Stmt]) -> None:
        self.frames[-1].items.append(item)

    def _bind(self, token: Token, named: Expr | Buffer) -> None:
        """Gives a name its meaning until the innermost block ends."""
        self.frames[-1].hidden.append((token.text, self.names.bind(token, named)))

    # Statements

    def _stmt(self) -> None:
        stream = self.stream
        token = stream.peek()
        if stream.at("{"):
            self._open(lambda body: body)
        elif token.kind != "ident":
            raise stream.unexpected("a statement or `}`")
        elif token.text in _LOOPS:
            self._for()
        elif stream.at("if"):
            stream.next()
            self._if()
        elif stream.at("switch"):
            stream.next()
            self._switch()
        elif stream.at("while"):
            stream.next()
            cond = self._condition()
            self._open(lambda body: While(cond, body))
        elif stream.at("check"):
            stream.next()
            self._check()
        else:
            read = _SIMPLE.get(token.text, _Parser._store)
            if read is not _Parser._store:
                stream.next()
            read(self)
            stream.expect(";")

    def _if(self) -> None:
        cond = self._condition()

        def close(then: Stmt) -> None:
            if self.stream.accept("else"):
                self._open(lambda orelse: If(cond, then, orelse))
            else:
                self._add(If(cond, then))

        self._block(close)

    def _switch(self) -> None:
        value = self._expr()
        self.stream.expect("{")
        self._case(value, [])

    def _case(self, value: Expr, cases: list[tuple[int, Stmt]]) -> None:
        """The cases that follow, and the brace that ends them."""

        def close(number: int, body: Stmt) -> None:
            cases.append((number, body))
            self._case(value, cases)

        def last(body: Stmt) -> None:
            self.stream.expect("}")
            self._add(Switch(value, tuple(cases), body))

        if self.stream.accept("case"):
            number = self.head.integer()
            self._block(lambda body: close(number, body))
        elif self.stream.accept("default"):
            self._block(last)
        elif self.stream.accept("}"):
            self._add(Switch(value, tuple(cases)))
        else:
            raise self.stream.unexpected("`case`, `default` or `}`")

    def _for(self) -> None:
        stream = self.stream
        kind = _LOOPS[stream.next().text]
        name = stream.expect_kind("ident")
        var = self.head.scalar(name.text) if stream.accept(":") else Var(name.text, dt.index, 0)
        stream.expect("in")
        zero = stream.expect_kind("int", "`0`")
        if zero.text != "0":
            raise stream.error("loops start at 0", zero, hint="add the start to the variable where it is used")
        stream.expect("..")
        extent = self._typed(dt.index)
        self._open(lambda body: For(var, extent, body, kind))
        self._bind(name, var)

    def _let(self) -> None:
        stream = self.stream
        name = stream.expect_kind("ident")
        var = self.head.scalar(name.text) if stream.accept(":") else None
        stream.expect("=")
        value = self._expr() if var is None else self._typed(var.dtype)
        bound = Var(name.text, value.dtype) if var is None else var
        self._bind(name, bound)
        self._add(lambda body: Let(bound, value, body))

    def _share(self) -> None:
        name = self.stream.expect_kind("ident")
        self.stream.expect("=")
        self._bind(name, self._expr())

    def _alloc(self) -> None:
        name, buffer = self.head.buffer_param()
        self._bind(name, buffer)
        self._add(lambda body: Alloc(buffer, body))

    def _view(self) -> None:
        name, buffer = self.head.buffer_param()
        self.stream.expect("=")
        base = self.names.buffer(self.stream.expect_kind("ident"))
        self.stream.expect("at")
        offset = self._typed(dt.index)
        self._bind(name, buffer)
        self._add(lambda body: View(buffer, base, offset, body))

    def _object(self) -> None:
        name, buffer = self.head.buffer_param()
        tag, pointers = self._fact("tag"), self._fact("pointers")
        self._bind(name, buffer)
        self._add(lambda body: Object(buffer, tag, pointers, body))

    def _fact(self, name: str) -> int:
        for text in (",", name, "="):
            self.stream.expect(text)
        return self.head.integer()

    def _open_object(self) -> None:
        name, buffer = self.head.buffer_param()
        self.stream.expect("=")
        handle = self._typed(dt.handle)
        self._bind(name, buffer)
        self._add(lambda body: Open(buffer, handle, body))

    def _resize(self) -> None:
        name, buffer = self.head.buffer_param()
        self.stream.expect("=")
        handle = self._typed(dt.handle)
        self._bind(name, buffer)
        self._add(lambda body: Resize(buffer, handle, body))

    def _retain(self) -> None:
        self._add(Retain(self._typed(dt.handle)))

    def _release(self) -> None:
        self._add(Release(self._typed(dt.handle)))

    def _store(self) -> None:
        buffer, indices = self._place()
        self.stream.expect("=")
        self._add(Store(buffer, indices, self._typed(buffer.dtype)))

    def _prefetch(self) -> None:
        self._add(Prefetch(*self._place()))

    def _place(self) -> tuple[Buffer, tuple[Expr, ...]]:
        stream = self.stream
        token = stream.expect_kind("ident")
        buffer = self.names.buffer(token)
        stream.expect("[")
        indices: list[Expr] = []
        while not stream.accept("]"):
            indices.append(self._typed(dt.index))
            if not stream.accept(",") and not stream.at("]"):
                raise stream.unexpected("`,` or `]`")
        self.names.check_rank(token, buffer, len(indices))
        return buffer, tuple(indices)

    def _check(self) -> None:
        cond = self._condition()
        self.stream.expect("else")
        code = self.head.integer()
        message = self.stream.string() if self.stream.accept(",") else ""
        if self.stream.at("{"):
            self._open(lambda report: Check(cond, code, message, report))
        else:
            self.stream.expect(";")
            self._add(Check(cond, code, message))

    def _barrier(self) -> None:
        self._add(Barrier())

    def _launch(self) -> None:
        callee = self.stream.expect_kind("global").text
        self._add(Launch(self._args(), callee))

    def _invoke(self) -> None:
        callee = self.stream.expect_kind("global").text
        self._add(Invoke(self._args(), callee))

    def _host_op(self) -> None:
        op = self.head.integer()
        self._add(HostOp(self._args(), op))

    def _args(self) -> tuple[Arg, ...]:
        stream = self.stream
        stream.expect("(")
        args: list[Arg] = []
        while not stream.accept(")"):
            named = self.names.get(stream.peek().text) if stream.at_kind("ident") else None
            if isinstance(named, Buffer) and stream.at(",", ")", ahead=1):
                stream.next()
                args.append(named)
            else:
                args.append(self._scalar())
            if not stream.accept(",") and not stream.at(")"):
                raise stream.unexpected("`,` or `)`")
        return tuple(args)

    # Expressions

    def _expr(self) -> Expr:
        return parse_expr(self.stream, self.names)

    def _scalar(self) -> Expr:
        """An argument of a call: an index or a handle."""
        token = self.stream.peek()
        e = self._expr()
        if e.dtype not in (dt.index, dt.handle):
            raise self.stream.error(f"expected index or handle, got {e.dtype}", token)
        return e

    def _typed(self, dtype: dt.DType) -> Expr:
        token = self.stream.peek()
        e = self._expr()
        if e.dtype != dtype:
            raise self.stream.error(f"expected {dtype}, got {e.dtype}", token)
        return e

    def _condition(self) -> Expr:
        return self._typed(dt.bool_)


_SIMPLE: dict[str, Callable[[_Parser], None]] = {
    "let": _Parser._let,
    "share": _Parser._share,
    "alloc": _Parser._alloc,
    "view": _Parser._view,
    "prefetch": _Parser._prefetch,
    "barrier": _Parser._barrier,
    "object": _Parser._object,
    "open": _Parser._open_object,
    "resize": _Parser._resize,
    "retain": _Parser._retain,
    "release": _Parser._release,
    "launch": _Parser._launch,
    "invoke": _Parser._invoke,
    "host_op": _Parser._host_op,
}

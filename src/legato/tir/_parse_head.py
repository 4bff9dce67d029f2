"""What stands in the heads of loop programs: parameters, buffer types, and the meaning of names."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Expr, Var
from legato.arith.parser import Build, Scope, parse_expr
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.lexer import Token, number
from legato.base.tokens import TokenStream
from legato.tir.buffer import Buffer, Layout
from legato.tir.buffer import Scope as Place
from legato.tir.expr import Address, Load, Size, Tag, call, cast
from legato.tir.intrinsics import INTRINSICS
from legato.tir.printer import RESERVED
from legato.tir.stmt import Param

__all__ = ["Head", "Names"]

_DTYPES = {d.name: d for d in (*dt.BY_NAME.values(), dt.index, dt.handle)}
_PLACES = {p.value: p for p in Place}


class Names(Scope):
    """The names in scope: variables, shared expressions, buffers. Adds Loads, casts and intrinsics to expressions."""

    def __init__(self, stream: TokenStream) -> None:
        super().__init__(stream, {})
        self._meaning: dict[str, Expr | Buffer] = {}
        self._takes_buffer = False  # the operand of `address(` comes next

    def get(self, name: str) -> Expr | Buffer | None:
        """What `name` means here; None if nothing."""
        return self._meaning.get(name)

    def bind(self, token: Token, named: Expr | Buffer) -> Expr | Buffer | None:
        """Gives a name a meaning; returns the one that this hides."""
        if token.text in RESERVED or "." in token.text:
            raise self.stream.error(f"`{token.text}` cannot be used as a name", token)
        old = self._meaning.get(token.text)
        self._meaning[token.text] = named
        return old

    def restore(self, name: str, old: Expr | Buffer | None) -> None:
        """Undoes a `bind` that hid `old`."""
        if old is None:
            del self._meaning[name]
        else:
            self._meaning[name] = old

    def name(self, token: Token) -> Expr:
        found = self._meaning.get(token.text)
        if isinstance(found, Buffer):
            if self._takes_buffer:
                self._takes_buffer = False
                return Address(found)
            raise self.stream.error(f"`{token.text}` is a buffer", token, hint=f"an element of it is {token.text}[…]")
        if found is None:
            raise self.stream.error(f"unknown name `{token.text}`", token)
        return found

    def buffer(self, token: Token) -> Buffer:
        """The buffer that a name stands for."""
        found = self._meaning.get(token.text)
        if not isinstance(found, Buffer):
            raise self.stream.error(f"unknown buffer `{token.text}`", token)
        return found

    def check_rank(self, token: Token, buffer: Buffer, count: int) -> None:
        """Raises unless `buffer` takes `count` subscripts."""
        if count != buffer.rank:
            message = f"`{token.text}` has {buffer.rank} dimensions, got {count} subscripts"
            raise self.stream.error(message, token)

    def call(self, token: Token) -> Build:
        dtype = _DTYPES.get(token.text)
        if dtype is not None:
            return lambda args: cast(self.exactly(token, 1, args)[0], dtype)
        if token.text == "address":
            return self._address(token)
        if token.text in ("tag", "payload_bytes"):
            return lambda args: self._of_object(token, self.exactly(token, 1, args)[0])
        intrinsic = INTRINSICS.get(token.text)
        if intrinsic is not None:
            return lambda args: call(token.text, *self.exactly(token, intrinsic.arity, args))
        return super().call(token)

    def _of_object(self, token: Token, handle: Expr) -> Expr:
        if handle.dtype != dt.handle:
            raise self.stream.error(f"{token.text} takes a handle, got {handle.dtype}", token)
        return Tag(handle) if token.text == "tag" else Size(handle)

    def _address(self, token: Token) -> Build:
        self._takes_buffer = True

        def build(args: Sequence[Expr]) -> Expr:
            self._takes_buffer = False
            if len(args) != 1 or not isinstance(args[0], Address):
                raise self.stream.error("address takes the name of a buffer", token)
            return args[0]

        return build

    def subscript(self, token: Token) -> Build:
        buffer = self.buffer(token)

        def build(args: Sequence[Expr]) -> Expr:
            self.check_rank(token, buffer, len(args))
            for a in args:
                if a.dtype != dt.index:
                    hint = f"convert it: index({a})"
                    raise self.stream.error(f"subscript {a} has dtype {a.dtype}, wanted index", token, hint=hint)
            return Load(buffer, tuple(args))

        return build


class Head:
    """Reads parameters and their types."""

    def __init__(self, stream: TokenStream, names: Names) -> None:
        self.stream = stream
        self.names = names

    def params(self) -> tuple[Param, ...]:
        """`(a: Buffer[(n,), float32], n: index)`: buffers may use scalars that come later."""
        stream = self.stream
        start = stream.pos
        self._declare_scalars()
        stream.pos = start
        out: list[Param] = []
        stream.expect("(")
        while not stream.accept(")"):
            name = stream.expect_kind("ident")
            stream.expect(":")
            if stream.at("Buffer"):
                buffer = self.buffer_type(name.text)
                self._declare(name, buffer)
                out.append(buffer)
            else:
                self.scalar(name.text)
                var = self.names.get(name.text)
                assert isinstance(var, Var)
                out.append(var)
            self._comma()
        return tuple(out)

    def constants(self) -> tuple[tuple[Buffer, str], ...]:
        """`(w: Buffer[…] = "name", …)`."""
        stream = self.stream
        out: list[tuple[Buffer, str]] = []
        stream.expect("(")
        while not stream.accept(")"):
            name, buffer = self.buffer_param()
            self._declare(name, buffer)
            stream.expect("=")
            out.append((buffer, stream.string()))
            self._comma()
        return tuple(out)

    def _comma(self) -> None:
        if not self.stream.accept(",") and not self.stream.at(")"):
            raise self.stream.unexpected("`,` or `)`")

    def _declare(self, name: Token, named: Expr | Buffer) -> None:
        if self.names.bind(name, named) is not None:
            raise self.stream.error(f"two parameters are called `{name.text}`", name)

    def _declare_scalars(self) -> None:
        """Declares the scalar parameters, skipping over the buffers."""
        stream, depth = self.stream, 0
        while not stream.at_kind("eof"):
            if depth == 1 and stream.at_kind("ident") and stream.at(":", ahead=1):
                name = stream.next()
                stream.next()
                if not stream.at("Buffer"):
                    self._declare(name, self.scalar(name.text))
                continue
            depth += stream.at("(", "[", "{") - stream.at(")", "]", "}")
            stream.next()
            if depth <= 0:
                return

    def buffer_param(self) -> tuple[Token, Buffer]:
        """`name: Buffer[…]`."""
        name = self.stream.expect_kind("ident")
        self.stream.expect(":")
        return name, self.buffer_type(name.text)

    def dtype(self) -> DType:
        """The name of a dtype."""
        token = self.stream.peek()
        found = _DTYPES.get(token.text)
        if found is None:
            raise self.stream.unexpected("a dtype")
        self.stream.next()
        return found

    def scalar(self, name: str) -> Var:
        """A variable called `name` of the type that comes next: `float32` or `index[0..7]`."""
        stream = self.stream
        dtype = self.dtype()
        if not stream.accept("["):
            return Var(name, dtype)
        lo = None if stream.at("..") else self.integer()
        stream.expect("..")
        hi = None if stream.at("]") else self.integer()
        stream.expect("]")
        return Var(name, dtype, lo, hi)

    def integer(self) -> int:
        """An integer without suffix, perhaps negative."""
        sign = -1 if self.stream.accept("-") else 1
        return sign * int(number(self.stream.expect_kind("int"))[0])

    def buffer_type(self, name: str) -> Buffer:
        """A buffer called `name` of the type that comes next."""
        stream = self.stream
        start = stream.expect("Buffer")
        stream.expect("[")
        shape = self._shape()
        stream.expect(",")
        dtype = self.dtype()
        facts: dict[str, object] = {}
        while stream.accept(","):
            token = stream.expect_kind("ident", "a fact of a buffer: order, halo, halo_value, pad or scope")
            stream.expect("=")
            facts[token.text] = self._fact(token)
        stream.expect("]")
        scope = facts.pop("scope", Place.GLOBAL)
        assert isinstance(scope, Place)
        order = facts.pop("order", tuple(range(len(shape))))
        halo, pad = facts.get("halo", ()), facts.get("pad", ())
        assert isinstance(order, tuple)
        assert isinstance(halo, tuple)
        assert isinstance(pad, tuple)
        if sorted(order) != list(range(len(shape))) or not {len(halo), len(pad)} <= {0, len(shape)}:
            raise stream.error(f"order, halo and pad must fit the rank, {len(shape)}", start)
        return Buffer(name, shape, dtype, Layout(order, **facts), scope)  # type: ignore[arg-type]  # _fact keeps their types

    def _shape(self) -> tuple[Expr, ...]:
        stream = self.stream
        shape: list[Expr] = []
        stream.expect("(")
        while not stream.accept(")"):
            token = stream.peek()
            dim = parse_expr(stream, self.names)
            if dim.dtype != dt.index:
                raise stream.error(f"a dim has dtype {dim.dtype}, wanted index", token)
            shape.append(dim)
            self._comma()
        return tuple(shape)

    def _fact(self, token: Token) -> object:
        match token.text:
            case "order":
                return tuple(self._integers())
            case "halo":
                return tuple(self._pairs())
            case "halo_value":
                sign = -1.0 if self.stream.accept("-") else 1.0
                return sign * float(number(self.stream.expect_kind("float"))[0])
            case "pad":
                return tuple(self._integers())
            case "scope" if self.stream.peek().text in _PLACES:
                return _PLACES[self.stream.next().text]
            case "scope":
                raise self.stream.unexpected("global, local or register")
            case _:
                hint = "the facts are order, halo, halo_value, pad and scope"
                raise self.stream.error(f"a buffer has no `{token.text}`", token, hint=hint)

    def _integers(self) -> list[int]:
        out: list[int] = []
        self.stream.expect("(")
        while not self.stream.accept(")"):
            out.append(self.integer())
            self._comma()
        return out

    def _pairs(self) -> list[tuple[int, int]]:
        out: list[tuple[int, int]] = []
        self.stream.expect("(")
        while not self.stream.accept(")"):
            token = self.stream.peek()
            pair = self._integers()
            if len(pair) != 2:
                raise self.stream.error("a halo is (before, after) per dimension", token)
            out.append((pair[0], pair[1]))
            self._comma()
        return out

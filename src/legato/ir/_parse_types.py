"""Types, dims and attribute values from text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from legato.arith.expr import Expr as DimExpr
from legato.arith.expr import Var as DimVar
from legato.arith.expr import const, fresh
from legato.arith.parser import Scope as DimScope
from legato.arith.parser import parse_expr as parse_dim
from legato.arith.substitute import substitute, variables
from legato.base import dtype as dt
from legato.base.lexer import Token, number, unquote
from legato.base.tokens import TokenStream
from legato.ir._hints import dtype_hint
from legato.ir._names import TYPE_WORDS
from legato.ir.constraint import Constraint
from legato.ir.types import (
    Dim,
    FuncType,
    GlobalTypeVar,
    HoleType,
    Kind,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    scalar_type,
)

__all__ = ["MAX_NESTING", "MAX_RANK", "TypeParser", "fit", "name_of"]

MAX_NESTING: Final = 100
MAX_RANK: Final = 64  # NumPy's
_KINDS: Final = {k.value: k for k in Kind}
_CONSTANTS: Final = {"None": None, "nullptr": None, "True": True, "False": False}
_TYPES: Final = (
    "types are Tensor[(…), dtype], a dtype (a scalar), (…), fn (…) -> T, ref(T), Shape[(…)] and the module's data types"
)
_DIM_OPERATORS: Final = ("+", "-", "*", "//", "%")

Bound = tuple[TypeVar | DimVar, ...]


def name_of(stream: TokenStream, token: Token) -> str:
    """The name that an ident or quoted name gives."""
    return unquote(stream.source, token) if token.kind == "string" else token.text


class TypeParser:
    """Reads types at a stream's position, with the dims and type variables that are in scope there.

    A name that no binder declares is a dim: within `parameters` one that the function binds, elsewhere one that holds
    until the scope is released, since it stands for a result's extent (a data-dependent one, or one that match_cast
    binds).
    """

    def __init__(
        self,
        stream: TokenStream,
        types: Mapping[str, GlobalTypeVar],
        meta: Callable[[], Any],
        limit: int = MAX_NESTING,
    ) -> None:
        self._stream = stream
        self._types = types
        self._meta = meta  # reads a reference into the metadata
        self._limit = limit
        self._depth = 0
        self._names: dict[str, DimVar | TypeVar] = {}
        self._undo: list[tuple[str, DimVar | TypeVar | None]] = []
        self._parameters: list[DimVar] | None = None

    # ------------------------------------------------------------------ scopes

    def mark(self) -> int:
        """The place in the scopes to `release` to."""
        return len(self._undo)

    def release(self, mark: int) -> None:
        """Leaves the scopes entered since `mark`."""
        while len(self._undo) > mark:
            name, old = self._undo.pop()
            if old is None:
                del self._names[name]
            else:
                self._names[name] = old

    def declare(self, name: str, var: DimVar | TypeVar) -> None:
        """Brings a name into scope."""
        self._undo.append((name, self._names.get(name)))
        self._names[name] = var

    @contextmanager
    def parameters(self) -> Iterator[list[DimVar]]:
        """Within it, undeclared dims are declared and added to the list that it gives."""
        outer, self._parameters = self._parameters, []
        try:
            yield self._parameters
        finally:
            self._parameters = outer

    def binders(self) -> tuple[Bound, Bound]:
        """Optional type parameters in brackets, which are declared, and those behind `;`: dims of the body."""
        stream = self._stream
        if not stream.accept("["):
            return (), ()
        own = self._binder_list()
        inner = self._binder_list() if stream.accept(";") else ()
        stream.expect("]")
        return own, inner

    def _binder_list(self) -> Bound:
        group: list[TypeVar | DimVar] = []
        while self._stream.at_kind("ident"):
            group.append(self.binder())
            if not self._stream.accept(","):
                break
        return tuple(group)

    def binder(self) -> TypeVar | DimVar:
        """One type parameter `A`, `A: Kind`, `n: ShapeVar` or `n: ShapeVar(lo, hi)`, which is declared."""
        stream = self._stream
        token = stream.expect_kind("ident")
        if token.text in TYPE_WORDS:
            raise stream.error(f"`{token.text}` has a meaning of its own and cannot name a type parameter", token)
        var: TypeVar | DimVar = TypeVar(token.text)
        if stream.accept(":"):
            kind = stream.expect_kind("ident", "a kind")
            if kind.text not in _KINDS:
                raise stream.error(f"unknown kind `{kind.text}`", kind, hint="one of " + ", ".join(_KINDS))
            var = self._dim_var(token.text) if kind.text == "ShapeVar" else TypeVar(token.text, _KINDS[kind.text])
        self.declare(token.text, var)
        return var

    def _dim_var(self, name: str) -> DimVar:
        stream = self._stream
        if not stream.accept("("):
            return fresh(name)
        lo = self._bound()
        stream.expect(",")
        hi = self._bound()
        last = stream.expect(")")
        if lo is not None and hi is not None and lo > hi:
            raise stream.error(f"the range of {name} is empty: {lo} > {hi}", last)
        return fresh(name, lo, hi)

    def _bound(self) -> int | None:
        return None if self._stream.accept("?") else self._integer()

    def _integer(self) -> int:
        stream = self._stream
        sign = -1 if stream.accept("-") else 1
        token = stream.expect_kind("int")
        value, dtype = number(token)
        if dtype is not None:
            raise stream.error("expected a plain integer", token, hint="drop the suffix")
        return sign * int(value)

    # ------------------------------------------------------------------ dims

    def dim(self) -> Dim:
        """A dim; `?` is a fresh one."""
        stream, token = self._stream, self._stream.peek()
        if stream.accept("?"):
            return self._add(fresh("d"))
        if token.text == "meta" and stream.at("[", ahead=1):
            return self._meta_dim(token)
        found = parse_dim(stream, _Dims(stream, self._names, self._new))
        if found.dtype != dt.index:
            hint = "dims are plain integers, names and + - * // % min max over them"
            raise stream.error(f"expected a dim, got a scalar of dtype {found.dtype}", token, hint=hint)
        return found

    def _meta_dim(self, token: Token) -> Dim:
        """A dim that the metadata holds: TVM wrote symbolic dims so."""
        value = self._own(self._meta())
        if type(value) is int:
            return const(value)
        if not isinstance(value, DimExpr):
            raise self._stream.error("expected a dim", token)
        return value

    def _own(self, value: Any) -> Any:
        """A value of the metadata with this definition's dims for those of the metadata."""
        if isinstance(value, tuple):
            return tuple(map(self._own, value))
        if isinstance(value, dict):
            return {name: self._own(v) for name, v in value.items()}
        if not isinstance(value, DimExpr):
            return value
        own = {}
        for var in variables(value):
            name = f"meta {var.uid}"  # no name that a text can have
            found = self._names.get(name)
            own[var] = found if isinstance(found, DimVar) else self._new(name, fresh(var.name, var.lo, var.hi))
        return substitute(value, own)

    def _new(self, name: str, var: DimVar | None = None) -> DimVar:
        """The dim of a name that is not in scope."""
        var = self._add(var or fresh(name))
        self.declare(name, var)
        return var

    def _add(self, var: DimVar) -> DimVar:
        if self._parameters is not None:
            self._parameters.append(var)
        return var

    def dims(self, close: str) -> tuple[Dim, ...]:
        """Dims up to the closing bracket, which is read."""
        return tuple(self._list(self.dim, close))

    def _list(self, item: Callable[[], Any], close: str) -> list[Any]:
        """Items separated by commas up to the closing bracket, which is read."""
        stream, items = self._stream, []
        while not stream.accept(close):
            items.append(item())
            if not stream.at(close):
                if not stream.at(","):
                    raise stream.unexpected(f"`,` or `{close}`")
                stream.next()
        return items

    # ------------------------------------------------------------------ types

    def type(self) -> Type:
        """A type; ParseError where it is nested deeper than the limit."""
        self.enter()
        found = self._type()
        self.leave()
        return found

    def types(self, close: str) -> tuple[Type, ...]:
        """Types up to the closing bracket, which is read."""
        return tuple(self._list(self.type, close))

    def enter(self) -> None:
        """Goes one level deeper; ParseError beyond the limit."""
        self._depth += 1
        if self._depth > self._limit:
            raise self._stream.error(f"types, patterns and attributes may be nested {self._limit} deep, not more")

    def leave(self) -> None:
        """Comes back from one level."""
        self._depth -= 1

    def _type(self) -> Type:
        stream, token = self._stream, self._stream.peek()
        if stream.accept("("):
            return self._tuple()
        if token.kind not in ("ident", "string"):
            raise stream.unexpected("a type")
        stream.next()
        if token.kind == "ident":
            if token.text in dt.BY_NAME:
                return scalar_type(dt.BY_NAME[token.text])
            word = _WORDS.get(token.text)
            if word is not None:
                return word(self, token)
        return self._named(token)

    def _tuple(self) -> Type:
        stream, first = self._stream, self._stream.peek()
        items = self._list(self.type, ")")
        before = stream.tokens[stream.pos - 2]
        grouped = len(items) == 1 and before.text != ","
        if first.text == "," and not items:
            raise stream.error("expected a type, got `,`", first)
        return items[0] if grouped else TupleType(tuple(items))

    def _tensor(self, token: Token) -> Type:
        stream = self._stream
        stream.expect("[")
        first = stream.expect("(")
        shape = self.dims(")")
        if len(shape) > MAX_RANK:
            raise stream.error(f"a tensor has {len(shape)} dims, more than the limit of {MAX_RANK}", first)
        stream.expect(",")
        name = stream.expect_kind("ident", "a dtype")
        if name.text not in dt.BY_NAME:
            hint = dtype_hint(name.text) or "one of " + ", ".join(dt.BY_NAME)
            raise stream.error(f"unknown dtype `{name.text}`", name, hint=hint)
        stream.expect("]")
        return TensorType(shape, dt.BY_NAME[name.text])

    def _shape(self, token: Token) -> Type:
        if not self._stream.accept("["):
            return ShapeType()
        self._stream.expect("(")
        dims = self.dims(")")
        self._stream.expect("]")
        return ShapeType(dims)

    def _func(self, token: Token) -> Type:
        stream = self._stream
        mark = self.mark()
        outer, self._parameters = self._parameters, None
        bound, _ = self.binders()
        self._parameters = outer
        stream.expect("(")
        params = self.types(")")
        stream.expect("->")
        ret = self.type()
        own = {var.name for var in bound}
        around = [(name, self._names[name]) for name, _ in self._undo[mark:] if name not in own]
        self.release(mark)
        for name, var in around:  # dims of the function whose parameter is of this type
            self.declare(name, var)
        return FuncType(params, ret, bound)

    def _ref(self, token: Token) -> Type:
        self._stream.expect("(")
        value = self.type()
        self._stream.expect(")")
        return RefType(value)

    def _named(self, token: Token) -> Type:
        stream = self._stream
        name = name_of(stream, token)
        func: Type | None = self._types.get(name)
        if token.kind == "ident" and name in self._names:
            var = self._names[name]
            if isinstance(var, DimVar):
                hint = f"a tensor type is Tensor[({name},), float32]"
                raise stream.error(f"`{name}` is a dim, not a type", token, hint=hint)
            func = var
        if func is None:
            raise stream.error(f"unknown type `{name}`", token, hint=dtype_hint(name) or _TYPES)
        if not stream.accept("["):
            return func
        args = self.types("]")
        return TypeCall(func, args) if args else func  # TVM writes T[] for a T without parameters

    def type_args(self) -> tuple[Type | Dim, ...]:
        """The type arguments of a call behind `[`, which has been read: types, and dims."""
        return tuple(self._list(self._type_arg, "]"))

    def _type_arg(self) -> Type | Dim:
        stream, token = self._stream, self._stream.peek()
        if stream.at("dim") and stream.at("[", ahead=1):
            return self._wrapped_dim()
        is_dim = token.kind == "int" or stream.at("-") or isinstance(self._names.get(token.text), DimVar)
        return self.dim() if is_dim else self.type()

    # ------------------------------------------------------------------ attribute values

    def value(self) -> Any:
        """An attribute's value."""
        self.enter()
        found = self._value()
        self.leave()
        return found

    def _value(self) -> Any:
        stream, token = self._stream, self._stream.peek()
        if token.kind == "string":
            return stream.string()
        if token.kind in ("int", "float") or stream.at("-"):
            return self._number()
        if stream.at("[", "("):
            start = stream.pos
            found = tuple(self._list(self.value, "]" if stream.next().text == "[" else ")"))
            if token.text == "(" and len(found) == 1 and stream.at(*_DIM_OPERATORS):
                stream.pos = start  # parentheses of a dim
                return self.dim()
            return found
        if stream.accept("{"):
            return dict(self._list(self._entry, "}"))
        if token.kind != "ident":
            raise stream.unexpected("a value")
        return self._word(token)

    def _entry(self) -> tuple[str, Any]:
        key = self._stream.string()
        self._stream.expect(":")
        return key, self.value()

    def _number(self) -> Any:
        stream = self._stream
        start, sign = stream.pos, 1
        while stream.accept("-"):
            sign = -sign
        token = stream.next()
        if token.kind == "int":
            if stream.at(*_DIM_OPERATORS):
                stream.pos = start
                return self.dim()
            return sign * int(number(token)[0])
        if token.kind != "float":
            stream.pos -= 1
            raise stream.unexpected("a number")
        return sign * float(number(token)[0])

    def _word(self, token: Token) -> Any:
        stream, text = self._stream, token.text
        if text in _CONSTANTS or text in dt.BY_NAME:
            stream.next()
            return _CONSTANTS[text] if text in _CONSTANTS else dt.BY_NAME[text]
        if stream.at("[", ahead=1):
            if text == "meta":
                return self._own(self._meta())
            if text == "Tensor":
                return self.type()
            if text in ("dim", "type", "constraint"):
                return self._wrapped(text)
        if isinstance(self._names.get(text), DimVar) or text in ("min", "max", "select"):
            return self.dim()
        raise stream.error(f"unknown value `{text}`", token, hint=f'a string is written in quotes: "{text}"')

    def _wrapped(self, word: str) -> Any:
        if word == "dim":
            return self._wrapped_dim()
        stream = self._stream
        stream.pos += 2
        value: Any
        if word == "type":
            value = self.type()
        else:
            a = self.dim()
            stream.expect(",")
            b = self.dim()
            stream.expect(",")
            value = Constraint(a, b, stream.string())
        stream.expect("]")
        return value

    def _wrapped_dim(self) -> Dim:
        self._stream.pos += 2
        value = self.dim()
        self._stream.expect("]")
        return value


_WORDS: Final[Mapping[str, Callable[[TypeParser, Token], Type]]] = {
    "Tensor": TypeParser._tensor,
    "Shape": TypeParser._shape,
    "fn": TypeParser._func,
    "ref": TypeParser._ref,
    "_": lambda parser, token: HoleType(),
}


class _Dims(DimScope):
    """Names in dims: those in scope, and new ones."""

    def __init__(self, stream: TokenStream, names: Mapping[str, Any], new: Callable[[str], DimVar]) -> None:
        super().__init__(stream, names)
        self._new = new

    def name(self, token: Token) -> DimExpr:
        found = self.names.get(token.text)
        if found is None:
            if token.text in TYPE_WORDS or "." in token.text:
                raise self.stream.error(f"`{token.text}` cannot name a dim", token)
            return self._new(token.text)
        if not isinstance(found, DimVar):
            raise self.stream.error(f"`{token.text}` is a type, not a dim", token)
        return found


def fit(value: Any, annotation: str) -> Any:
    """`value` as an attribute of the annotated type wants it: `1` is a float or a dim where only those are allowed."""
    words = set(re.findall(r"\w+", annotation))
    if "int" in words or not words & {"float", "Dim", "DimExpr"}:
        return value
    return _fit(value, float if "float" in words else const)


def _fit(value: Any, make: Callable[[int], Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(_fit(v, make) for v in value)
    return make(value) if type(value) is int else value

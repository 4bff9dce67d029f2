"""What of expressions does not nest in the text: names, literals, references, patterns, attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from difflib import get_close_matches
from typing import Any, Final

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import ParseError
from legato.base.lexer import Token, number
from legato.base.tokens import TokenStream
from legato.ir._hints import WORDS
from legato.ir._json_checks import Bad
from legato.ir._literals import array_of
from legato.ir._metadata import KEY, Table
from legato.ir._parse_types import TypeParser, name_of
from legato.ir._relay_metadata import NodeGraph
from legato.ir._relay_ops import RENAMED
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from legato.ir.devices import PARAMS, RESULT
from legato.ir.expr import Call, Constant, Constructor, Expr, GlobalVar, Shape, Var
from legato.ir.op import Op
from legato.ir.types import GlobalTypeVar, TensorType, scalar_type, tensor_type

__all__ = ["DEVICE", "GROWS", "LEAVES", "Known", "LeafParser"]

LEAVES: Final = frozenset({"local", "global", "int", "float"})  # tokens that are an operand
_PARTS: Final = frozenset({"ident", "int", "float"})  # tokens that continue a name, and what may stand between them:
_JOINTS: Final = frozenset({".", "-", "/", ":"})
DEVICE: Final = "virtual_device"  # what TVM calls a device, of parameters, functions and calls of on_device
_DEVICES: Final = (DEVICE, PARAMS, RESULT)
GROWS: Final = ("(", ".", "[")  # what may follow an operand and make more of it


@dataclass(slots=True)
class Known:
    """What the names of a text mean. `globals` grows as functions are named; `section` reads the metadata."""

    ops: Mapping[str, Op]
    types: dict[str, GlobalTypeVar] = field(default_factory=dict)
    constructors: dict[str, Constructor | None] = field(default_factory=dict)  # None: the name of several
    globals: dict[str, tuple[GlobalVar, Token]] = field(default_factory=dict)
    section: Callable[[], Table | NodeGraph] = lambda: Table({})


class LeafParser:
    """Reads leaves at a stream's position; knows the variables and graph bindings of one definition."""

    def __init__(self, stream: TokenStream, known: Known) -> None:
        self.stream = stream
        self.types = TypeParser(stream, known.types, self.meta)
        self._known = known
        self._tokens = stream.tokens
        self._vars: dict[str, Var] = {}
        self._undo: list[tuple[str, Var | None]] = []
        self._placed = ""  # where the variable lies that was bound last
        self._graph: dict[str, Expr] = {}
        self._made: set[int] = set()  # the nodes of graph bindings, by identity: the table above keeps them
        self._long: dict[str, dict[int, set[str]]] = {}  # names that are no identifiers, by their start and length
        self._constants: dict[int, Constant] = {}  # by the identity of their arrays, which the metadata keeps

    # ------------------------------------------------------------------ scopes

    def _declare(self, name: str, var: Var) -> None:
        self._undo.append((name, self._vars.get(name)))
        self._vars[name] = var

    def _release(self, mark: int) -> None:
        while len(self._undo) > mark:
            name, old = self._undo.pop()
            if old is None:
                del self._vars[name]
            else:
                self._vars[name] = old

    def _var(self) -> tuple[str, Var]:
        """`%x` or `%x: T` where it is bound; not declared yet."""
        stream = self.stream
        token = stream.expect_kind("local")
        if self._is_graph(token):
            raise stream.error(f"`%{token.text}` names a graph binding, not a variable", token,
                               hint='variables have a letter in their name, or quotes: %"0"')  # fmt: skip
        name = self._long_name(token)
        self._placed = ""
        if stream.accept("{"):
            stream.expect(DEVICE)
            stream.expect("=")
            self._placed = self._device()
            stream.expect("}")
        ty = self.types.type() if stream.accept(":") else None
        return name, Var(name, ty=ty, span=stream.span(token))

    def _long_name(self, token: Token) -> str:
        """The name of the variable that is bound here: with what follows without a space, as in `%conv.1::w-0`.

        TVM printed names as they are. A `:` alone ends the name, unless a number follows: no type is called so.
        """
        tokens, stream, end = self._tokens, self.stream, token.end
        if token.end - token.start == len(token.text) + 1:  # not quoted
            while (count := _joined(tokens, stream.pos, end)) > 0:
                stream.pos += count
                end = tokens[stream.pos - 1].end
        if end == token.end:
            return token.text
        name = stream.source.text[token.start + 1 : end]
        self._long.setdefault(token.text, {}).setdefault(len(name), set()).add(name)
        return name

    def _long_var(self, token: Token) -> Var | None:
        """The variable whose long name stands here, if it is one. ParseError if it could be more than that."""
        text, start = self.stream.source.text, token.start + 1
        there = ((text[start : start + n], names) for n, names in sorted(self._long[token.text].items(), reverse=True))
        fits = (n for n, names in there if n in names and n in self._vars and _ends(text, start + len(n)))
        name = next(fits, None)
        if name is None:
            return None
        short = self._vars.get(token.text)
        if short is not None and not (name[len(token.text)] == "." and isinstance(short.ty, TensorType)):
            hint = f'put quotes around the name: %"{name}"'
            raise self.stream.error(f"`%{name}` may be a variable, or begin with `%{token.text}`", token, hint=hint)
        while self._tokens[self.stream.pos].start < start + len(name):
            self.stream.pos += 1
        return self._vars[name]

    def _is_graph(self, token: Token) -> bool:
        return token.text.isdigit() and token.end - token.start == len(token.text) + 1

    def free(self) -> None:
        """Reads a free_var or free_dim statement."""
        stream = self.stream
        if stream.next().text == "free_dim":
            self.types.binder()
        else:
            self._declare(*self._var())
        stream.expect(";")

    def _quick(self) -> Expr | None:
        """An operand that is one token, with nothing behind it that would make it more; None where it is not."""
        tokens, pos = self._tokens, self.stream.pos
        return self._leaf() if tokens[pos].kind in LEAVES and tokens[pos + 1].text not in GROWS else None

    def _leaf(self) -> Expr:
        """A variable, global or number."""
        token = self._tokens[self.stream.pos]
        if token.kind == "local":
            if token.text in self._long and (long := self._long_var(token)) is not None:
                return long
            found = (self._graph if self._is_graph(token) else self._vars).get(token.text)
            if found is None:
                raise self._unknown_local(token)
            self.stream.pos += 1
            return found
        if token.kind == "global":
            self.stream.pos += 1
            return self._known.globals.setdefault(token.text, (GlobalVar(token.text), token))[0]
        return self._literal()

    def _unknown_local(self, token: Token) -> ParseError:
        if self._is_graph(token):
            hint = f"a graph binding `%{token.text} = …;` comes before its use"
            return self.stream.error(f"`%{token.text}` is not bound here", token, hint=hint)
        return self.stream.error(f"unknown variable `%{token.text}`", token, hint=_close(token.text, self._vars, "%"))

    def _literal(self) -> Constant:
        stream = self.stream
        first, sign = stream.peek(), 1
        while stream.accept("-"):
            sign = -sign
        token = stream.peek()
        if token.kind not in ("int", "float"):
            raise stream.error("- stands before numbers only", first, hint="negative(x) negates an expression")
        stream.next()
        value, dtype = number(token)
        if dtype is None and token.kind == "float":
            hint = f"write {token.text}f for float32, {token.text}f64 for float64"
            raise stream.error(f"invalid number `{token.text}`: a float literal needs a suffix", token, hint=hint)
        value = sign * value
        if dtype is None:
            dtype = dt.int32 if dt.int32.min <= value <= dt.int32.max else dt.int64
        data = array_of(value, dtype)
        if data is None or (value in (float("inf"), float("-inf")) and not token.text.startswith("inf")):
            raise stream.error(f"{'-' * (sign < 0)}{token.text} does not fit {dtype}", token)
        return Constant(data, ty=scalar_type(dtype), span=stream.span(first))

    def _index(self) -> int:
        token = self.stream.expect_kind("int", "the index of a tuple's field")
        value, dtype = number(token)
        if dtype is not None or value >= 1 << 31:
            raise self.stream.error(f"`{token.text}` is no index of a tuple's field", token)
        return int(value)

    def _attribute_follows(self) -> bool:
        return self.stream.at_kind("ident", "string") and self.stream.at("=", ahead=1)

    def attribute(self, attrs: dict[str, Any]) -> None:
        """Reads `name=value` into `attrs`."""
        if not self._attribute_follows():
            raise self.stream.unexpected("name=value")
        token = self.stream.next()
        name = name_of(self.stream, token)
        if name in attrs:
            raise self.stream.error(f"attribute `{name}` is given twice", token)
        self.stream.expect("=")
        if name in _DEVICES and self.stream.at("meta"):
            device = self._device()
            attrs.update({name: device} if device else {})
        else:
            attrs[name] = self.types.value()

    def _device(self) -> str:
        """The device that `meta[…][…]` is; "" where the text has no metadata: TVM printed programs without, too."""
        try:
            has_devices = self._known.section().count("VirtualDevice") > 0
        except (ParseError, Bad):
            has_devices = False
        if has_devices:
            found = self.meta()
            return found if isinstance(found, str) else ""
        self._skip_meta()
        return ""

    def _skip_meta(self) -> None:
        """Passes over `meta[…][…]`."""
        self.stream.pos += 1
        for _ in range(2):
            self.stream.expect("[")
            self.stream.next()
            self.stream.expect("]")

    def _named(self, token: Token) -> Expr:
        """A constructor (called, where it takes nothing) or an operator."""
        name = name_of(self.stream, token)
        if name in self._known.constructors:
            found = self._constructor(token, name)
            if found.inputs:
                return found
            if self.stream.at("(") and self.stream.at(")", ahead=1):
                self.stream.pos += 2
            return Call(found, (), span=self.stream.span(token))
        op = self._known.ops.get(name) or self._known.ops.get(RENAMED.get(name, ""))
        if op is None:
            raise self._unknown(token, name)
        return op

    def _unknown(self, token: Token, name: str) -> ParseError:
        """The error that no operator or constructor is called so."""
        if name in WORDS and token.kind == "ident":
            return self.stream.error(f"there is no `{name}`", token, hint=WORDS[name])
        marks = (("%", self._vars), ("@", self._known.globals))
        hint = next((f"did you mean `{mark}{name}`?" for mark, names in marks if name in names), None)
        if hint is None and self.stream.at(":"):
            hint = f"an attribute is {name}=value"
        close = hint or _close(name, [*self._known.ops, *self._known.constructors], "")
        return self.stream.error(f"unknown operator or constructor `{name}`", token, hint=close)

    def _itself(self) -> Expr:
        """`&name`: the operator, though a constructor has the same name; or a constructor without calling it."""
        token = self.stream.next()
        if token.kind not in ("ident", "string"):
            self.stream.pos -= 1
            raise self.stream.unexpected("the name of an operator or constructor")
        name = name_of(self.stream, token)
        op = self._known.ops.get(name)
        return self._constructor(token, name) if op is None else op

    def _constructor(self, token: Token, name: str) -> Constructor:
        found = self._known.constructors.get(name)
        if found is None:
            if name in self._known.constructors:
                hint = "put the type's name before it: Type.Constructor"
                raise self.stream.error(f"several data types have a constructor `{name}`", token, hint=hint)
            close = WORDS.get(name) or _close(name, self._known.constructors, "")
            raise self.stream.error(f"unknown constructor `{name}`", token, hint=close)
        return found

    def _bool(self) -> Expr:
        token = self.stream.next()
        data = array_of(token.text == "True", dt.bool_)
        assert data is not None
        return Constant(data, ty=scalar_type(dt.bool_), span=self.stream.span(token))

    def constant(self) -> Constant:
        """`meta[relay.Constant][i]`: the same constant for the same i."""
        first = self.stream.peek()
        data = self.meta()
        if not isinstance(data, np.ndarray):
            raise self.stream.error("expected a constant", first, hint=f"an expression is a meta[{KEY}]")
        known = self._constants.get(id(data))
        if known is None:
            ty = tensor_type(data.shape, dt.dtype(data.dtype))
            known = self._constants[id(data)] = Constant(data, ty=ty, span=self.stream.span(first))
        return known

    def meta(self) -> Any:
        """The value of `meta[key][i]`: an array; in a text of TVM's also a dim, or an attribute value."""
        stream, section = self.stream, self._known.section()
        stream.expect("meta")
        stream.expect("[")
        key = stream.expect_kind("ident", f"`{KEY}`")
        stream.expect("]")
        stream.expect("[")
        token = stream.expect_kind("int")
        index = int(number(token)[0])
        stream.expect("]")
        try:
            count = section.count(key.text)
        except Bad as error:
            raise stream.error(f"meta[{key.text}]: {error}", key) from None
        if not count and key.text != KEY:
            raise stream.error(f"the metadata section has no {key.text}", key)
        if index >= count:
            raise stream.error(f"meta[{key.text}] has {count} entries, there is no entry {index}", token)
        try:
            return section.get(key.text, index)
        except Bad as error:
            raise stream.error(f"meta[{key.text}][{index}]: {error}", key) from None

    def _shape(self) -> Expr:
        stream = self.stream
        first = stream.next()
        stream.expect("[")
        return Shape(self.types.dims("]"), span=stream.span(first))

    def _pattern(self) -> Pattern:
        self.types.enter()
        found = self._pattern_here()
        self.types.leave()
        return found

    def _pattern_here(self) -> Pattern:
        stream, token = self.stream, self.stream.peek()
        if token.kind == "local":
            name, var = self._var()
            self._declare(name, var)
            return PatternVar(var, span=var.span)
        if stream.accept("_"):
            return PatternWildcard()
        if stream.accept("("):
            patterns, comma = self._patterns()
            grouped = len(patterns) == 1 and not comma
            return patterns[0] if grouped else PatternTuple(tuple(patterns), span=stream.span(token))
        if token.kind not in ("ident", "string"):
            raise stream.unexpected("a pattern")
        stream.next()
        constructor = self._constructor(token, name_of(stream, token))
        parts = tuple(self._patterns()[0]) if stream.accept("(") else ()
        return PatternConstructor(constructor, parts, span=stream.span(token))

    def _patterns(self) -> tuple[list[Pattern], bool]:
        """Patterns up to `)`, and whether a comma stood before it."""
        stream, patterns, comma = self.stream, [], False
        while not stream.accept(")"):
            patterns.append(self._pattern())
            comma = stream.accept(",") is not None
            if not comma and not stream.at(")"):
                raise stream.unexpected("`,` or `)`")
        return patterns, comma


def _joined(tokens: list[Token], pos: int, end: int) -> int:
    """How many tokens from `pos` on continue a name that ends at offset `end`."""
    here, after = tokens[pos], tokens[pos + 1] if pos + 1 < len(tokens) else tokens[pos]
    if here.start != end:
        return 0
    if here.kind in _PARTS:
        return 1
    if here.kind != "punct" or here.text not in _JOINTS or after.start != here.end:
        return 0
    if here.text == ":":
        return 2 if after.kind == "int" or after.text == ":" else 0
    return 2 if after.kind in _PARTS else 0


def _ends(text: str, end: int) -> bool:
    """True if a name that stands before offset `end` does not go on behind."""
    return not (text[end : end + 1].isalnum() or text[end : end + 1] == "_")


def _close(name: str, known: Iterable[str], mark: str) -> str | None:
    """A hint at names that look alike."""
    found = get_close_matches(name, list(known), 3)
    return f"did you mean {' or '.join(f'`{mark}{n}`' for n in found)}?" if found else None

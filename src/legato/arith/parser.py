"""Scalar expressions from text: operator precedence over a token stream, with a stack of its own.

    e    := e binop e | "-" e | "(" e ")" | literal | name | name "(" e,* ")" | name "[" e,* "]"

What names, calls and subscripts mean is asked of a `Scope`; here names are variables and calls min, max and select.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from legato.arith.expr import Const, Expr, Op, Var, binary, const, select, sub
from legato.arith.printer import PRECEDENCE
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.base.lexer import Token, number
from legato.base.tokens import TokenStream

__all__ = ["Scope", "parse", "parse_expr"]

Build = Callable[[Sequence[Expr]], Expr]

_OPS = {op.value: op for op in PRECEDENCE}
_SWAPPED = {">": Op.LT, ">=": Op.LE}
_UNARY = 11
_LOGIC = frozenset({Op.AND, Op.OR})


class Scope:
    """What names mean. Subclasses add atoms: override `call` and `subscript` and fall back to these."""

    def __init__(self, stream: TokenStream, names: Mapping[str, Expr]) -> None:
        self.stream = stream
        self.names = names

    def name(self, token: Token) -> Expr:
        """The meaning of a bare name."""
        found = self.names.get(token.text)
        if found is None:
            known = ", ".join(self.names)
            raise self.stream.error(f"unknown name `{token.text}`", token, hint=f"known: {known}" if known else None)
        return found

    def call(self, token: Token) -> Build:
        """How to build `token(args…)`."""
        if token.text in ("min", "max"):
            op = Op(token.text)
            return lambda args: self._extremum(op, token, args)
        if token.text == "select":
            return lambda args: self._select(token, args)
        raise self.stream.error(f"unknown function `{token.text}`", token)

    def subscript(self, token: Token) -> Build:
        """How to build `token[args…]`."""
        raise self.stream.error(f"`{token.text}` cannot be subscripted", token)

    def _extremum(self, op: Op, token: Token, args: Sequence[Expr]) -> Expr:
        a, b = self.exactly(token, 2, args)
        return self.apply(op, a, b, token)

    def _select(self, token: Token, args: Sequence[Expr]) -> Expr:
        cond, a, b = self.exactly(token, 3, args)
        if not cond.dtype.is_bool or a.dtype != b.dtype:
            got = f"({cond.dtype}, {a.dtype}, {b.dtype})"
            raise self.stream.error(f"select takes (bool, T, T), got {got}", token)
        return select(cond, a, b)

    def exactly(self, token: Token, count: int, args: Sequence[Expr]) -> Sequence[Expr]:
        """`args`, checked to be `count` many."""
        if len(args) != count:
            raise self.stream.error(f"{token.text} takes {count} arguments, got {len(args)}", token)
        return args

    def apply(self, op: Op, a: Expr, b: Expr, token: Token) -> Expr:
        """`a op b`, checked."""
        if a.dtype != b.dtype:
            message = f"operands of {op.value} differ in dtype: {a.dtype} and {b.dtype}"
            hint = "literals take a suffix (3i32, 1.5f); a bare integer is an index"
            raise self.stream.error(message, token, hint=hint)
        if op is Op.DIV and not a.dtype.is_float:
            raise self.stream.error(f"/ needs floats, got {a.dtype}", token, hint="// divides integers")
        if op in _LOGIC and not a.dtype.is_bool:
            raise self.stream.error(f"{op.value} needs bools, got {a.dtype}", token)
        try:
            return binary(op, a, b)
        except TypeCheckError as error:
            raise self.stream.error(error.message, token) from None


@dataclass(slots=True)
class _Frame:
    """An open bracket: what builds its value, what closes it, the arguments so far, pending operands and operators."""

    build: Build | None  # None: the outermost frame
    close: str
    is_group: bool = False  # parentheses around one expression
    args: list[Expr] = field(default_factory=list)
    operands: list[Expr] = field(default_factory=list)
    operators: list[tuple[int, Op | None, Token]] = field(default_factory=list)  # None: unary minus


def parse_expr(stream: TokenStream, scope: Scope) -> Expr:
    """The longest expression at the stream's position; `ParseError` where there is none or it is ill-typed."""
    stack = [_Frame(None, "")]
    while True:
        if not _operand(stream, scope, stack):
            continue  # a bracket was opened, or a sign read: an operand must follow
        while (done := _operator(stream, scope, stack)) is not None:
            if isinstance(done, Expr):
                return done
        # an operator or comma was read: the next operand


def _operand(stream: TokenStream, scope: Scope, stack: list[_Frame]) -> bool:
    """Reads one operand; False where it was only begun."""
    token, top = stream.peek(), stack[-1]
    if stream.at("-"):
        stream.next()
        if stream.at_kind("int", "float"):
            top.operands.append(_literal(stream, -1))
            return True
        top.operators.append((_UNARY, None, token))
        return False
    if stream.at("("):
        stream.next()
        stack.append(_Frame(lambda args: args[0], ")", is_group=True))
        return False
    if token.kind in ("int", "float"):
        top.operands.append(_literal(stream, 1))
        return True
    if token.kind != "ident" or token.text in ("and", "or"):
        raise stream.unexpected("an expression")
    return _named(stream, scope, stack, stream.next())


def _named(stream: TokenStream, scope: Scope, stack: list[_Frame], token: Token) -> bool:
    if token.text in ("True", "False"):
        stack[-1].operands.append(const(token.text == "True", dt.bool_))
        return True
    if not stream.at("(", "["):
        stack[-1].operands.append(scope.name(token))
        return True
    is_call = stream.next().text == "("
    build = scope.call(token) if is_call else scope.subscript(token)
    close = ")" if is_call else "]"
    if stream.accept(close):
        stack[-1].operands.append(build(()))
        return True
    stack.append(_Frame(build, close))
    return False


def _literal(stream: TokenStream, sign: int) -> Const:
    token = stream.next()
    value, dtype = number(token)
    if dtype is None:
        dtype = dt.index if isinstance(value, int) else dt.float32
    if dtype.is_float:
        return const(sign * float(value), dtype)  # not 0 - value: -0.0 is a literal
    value = sign * value
    if dtype.is_int and not dtype.min <= value <= dtype.max:
        raise stream.error(f"{value} does not fit {dtype}", token)
    return const(value, dtype)


def _operator(stream: TokenStream, scope: Scope, stack: list[_Frame]) -> Expr | bool | None:
    """What follows an operand: None after an operator or comma, True after a closed bracket, or the whole result."""
    top = stack[-1]
    token = stream.peek()
    op = (_OPS.get(token.text) or _SWAPPED.get(token.text)) if token.kind in ("punct", "ident") else None
    if op is not None:
        _reduce(scope, top, PRECEDENCE[op])
        top.operators.append((PRECEDENCE[op], op, stream.next()))
        return None
    _reduce(scope, top, 0)
    value = top.operands.pop()
    if top.build is None:
        return value
    top.args.append(value)
    if stream.at(",") and not top.is_group:
        stream.next()
        if not stream.at(top.close):  # a trailing comma
            return None
    if not stream.at(top.close):
        raise stream.unexpected(f"`{top.close}`" if top.is_group else f"`,` or `{top.close}`")
    stream.next()
    stack.pop()
    stack[-1].operands.append(top.build(top.args))
    return True


def _reduce(scope: Scope, frame: _Frame, level: int) -> None:
    """Applies the pending operators that bind at least as tightly as `level`."""
    while frame.operators and frame.operators[-1][0] >= level:
        _, op, token = frame.operators.pop()
        b = frame.operands.pop()
        if op is None:
            frame.operands.append(_negate(scope, b, token))
            continue
        a = frame.operands.pop()
        frame.operands.append(scope.apply(op, b, a, token) if token.text in _SWAPPED else scope.apply(op, a, b, token))


def _negate(scope: Scope, a: Expr, token: Token) -> Expr:
    if a.dtype.is_bool:
        raise scope.stream.error("- needs a number, got bool", token)
    return sub(const(0, a.dtype), a)


def parse(text: str, names: Mapping[str, Expr] | Sequence[Var] = (), source_name: str = "<text>") -> Expr:
    """The expression that is the whole of `text`; `names` gives the variables that may occur."""
    known = names if isinstance(names, Mapping) else {v.name: v for v in names}
    stream = TokenStream(text, source_name, arithmetic=True)
    e = parse_expr(stream, Scope(stream, known))
    if not stream.at_kind("eof"):
        raise stream.unexpected("the end of the text")
    return e

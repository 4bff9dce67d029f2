"""Expressions from text.

Recursive descent over generators: a rule yields the rule that it needs next and is sent its result, and `run` keeps
the open rules on a list. So text may nest as deeply as memory allows. What cannot nest is read without a generator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

from legato.base.errors import TypeCheckError
from legato.base.lexer import Token
from legato.base.node import transform
from legato.ir._hints import FIELDS
from legato.ir._names import KEYWORDS
from legato.ir._parse_leaves import DEVICE, GROWS, LEAVES, LeafParser
from legato.ir._text_calls import adapted_call, operator_call
from legato.ir.clauses import Clause
from legato.ir.devices import PARAMS, RESULT
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from legato.ir.op import Op
from legato.ir.scope import pattern_vars
from legato.ir.types import Type

__all__ = ["ExprParser", "run"]

Rule = Generator[Any, Any, Any]
MAX_PARAMS: Final = 1 << 16

_NAMED: Final = (Var, GlobalVar, Constant, Constructor, Op)  # what is not made where it stands

# Binary operators: how tightly they bind, and the operator that each stands for.
_BINARY: Final = {
    "*": (12, "multiply"), "/": (12, "divide"), "+": (10, "add"), "-": (10, "subtract"),
    "<": (8, "less"), "<=": (8, "less_equal"), ">": (8, "greater"), ">=": (8, "greater_equal"),
    "==": (7, "equal"), "!=": (7, "not_equal"),
}  # fmt: skip


def run(rule: Rule) -> Any:
    """The result of a rule."""
    stack = [rule]
    value: Any = None
    while stack:
        try:
            needed = stack[-1].send(value)
        except StopIteration as done:
            stack.pop()
            value = done.value
        else:
            stack.append(needed)
            value = None
    return value


class ExprParser(LeafParser):
    """Reads the expressions of one definition at a stream's position."""

    # ------------------------------------------------------------------ blocks

    def braces(self) -> Rule:
        """`{ … }`."""
        self.stream.expect("{")
        result = yield self.body()
        self.stream.expect("}")
        return result

    def body(self) -> Rule:
        """Statements and the result."""
        stream, lets, mark = self.stream, [], len(self._undo)
        while True:
            token = self._tokens[stream.pos]
            if token.kind == "local" and self._binding_follows(token):
                yield self._graph_binding(stream.next())
            elif token.kind == "ident" and token.text == "let":
                lets.append((yield self._let()))
            elif token.kind == "ident" and token.text in ("free_var", "free_dim"):
                self.free()
            else:
                result = yield self.expr()
                if not stream.accept(";"):
                    break
                if stream.at("}", ")"):
                    raise stream.error("a block ends with its result, not with `;`", hint="write () for the unit value")
                lets.append((Var("_", span=result.span), result, stream.span(token)))
        self._release(mark)
        for var, value, span in reversed(lets):
            result = Let(var, value, result, span=span)
        return result

    def _graph_binding(self, token: Token) -> Rule:
        stream = self.stream
        if not self._is_graph(token):
            hint = "nothing is assigned to; a new let hides the old one" if token.text in self._vars else None
            hint = hint or "only %0, %1, … are bound without let"
            raise stream.error(f"expected `let %{token.text} = …`", token, hint=hint)
        ty = self.types.type() if stream.accept(":") else None
        stream.expect("=")
        value = yield self.expr()
        if ty is not None:
            value = self._typed(value, ty, token)
        self._graph[token.text] = value
        self._made.add(id(value))
        stream.expect(";")

    def _binding_follows(self, token: Token) -> bool:
        """True if `token`, a local, begins a graph binding, or what is mistaken for one."""
        return self.stream.at("=", ahead=1) or (self._is_graph(token) and self.stream.at(":", ahead=1))

    def _typed(self, value: Expr, ty: Type, token: Token) -> Expr:
        """The node that a graph binding makes, with the type that it states."""
        if id(value) in self._made or isinstance(value, _NAMED):
            hint = "leave it out: what the name stands for has its type already"
            raise self.stream.error(f"`%{token.text}` is another name of a node, and states a type", token, hint=hint)
        return value.with_type(ty)

    def _let(self) -> Rule:
        stream = self.stream
        first = stream.next()
        name, var = self._var()
        stream.expect("=")
        # A function may call itself; another value sees the variable of the same name that it shadows.
        outer = self._vars.get(name)
        sees_itself = stream.at("fn") or outer is None
        if sees_itself:
            self._declare(name, var)
        value = yield self.expr()
        stream.expect(";")
        if not sees_itself:
            self._declare(name, var)
        elif outer is not None and not isinstance(value, Function):  # `fn (…) { … }(%x)` is a call
            value = transform(value, lambda e: outer if e is var else None)
        return var, value, stream.span(first)

    # ------------------------------------------------------------------ operators and calls

    def expr(self) -> Rule:
        """Operands joined by binary operators."""
        first = self._tokens[self.stream.pos]
        value = self._quick()
        if value is None:
            value = yield self._operand()
        if not self._binary_follows():
            return value
        operands: list[Expr] = [value]
        operators: list[Token] = []
        while self._binary_follows():
            token = self.stream.next()
            self._reduce(operands, operators, _BINARY[token.text][0], first)
            operators.append(token)
            operands.append(self._quick() or (yield self._operand()))
        self._reduce(operands, operators, 0, first)
        return operands[0]

    def _binary_follows(self) -> bool:
        token = self._tokens[self.stream.pos]
        return token.text in _BINARY and token.kind == "punct"

    def _reduce(self, operands: list[Expr], operators: list[Token], level: int, first: Token) -> None:
        while operators and _BINARY[operators[-1].text][0] >= level:
            token = operators.pop()
            b, a = operands.pop(), operands.pop()
            name = _BINARY[token.text][1]
            op = self._known.ops.get(name)
            if op is None:
                raise self.stream.error(f"`{token.text}` means operator {name}, which is not known here", token)
            operands.append(self._call(op, [a, b], {}, (), first, token))

    def _operand(self) -> Rule:
        """An atom with calls, projections and type arguments behind it."""
        stream, first = self.stream, self._tokens[self.stream.pos]
        value = self._atom(first)
        if not isinstance(value, Expr):
            value = yield value
        while True:
            token = self._tokens[stream.pos]
            if token.kind != "punct" or token.text not in GROWS:
                return value
            stream.pos += 1
            if token.text == ".":
                value = TupleGetItem(value, self._index(), span=stream.span(first))
                continue
            type_args: tuple[Any, ...] = ()
            if token.text == "[":
                type_args = self._type_args(token)
            args, attrs = yield self._arguments()
            value = self._call(value, args, attrs, type_args, first, first)

    def _type_args(self, bracket: Token) -> tuple[Any, ...]:
        """Type arguments and the `(` behind them."""
        stream = self.stream
        is_subscript = stream.at_kind("local", "float", "eof") or stream.at(":", "]") or stream.at(":", ahead=1)
        found = () if is_subscript else self.types.type_args()
        if is_subscript or not stream.accept("("):
            raise stream.error("expressions have no subscripts", bracket, hint=FIELDS)
        return found

    def _arguments(self) -> Rule:
        """Arguments and attributes up to `)`, which is read."""
        stream = self.stream
        args: list[Expr] = []
        attrs: dict[str, Any] = {}
        while True:
            token = self._tokens[stream.pos]
            if token.kind == "punct" and token.text == ")":
                stream.pos += 1
                return args, attrs
            if token.kind in ("ident", "string") and self._attribute_follows():
                self.attribute(attrs)
            elif attrs:
                raise stream.error("an argument must come before the attributes", token)
            else:
                args.append(self._whole() or (yield self.body()))
            if not stream.accept(",") and not stream.at(")"):
                raise stream.unexpected("`,` or `)`")

    def _whole(self) -> Expr | None:
        """An argument or field that is one token; None where it is more."""
        tokens, pos = self._tokens, self.stream.pos
        return self._leaf() if tokens[pos].kind in LEAVES and tokens[pos + 1].text in (",", ")") else None

    def _call(
        self, op: Expr, args: list[Expr], attrs: dict[str, Any], type_args: tuple[Any, ...], first: Token, at: Token
    ) -> Call:
        span = self.stream.span(first)
        if not isinstance(op, Op):
            if attrs:
                raise self.stream.error(f"only operators take attributes: {', '.join(attrs)}", at)
            return Call(op, tuple(args), None, type_args, span=span)
        try:
            if at.kind == "ident":
                return adapted_call(at.text, op, args, attrs, self._known.ops, type_args, span)
            return operator_call(op, args, attrs, type_args, span)
        except TypeCheckError as error:
            raise self.stream.error("; ".join((error.message, *error.details)), at, hint=error.hint) from None

    # ------------------------------------------------------------------ atoms

    def _atom(self, token: Token) -> Expr | Rule:
        if token.kind in LEAVES:
            return self._leaf()
        if token.kind == "string":
            return self._named(self.stream.next())
        if token.kind == "ident":
            rule = _RULES.get(token.text)
            if rule is not None:
                return rule(self)
            if token.text in KEYWORDS:
                raise self.stream.unexpected("an expression")
            return self._named(self.stream.next())
        if self.stream.at("("):
            return self._parens()
        if self.stream.at("{"):
            return self.braces()
        if self.stream.at("-"):
            return self._literal()
        if self.stream.accept("&"):
            return self._itself()
        raise self.stream.unexpected("an expression")

    def _parens(self) -> Rule:
        stream = self.stream
        first = stream.next()
        items, comma = [], False
        while not stream.at(")"):
            items.append(self._whole() or (yield self.body()))
            comma = stream.accept(",") is not None
            if not comma and not stream.at(")"):
                raise stream.unexpected("`,` or `)`")
        stream.next()
        if len(items) == 1 and not comma:
            return items[0]
        return Tuple(tuple(items), span=stream.span(first))

    def _unary(self, make: Callable[..., Expr], count: int = 1) -> Rule:
        stream = self.stream
        first = stream.next()
        stream.expect("(")
        args = []
        for i in range(count):
            if i:
                stream.expect(",")
            args.append((yield self.expr()))
        stream.expect(")")
        return make(*args, span=stream.span(first))

    def _match_cast(self) -> Rule:
        stream = self.stream
        first = stream.next()
        stream.expect("(")
        value = yield self.expr()
        stream.expect(",")
        target = self.types.type()
        stream.expect(")")
        return MatchCast(value, target, span=stream.span(first))

    # ------------------------------------------------------------------ atoms with blocks

    def _fn(self) -> Rule:
        return self.function(self.stream.next(), is_global=False)

    def function(self, first: Token, *, is_global: bool) -> Rule:
        """`[A, n: ShapeVar](params, attrs) -> T { … }`, behind `fn` or `def @name`."""
        stream, types = self.stream, self.types
        mark, types_mark = len(self._undo), types.mark()
        bound, _ = types.binders()
        with types.parameters() as implicit:
            params, attrs = self._params()
        ret = types.type() if stream.accept("->") else None
        body = yield self.braces()
        self._release(mark)
        types.release(types_mark)
        return Function(tuple(params), body, ret, (*bound, *implicit), attrs, span=stream.span(first))

    def _params(self) -> tuple[list[Var], dict[str, Any]]:
        stream = self.stream
        attrs: dict[str, Any] = {}
        params: dict[str, Var] = {}
        placed: list[str] = []
        stream.expect("(")
        while not stream.accept(")"):
            if self._attribute_follows():
                self.attribute(attrs)
            else:
                token = stream.peek()
                name, var = self._var()
                if name in params:
                    raise stream.error(f"two parameters are called `%{name}`", token)
                if len(params) == MAX_PARAMS:
                    raise stream.error(f"a function has more than {MAX_PARAMS} parameters", token)
                params[name] = var
                placed.append(self._placed)
                self._declare(name, var)
            if not stream.accept(",") and not stream.at(")"):
                raise stream.unexpected("`,` or `)`")
        if any(placed):
            attrs.setdefault(PARAMS, tuple(placed))
        if DEVICE in attrs:
            attrs.setdefault(RESULT, attrs.pop(DEVICE))
        return list(params.values()), attrs

    def _if(self) -> Rule:
        stream = self.stream
        first = stream.next()
        stream.expect("(")
        cond = yield self.expr()
        stream.expect(")")
        head = stream.span(first)  # what is said of an `if` is said of its condition; branches have places of their own
        then = yield self._branch()
        stream.expect("else")
        orelse = yield self._if() if stream.at("if") else self._branch()
        return If(cond, then, orelse, span=head)

    def _branch(self) -> Rule:
        """`{ … }`, which may not be run: dims that it introduces hold in it alone."""
        mark = self.types.mark()
        result = yield self.braces()
        self.types.release(mark)
        return result

    def _match(self) -> Rule:
        stream, types = self.stream, self.types
        first = stream.next()
        complete = stream.accept("?") is None
        data = self._quick() or (yield self._operand())
        head = stream.span(first)
        clauses = []
        stream.expect("{")
        while not stream.accept("}"):
            mark, types_mark = len(self._undo), types.mark()
            at = stream.peek()
            pattern = self._pattern()
            names = Counter(v.name for v in pattern_vars(pattern) if v.name != "_")
            for name in (n for n, count in names.items() if count > 1):
                raise stream.error(f"two variables of a pattern are called `%{name}`", at)
            stream.expect("=>")
            clauses.append(Clause(pattern, (yield self.body())))
            self._release(mark)
            types.release(types_mark)
            if not stream.accept(",") and not stream.at("}"):
                raise stream.unexpected("`,` or `}`")
        return Match(data, tuple(clauses), complete, span=head)

    def _dataflow(self) -> Rule:
        stream = self.stream
        first, mark, bindings = stream.next(), len(self._undo), []
        stream.expect("{")
        while not stream.at("output"):
            token = self._tokens[stream.pos]
            if token.kind == "local" and self._binding_follows(token):
                yield self._graph_binding(stream.next())
            elif stream.accept("let"):
                name, var = self._var()
                stream.expect("=")
                value = yield self.expr()
                stream.expect(";")
                bindings.append((var, value))
                self._declare(name, var)
            else:
                raise stream.unexpected("`let` or `output(…)`")
        stream.next()
        stream.expect("(")
        outputs, attrs = yield self._arguments()
        if attrs:
            raise stream.error("output takes no attributes")
        stream.expect("}")
        self._release(mark)
        return Dataflow(tuple(bindings), tuple(outputs), span=stream.span(first))


_RULES: Final[Mapping[str, Callable[[ExprParser], Expr | Rule]]] = {
    "fn": ExprParser._fn,
    "if": ExprParser._if,
    "match": ExprParser._match,
    "dataflow": ExprParser._dataflow,
    "ref": lambda p: p._unary(RefCreate),
    "ref_read": lambda p: p._unary(RefRead),
    "ref_write": lambda p: p._unary(RefWrite, 2),
    "match_cast": ExprParser._match_cast,
    "shape": ExprParser._shape,
    "meta": ExprParser.constant,
    "True": ExprParser._bool,
    "False": ExprParser._bool,
}

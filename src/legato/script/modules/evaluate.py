"""Expressions of scripts: Python's syntax, evaluated here rather than by Python.

Names mean what the script binds, and what is around it. Operators and calls are those of the values: `x[i] + 1` of a
buffer is a scalar expression, `x + y` of tensors a call. Nothing of Python runs but the functions that names stand for.
A script in a text runs no code of its author's: it can name nothing but `I`, `R` and `T` (`TextNames`), of their values
it reaches those members that are meant to be (`Namespace`, and what `member` gives of tensors and buffers), and numbers
and sequences that it computes stay small.
"""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from inspect import signature
from types import ModuleType
from typing import Any, Final, TypeVar

from legato.arith.expr import Expr, Var
from legato.base import dtype as dt
from legato.base.errors import CompileError, LegatoError, ParseError, TypeCheckError, UnsupportedError
from legato.script.modules.statements import assigned
from legato.script.source import Source
from legato.tir.scalars import as_index

__all__ = ["Consequence", "Evaluator", "Namespace", "Outer", "TextNames", "parsed_dim", "raise_all"]

T = TypeVar("T")
Outer = Callable[[str], Any]  # what a name around a script means; LookupError where it means nothing

_BINARY: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.MatMult: "@",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.And: "and", ast.Or: "or",
}  # fmt: skip
_UNARY: Final[dict[type[ast.AST], str]] = {ast.USub: "-", ast.UAdd: "+", ast.Not: "not", ast.Invert: "~"}
_NUMBERS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "and": lambda a, b: a and b, "or": lambda a, b: a or b,
}  # fmt: skip
_SIGNS: Final[dict[str, Callable[[Any], Any]]] = {
    "-": lambda a: -a, "+": lambda a: +a, "not": lambda a: not a, "~": lambda a: ~a,
}  # fmt: skip
_MOST_BITS: Final = 1 << 12  # of a number, and
_MOST_ITEMS: Final = 1 << 16  # of a sequence: what a script computes is not to fill the memory


class TextNames:
    """What a script in a text may name."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names

    def __call__(self, name: str) -> Any:
        return self._names[name]


class Namespace:
    """What scripts reach members of by name: those that `__getattr__` gives, but for names that begin with `_`."""

    def __getattr__(self, name: str) -> Any:
        if name not in vars(self):
            raise AttributeError(f"there is no {name} here")
        return vars(self)[name]


class Consequence(CompileError):
    """Of a fault that has been told already: a name means nothing because what was assigned to it is wrong."""


_WRONG: Final = object()  # what such a name stands for


class Evaluator:
    """Evaluates the expressions of one function of a script; kinds of functions give values their operators.

    names: what the script has bound so far. Errors have the place of the smallest expression that is wrong.
    """

    def __init__(self, source: Source, outer: Outer) -> None:
        self.source = source
        self.outer = outer
        self.names: ChainMap[str, Any] = ChainMap()  # of blocks, innermost first
        self.dims: ChainMap[str, Var] = ChainMap()  # by the names that shapes give them; of functions, innermost first
        self.bounds: Mapping[str, Any] = {}  # (least, largest) of dims by name, where that is not (0, None)
        self.faults: list[CompileError] = []  # of statements that were passed over
        self._counted: dict[int, tuple[Any, int]] = {}  # sequences by id, with how many items each has

    # ------------------------------------------------------------------ what kinds of functions decide

    def binary(self, op: str, a: Any, b: Any) -> Any:
        """`a op b` of two values of which one is no Python number."""
        raise TypeCheckError(f"`{op}` of {self.described(a)} and {self.described(b)} has no meaning here")

    def unary(self, op: str, a: Any) -> Any:
        """`op a` of a value that is no Python number."""
        raise TypeCheckError(f"`{op}` of {self.described(a)} has no meaning here")

    def item(self, value: Any, index: Any) -> Any:
        """`value[index]` of what is no Python sequence; index is a tuple where there are several."""
        raise TypeCheckError(f"{self.described(value)} has no elements")

    def member(self, value: Any, name: str) -> Any:
        """`value.name` of what is no module: of a text's values, that of a namespace."""
        if isinstance(value, Namespace) and not name.startswith("_"):
            return value.__getattr__(name)  # and nothing else that Python's object has
        if not isinstance(self.outer, TextNames):
            return getattr(value, name)
        raise TypeCheckError(f"{self.described(value)} has no {name}")

    def call(self, function: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        """`function(…)`."""
        if function is range:
            raise UnsupportedError("range is for the loops of tensor programs", hint="for i in range(n): …")
        return function(*args, **keywords)

    def described(self, value: Any) -> str:
        """A value, in words."""
        return f"{value!r}" if isinstance(value, int | float | str) else f"a {type(value).__name__}"

    def new_dim(self, name: str) -> Var:
        """The dim that is called so, made on first sight."""
        return self.dims.setdefault(name, Var(name, dt.index, *self.bounds.get(name, (0, None))))

    def dim(self, d: Any) -> Expr:
        """An extent: a number, an expression of dims, or the text of one, in which new names are new dims."""
        if isinstance(d, str):
            tree = parsed_dim(d)
            functions = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}  # T in T.min(n, 4)
            for node in ast.walk(tree):
                if id(node) in functions or not isinstance(node, ast.Name):
                    continue
                if not isinstance(self.names.get(node.id), Expr):
                    self.names[node.id] = self.new_dim(node.id)
            d = self.value(tree)
        if isinstance(d, int) and d < 0:
            raise TypeCheckError(f"a dim is {d}, wanted at least 0")
        return as_index(d, "a dim")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names bound inside are forgotten."""
        self.names = self.names.new_child()
        try:
            yield
        finally:
            self.names = self.names.parents

    # ------------------------------------------------------------------ places

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Errors raised inside have the place of `node`; what Python raises of a value is a typed error there."""
        try:
            yield
        except CompileError as error:
            if error.span is None:
                error.span = self.source.span(node)
            self.source.quote(error)
            raise
        except LegatoError:
            raise
        except RecursionError as error:
            raise self.error(node, "this nests too deeply", kind=UnsupportedError) from error
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise self.error(node, str(error) or type(error).__name__) from error

    @contextmanager
    def keeping(self, stmt: ast.stmt) -> Iterator[None]:
        """A statement that is wrong is passed over: its fault is kept, and what it assigns is known to be wrong."""
        try:
            with self.at(stmt):
                yield
        except CompileError as error:
            if not isinstance(error, Consequence):
                self.faults.append(error)
            self.names |= dict.fromkeys(assigned([stmt]), _WRONG)

    def error(
        self, node: ast.AST, message: str, hint: str | None = None, *, kind: type[CompileError] = ParseError
    ) -> CompileError:
        """The error for a part of the script."""
        error = kind(message, span=self.source.span(node), hint=hint)
        self.source.quote(error)
        return error

    # ------------------------------------------------------------------ expressions

    def value(self, node: ast.expr) -> Any:
        """What an expression stands for."""
        rule = _RULES.get(type(node))
        if rule is None:
            raise self.error(node, f"{type(node).__name__} has no meaning in a script", kind=UnsupportedError)
        with self.at(node):
            return rule(self, node)

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            found = self.names[node.id]
            if found is _WRONG:
                raise Consequence(f"{node.id} is wrong")
            return found
        try:
            return self.outer(node.id)
        except LookupError:
            close = get_close_matches(node.id, [n for n in self.names if not n.startswith("_")], 1)
            hint = f"did you mean {close[0]}?" if close else None
            raise self.error(node, f"nothing is called {node.id} here", hint) from None

    def _attribute(self, node: ast.Attribute) -> Any:
        value = self.value(node.value)
        if isinstance(value, ModuleType):
            found = getattr(value, node.attr, None) if node.attr in _public(value) else None
            if found is None:
                close = get_close_matches(node.attr, _public(value), 1)
                hint = f"did you mean {close[0]}?" if close else None
                raise self.error(node, f"{_short(value)} has no {node.attr}", hint)
            return found
        return self.member(value, node.attr)

    def _call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        values = self.each([*node.args, *(k.value for k in node.keywords)])
        args = self._spread(node.args, values[: len(node.args)])
        keywords: dict[str, Any] = {}
        for k, value in zip(node.keywords, values[len(node.args) :], strict=True):
            keywords |= value if k.arg is None else {k.arg: value}
        try:
            return self.call(function, args, keywords)
        except TypeError as error:
            misfit = _misfit(ast.unparse(node.func), function, args, keywords)
            raise misfit or error from None

    def each(self, nodes: Sequence[ast.expr]) -> list[Any]:
        """The values of expressions; where several are wrong, all of that is told."""
        found: list[Any] = []
        faults: list[CompileError] = []
        for node in nodes:
            try:
                found.append(self.value(node.value if isinstance(node, ast.Starred) else node))
            except CompileError as error:
                faults.append(error)
        raise_all([e for e in faults if not isinstance(e, Consequence)] or faults)
        return found

    def _subscript(self, node: ast.Subscript) -> Any:
        value = self.value(node.value)
        index = self.value(node.slice)
        if isinstance(value, dict) or (isinstance(value, tuple | list | str) and isinstance(index, int | slice)):
            return value[index]
        return self.item(value, index)

    def _slice(self, node: ast.Slice) -> slice:
        return slice(*(None if e is None else self.value(e) for e in (node.lower, node.upper, node.step)))

    def _sequence(self, node: ast.Tuple | ast.List) -> Any:
        found = self._spread(node.elts, self.each(node.elts))
        return self._small(tuple(found) if isinstance(node, ast.Tuple) else found)

    def _spread(self, nodes: Sequence[ast.expr], values: Sequence[Any]) -> list[Any]:
        """Values, those of sequences with a star one by one."""
        found: list[Any] = []
        for node, value in zip(nodes, values, strict=True):
            if isinstance(node, ast.Starred) and not isinstance(value, tuple | list):
                raise self.error(node, f"{self.described(value)} is no sequence, which a star is for")
            found += value if isinstance(node, ast.Starred) else (value,)
        return found

    def _small(self, made: T) -> T:
        """A sequence or dictionary that has no more items, with those of what is in it, than are allowed."""
        if self._items(made) > max(_MOST_ITEMS, len(self.source.text)):  # what is written out is as long as its text
            raise TypeCheckError(f"a sequence of more than {_MOST_ITEMS} items")
        return made

    def _items(self, value: Any) -> int:
        if not isinstance(value, tuple | list | dict):
            return 0
        known = self._counted.get(id(value))
        if known is None:
            inside = (*value, *value.values()) if isinstance(value, dict) else value
            known = self._counted[id(value)] = value, len(value) + sum(map(self._items, inside))
        return known[1]

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        if None in node.keys:
            raise self.error(node, "** in a dictionary has no meaning in a script", kind=UnsupportedError)
        pairs = [(k, v) for k, v in zip(node.keys, node.values, strict=True) if k is not None]
        return self._small({self.value(k): self.value(v) for k, v in pairs})

    def _binary(self, node: ast.BinOp) -> Any:
        """A chain of operators is read from its first operand on: sums have any length."""
        chain: list[ast.BinOp] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            chain.append(left)
            left = left.left
        found = self.value(left)
        for step in reversed(chain):
            with self.at(step):
                found = self._operate(_BINARY[type(step.op)], found, self.value(step.right))
        return found

    def _compare(self, node: ast.Compare) -> Any:
        operands = [self.value(node.left), *map(self.value, node.comparators)]
        found: Any = True
        for op, a, b in zip(node.ops, operands, operands[1:], strict=False):
            text = _BINARY.get(type(op))
            if text is None:
                raise self.error(node, f"{type(op).__name__} has no meaning in a script", kind=UnsupportedError)
            one = self._operate(text, a, b)
            found = one if found is True else self._operate("and", found, one)
        return found

    def _logic(self, node: ast.BoolOp) -> Any:
        first, *rest = map(self.value, node.values)
        for other in rest:
            first = self._operate(_BINARY[type(node.op)], first, other)
        return first

    def _unary(self, node: ast.UnaryOp) -> Any:
        a, op = self.value(node.operand), _UNARY[type(node.op)]
        if isinstance(a, int | float):
            return _SIGNS[op](a)
        return self.unary(op, a)

    def _operate(self, op: str, a: Any, b: Any) -> Any:
        if isinstance(a, int | float) and isinstance(b, int | float):
            return self._number(op, a, b)
        if type(a) is type(b) and isinstance(a, str | tuple | list) and op in ("+", "==", "!="):
            if len(a) + len(b) > _MOST_ITEMS:
                raise TypeCheckError(f"a sequence of more than {_MOST_ITEMS} items")
            return self._small(_NUMBERS[op](a, b))
        return self.binary(op, a, b)

    @staticmethod
    def _number(op: str, a: Any, b: Any) -> Any:
        """A number that fits into `_MOST_BITS`."""
        whole = isinstance(a, int) and isinstance(b, int)
        grows = {"**": lambda: a.bit_length() * b, "<<": lambda: a.bit_length() + b}
        if whole and op in grows and not 0 <= grows[op]() <= _MOST_BITS:
            raise TypeCheckError(f"{a} {op} {b} is no number of at most {_MOST_BITS} bits")
        found = a**b if op == "**" else _NUMBERS[op](a, b)
        if isinstance(found, int) and found.bit_length() > _MOST_BITS:
            raise TypeCheckError(f"a number of more than {_MOST_BITS} bits")
        return found


_RULES: Final[dict[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Constant: Evaluator._constant, ast.Name: Evaluator._name, ast.Attribute: Evaluator._attribute,
    ast.Call: Evaluator._call, ast.Subscript: Evaluator._subscript, ast.Slice: Evaluator._slice,
    ast.Tuple: Evaluator._sequence, ast.List: Evaluator._sequence, ast.Dict: Evaluator._dict,
    ast.BinOp: Evaluator._binary, ast.Compare: Evaluator._compare, ast.BoolOp: Evaluator._logic,
    ast.UnaryOp: Evaluator._unary,
}  # fmt: skip


def raise_all(faults: Sequence[CompileError]) -> None:
    """Raises the first of faults, with the others."""
    found = [one for error in faults for one in (error, *error.others)]
    if found:
        raise found[0].with_others(found[1:])


def _misfit(name: str, function: Any, args: list[Any], keywords: dict[str, Any]) -> TypeCheckError | None:
    """What is wrong with the arguments of a call by its signature, in words without Python's objects."""
    if not callable(function):
        return TypeCheckError(f"{name} is called, and is no function")
    try:
        takes = signature(function)
    except (TypeError, ValueError):
        return None
    try:
        takes.bind(*args, **keywords)
    except TypeError as error:
        names = ", ".join(p.name for p in takes.parameters.values() if p.kind is not p.VAR_KEYWORD)
        return TypeCheckError(f"{name}: {error}", hint=f"{name}({names})")
    return None


def parsed_dim(dim: str) -> ast.expr:
    """The text of a dim, read. TypeCheckError where it is none."""
    try:
        return ast.parse(dim, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise TypeCheckError(f"{dim[:40]!r} is no dim", hint='a name, or arithmetic: "2 * n"') from None


def _public(module: ModuleType) -> list[str]:
    return list(getattr(module, "__all__", None) or (n for n in dir(module) if not n.startswith("_")))


def _short(module: ModuleType) -> str:
    """A module as scripts call it."""
    return getattr(module, "SCRIPT_NAME", module.__name__)

"""Edits of a source that make it wrong: one rule for each kind of fault that people make."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from legato.base.dataclass import dataclass

__all__ = ["RULES", "Fault", "faults_of"]

_COMPARED: Final[Mapping[type[ast.cmpop], str]] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_OTHER: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "floordiv": "cdiv", "cdiv": "floordiv"}
_TYPES: Final = ("Callable", "Final", "Iterator", "Mapping", "Sequence", "dict", "list", "set", "tuple", "type")
_NUMBERED: Final = (ast.BinOp, ast.Compare, ast.Subscript, ast.Slice)  # where a number counts something


@dataclass(frozen=True, slots=True)
class Fault:
    """The characters from `start` to `end` of a text replaced by `new`; `line` counts from 1."""

    rule: str
    line: int
    start: int
    end: int
    new: str

    def applied(self, text: str) -> str:
        """The text with the fault."""
        return text[: self.start] + self.new + text[self.end :]

    def meets(self, other: Fault) -> bool:
        """Whether both change the same characters of a text."""
        return self.start < other.end and other.start < self.end

    def shown(self, text: str) -> str:
        """The edit, in one line."""
        return f"{' '.join(text[self.start : self.end].split())} => {' '.join(self.new.split())}"


Rule = Callable[[Any], Iterator[tuple[ast.AST, str]]]  # of a node: nodes, and what stands in their places


def _comparison(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield node, f"({left} {_COMPARED[type(node.ops[0])]} {right})"


def _joined(values: list[ast.expr], is_and: bool) -> str:
    return f"({(' and ' if is_and else ' or ').join(f'({ast.unparse(v)})' for v in values)})"


def _and_or(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.BoolOp):
        yield node, _joined(node.values, isinstance(node.op, ast.Or))


def _dropped_condition(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.BoolOp):
        yield node, _joined(node.values[:-1], isinstance(node.op, ast.And))


def _inverted(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield node.test, f"(not ({ast.unparse(node.test)}))"


def _dropped_check(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Raise):
        yield node.test, "False"


def _other_name(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OTHER:
        yield node.func, _OTHER[node.func.id]


def _off_by_one(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    is_range = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"
    for kid in ast.iter_child_nodes(node) if is_range or isinstance(node, _NUMBERED) else ():
        if isinstance(kid, ast.Constant) and type(kid.value) is int:
            yield kid, str(kid.value + 1)


def _other_operator(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield node, f"({ast.unparse(ast.BinOp(node.left, op, node.right))})"


def _dropped_element(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load) and len(node.elts) > 2:
        yield node, ast.unparse(type(node)(node.elts[:-1], ast.Load()))


def _swapped(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.Call) and len(node.args) > 1 and all(isinstance(a, ast.Name) for a in node.args[:2]):
        if isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            return  # fails wherever it runs: whoever makes it sees it at once
        yield node, ast.unparse(ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords))


def _dropped_argument(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.Call) and node.keywords and node.keywords[-1].arg not in (None, "strict", "span"):
        yield node, ast.unparse(ast.Call(node.func, node.args, node.keywords[:-1]))


RULES: Final[Mapping[str, Rule]] = {
    "comparison": _comparison, "and for or": _and_or, "inverted condition": _inverted, "dropped check": _dropped_check,
    "dropped condition": _dropped_condition, "min for max": _other_name, "off by one": _off_by_one,
    "minus for plus": _other_operator, "dropped element": _dropped_element, "swapped arguments": _swapped,
    "dropped argument": _dropped_argument,
}  # fmt: skip


def faults_of(text: str) -> list[Fault]:
    """Every fault that the rules find in a source; a few are no programs, or the program that was there."""
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.decode()))
    found = []
    for node in _code(ast.parse(text)):
        for name, rule in RULES.items():
            for place, new in rule(node):
                assert isinstance(place, ast.expr)
                assert place.end_lineno is not None
                start, end = (
                    starts[row - 1] + len(lines[row - 1][:column].decode())
                    for row, column in ((place.lineno, place.col_offset), (place.end_lineno, place.end_col_offset))
                )
                found.append(Fault(name, place.lineno, start, end, new))
    return found


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run and matter: not annotations, texts, assertions, imports, names that are exported."""
    todo = [tree]
    while todo:
        node = todo.pop()
        match node:
            case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
                continue
            case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.FunctionDef(name="__repr__" | "__str__") | ast.BoolOp(values=[*_, ast.Constant(value=str())]):
                continue  # what people read: a text, or another where there is none
            case ast.Subscript(value=ast.Name(id=name)) if name in _TYPES:
                continue
        yield node
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list"):
                todo += [k for k in (value if isinstance(value, list) else [value]) if isinstance(k, ast.AST)]

"""Conditions on the sizes of arguments under which PyTorch traced a program: which of its branches were taken, say.

An exported program has them as Python, over paths into the arguments of `forward`: `L['x'].size()[0] % 2 == 0`. They
are read here, not run; calls check them. Where arguments lie in memory is not looked at: it may lie elsewhere here.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree

from legato.arith.expr import Expr as DimExpr
from legato.base.dataclass import dataclass
from legato.base.dtype import float64
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.torch.emitter import Emitter, Float
from legato.frontend.torch.floats import FLOATS, float_of
from legato.frontend.torch.operators.sizes import assert_scalar
from legato.frontend.torch.symbols import FUNCTIONS, number
from legato.ir.expr import Expr
from legato.ops._computed import require

__all__ = ["Given", "given_inputs", "require_guards"]

_IN_MEMORY: Final = re.compile(r"\.(stride|storage_offset)\(")
_OPERATORS: Final[Mapping[type[ast.AST], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.USub: operator.neg,
    ast.Not: torch.sym_not, ast.And: operator.and_, ast.Or: operator.or_, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_NAMES: Final[Mapping[str, Any]] = {
    "max": torch.sym_max, "min": torch.sym_min, "torch.sym_max": torch.sym_max, "torch.sym_min": torch.sym_min,
    "torch.sym_float": torch.sym_float, "float": torch.sym_float, "math.sqrt": math.sqrt, "math.trunc": math.trunc,
    "math.floor": math.floor, "math.ceil": math.ceil, "torch._sym_sqrt": math.sqrt, "round": round,
}  # fmt: skip
_OF_FLOATS: Final[Mapping[Any, str]] = {
    operator.lt: "less", operator.le: "less_equal", operator.gt: "greater", operator.ge: "greater_equal",
    operator.eq: "equal", operator.ne: "not_equal", operator.and_: "logical_and", operator.or_: "logical_or",
    math.trunc: "trunc", math.floor: "floor", math.ceil: "ceil", round: "round",
}  # fmt: skip
_JUNCTIONS: Final = (operator.and_, operator.or_)


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller gives: its name in the graph, its path inside of the argument that it is in, and its value."""

    name: str
    path: tuple[str, ...]
    value: Any


def given_inputs(spec: Any, values: Mapping[str, Any]) -> list[Given]:
    """The leaves of a program's arguments, whose tree is `spec`. `values`: in order, by their names in the graph."""
    tree = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    paths = [path[2:] for path, _ in pytree.tree_leaves_with_path(tree)]
    keys = [tuple(_spelled(key) for key in path) for path in paths]
    return [Given(name, path, value) for path, (name, value) in zip(keys, values.items(), strict=True)]


def _spelled(key: Any) -> str:
    return str(next(getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name)))


def require_guards(b: Emitter, guards: Sequence[str], inputs: Sequence[Given]) -> None:
    """Has calls check guards. `inputs`: what the caller gives, in order.

    UnsupportedError for one that cannot be checked.
    """
    for guard in guards:
        if _IN_MEMORY.search(guard):
            continue
        try:
            holds = _Guard(b, inputs).value(ast.parse(guard.strip(), mode="eval").body)
        except (UnsupportedError, SyntaxError, ValueError, LookupError, RecursionError) as error:
            hint = "make the sizes in it static"
            raise UnsupportedError(f"the program holds only where {guard}, which is not checked: {error}",
                                   hint=hint) from None  # fmt: skip
        if isinstance(holds, Expr):
            require(b, holds, "guard")
        else:
            assert_scalar(b, holds, f"whether {guard}")


class _Guard:
    """One guard as numbers: of Python, dims, floats; a comparison of floats is a tensor."""

    def __init__(self, b: Emitter, inputs: Sequence[Given]) -> None:
        self.b = b
        self.inputs = inputs

    def value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        if isinstance(node, ast.Subscript):
            return self._read(node)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return self._applied(_OPERATORS[type(node.op)], [self.value(node.left), self.value(node.right)])
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            return self._applied(_OPERATORS[type(node.op)], [self.value(node.operand)])
        if isinstance(node, ast.BoolOp):
            return self._folded(_OPERATORS[type(node.op)], [self.value(v) for v in node.values])
        if isinstance(node, ast.Compare) and all(type(op) in _OPERATORS for op in node.ops):
            xs = [self.value(v) for v in (node.left, *node.comparators)]
            tests = [self._applied(_OPERATORS[type(op)], xs[n : n + 2]) for n, op in enumerate(node.ops)]
            return self._folded(operator.and_, tests)
        if isinstance(node, ast.Call) and not node.keywords and ast.unparse(node.func) in _NAMES:
            function, args = _NAMES[ast.unparse(node.func)], [self.value(a) for a in node.args]
            return self._folded(function, args) if len(args) > 1 else self._applied(function, args)
        raise UnsupportedError(ast.unparse(node))

    def _folded(self, function: Any, values: Sequence[Any]) -> Any:
        found = values[0]
        for value in values[1:]:
            found = self._applied(function, [found, value])
        return found

    def _applied(self, function: Any, args: Sequence[Any]) -> Any:
        if any(isinstance(a, Float | float | Expr) for a in args) or function in (torch.sym_float, operator.truediv):
            return self._of_floats(function, args)
        rule: Callable[..., Any] | None = FUNCTIONS.get(function)
        if rule is None:
            raise UnsupportedError(f"{getattr(function, '__name__', function)} of sizes")
        return rule(*args)

    def _of_floats(self, function: Any, args: Sequence[Any]) -> Any:
        b = self.b
        if function in FLOATS:
            return float_of(b, function, args)
        name = _OF_FLOATS.get(function)
        if name is None:
            raise UnsupportedError(f"{getattr(function, '__name__', function)} of floats")
        if function in _JUNCTIONS:
            return b.op(name)(*map(b.truth, args))
        found = b.op(name)(*(b.operand(a, float64) for a in args))
        return Float(found) if len(args) == 1 else found

    def _read(self, node: ast.Subscript) -> Any:
        """A size of an argument, or an argument that is a number."""
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "size":
            tensor = self._input(call.func.value)
            if isinstance(tensor, Expr) and isinstance(node.slice, ast.Constant):
                return number(self.b.dim_of(tensor, int(ast.literal_eval(node.slice))))
            raise ImportModelError(f"the size {ast.unparse(node)} of no tensor")
        found = self._input(node)
        if not isinstance(found, int | float | DimExpr):
            raise UnsupportedError(ast.unparse(node))
        return found

    def _input(self, node: ast.expr) -> Any:
        """What the caller gives at a path. PyTorch calls it in the graph as its path is spelled: `x_0` is `x[0]`."""
        path: list[str] = []
        while isinstance(node, ast.Subscript | ast.Attribute):
            path.insert(0, node.attr if isinstance(node, ast.Attribute) else str(ast.literal_eval(node.slice)))
            node = node.value
        named = self._named(path)
        if path[:1] == ["flat_args"] and len(path) == 2:  # where Dynamo traced, arguments have numbers
            numbered = self.inputs[int(path[1])]
            if named is not None and named is not numbered:
                raise UnsupportedError("an argument is called flat_args, which PyTorch calls all of them")
            named = numbered
        if named is None:
            raise UnsupportedError(f"no argument {'.'.join(path)}")
        return named.value

    def _named(self, path: Sequence[str]) -> Given | None:
        name = re.sub(r"[^a-z0-9]", "_", "_".join(path).lower())
        found = [g for g in self.inputs if g.path in (tuple(path[1:]), tuple(path[2:]))]
        exact = (g for g in found if g.name == name)
        renamed = (g for g in found if re.fullmatch(name + r"_\d+", g.name))  # another has the name
        return next(exact, next(renamed, None))

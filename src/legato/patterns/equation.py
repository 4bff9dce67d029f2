"""Rules that say what equals what: `multiply(%x, 1f) => %x`.

Both sides are expressions over the same variables, which stand for any expressions of any types. The left side is a
pattern: calls have exactly its attributes, constants its bits, and a variable that occurs twice is one expression. The
rule is applied where this changes nothing else: the right side is well-typed, of the same type, and asks no more of
dims, and what the variables stand for has the same effects in the same order. `legato.testing.check_rule` says whether
that is anywhere, and whether the sides are equal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from inspect import signature
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, TypeCheckError
from legato.base.tally import line_of
from legato.infer.infer import infer_function
from legato.ir import expr as ir
from legato.ir.expr import Call, Constant, Constructor, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from legato.ir.op import Op
from legato.ir.parser import parse_expr
from legato.ir.scope import operands, post_order
from legato.ir.types import Type, TypeData
from legato.ir.visit import free_vars, rename_bound, substitute
from legato.ops import table
from legato.patterns.effects import RegionEffects
from legato.patterns.facts import same_type
from legato.patterns.graph import closed
from legato.patterns.match import Match
from legato.patterns.pattern import (
    AttrPattern,
    CallPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    Pattern,
    TupleGetItemPattern,
    TuplePattern,
    VarPattern,
    WildcardPattern,
)
from legato.patterns.region import Region
from legato.patterns.rewrite import Rule

__all__ = ["Equation", "rule"]

_ARROW: Final = "=>"
_VARIABLE: Final = re.compile(r"%([A-Za-z_]\w*)")
Side = Callable[..., Expr]


@dataclass(frozen=True, slots=True, eq=False)
class Equation(Rule):
    """A rule by two expressions over `variables`, each with the part of the pattern that it is."""

    variables: Mapping[Var, Pattern]
    lhs: Expr
    rhs: Expr

    def allows(self, region: Region, effects: RegionEffects) -> bool:
        ordered = effects.in_order(region)
        if not ordered:
            return ordered is not None
        moved = [
            region.match[self.variables[e]] for e in _evaluated(self.rhs) if isinstance(e, Var) and e in self.variables
        ]
        return [id(e) for e in ordered] == [id(e) for e in moved if any(e is o for o in ordered)]

    def replacement(self, old: Expr, now: Expr, match: Match) -> Expr | None:
        if now.ty is None:
            return None  # an operator by itself
        values = {var: match[part] for var, part in self.variables.items()}
        types = tuple(value.ty for value in values.values() if value.ty is not None)
        if len(types) < len(values):
            return None
        data = () if match.module is None else tuple(match.module.types.values())
        right = _typed(self, self.rhs, types, data)
        if right is None or not same_type(right.body.checked_type, now.ty):
            return None
        left = _typed(self, self.lhs, types, data)
        if left is None or not _constraints(right) <= _constraints(left):
            return None
        return substitute(rename_bound(right.body), dict(zip(right.params, values.values(), strict=True)))


@lru_cache(maxsize=256)
def _typed(equation: Equation, side: Expr, types: tuple[Type, ...], data: tuple[TypeData, ...]) -> Function | None:
    """A side as a function of the variables, which have these types; None if it is ill-typed then.

    `data` are the data types of the module.
    """
    params = {var: Var(var.name, ty=ty) for var, ty in zip(equation.variables, types, strict=True)}
    try:
        return infer_function(closed(tuple(params.values()), substitute(side, params)), types=data)
    except TypeCheckError:
        return None


def _constraints(func: Function) -> set[tuple[Any, Any]]:
    """What a function asks of dims."""
    return {(c.a, c.b) for c in func.attrs.get("constraints", ())}


def _evaluated(root: Expr) -> list[Expr]:
    """What evaluating an expression evaluates in any case, in order."""
    found: list[Expr] = []
    seen: set[int] = set()
    stack = [(root, False)]
    while stack:
        e, done = stack.pop()
        if done:
            found.append(e)
        elif id(e) not in seen:
            seen.add(id(e))
            stack.append((e, True))
            certain = (
                operands(e)[:1] if isinstance(e, If | ir.Match) else () if isinstance(e, Function) else operands(e)
            )
            stack += [(operand, False) for operand in reversed(certain)]
    return found


# ---------------------------------------------------------------------- from text and from functions


def rule(lhs: str | Side, rhs: Side | None = None, name: str = "") -> Equation:
    """The rule of a text `left => right`, or of two Python functions that build the sides from variables.

        rule("multiply(%x, 1f) => %x")
        rule(lambda x: relay.multiply(x, relay.const(1.0)), lambda x: x)

    The functions' parameters are the variables, by name; the second may have fewer. ParseError or CompileError for
    sides that are no expressions, or a left side that no pattern can be made of.
    """
    if isinstance(lhs, str):
        if rhs is not None:
            raise CompileError(
                "a rule is one text, or two functions", hint="write both sides in the text: left => right"
            )
        caller = sys._getframe(1)
        at = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        return _of_text(lhs, name or lhs.strip(), at)
    if rhs is None:
        raise CompileError("a rule by functions has two sides", hint="rule(lambda x: …, lambda x: …)")
    return _of_functions(lhs, rhs, name or getattr(lhs, "__name__", "a rule"))


def _of_text(text: str, name: str, at: str) -> Equation:
    left, arrow, right = text.partition(_ARROW)
    if not arrow:
        raise CompileError(f"a rule has a left and a right side: {text!r}", hint="write left => right")
    names = tuple(dict.fromkeys(_VARIABLE.findall(text)))
    lhs = _parsed(left, names)
    known = {var.name: var for var in free_vars(lhs)}
    rhs = _parsed(right, names)
    for var in free_vars(rhs):
        if var.name not in known:
            raise CompileError(f"%{var.name} is on the right side of a rule only", details=[f"rule : {name}"])
    return _equation(lhs, substitute(rhs, {var: known[var.name] for var in free_vars(rhs)}), name, at)


def _parsed(text: str, names: tuple[str, ...]) -> Expr:
    params = ", ".join(f"%{name}" for name in names)
    func = parse_expr(f"fn ({params}) {{\n{text.strip()}\n}}", source="<rule>", ops=table())
    assert isinstance(func, Function)
    return func.body


def _of_functions(lhs: Side, rhs: Side, name: str) -> Equation:
    variables = {parameter: Var(parameter) for parameter in signature(lhs).parameters}
    unknown = [parameter for parameter in signature(rhs).parameters if parameter not in variables]
    if unknown:
        raise CompileError(f"%{unknown[0]} is on the right side of a rule only", details=[f"rule : {name}"])
    left, right = lhs(**variables), rhs(**{p: variables[p] for p in signature(rhs).parameters})
    for side in (left, right):
        if not isinstance(side, Expr):
            raise CompileError(f"a side of a rule is an expression, got {side!r}", details=[f"rule : {name}"])
    return _equation(left, right, name, line_of(lhs))


def _equation(lhs: Expr, rhs: Expr, name: str, at: str) -> Equation:
    variables: dict[Var, Pattern] = {var: WildcardPattern() for var in free_vars(lhs)}
    lost = next((var for var in free_vars(rhs) if var not in variables), None)
    if lost is not None:
        raise CompileError(f"%{lost.name} is on the right side of a rule only", details=[f"rule : {name}"])
    return Equation(_pattern(lhs, variables), variables, lhs, rhs, name=name, at=at, needs_types=True)


def _pattern(lhs: Expr, variables: Mapping[Var, Pattern]) -> Pattern:
    """The pattern of a left side; a node is one part of it."""
    bound = dict(variables)
    made: dict[int, Pattern] = {}

    def of(e: Expr) -> Pattern:
        return bound.setdefault(e, VarPattern()) if isinstance(e, Var) else made[id(e)]

    for e in post_order(lhs):
        if not isinstance(e, Var):
            made[id(e)] = _part(e, of)
    return of(lhs)


def _part(e: Expr, of: Callable[[Expr], Pattern]) -> Pattern:
    match e:
        case Op() | Constant() | Constructor() | GlobalVar():
            return ExprPattern(e)
        case Call(op, args, attrs):
            call = CallPattern(of(op), tuple(map(of, args)))
            given = {f.name: getattr(attrs, f.name) for f in fields(attrs)} if is_dataclass(attrs) else {}
            return AttrPattern(call, given) if given else call
        case Tuple(members):
            return TuplePattern(tuple(map(of, members)))
        case TupleGetItem(value, index):
            return TupleGetItemPattern(of(value), index)
        case If(cond, then, orelse):
            return IfPattern(of(cond), of(then), of(orelse))
        case Let(var, value, body):
            return LetPattern(of(var), of(value), of(body))
        case Function(params, body):
            return FunctionPattern(tuple(map(of, params)), of(body))
        case _:
            kinds = "calls, tuples, fields, ifs, lets, functions, constants and variables"
            raise CompileError(f"no pattern can be made of {e!r}", span=e.span, hint=f"left sides are made of {kinds}")

"""Expressions of Python as values."""

from __future__ import annotations

import ast
import inspect
from collections import abc
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from types import MemberDescriptorType, ModuleType
from typing import Any, Final

import numpy as np

from legato.ir.expr import Expr
from legato.script import operators
from legato.script.annotations import Tensor, subscript
from legato.script.calls import apply, is_builder
from legato.script.frame import Env, Frame
from legato.script.joins import condition, either
from legato.script.names import reads
from legato.script.natives import array_attribute, tensor_attribute
from legato.script.source import Code
from legato.script.subscript import element, fields
from legato.script.syntax import refused
from legato.script.values import Closure, Missing, Parts, Value, describe

__all__ = ["assign", "slot", "taken", "value"]


def value(frame: Frame, env: Env, node: ast.expr) -> Value:
    """What `node` stands for; new nodes have its place."""
    with frame.at(node):
        rule = _RULES.get(type(node))
        if rule is None:  # in an annotation or a default
            raise frame.unsupported(*refused(node))
        return rule(frame, env, node)


def _name(frame: Frame, env: Env, node: ast.Name) -> Value:
    if node.id in env:
        found = env[node.id]
        if isinstance(found, Missing):
            raise frame.unsupported(found.why)
        return found
    try:
        return frame.code.outer(node.id)
    except LookupError:
        close = get_close_matches(node.id, list(env), 1)
        hint = f"did you mean {close[0]}?" if close else None
        raise frame.wrong(f"`{node.id}` is not defined", hint) from None


def _tuple(frame: Frame, env: Env, node: ast.Tuple | ast.List) -> Value:
    return tuple(_listed(frame, env, node.elts))


def _listed(frame: Frame, env: Env, nodes: list[ast.expr]) -> Iterator[Value]:
    for n in nodes:
        if isinstance(n, ast.Starred):
            yield from fields(frame, value(frame, env, n.value))
        else:
            yield value(frame, env, n)


def _slice(frame: Frame, env: Env, node: ast.Slice) -> Value:
    return slice(*(None if n is None else value(frame, env, n) for n in (node.lower, node.upper, node.step)))


def _attribute(frame: Frame, env: Env, node: ast.Attribute) -> Value:
    base = value(frame, env, node.value)
    if isinstance(base, Expr):
        return tensor_attribute(frame, base, node.attr)
    if isinstance(base, np.ndarray | np.generic):
        return array_attribute(frame, base, node.attr)
    if isinstance(base, Parts):
        return base.part(frame, node.attr)
    if isinstance(base, ModuleType) or is_builder(base):
        found = getattr(base, node.attr, None)
        if found is None:
            raise frame.wrong(f"{base.__name__} has no {node.attr!r}", _similar(base, node.attr))
        return found
    return _stored(frame, base, node.attr)


def _similar(module: Any, name: str) -> str | None:
    found = get_close_matches(name, dir(module), 3)
    return f"did you mean {', '.join(found)}?" if found else None


def _stored(frame: Frame, base: Value, name: str) -> Value:
    """An attribute that an object holds; what Python code would compute is left alone."""
    if isinstance(base, tuple | list):
        hint = "make a new one: items = [*items, item]"
        raise frame.unsupported(f"a list or tuple has no attribute {name!r} here: it does not change", hint)
    try:
        found = inspect.getattr_static(base, name)
    except AttributeError:
        raise frame.wrong(f"{describe(base)} has no attribute {name!r}") from None
    if isinstance(found, staticmethod):
        return found.__func__
    if hasattr(type(found), "__get__") and not isinstance(found, type) and not isinstance(base, type):
        if isinstance(found, MemberDescriptorType):
            return slot(frame, base, name, found)
        raise frame.unsupported(f"the attribute {name!r} of {describe(base)} is computed by Python code")
    return found


def slot(frame: Frame, base: Value, name: str, held: MemberDescriptorType) -> Value:
    """What an object holds in one of its slots."""
    try:
        return held.__get__(base, type(base))
    except AttributeError:
        raise frame.wrong(f"{describe(base)} has no value for attribute {name!r}") from None


def _binary(frame: Frame, env: Env, node: ast.BinOp) -> Value:
    """Long sums nest to the left: their operands are visited in a loop."""
    chain: list[ast.BinOp] = []
    left: ast.expr = node
    while isinstance(left, ast.BinOp):
        chain.append(left)
        left = left.left
    found = value(frame, env, left)
    for n in reversed(chain):
        right = value(frame, env, n.right)
        with frame.at(n):
            found = operators.binary(frame, n.op, found, right)
    return found


def _unary(frame: Frame, env: Env, node: ast.UnaryOp) -> Value:
    operand = value(frame, env, node.operand)
    if not isinstance(node.op, ast.Not):
        return operators.unary(frame, node.op, operand)
    cond = condition(frame, operand)
    return not cond if isinstance(cond, bool) else frame.call("logical_not", cond)


def _bool(frame: Frame, env: Env, node: ast.BoolOp) -> Value:
    return _both(frame, env, node.values, isinstance(node.op, ast.And))


def _both(frame: Frame, env: Env, nodes: list[ast.expr], is_and: bool) -> Value:
    """`a and b and …`, or with `or`: what follows is computed where it decides."""
    first = value(frame, env, nodes[0])
    if len(nodes) == 1:
        return first
    with frame.at(nodes[0]):
        cond = condition(frame, first)
    if isinstance(cond, bool):
        return _both(frame, env, nodes[1:], is_and) if cond is is_and else first

    def rest() -> Value:
        found = _both(frame, env, nodes[1:], is_and)
        if not isinstance(found, Expr | bool):
            raise frame.wrong(f"{describe(found)} beside `and` or `or`, where a bool is wanted")
        return condition(frame, found)

    return either(frame, cond, rest, lambda: False) if is_and else either(frame, cond, lambda: True, rest)


def _compare(frame: Frame, env: Env, node: ast.Compare) -> Value:
    left = value(frame, env, node.left)
    return _chain(frame, env, left, list(zip(node.ops, node.comparators, strict=True)))


def _chain(frame: Frame, env: Env, left: Value, rest: list[tuple[ast.cmpop, ast.expr]]) -> Value:
    """`left < b < c`: b is computed once, and c only where left < b."""
    (op, node), *more = rest
    right = frame.bind("t", value(frame, env, node)) if more else value(frame, env, node)
    found = operators.compare(frame, op, left, right)
    if not more:
        return found
    cond = condition(frame, found)
    if isinstance(cond, bool):
        return _chain(frame, env, right, more) if cond else False
    return either(frame, cond, lambda: condition(frame, _chain(frame, env, right, more)), lambda: False)


def _if(frame: Frame, env: Env, node: ast.IfExp) -> Value:
    with frame.at(node.test):
        cond = condition(frame, value(frame, env, node.test))
    if isinstance(cond, bool):
        return value(frame, env, node.body if cond else node.orelse)
    return either(frame, cond, lambda: value(frame, env, node.body), lambda: value(frame, env, node.orelse))


def _call(frame: Frame, env: Env, node: ast.Call) -> Value:
    function = value(frame, env, node.func)
    args = list(_listed(frame, env, node.args))
    keywords: dict[str, Value] = {}
    for k in node.keywords:
        if k.arg is None:
            raise frame.unsupported("** in a call cannot become Relay", "write the arguments out")
        keywords[k.arg] = value(frame, env, k.value)
    return apply(frame, function, args, keywords)


def _subscript(frame: Frame, env: Env, node: ast.Subscript) -> Value:
    base = value(frame, env, node.value)
    if base is Tensor or base is tuple or base is abc.Callable or type(base).__module__ == "typing":
        return subscript(base, value(frame, env, node.slice))
    return element(frame, base, value(frame, env, node.slice))


def taken(frame: Frame, env: Env, node: ast.AST) -> dict[str, Value]:
    """What an inner function takes from the function around it."""
    return {name: env[name] for name in env if name in reads(node)}


def _lambda(frame: Frame, env: Env, node: ast.Lambda) -> Value:
    return Closure(Code(node, frame.code.source, frame.code.outer), taken(frame, env, node))


def _comprehension(frame: Frame, env: Env, node: ast.ListComp | ast.GeneratorExp) -> Value:
    return tuple(_turns(frame, dict(env), node.elt, node.generators))


def _turns(frame: Frame, env: Env, elt: ast.expr, generators: list[ast.comprehension]) -> Iterator[Value]:
    if not generators:
        yield value(frame, env, elt)
        return
    first, *rest = generators
    for item in fields(frame, value(frame, env, first.iter)):
        assign(frame, env, first.target, item)
        if all(_holds(frame, env, test) for test in first.ifs):
            yield from _turns(frame, env, elt, rest)


def _holds(frame: Frame, env: Env, test: ast.expr) -> bool:
    cond = condition(frame, value(frame, env, test))
    if isinstance(cond, Expr):
        raise frame.unsupported("the length of the list depends on data", "use relay.where")
    return cond


def _starred(frame: Frame, env: Env, node: ast.Starred) -> Value:
    raise frame.unsupported("* has no meaning here")


_RULES: Final[Mapping[type[ast.expr], Callable[[Frame, Env, Any], Value]]] = {
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.BoolOp: _bool,
    ast.Call: _call,
    ast.Compare: _compare,
    ast.Constant: lambda frame, env, node: node.value,
    ast.GeneratorExp: _comprehension,
    ast.IfExp: _if,
    ast.Lambda: _lambda,
    ast.List: _tuple,
    ast.ListComp: _comprehension,
    ast.Name: _name,
    ast.Slice: _slice,
    ast.Starred: _starred,
    ast.Subscript: _subscript,
    ast.Tuple: _tuple,
    ast.UnaryOp: _unary,
}


# ------------------------------------------------------------------ assignment


def assign(frame: Frame, env: Env, target: ast.expr, given: Value) -> None:
    """Sets the names of `target` in `env`; a tuple is taken apart."""
    with frame.at(target):
        if isinstance(target, ast.Name):
            env[target.id] = frame.bind(target.id, given)
        elif isinstance(target, ast.Tuple | ast.List):
            _apart(frame, env, target.elts, given)
        else:
            raise frame.unsupported("only names can be assigned to", "return the new value")


def _apart(frame: Frame, env: Env, targets: list[ast.expr], given: Value) -> None:
    star = [n for n, t in enumerate(targets) if isinstance(t, ast.Starred)]
    parts = fields(frame, given, None if star else len(targets))
    if star:
        behind = len(targets) - star[0] - 1
        if len(parts) < len(targets) - 1:
            raise frame.wrong(f"{len(parts)} values, wanted at least {len(targets) - 1}")
        middle = parts[star[0] : len(parts) - behind]
        parts = (*parts[: star[0]], middle, *parts[len(parts) - behind :])
    if len(parts) != len(targets):
        raise frame.wrong(f"{len(parts)} values, wanted {len(targets)}", details=[f"got : {describe(given)}"])
    for target, part in zip(targets, parts, strict=True):
        assign(frame, env, target.value if isinstance(target, ast.Starred) else target, part)

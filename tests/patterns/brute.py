"""Matching by trying everything, as slowly and obviously as can be: what the matcher of `legato.patterns` must find."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from legato.ir.op import Op
from legato.ir.scope import operands, post_order
from legato.ir.types import TensorType
from legato.patterns import pattern as p
from legato.patterns.facts import has_attrs

Bound = dict[p.Pattern, Expr]
Ways = list[list[tuple[p.Pattern, Expr]]]


def solutions(pattern: p.Pattern, e: Expr, root: Expr, bound: Bound) -> Iterator[Bound]:
    """Every way in which `e`, a node of `root`, matches, in order."""
    if pattern in bound:
        if bound[pattern] == e:
            yield bound
        return
    for way in _ways(pattern, e, root):
        yield from _all(way, root, {**bound, pattern: e})


def _all(way: Sequence[tuple[p.Pattern, Expr]], root: Expr, bound: Bound) -> Iterator[Bound]:
    if not way:
        yield bound
        return
    for found in solutions(*way[0], root, bound):
        yield from _all(way[1:], root, found)


def _ways(pattern: p.Pattern, e: Expr, root: Expr) -> Ways:
    return _leaf(pattern, e) or _call(pattern, e) or _structure(pattern, e) or _condition(pattern, e, root)


def _leaf(pattern: p.Pattern, e: Expr) -> Ways:
    match pattern, e:
        case p.WildcardPattern(), _:
            return [[]]
        case p.ExprPattern(expr), _:
            return [[]] if alpha_equal(expr, e) else []
        case p.VarPattern(name), Var():
            return [[]] if name in ("", e.name) else []
        case p.ConstantPattern(), Constant():
            return [[]]
    return []


def _call(pattern: p.Pattern, e: Expr) -> Ways:
    match pattern, e:
        case p.CallPattern(op, None), Call():
            return [[(op, e.op)]]
        case p.CallPattern(op, args), Call() if args is not None and len(args) == len(e.args):
            orders = [list(zip(args, e.args, strict=True))]
            if isinstance(op, p.ExprPattern) and getattr(op.expr, "name", "") in ("add", "multiply"):
                orders.append(list(zip(args, e.args[::-1], strict=True)))
            return [[(op, e.op), *order] for order in orders]
    return []


def _structure(pattern: p.Pattern, e: Expr) -> Ways:
    match pattern, e:
        case p.TuplePattern(None), Tuple():
            return [[]]
        case p.TuplePattern(fields), Tuple() if fields is not None and len(fields) == len(e.fields):
            return [list(zip(fields, e.fields, strict=True))]
        case p.TupleGetItemPattern(value, index), TupleGetItem() if index in (None, e.index):
            return [[(value, e.value)]]
        case p.IfPattern(cond, then, orelse), If():
            return [[(cond, e.cond), (then, e.then), (orelse, e.orelse)]]
        case p.LetPattern(var, value, body), Let():
            return [[(var, e.var), (value, e.value), (body, e.body)]]
        case p.FunctionPattern(None, body), Function():
            return [[(body, e.body)]]
        case p.FunctionPattern(params, body), Function() if params is not None and len(params) == len(e.params):
            return [[*zip(params, e.params, strict=True), (body, e.body)]]
    return []


def _condition(pattern: p.Pattern, e: Expr, root: Expr) -> Ways:
    match pattern, e:
        case p.AltPattern(left, right), _:
            return [[(left, e)], [(right, e)]]
        case p.AttrPattern(inner, attrs), _ if has_attrs(e, attrs):
            return [[(inner, e)]]
        case p.ShapePattern(inner, shape), _ if isinstance(e.ty, TensorType) and e.ty.shape == shape:
            return [[(inner, e)]]
        case p.DataTypePattern(inner, dtype), _ if isinstance(e.ty, TensorType) and e.ty.dtype == dtype:
            return [[(inner, e)]]
        case p.TypePattern(inner, ty), _ if e.ty == ty:
            return [[(inner, e)]]
        case p.DominatorPattern(parent, path, child), _:
            return [[(child, e), (parent, node)] for node in parents(e, path, root)]
    return []


def parents(child: Expr, path: p.Pattern, root: Expr) -> list[Expr]:
    """What all paths lead through, to `child` and from it, with `path` matched by all between; nearest first."""
    found = []
    for node in reversed(list(post_order(child))):
        if node is child or _is_leaf(node) or not _cut_off(node, child, root):
            continue
        between = _below(child, node)
        if any(not _computed(n) for n in [child, *between]) or not _reaches(child, node):
            continue
        if all(next(solutions(path, n, root, {}), None) is not None for n in between):
            found.append(node)
    return found


def _is_leaf(e: Expr) -> bool:
    return isinstance(e, Var | GlobalVar | Constant | Op)


def _computed(e: Expr) -> list[Expr]:
    return [o for o in operands(e) if not _is_leaf(o)]


def _below(e: Expr, stop: Expr) -> list[Expr]:
    """What is below `e` on ways that do not lead through `stop`."""
    found: list[Expr] = []
    todo = _computed(e)
    while todo:
        node = todo.pop()
        if node is not stop and all(node is not f for f in found):
            found.append(node)
            todo += _computed(node)
    return found


def _reaches(e: Expr, node: Expr) -> bool:
    return any(n is node for n in post_order(e))


def _cut_off(node: Expr, child: Expr, root: Expr) -> bool:
    """Whether no path leads from `node` to `root` but through `child`."""
    todo, seen = [root], set()
    while todo:
        e = todo.pop()
        if e is node:
            return False
        if e is not child and id(e) not in seen:
            seen.add(id(e))
            todo += operands(e)
    return True

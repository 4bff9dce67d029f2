"""Visitors and mutators of expressions, to be subclassed: one method for each kind of node.

    class Count(relay.ExprVisitor):
        def visit_call(self, call):
            self.calls += 1
            super().visit_call(call)          # goes on to the operands

A node is visited once: what its method returned is remembered by identity in `memo_map`. Order and control are those
of plain recursion, and programs of any depth can be walked (100,000 calls, 50,000 lets), as long as methods call each
other directly or in comprehensions: `map`, `sorted` and the like use the C stack between two levels, which is finite.
The MixedMode classes need no recursion for calls, tuples and lets, whatever their methods do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from legato.base.errors import TypeCheckError
from legato.base.node import transform
from legato.ir import expr as ir
from legato.ir.clauses import Clause
from legato.ir.expr import Expr
from legato.ir.op import Op
from legato.relay._depth import room

__all__ = ["ExprFunctor", "ExprMutator", "ExprVisitor", "MixedModeMutator", "MixedModeVisitor"]

E = TypeVar("E", bound=Expr)

METHODS: Final[dict[type, str]] = {
    ir.Function: "visit_function",
    ir.Call: "visit_call",
    ir.Let: "visit_let",
    ir.Var: "visit_var",
    ir.GlobalVar: "visit_global_var",
    ir.If: "visit_if",
    ir.Tuple: "visit_tuple",
    ir.TupleGetItem: "visit_tuple_getitem",
    ir.Constant: "visit_constant",
    Op: "visit_op",
    ir.RefCreate: "visit_ref_create",
    ir.RefRead: "visit_ref_read",
    ir.RefWrite: "visit_ref_write",
    ir.Constructor: "visit_constructor",
    ir.Match: "visit_match",
    ir.MatchCast: "visit_match_cast",
    ir.Dataflow: "visit_dataflow",
    ir.Shape: "visit_shape",
}


def changed(node: E, **fields: Any) -> E:
    """`node` with other fields, and without its type, which may no longer hold; the same object where none differs."""
    if all(_same(getattr(node, name), value) for name, value in fields.items()):
        return node
    return replace(node, ty=None, **fields)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
    return a is b


class ExprFunctor:
    """Calls the method of each node's kind, once per node.

    Subclass it and write them: here each raises NotImplementedError, as in the original.
    """

    _is_walking = False

    def __init__(self) -> None:
        self.memo_map: dict[Expr, Any] = {}

    def visit(self, expr: Expr) -> Any:
        """What the method for `expr` returns, called when it is met for the first time."""
        if expr in self.memo_map:
            return self.memo_map[expr]
        if not self._is_walking:
            return self._walk(expr)
        result = self.dispatch(expr)
        self.memo_map[expr] = result
        return result

    def _walk(self, expr: Expr) -> Any:
        self._is_walking = True
        try:
            with room(expr):
                return self.visit(expr)
        finally:
            self._is_walking = False

    def dispatch(self, expr: Expr) -> Any:
        """Calls the method for the kind of `expr`; TypeCheckError for what is not an expression."""
        name = METHODS.get(type(expr))
        if name is None:
            raise TypeCheckError(f"visited a {type(expr).__name__}, which is not an expression")
        method: Callable[[Expr], Any] = getattr(self, name)
        return method(expr)

    def visit_type(self, typ: Any) -> Any:
        """`typ` itself; for subclasses that look at types."""
        return typ

    def _missing(self, expr: Any, /) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.{METHODS[type(expr)]}")

    visit_function = visit_call = visit_let = visit_var = visit_global_var = visit_if = visit_tuple = _missing
    visit_tuple_getitem = visit_constant = visit_op = visit_ref_create = visit_ref_read = visit_ref_write = _missing
    visit_constructor = visit_match = visit_match_cast = visit_dataflow = visit_shape = _missing


class ExprVisitor(ExprFunctor):
    """Visits every node, operands in order of evaluation; methods return nothing."""

    def visit_children(self, expr: Any, /) -> Any:
        """Visits the sub-expressions of `expr`, with the variables that it binds."""
        for child in expr.children():
            self.visit(child)

    def visit_leaf(self, expr: Any, /) -> Any:
        """Nothing to go on to."""

    visit_function = visit_call = visit_let = visit_if = visit_tuple = visit_tuple_getitem = visit_children
    visit_ref_create = visit_ref_read = visit_ref_write = visit_match = visit_match_cast = visit_children
    visit_dataflow = visit_children
    visit_var = visit_global_var = visit_constant = visit_op = visit_constructor = visit_shape = visit_leaf


class ExprMutator(ExprFunctor):
    """Rebuilds expressions: each method returns what takes the node's place; the same node where nothing changed.

    A node that changed has no type until inference runs again. In an expression that changed, variables of lets that
    inference had typed have no types either: those followed from what was there before.
    """

    def _walk(self, expr: Expr) -> Any:
        new = super()._walk(expr)
        if new is not expr and isinstance(new, Expr):
            new = self.memo_map[expr] = transform(new, _unpinned)
        return new

    def visit_function(self, fn: ir.Function, /) -> Any:
        params = tuple([self.visit(p) for p in fn.params])
        return changed(fn, params=params, body=self.visit(fn.body))

    def visit_call(self, call: ir.Call, /) -> Any:
        op = self.visit(call.op)
        return changed(call, op=op, args=tuple([self.visit(a) for a in call.args]))

    def visit_let(self, let: ir.Let, /) -> Any:
        var = self.visit(let.var)
        value = self.visit(let.value)
        return _let(let, var, value, self.visit(let.body))

    def visit_if(self, node: ir.If, /) -> Any:
        cond = self.visit(node.cond)
        then = self.visit(node.then)
        return changed(node, cond=cond, then=then, orelse=self.visit(node.orelse))

    def visit_tuple(self, tup: ir.Tuple, /) -> Any:
        return changed(tup, fields=tuple([self.visit(f) for f in tup.fields]))

    def visit_tuple_getitem(self, node: ir.TupleGetItem, /) -> Any:
        return changed(node, value=self.visit(node.value))

    def visit_ref_create(self, node: ir.RefCreate, /) -> Any:
        return changed(node, value=self.visit(node.value))

    def visit_ref_read(self, node: ir.RefRead, /) -> Any:
        return changed(node, ref=self.visit(node.ref))

    def visit_ref_write(self, node: ir.RefWrite, /) -> Any:
        ref = self.visit(node.ref)
        return changed(node, ref=ref, value=self.visit(node.value))

    def visit_match(self, node: ir.Match, /) -> Any:
        data = self.visit(node.data)
        bodies = [self.visit(c.body) for c in node.clauses]
        if data is node.data and all(b is c.body for b, c in zip(bodies, node.clauses, strict=True)):
            return node
        clauses = tuple([Clause(c.pattern, b) for c, b in zip(node.clauses, bodies, strict=True)])
        return replace(node, ty=None, data=data, clauses=clauses)

    def visit_match_cast(self, node: ir.MatchCast, /) -> Any:
        return changed(node, value=self.visit(node.value))

    def visit_dataflow(self, node: ir.Dataflow, /) -> Any:
        new = [self.visit(child) for child in node.children()]
        return node if _same(node.children(), tuple(new)) else replace(node.with_children(tuple(new)), ty=None)

    def visit_leaf(self, node: Any, /) -> Any:
        """The node itself."""
        return node

    visit_var = visit_global_var = visit_constant = visit_op = visit_constructor = visit_shape = visit_leaf


def _let(let: ir.Let, var: ir.Var, value: Expr, body: Expr) -> ir.Let:
    new = changed(let, var=var, value=value, body=body)
    return new if new is let or let.ty is None else replace(new, var=var.with_type(None))


def _unpinned(node: Expr) -> Expr | None:
    """A let that inference has typed, without that type."""
    if not isinstance(node, ir.Let) or node.ty is None:
        return None
    return replace(node, var=node.var.with_type(None), ty=None)


# ------------------------------------------------------------------ without recursion


def _flat(expr: Expr) -> tuple[Expr, ...] | None:
    """The operands of a call, tuple or projection; None for the other kinds, which are left to their methods."""
    return expr.children() if isinstance(expr, ir.Call | ir.Tuple | ir.TupleGetItem) else None


class _MixedMode(ExprFunctor):
    """Calls of calls, tuples and projections come when their operands have been visited."""

    def visit(self, expr: Expr) -> Any:
        if not self._is_walking:
            return super().visit(expr)
        _post_order(self.memo_map, expr, self.dispatch)
        return self.memo_map[expr]


class MixedModeVisitor(_MixedMode, ExprVisitor):
    """A visitor whose operands of calls, tuples and projections have been visited when the node's method is called.

    So these methods need not go on to operands, and cannot keep them from being visited. Chains of lets are walked
    from top to bottom. Other kinds are visited as in ExprVisitor.
    """

    def visit_let(self, let: ir.Let, /) -> Any:
        node: Expr = let
        while isinstance(node, ir.Let) and node not in self.memo_map:
            self.memo_map[node] = None
            self.visit(node.var)
            self.visit(node.value)
            node = node.body
        self.visit(node)

    visit_call = visit_tuple = visit_tuple_getitem = ExprVisitor.visit_leaf


class MixedModeMutator(_MixedMode, ExprMutator):
    """A mutator that rebuilds calls, tuples and projections from rebuilt operands, then asks `rewrite_…(pre, post)`.

    `pre` is the node as it was, `post` the node with new operands (the same object where none changed); the answer
    takes its place. Chains of lets are rebuilt from bottom to top. Other kinds are rebuilt as in ExprMutator.
    """

    def visit_let(self, let: ir.Let, /) -> Any:
        lets: list[tuple[ir.Let, ir.Var, Expr]] = []
        node: Expr = let
        while isinstance(node, ir.Let) and node not in self.memo_map:
            lets.append((node, self.visit(node.var), self.visit(node.value)))
            node = node.body
        body = self.visit(node)
        for old, var, value in reversed(lets):
            body = self.memo_map[old] = _let(old, var, value, body)
        return body

    def rewrite_call(self, pre: ir.Call, post: ir.Call) -> Any:
        """What takes the place of a call."""
        return post

    def rewrite_tuple(self, pre: ir.Tuple, post: ir.Tuple) -> Any:
        """What takes the place of a tuple."""
        return post

    def rewrite_tuple_getitem(self, pre: ir.TupleGetItem, post: ir.TupleGetItem) -> Any:
        """What takes the place of a projection."""
        return post

    def visit_call(self, call: ir.Call, /) -> Any:
        return self.rewrite_call(call, super().visit_call(call))

    def visit_tuple(self, tup: ir.Tuple, /) -> Any:
        return self.rewrite_tuple(tup, super().visit_tuple(tup))

    def visit_tuple_getitem(self, node: ir.TupleGetItem, /) -> Any:
        return self.rewrite_tuple_getitem(node, super().visit_tuple_getitem(node))


def _post_order(memo: dict[Expr, Any], root: Expr, visit: Callable[[Expr], Any]) -> None:
    """Visits what is new below `root` and can be reached by calls, tuples and projections, operands first."""
    stack = [root]
    while stack:
        node = stack[-1]
        if node in memo:
            stack.pop()
            continue
        waiting = [kid for kid in _flat(node) or () if kid not in memo]
        if waiting:
            stack += reversed(waiting)
            continue
        stack.pop()
        memo[node] = visit(node)

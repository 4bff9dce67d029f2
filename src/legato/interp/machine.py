"""The machine: runs the rules with a stack of its own, so that neither programs nor data can be too deep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.base.errors import RunError
from legato.interp.activation import Activation
from legato.interp.arguments import check_argument
from legato.interp.calls import Tail, enter
from legato.interp.constraints import awaits, learn_and_check, require
from legato.interp.context import Context, Observer
from legato.interp.rules import LEAVES, RULES, Steps
from legato.interp.values import Closure, Value, as_value
from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.runtime.floats import float_environment

__all__ = ["evaluate"]


def evaluate(
    module: Module,
    args: Sequence[Value] = (),
    name: str = "main",
    *,
    float64: bool = False,
    observe: Observer | None = None,
    packed: Mapping[str, object] | None = None,
) -> Value:
    """The value of function `name` of `module` on `args`.

    Arguments are arrays (or what NumPy takes as one), tuples of them, and values that a program gave; they are checked
    against the parameters' types. `observe(node, value)` is told of every node that is computed. packed: the packed
    functions that the module calls, by name. RunError for arguments that do not fit, a failed match or cast, or a dim
    equality that does not hold; PackedError for packed functions.
    """
    func = module[name]
    if not isinstance(func, Function):
        raise RunError(f"@{name} is a loop program; tir.interp runs those")
    context = Context(module, float64, observe, packed)
    values = [context.widen(as_value(a)) for a in args]
    start = enter(context, Closure(func), values, f"@{name}")
    for param, value in zip(func.params, values, strict=True):
        if param.ty is not None and not float64:  # which leaves the floats in data as they are
            check_argument(module.types, start.env.dims, param.ty, value, f"@{name}, %{param.name}")
    require(start.env, start.env.waiting)
    with float_environment():
        return _run(context, start)


def _run(context: Context, start: Tail) -> Value:
    """The value of an expression.

    The stack holds the nodes that wait for a value: each with its activation and the rest of its rule, or None where
    the awaited value is its own. A node that ends in a tail leaves the stack, unless someone in its activation waits
    for it, or for a dim of its type: so a tail call leaves nothing behind.
    """
    stack: list[tuple[Steps | None, Activation, Expr]] = []
    expr, env = start.expr, start.env
    value: Value
    while True:
        leaf = LEAVES.get(type(expr))
        if leaf is not None:
            value = leaf(context, env, expr)
        else:
            value = env.recall(expr)
            if value is None:
                stack.append((RULES[type(expr)](context, env, expr), env, expr))
        while stack:
            steps, env, node = stack[-1]
            if steps is not None:
                try:
                    expr = steps.send(value)
                    break
                except StopIteration as end:
                    value = end.value
            stack.pop()
            if type(value) is Tail:
                if context.observe is not None or (stack and stack[-1][1] is env) or awaits(env, node.ty):
                    stack.append((None, env, node))
                expr, env = value.expr, value.env
                break
            _computed(context, env, node, value)
        else:
            return value


def _computed(context: Context, env: Activation, node: Expr, value: Value) -> None:
    """Tells and remembers the value of a node, and what its type says of dims."""
    if context.observe is not None:
        context.observe(node, value)
    learn_and_check(env, node.ty, value)
    env.keep(node, value)

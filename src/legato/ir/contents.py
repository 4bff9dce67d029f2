"""What is in functions, found once: nearly every pass looks at all nodes for its work, and mostly finds none."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from legato.ir.expr import Call, Expr, Function
from legato.ir.op import Op
from legato.ir.scope import post_order

__all__ = ["body_nodes", "called_operators"]

# Functions never change, and these do not outlive them.
_NODES: Final[WeakKeyDictionary[Function, tuple[Expr, ...]]] = WeakKeyDictionary()
_OPERATORS: Final[WeakKeyDictionary[Function, frozenset[Op]]] = WeakKeyDictionary()


def body_nodes(func: Function) -> tuple[Expr, ...]:
    """Every node of the body of `func`, as `scope.post_order` finds them: binders are not among them."""
    found = _NODES.get(func)
    if found is None:
        found = _NODES[func] = tuple(post_order(func.body))
    return found


def called_operators(func: Function) -> frozenset[Op]:
    """The operators that `func` calls, functions inside it too."""
    found = _OPERATORS.get(func)
    if found is None:
        calls = (node.op for node in body_nodes(func) if isinstance(node, Call))
        found = _OPERATORS[func] = frozenset(op for op in calls if isinstance(op, Op))
    return found

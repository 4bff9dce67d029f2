"""How a name of the facade stands for a class of the language.

Nodes and types are the language's own: nothing is wrapped, and every pass works on them. What differs is how Relay's
users write a constructor: lists for tuples, other keywords, more defaults. So each name here is a class whose call
builds a node, whose instances are all nodes of that kind, whoever made them, and which is a subclass of what that is:

    relay.Call(op, [x, y])               an ir.expr.Call
    isinstance(node, relay.Call)         whether it is one
    issubclass(relay.Call, relay.Expr)   True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Named"]


class Named(type):
    """Metaclass: `C(...)` is `C.build(...)`, and `isinstance(x, C)` asks for the class of nodes that C is made of."""

    build: Callable[..., Any]

    @property
    def node(cls) -> type:
        """The class of the nodes."""
        return cls.__bases__[0]

    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        return cls.build(*args, **keywords)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.node)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, cls.node)

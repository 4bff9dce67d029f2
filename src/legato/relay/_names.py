"""How a name of the facade stands for a class of the language.

Nodes and types are the language's own: nothing is wrapped, and every pass works on them. What differs is how Relay's
users write a constructor: lists for tuples, other keywords, more defaults. So each name here is a class whose call
builds a node, and whose instances are all nodes of that kind, whoever made them:

    relay.Call(op, [x, y])            an ir.expr.Call
    isinstance(node, relay.Call)      whether it is one
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

__all__ = ["Named"]


class Named(type):
    """Metaclass: `C(...)` is `C.build(...)`, and `isinstance(x, C)` asks for `C.node`."""

    node: ClassVar[type]
    build: Callable[..., Any]

    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        return cls.build(*args, **keywords)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.node)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, cls.node)

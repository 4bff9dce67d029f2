"""Inlining of stages: an element of an injective stage is computed where it is read."""

from __future__ import annotations

from collections.abc import Container, Mapping

from legato.arith.expr import Expr, Select
from legato.arith.substitute import nodes, rewrite, substitute
from legato.te.order import in_order
from legato.te.tensor import Stage, Tensor
from legato.tir.expr import Load

__all__ = ["certain_loads", "inline", "loads", "replaced"]


def inline(e: Expr, keep: Container[Tensor] = ()) -> Expr:
    """`e` with every Load of a stage without reduction replaced by what the stage computes; stages in `keep` are read.

    Stages may be chained thousands deep, so inner stages are inlined first, each once per distinct element.
    """

    bodies: dict[Tensor, Expr] = {}
    inner = [b for b in _tensors(e) if _is_inlined(b, keep)]
    for tensor in in_order(inner):
        if not _is_inlined(tensor, keep):
            continue
        assert isinstance(tensor.stage, Stage)
        bodies[tensor] = rewrite(tensor.stage.body, lambda node: _from(bodies, node))
    return rewrite(e, lambda node: _from(bodies, node)) if bodies else e


def _from(bodies: dict[Tensor, Expr], node: Expr) -> Expr | None:
    if not isinstance(node, Load) or node.buffer not in bodies:
        return None
    tensor = node.buffer
    assert isinstance(tensor, Tensor)
    assert isinstance(tensor.stage, Stage)
    mapping = {a.var: i for a, i in zip(tensor.stage.axes, node.indices, strict=True)}
    return substitute(bodies[tensor], mapping)


def _is_inlined(buffer: object, keep: Container[Tensor]) -> bool:
    if not isinstance(buffer, Tensor) or buffer in keep:
        return False
    return isinstance(buffer.stage, Stage) and buffer.stage.reduction is None


def _tensors(e: Expr) -> list[Tensor]:
    return list({id(x.buffer): x.buffer for x in loads(e) if isinstance(x.buffer, Tensor)}.values())


def loads(e: Expr) -> list[Load]:
    """The distinct Loads in `e`."""
    return [n for n in nodes(e) if isinstance(n, Load)]


def replaced(e: Expr, known: Mapping[Load, Expr]) -> Expr:
    """`e` with the Loads replaced that are `known`."""
    return rewrite(e, lambda node: known.get(node) if isinstance(node, Load) else None)


def certain_loads(e: Expr) -> list[Load]:
    """The distinct Loads in `e` that are read whatever its conditions say: those that no side of a Select guards."""
    found: dict[Expr, None] = {}
    stack = [e]
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack += reversed((node.cond,) if isinstance(node, Select) else node.children())
    return [n for n in found if isinstance(n, Load)]

"""Inlining of stages: an element of an injective stage is computed where it is read."""

from __future__ import annotations

from collections.abc import Container, Mapping

from legato.arith.expr import Expr, Select
from legato.arith.substitute import nodes, rewrite, substitute
from legato.te.tensor import Stage, Tensor
from legato.tir.expr import Load

__all__ = ["certain_loads", "inline", "loads", "replaced"]


def inline(e: Expr, keep: Container[Tensor] = ()) -> Expr:
    """`e` with every Load of a stage without reduction replaced by what the stage computes; stages in `keep` are read.

    Stages may be chained thousands deep. Each element is computed where it is read first, in terms of the elements that
    it reads; so what is made grows as the stages do, not as what all of them have below them.
    """
    new: dict[Expr, Expr] = {}
    elements: dict[Load, Expr] = {}
    stack = [e]
    while stack:
        node = stack[-1]
        if node in new:
            stack.pop()
            continue
        kids = node.children()
        pending = [k for k in kids if k not in new]
        if pending:
            stack += reversed(pending)
            continue
        given = tuple([new[k] for k in kids])
        done = node if given == kids else node.with_children(given)
        if isinstance(done, Load) and _is_inlined(done.buffer, keep):
            if done not in elements:
                elements[done] = _element(done)
                stack.append(elements[done])
                continue
            done = new[elements[done]]
        new[node] = done
    return new[e]


def _element(load: Load) -> Expr:
    """What `load` reads, computed: the body of the stage at these indices."""
    assert isinstance(load.buffer, Tensor)
    assert isinstance(load.buffer.stage, Stage)
    axes = load.buffer.stage.axes
    return substitute(load.buffer.stage.body, {a.var: i for a, i in zip(axes, load.indices, strict=True)})


def _is_inlined(buffer: object, keep: Container[Tensor]) -> bool:
    if not isinstance(buffer, Tensor) or buffer in keep:
        return False
    return isinstance(buffer.stage, Stage) and buffer.stage.reduction is None


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

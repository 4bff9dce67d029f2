"""Inlining of stages: an element of an injective stage is computed where it is read."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from legato.arith.expr import Binary, Const, Expr, Op, Select, le, lt, select
from legato.arith.interval import Interval
from legato.arith.simplify import Simplifier, simplify
from legato.arith.substitute import nodes, rewrite, substitute
from legato.lower.group import stages
from legato.te.tensor import Axis, Stage, Tensor
from legato.tir.expr import Load

__all__ = ["Pad", "certain_loads", "conjuncts", "detect_pad", "inline", "loads", "replaced", "settled", "simplified"]


def inline(e: Expr, keep: Container[Tensor] = ()) -> Expr:
    """`e` with every Load of a stage without reduction replaced by what the stage computes; stages in `keep` are read.

    Stages may be chained thousands deep, so inner stages are inlined first, each once per distinct element.
    """

    bodies: dict[Tensor, Expr] = {}
    inner = [b for b in _tensors(e) if _is_inlined(b, keep)]
    for tensor in stages(inner):
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


def settled(e: Expr, axes: Iterable[Axis]) -> Expr:
    """`e` with the conditions decided that hold, or do not, everywhere on `axes`: windows that stay inside, say."""
    if not any(isinstance(n, Select) for n in nodes(e)):
        return e
    known = _simplifier(axes)

    def settle(node: Expr) -> Expr | None:
        if not isinstance(node, Select) or any(isinstance(n, Load) for n in nodes(node.cond)):
            return None
        cond = known(node.cond)
        return select(cond, node.a, node.b) if isinstance(cond, Const) else None

    return rewrite(e, settle)


def simplified(e: Expr, axes: Iterable[Axis]) -> Expr:
    """`e` with its subscripts and conditions simplified, for values of `axes` within their extents."""
    return _simplifier(axes)(e)


def _simplifier(axes: Iterable[Axis]) -> Simplifier:
    ranges, limits = {}, {}
    for axis in axes:
        if isinstance(axis.extent, Const):
            ranges[axis.var] = Interval(0, int(axis.extent.value) - 1)
        else:
            limits[axis.var] = axis.extent
    return Simplifier(ranges, limits)


class Pad:
    """A stage that surrounds `source` with `value`: `before[d]` and `after[d]` elements along dimension d."""

    __slots__ = ("after", "before", "source", "value")

    def __init__(self, source: Tensor, before: tuple[int, ...], after: tuple[int, ...], value: float) -> None:
        self.source, self.before, self.after, self.value = source, before, after, value


def detect_pad(tensor: Tensor) -> Pad | None:
    """How `tensor` pads another one, recognised from the structure of its stage; None if it does not.

    The body must be select(i ≥ before and i < before + extent, source[i − before], constant), for literal widths.
    """
    stage = tensor.stage
    if not isinstance(stage, Stage) or stage.reduction is not None or not isinstance(stage.body, Select):
        return None
    inside, read, fill = stage.body.cond, stage.body.a, stage.body.b
    if not isinstance(read, Load) or not isinstance(fill, Const) or not isinstance(read.buffer, Tensor):
        return None
    if len(read.indices) != len(stage.axes):
        return None
    before, after, wanted = [], [], set()
    source = read.buffer
    for axis, index, extent in zip(stage.axes, read.indices, source.shape, strict=True):
        front = simplify(axis.var - index)
        back = simplify(axis.extent - extent - front)
        if not isinstance(front, Const) or not isinstance(back, Const) or front.value < 0 or back.value < 0:
            return None
        before.append(int(front.value))
        after.append(int(back.value))
        wanted |= {le(front, axis.var)} if front.value else set()
        wanted |= {lt(axis.var, simplify(extent + front))} if back.value else set()
    if {simplify(c) for c in conjuncts(inside)} != {simplify(c) for c in wanted}:
        return None
    return Pad(source, tuple(before), tuple(after), float(fill.value))


def conjuncts(cond: Expr) -> list[Expr]:
    """The conditions that `cond` joins by and; none where it is always true."""
    if isinstance(cond, Binary) and cond.op is Op.AND:
        return [*conjuncts(cond.a), *conjuncts(cond.b)]
    return [] if isinstance(cond, Const) and cond.value is True else [cond]

"""Branches and loops of TorchScript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from legato.arith.expr import Expr as DimExpr
from legato.base.dtype import int64
from legato.base.errors import UnsupportedError
from legato.frontend.torch.control import fields, loop
from legato.frontend.torch.emitter import Float
from legato.frontend.torch.script.boxes import Box
from legato.frontend.torch.script.numbers import Scalar, scalar_tensor
from legato.frontend.torch.script.walk import ScriptWalk
from legato.ir.expr import Expr

__all__ = ["BODIES"]

_NUMBERS = (bool, int, float, Scalar, DimExpr, Float)


def _if(walk: ScriptWalk, node: Any, args: Sequence[Any], env: dict[str, Any]) -> Sequence[Any]:
    then, orelse = node.blocks()
    (cond,) = args
    if not isinstance(cond, Scalar):
        return walk.block(then if cond else orelse, (), env)
    if (raised := _raising(then)) != _raising(orelse):  # a check of the data: what is not refused goes on
        raise UnsupportedError("a branch that the data decides raises" if raised else "an assertion about the data")
    b = walk.b
    trial = [_tried(walk, block, (), env) for block in (then, orelse)]
    boxes = list({id(x): x for _, written in trial for x in written}.values())
    shapes = [_plan(x, y) for x, y in zip(trial[0][0], trial[1][0], strict=True)]

    def made(block: Any) -> Expr:
        results, changed = _body(walk, block, (), env, boxes)
        return b.tuple_([*_leaves(walk, results, shapes), *changed])

    found = list(fields(b, b.if_(b.truth(cond.value), lambda: made(then), lambda: made(orelse))))
    rest = iter(found)
    results = [_filled(walk, shape, rest) for shape in shapes]
    for box, value in zip(boxes, rest, strict=True):
        walk.write(box, value)
    return results


def _loop(walk: ScriptWalk, node: Any, args: Sequence[Any], env: dict[str, Any]) -> Sequence[Any]:
    (block,) = node.blocks()
    trip, go, *carried = args
    if not isinstance(trip, int) or isinstance(go, Scalar):
        return _running_loop(walk, block, trip, go, carried, env)
    i = 0
    while go and i < trip:
        go, *carried = walk.block(block, (i, *carried), env)
        if isinstance(go, Scalar):
            raise UnsupportedError("a loop over a known number of rounds that the data ends early",
                                   hint="compute all rounds, and select by torch.where")  # fmt: skip
        i += 1
    return carried


def _running_loop(
    walk: ScriptWalk, block: Any, trip: Any, go: Any, carried: Sequence[Any], env: dict[str, Any]
) -> Sequence[Any]:
    """A loop whose number of rounds only running it tells."""
    b = walk.b
    limit = b.let("rounds", scalar_tensor(b, trip))
    values = [go, *carried]
    shapes = [_plan(v, v) for v in values]
    start = _leaves(walk, values, shapes)
    _, boxes = _tried(walk, block, (Scalar(b.constant(0, int64)), *carried), env)

    def entered(state: Sequence[Expr]) -> list[Any]:
        rest = iter(state)
        found = [_filled(walk, shape, rest) for shape in shapes]
        for box, value in zip(boxes, rest, strict=True):
            box.set(value)
        return found

    def test(i: Expr, state: Sequence[Expr]) -> Expr:
        return b.logical_and(b.less(i, limit), b.truth(state[0]))

    def step(i: Expr, state: Sequence[Expr]) -> tuple[Sequence[Expr], Sequence[Expr]]:
        before = [x.get() for x in boxes]
        inner = entered(state)
        results, changed = _body(walk, block, (Scalar(i), *inner[1:]), env, boxes)
        for box, value in zip(boxes, before, strict=True):
            box.set(value)
        return [*_leaves(walk, results, shapes), *changed], ()

    found = list(loop(b, test, step, [*start, *(x.get() for x in boxes)], None))
    rest = iter(found)
    results = [_filled(walk, shape, rest) for shape in shapes]
    for box, value in zip(boxes, rest, strict=True):
        walk.write(box, value)
    return results[1:]


def _tried(walk: ScriptWalk, block: Any, values: Sequence[Any], env: dict[str, Any]) -> tuple[list[Any], list[Box]]:
    """The results of a body that is then forgotten, and which tensors from outside it changes."""
    forget = walk.b.trial()
    with walk.b.bindings():
        results, log = _entered(walk, block, values, env)
    forget()
    return results, [box for box, _ in log.values()]


def _body(
    walk: ScriptWalk, block: Any, values: Sequence[Any], env: dict[str, Any], boxes: Sequence[Box]
) -> tuple[list[Any], list[Expr]]:
    """The results of a body, and what it leaves in `boxes`, which are then as before."""
    before = [x.get() for x in boxes]
    results, _ = _entered(walk, block, values, env, restore=False)
    changed = [x.get() for x in boxes]
    for box, value in zip(boxes, before, strict=True):
        box.set(value)
    return results, changed


def _entered(
    walk: ScriptWalk, block: Any, values: Sequence[Any], env: dict[str, Any], restore: bool = True
) -> tuple[list[Any], dict[int, tuple[Box, Expr]]]:
    walk.depth += 1
    walk.logs.append({})
    try:
        results = walk.block(block, values, env)
    finally:
        walk.depth -= 1
        log = walk.logs.pop()
        if restore:
            for box, value in log.values():
                box.set(value)
    return results, log


def _raising(block: Any) -> bool:
    return any(n.kind() == "prim::RaiseException" for n in block.nodes())


def _plan(x: Any, y: Any) -> Any:
    """How a value that two bodies give is made of tensors: "tensor", "number", a list of such, or itself if equal."""
    if isinstance(x, Box) and isinstance(y, Box):
        return "tensor"
    if isinstance(x, list | tuple) and isinstance(y, list | tuple) and len(x) == len(y):
        return (type(x), [_plan(a, b) for a, b in zip(x, y, strict=True)])
    if isinstance(x, _NUMBERS) and isinstance(y, _NUMBERS):
        return "number"
    if type(x) is type(y) and not isinstance(x, Box | dict) and x == y:
        return ("same", x)
    raise UnsupportedError("a branch or loop that the data decides gives now one kind of value, now another")


def _leaves(walk: ScriptWalk, values: Sequence[Any], shapes: Sequence[Any]) -> list[Expr]:
    found: list[Expr] = []
    for value, shape in zip(values, shapes, strict=True):
        if shape == "tensor":
            found.append(value.get())
        elif shape == "number":
            found.append(scalar_tensor(walk.b, value))
        elif shape[0] != "same":
            found += _leaves(walk, value, shape[1])
    return found


def _filled(walk: ScriptWalk, shape: Any, leaves: Any) -> Any:
    if shape == "tensor":
        return walk.box(next(leaves))
    if shape == "number":
        return Scalar(next(leaves))
    if shape[0] == "same":
        return shape[1]
    made = [_filled(walk, s, leaves) for s in shape[1]]
    return tuple(made) if shape[0] is tuple else walk.items(made)


BODIES: Final = {"prim::If": _if, "prim::Loop": _loop}

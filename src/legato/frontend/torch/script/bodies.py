"""Branches and loops of TorchScript.

Of those that only running the program decides, a body is walked once to see what it changes, and again to be kept.
What comes out of it may share memory with what went in, and is `Entangled` with that; lists that come out are frozen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from legato.arith.expr import Expr as DimExpr
from legato.base.dataclass import dataclass
from legato.base.dtype import int64
from legato.base.errors import UnsupportedError
from legato.frontend.torch.control import fields, loop
from legato.frontend.torch.emitter import Float
from legato.frontend.torch.script.boxes import Box, Entangled, boxes_of
from legato.frontend.torch.script.numbers import Scalar, is_plain, scalar_tensor
from legato.frontend.torch.script.walk import Log, ScriptWalk, frozen
from legato.ir.expr import Expr

__all__ = ["BODIES"]

_NUMBERS = (bool, int, float, Scalar, DimExpr, Float)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a value that bodies give is made of tensors. `kind`: "tensor", "number", "same" (always `value`), "list" or
    "tuple" (of `parts`); `shared`: what a tensor may share its memory with."""

    kind: str
    value: Any = None
    parts: tuple[_Plan, ...] = ()
    shared: tuple[Box, ...] = ()


# ---------------------------------------------------------------------------------------------------- branches


def _if(walk: ScriptWalk, node: Any, args: Sequence[Any], env: dict[str, Any]) -> Sequence[Any]:
    then, orelse = node.blocks()
    (cond,) = args
    if not isinstance(cond, Scalar):
        return walk.block(then if cond else orelse, (), env)
    b = walk.b
    trial = [_tried(walk, block, (), env) for block in (then, orelse)]
    boxes = _together(trial[0][1], trial[1][1])
    plans = [_plan(walk, x, y) for x, y in zip(trial[0][0], trial[1][0], strict=True)]
    plans = [_apart(walk, plan, trial) for plan in plans]

    def made(block: Any) -> Expr:
        return b.tuple_(_body(walk, block, (), env, plans, boxes))

    found = iter(fields(b, b.if_(b.truth(cond.value), lambda: made(then), lambda: made(orelse))))
    results = [_filled(walk, plan, found) for plan in plans]
    for box, value in zip(boxes, found, strict=True):
        walk.write(box, value)
    return [_seen_now(walk, r) for r in results]


# ---------------------------------------------------------------------------------------------------- loops


def _loop(walk: ScriptWalk, node: Any, args: Sequence[Any], env: dict[str, Any]) -> Sequence[Any]:
    (block,) = node.blocks()
    trip, go, *carried = args
    is_counted = next(iter(block.outputs())).node().kind() == "prim::Constant"
    if not isinstance(trip, int) or isinstance(go, Scalar):
        return _running_loop(walk, block, trip, go, carried, env)
    if not is_counted and go and trip > 0 and _is_ended_by_data(walk, block, carried, env):
        return _running_loop(walk, block, trip, go, carried, env)
    i = 0
    while go and i < trip:
        go, *carried = walk.block(block, (i, *carried), env)
        if isinstance(go, Scalar):
            raise UnsupportedError("a loop over a known number of rounds that the data ends early",
                                   hint="compute all rounds, and select by torch.where")  # fmt: skip
        i += 1
    return carried


def _is_ended_by_data(walk: ScriptWalk, block: Any, carried: Sequence[Any], env: dict[str, Any]) -> bool:
    """Whether only running the first round tells if there is a second."""
    try:
        results, _ = _tried(walk, block, (0, *carried), env)
    except UnsupportedError:  # where that is so, and not only for bodies that the data decides, it is said later
        return False
    return isinstance(results[0], Scalar)


def _running_loop(
    walk: ScriptWalk, block: Any, trip: Any, go: Any, carried: Sequence[Any], env: dict[str, Any]
) -> Sequence[Any]:
    """A loop whose number of rounds only running it tells."""
    b = walk.b
    limit = b.let("rounds", scalar_tensor(b, trip))
    plans, boxes = _invariant(walk, block, carried, env)
    whole = [_Plan("number"), *plans]
    start = [*_leaves(walk, [go, *carried], whole), *(x.get() for x in boxes)]

    def test(i: Expr, state: Sequence[Expr]) -> Expr:
        return b.logical_and(b.less(i, limit), b.truth(state[0]))

    def step(i: Expr, state: Sequence[Expr]) -> tuple[Sequence[Expr], Sequence[Expr]]:
        before = [x.get() for x in boxes]
        leaves = iter(state)
        inner = [_filled(walk, plan, leaves) for plan in whole]
        for box, value in zip(boxes, leaves, strict=True):
            box.set(value)
        inner = [_seen_now(walk, v) for v in inner]
        after = _body(walk, block, (Scalar(i), *inner[1:]), env, whole, boxes)
        for box, value in zip(boxes, before, strict=True):
            box.set(value)
        return after, ()

    found = iter(loop(b, test, step, start, None))
    results = [_filled(walk, plan, found) for plan in whole]
    for box, value in zip(boxes, found, strict=True):
        walk.write(box, value)
    return [_seen_now(walk, r) for r in results[1:]]


def _invariant(
    walk: ScriptWalk, block: Any, carried: Sequence[Any], env: dict[str, Any]
) -> tuple[list[_Plan], list[Box]]:
    """How what a loop carries is made of tensors, and the tensors from outside that its body changes.

    What holds no number is taken to stay the same object, until a round gives another."""
    plans = [_Plan("number") if isinstance(v, _NUMBERS) else _Plan("same", v) for v in carried]
    while True:
        inner = [_stand_in(walk, plan, v) for plan, v in zip(plans, carried, strict=True)]
        count = Scalar(walk.b.var("i", walk.b.type_of(walk.b.constant(0, int64))))
        (_, *results), boxes = _tried(walk, block, (count, *inner), env)
        new = [
            plan if plan.kind == "same" and _is_same(plan.value, after) else _plan(walk, before, after, is_loop=True)
            for plan, before, after in zip(plans, carried, results, strict=True)
        ]
        if list(map(_form, new)) == list(map(_form, plans)):
            return new, boxes
        plans = new


def _stand_in(walk: ScriptWalk, plan: _Plan, value: Any) -> Any:
    """What a body that is tried gets for a value that is another in each round."""
    b = walk.b
    leaves = (b.var("s", b.type_of(x)) for x in _leaves(walk, [value], [plan]))
    return _seen_now(walk, _filled(walk, plan, leaves))


# ---------------------------------------------------------------------------------------------------- bodies


def _tried(walk: ScriptWalk, block: Any, values: Sequence[Any], env: dict[str, Any]) -> tuple[list[Any], list[Box]]:
    """The results of a body that is then forgotten, and which tensors from outside it changes."""
    forget = walk.b.trial()
    log: Log = {}
    try:
        with walk.b.bindings():
            results = _entered(walk, block, values, env, log)
    finally:  # also where the body is refused, and walked otherwise then
        forget()
        _restore(log)
    return results, [box for box, _ in log.values()]


def _body(
    walk: ScriptWalk, block: Any, values: Sequence[Any], env: dict[str, Any], plans: Sequence[_Plan],
    boxes: Sequence[Box],
) -> list[Expr]:  # fmt: skip
    """The tensors of a body's results, and what it leaves in `boxes`, which are then as before."""
    log: Log = {}
    results = _entered(walk, block, values, env, log)
    if not {id(box) for box, _ in log.values()} <= {id(box) for box in boxes}:
        raise UnsupportedError("a body changes other tensors in one round than in another")
    found = [*_leaves(walk, results, plans), *(x.get() for x in boxes)]
    _restore(log)
    return found


def _restore(log: Log) -> None:
    for box, value in log.values():
        box.set(value)


_places = iter(range(1 << 62))


def _entered(walk: ScriptWalk, block: Any, values: Sequence[Any], env: dict[str, Any], log: Log) -> list[Any]:
    """The results of a body; `log` gets the tensors from outside that it changes, with what they were before."""
    outer = walk.scope
    walk.scope = (*outer, next(_places))
    walk.logs.append(log)
    try:
        return walk.block(block, values, env)
    finally:
        walk.scope = outer
        walk.logs.pop()


# ---------------------------------------------------------------------------------------------------- values


def _together(*groups: Sequence[Box]) -> list[Box]:
    return list({id(x): x for group in groups for x in group}.values())


def _is_same(x: Any, y: Any) -> bool:
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(map(_is_same, x, y))
    return x is y


def _plan(walk: ScriptWalk, x: Any, y: Any, is_loop: bool = False) -> _Plan:
    """How a value is made that is `x` or `y`, or comes from rounds that begin with `x` and give `y`."""
    if isinstance(x, _NUMBERS) and isinstance(y, _NUMBERS):
        is_known = not is_loop and is_plain((x, y)) and type(x) is type(y) and x == y and x == x
        return _Plan("same", x) if is_known else _Plan("number")
    if x is y:
        return _Plan("same", x)
    if isinstance(x, Box) and isinstance(y, Box):
        return _Plan("tensor", shared=(x, y))
    if isinstance(x, list | tuple) and isinstance(y, list | tuple) and len(x) == len(y):
        parts = tuple(_plan(walk, a, b, is_loop) for a, b in zip(x, y, strict=True))
        frozen(x), frozen(y)
        return _Plan("tuple" if isinstance(x, tuple) else "list", parts=parts)
    if type(x) is type(y) and isinstance(x, str | None) and x == y:
        return _Plan("same", x)
    raise UnsupportedError("a branch or loop that the data decides gives now one kind of value, now another")


def _form(plan: _Plan) -> Any:
    return plan.kind, tuple(map(_form, plan.parts))


def _apart(walk: ScriptWalk, plan: _Plan, trial: Sequence[tuple[list[Any], list[Box]]]) -> _Plan:
    """A plan whose tensors share memory with nothing where both branches make them, each for one result."""
    roots = [id(x.root) for results, _ in trial for x in boxes_of(results)]

    def is_own(box: Box) -> bool:
        root = box.root
        return root.depth > walk.depth and not isinstance(root, Entangled) and roots.count(id(root)) == 1

    def apart(plan: _Plan) -> _Plan:
        is_fresh = plan.kind == "tensor" and all(map(is_own, plan.shared))
        return replace(plan, shared=() if is_fresh else plan.shared, parts=tuple(map(apart, plan.parts)))

    return apart(plan)


def _leaves(walk: ScriptWalk, values: Sequence[Any], plans: Sequence[_Plan]) -> list[Expr]:
    found: list[Expr] = []
    for value, plan in zip(values, plans, strict=True):
        if plan.kind == "tensor":
            found.append(value.get())
        elif plan.kind == "number":
            found.append(scalar_tensor(walk.b, value))
        elif plan.kind != "same":
            found += _leaves(walk, value, plan.parts)
        elif not _is_same(plan.value, value) and plan.value != value:
            raise UnsupportedError("a loop gives now one value, now another")
    return found


def _filled(walk: ScriptWalk, plan: _Plan, leaves: Iterator[Expr]) -> Any:
    if plan.kind == "tensor":
        return _Read(next(leaves), plan.shared)
    if plan.kind == "number":
        return Scalar(next(leaves))
    if plan.kind == "same":
        return plan.value
    made = [_filled(walk, part, leaves) for part in plan.parts]
    return tuple(made) if plan.kind == "tuple" else frozen(walk.items(made))


@dataclass(frozen=True, slots=True)
class _Read:
    """A tensor that is to be a box as soon as those that it may share memory with have their values."""

    value: Expr
    shared: tuple[Box, ...]


def _seen_now(walk: ScriptWalk, value: Any) -> Any:
    """A value with the boxes of its tensors."""
    if isinstance(value, _Read):
        if not value.shared:
            return walk.box(value.value)
        return walk.entangled(value.value, value.shared, "what a branch or loop that the data decides gave")
    if isinstance(value, tuple):
        return tuple(_seen_now(walk, v) for v in value)
    if isinstance(value, list):
        for n, v in enumerate(value):
            value[n] = _seen_now(walk, v)
    return value


BODIES: Final = {"prim::If": _if, "prim::Loop": _loop}

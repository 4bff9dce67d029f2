"""A DAG of stages as the plainest loop program that computes it: one nest per stage, every intermediate in memory.

It is the meaning of tensor expressions (through `tir.interp`) and what schedules are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Const, Var, binary
from legato.arith.substitute import variables
from legato.base.dtype import DType
from legato.base.errors import InternalError
from legato.te.order import in_order
from legato.te.tensor import COMBINERS, Axis, Loops, Stage, Tensor
from legato.tir.expr import Load
from legato.tir.expr import identity as neutral
from legato.tir.stmt import Alloc, For, Func, Stmt, Store, block
from legato.tir.walk import bound_vars, vars_used

__all__ = ["identity", "nest", "to_tir"]


def to_tir(outputs: Sequence[Tensor], inputs: Sequence[Tensor], name: str) -> Func:
    """The kernel that computes `outputs` from `inputs`.

    Parameters: the inputs, the outputs, then the dims that shapes and stages use, in order of appearance. An
    output that is an input, or is asked for twice, is copied.
    """
    results: list[Tensor] = []
    for t in outputs:
        results.append(_copy(t) if t in results or t.stage is None else t)
    order = [t for t in in_order(results) if t.stage is not None]
    body = block(*_programs(order))
    for t in reversed(_all_outputs(order)):
        if t not in results:
            body = Alloc(t, body)
    tensors = (*inputs, *results, *order)
    dims = dict.fromkeys(variables(*(d for t in tensors for d in t.shape)))
    bound = set(bound_vars(body))
    dims |= dict.fromkeys(v for v in vars_used(body) if v not in bound)
    return Func(name, (*inputs, *results, *dims), body)


def identity(combiner: str, dtype: DType) -> Const:
    """The value of an empty reduction."""
    if combiner not in COMBINERS:
        raise InternalError(f"no combiner {combiner!r}")
    return neutral(COMBINERS[combiner], dtype)


def _copy(t: Tensor) -> Tensor:
    axes = tuple(Axis(Var(f"i{n}", lo=0), d) for n, d in enumerate(t.shape))
    return Tensor(f"{t.name}_copy", t.shape, t.dtype, Stage(axes, t[tuple(a.var for a in axes)]))


def _programs(order: Sequence[Tensor]) -> list[Stmt]:
    """What computes the tensors of `order`: a nest each, and every loop program once, where its first output is."""
    done: set[int] = set()
    found = []
    for t in order:
        if id(t.stage) not in done:
            found.append(nest(t))
        if isinstance(t.stage, Loops):
            done.add(id(t.stage))
    return found


def _all_outputs(order: Sequence[Tensor]) -> list[Tensor]:
    """`order` with every output of its loop programs, also those that nobody reads."""
    found: dict[Tensor, None] = {}
    for t in order:
        found.update(dict.fromkeys(t.stage.outputs if isinstance(t.stage, Loops) else (t,)))
    return list(found)


def nest(t: Tensor) -> Stmt:
    """The loops that compute `t`: one nest, or its loop program."""
    stage = t.stage
    if isinstance(stage, Loops):
        return stage.body
    assert stage is not None
    at = tuple(a.var for a in stage.axes)
    red = stage.reduction
    if red is None:
        return _loops(stage.axes, Store(t, at, stage.body))
    start = identity(red.combiner, t.dtype) if red.init is None else red.init
    step = Store(t, at, binary(COMBINERS[red.combiner], Load(t, at), stage.body))
    return _loops(stage.axes, block(Store(t, at, start), _loops(red.axes, step)))


def _loops(axes: Sequence[Axis], body: Stmt) -> Stmt:
    for axis in reversed(axes):
        body = For(axis.var, axis.extent, body)
    return body

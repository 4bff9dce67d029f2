"""The rule for tensors without reductions: a vector loop along memory, outer loops in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from legato.arith.expr import Expr, Var, const, floordiv, floormod
from legato.arith.substitute import nodes, substitute
from legato.base.target import Target
from legato.lower.rules.digits import beside, digit, interleaved, split
from legato.lower.rules.elements import Elements, Env
from legato.lower.rules.nest import chunked, extent_of, is_threaded, lanes_for, parallel, together, vector_loop
from legato.lower.rules.pieces import last_block, pieces
from legato.lower.rules.turned import turned
from legato.te.tensor import Axis, Tensor
from legato.tir.stmt import If, Stmt, block
from legato.tir.walk import substitute as substitute_in

__all__ = ["elementwise"]

CHUNK = 4096
FEW = 16  # parts of a tensor that have loops of their own
MANY = 128  # pieces of code, those along the last axis counted, beyond which parts would take long to compile


def elementwise(root: Tensor, body: Expr, target: Target) -> Stmt:
    """The nest that stores `body` (everything inlined, over the axes of `root`'s stage) to `root`."""
    job, lanes = Elements.of(root, body), lanes_for(target, [body])
    threaded = is_threaded([a.extent for a in job.axes], len(list(nodes(body))) // 4 + 1)
    nests = [_nest(part, lanes, threaded) for part in job.parts(min(FEW, MANY // job.ranges))]
    return nests[0] if len(nests) == 1 else together(nests)


def _nest(job: Elements, lanes: int, threaded: bool) -> Stmt:
    """The nest that stores `job`."""
    if not job.axes:
        return job.store({})
    *outer, inner = job.axes
    if not outer and threaded:
        return chunked(inner.extent, lanes, CHUNK, lambda i: job.store({inner.var: i}))
    return turned(job, lanes, threaded) or _in_pairs(job, lanes, threaded) or _rows(job, lanes, threaded)


def _in_pairs(job: Elements, lanes: int, threaded: bool) -> Stmt | None:
    """The nest where the last axis has so few places that vectors run along two; None where that is no use."""
    if len(job.axes) < 2:
        return None
    *outer, high, low = job.axes

    def store(place: Expr, value: Expr) -> Stmt:
        return job.store({high.var: floordiv(place, low.extent), low.var: floormod(place, low.extent)}, value)

    run = beside(high, low, job.body, lanes, store)
    if run is None:
        return None
    return parallel([a.extent for a in outer], lambda v: substitute_in(run, _values(outer, v)), threaded)


def _rows(job: Elements, lanes: int, threaded: bool) -> Stmt:
    """The nest where vectors run along the last axis."""
    *outer, inner = job.axes

    def row(values: list[Expr]) -> Stmt:
        env = _values(outer, values)
        found = last_block(outer, inner, job.body)
        if found is None:
            return run(env, job.body)
        is_before, before, last = found
        return If(substitute(is_before, env), run(env, before), run(env, last))

    def run(env: Env, value: Expr) -> Stmt:
        taken = _digits(inner, substitute(value, env), lanes, lambda i, x: job.store({**env, inner.var: i}, x))
        if taken is not None:
            return taken
        if extent_of(inner.extent) is None:
            return vector_loop(inner.extent, lanes, lambda i: job.store({**env, inner.var: i}, value))
        return block(*(part(env, *piece) for piece in pieces(inner, value)))

    def part(env: Env, lo: int, hi: int, value: Expr) -> Stmt:
        return vector_loop(const(hi - lo), lanes, lambda i: job.store({**env, inner.var: lo + i}, value))

    return parallel([a.extent for a in outer], row, threaded)


def _values(axes: Sequence[Axis], values: Sequence[Expr]) -> dict[Var, Expr]:
    return {a.var: v for a, v in zip(axes, values, strict=True)}


def _digits(axis: Axis, body: Expr, lanes: int, store: Callable[[Expr, Expr], Stmt]) -> Stmt | None:
    """The loops along `axis` where `body` takes it apart."""
    g = digit(axis, body, lanes)
    if g is None:
        return None
    return split(axis, g, body, lanes, store) if g >= lanes else interleaved(axis, g, body, lanes, store)

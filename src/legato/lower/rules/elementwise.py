"""The rule for tensors without reductions: a vector loop along memory, outer loops in parallel."""

from __future__ import annotations

from collections.abc import Callable

from legato.arith.expr import Expr, Var, const, lt
from legato.arith.substitute import nodes, substitute
from legato.base.target import Target
from legato.lower.rules.digits import digit, interleaved, split
from legato.lower.rules.nest import chunked, extent_of, is_threaded, is_unit, lanes_for, parallel, vector_loop
from legato.lower.rules.pieces import last_block, pieces
from legato.lower.rules.turned import turned
from legato.te.tensor import Axis, Stage, Tensor
from legato.tir.stmt import If, Stmt, Store, block

__all__ = ["elementwise"]

CHUNK = 4096


def elementwise(root: Tensor, body: Expr, target: Target) -> Stmt:
    """The nest that stores `body` (everything inlined, over the axes of `root`'s stage) to `root`."""
    assert isinstance(root.stage, Stage)
    axes = [root.stage.axes[d] for d in root.layout.order]

    def store(env: dict[Var, Expr], value: Expr = body) -> Stmt:
        index = tuple(env.get(a.var, a.var) for a in root.stage.axes)  # type: ignore[union-attr]  # asserted above
        return Store(root, tuple(substitute(i, env) for i in index), substitute(value, env))

    long = [a for a in axes if not is_unit(a.extent)]
    units: dict[Var, Expr] = {a.var: const(0) for a in axes if is_unit(a.extent)}
    if not long:
        return store(units)
    *outer, inner = long
    lanes = lanes_for(target, [body])
    threaded = is_threaded([a.extent for a in long], len(list(nodes(body))) // 4 + 1)
    if not outer and threaded:
        return chunked(inner.extent, lanes, CHUNK, lambda i: store({**units, inner.var: i}))

    across = turned(root, long, body, lanes, threaded)
    if across is not None:
        return across

    def row(values: list[Expr]) -> Stmt:
        env = {**units, **{a.var: v for a, v in zip(outer, values, strict=True)}}
        found = last_block(outer, inner, body)
        if found is None:
            return run(env, body)
        axis, before, last = found
        where = env[axis.var]
        return If(lt(where, axis.extent - 1), run(env, before), run(env, last))

    def run(env: dict[Var, Expr], value: Expr) -> Stmt:
        taken = _digits(inner, substitute(value, env), lanes, lambda i, x: store({**env, inner.var: i}, x))
        if taken is not None:
            return taken
        if extent_of(inner.extent) is None:
            return vector_loop(inner.extent, lanes, lambda i: store({**env, inner.var: i}, value))
        return block(*(part(env, *piece) for piece in pieces(inner, value)))

    def part(env: dict[Var, Expr], lo: int, hi: int, value: Expr) -> Stmt:
        return vector_loop(const(hi - lo), lanes, lambda i: store({**env, inner.var: lo + i}, value))

    return parallel([a.extent for a in outer], row, threaded)


def _digits(axis: Axis, body: Expr, lanes: int, store: Callable[[Expr, Expr], Stmt]) -> Stmt | None:
    """The loops along `axis` where `body` takes it apart."""
    g = digit(axis, body, lanes)
    if g is None:
        return None
    return split(axis, g, body, lanes, store) if g >= lanes else interleaved(axis, g, body, lanes, store)

"""Sums of products of bfloat16 in float32, two terms at a time.

    y[i, o] = Σ_k float32(x[i, k]) · float32(w[k, o])

becomes, for data whose memory runs along k,

    words[h, o] = pair(w[2h, o], w[2h + 1, o])                        32 bits each, 0 behind the end of w
    y[i, o]     = Σ_h dot2(pair(x[i, 2h], x[i, 2h + 1]), words[h, o])

and one more term where the extent of k is odd: pair(x[i, k], 0) with the last of `words`. Machines that have no such
instruction gain too: a word of two weights is one load.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Binary, Const, Expr, Op, Var, cdiv, const, floordiv, floormod, lt, select
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.lower.access import depends, extent_of, stride
from legato.te.tensor import Axis, Reduction, Stage, Tensor
from legato.tir.expr import Call, Cast, Load, call

__all__ = ["Pairs", "dot", "factors", "is_narrow", "pair_up", "word"]


@dataclass(frozen=True, slots=True)
class Pairs:
    """The sum of `body` over `reduction`, and of `last` at the end of its last axis, `left` times (0 or 1).

    body reads `weights`, the words of `source`, which are computed by the stage of their buffer; `words` is the
    reduction with as many steps as there are words.
    """

    body: Expr
    reduction: Reduction
    last: Expr
    left: Expr
    weights: Load
    words: Reduction
    source: Tensor


def pair_up(body: Expr, red: Reduction, channel: Axis, row: Axis | None) -> Pairs | None:
    """How the sum of `body` over `red` is such a sum, of weights that follow `channel` but not `row`, and data that
    does not follow `channel`; None if it is not."""
    found = factors(body, red, channel, row)
    if found is None:
        return None
    along = _along(*found, red.axes)
    return None if along is None else _paired(*found, red, along)


def factors(body: Expr, red: Reduction, channel: Axis, row: Axis | None) -> tuple[Load, Load] | None:
    """The data and the weights of such a sum, neighbours or not; None if `body` over `red` is none."""
    operands = _operands(body)
    if red.combiner != "sum" or body.dtype is not dt.float32 or operands is None:
        return None
    data, weights = sorted(operands, key=lambda x: depends(x, channel.var))
    if depends(data, channel.var) or not depends(weights, channel.var):
        return None
    if (row is not None and depends(weights, row.var)) or not isinstance(weights.buffer, Tensor):
        return None
    return data, weights


def is_narrow(e: Expr, along: Axis) -> bool:
    """True if `e` is a value of bfloat16 as float32, and an even number of neighbours lie along an axis."""
    extent = extent_of(along.extent)
    return isinstance(e, Cast) and e.a.dtype is dt.bfloat16 and extent is not None and extent > 0 and extent % 2 == 0


def word(e: Expr, along: Var, step: Expr) -> Expr:
    """The values of `e`, in bfloat16 or converted from it, at 2 · `step` and 2 · `step` + 1 of `along`, as a word."""
    narrow = e.a if isinstance(e, Cast) else e
    return call("pair", *(substitute(narrow, {along: step * 2 + n}) for n in (0, 1)))


def dot(data: Expr, weights: Expr) -> Expr:
    """The sum of the products of two words."""
    return Call("dot2", (const(0.0, dt.float32), data, weights), dt.float32)


def _operands(body: Expr) -> tuple[Load, Load] | None:
    """The factors of a product of two elements of bfloat16, as float32."""
    if not (isinstance(body, Binary) and body.op is Op.MUL):
        return None
    sides = [s.a for s in (body.a, body.b) if isinstance(s, Cast)]
    reads = [s for s in sides if isinstance(s, Load) and s.dtype is dt.bfloat16]
    return (reads[0], reads[1]) if len(reads) == 2 else None


def _along(data: Load, weights: Load, axes: Sequence[Axis]) -> Axis | None:
    """The axis whose neighbours are paired: one that both follow, if possible one along which the data lies."""
    both = [a for a in axes if depends(data, a.var) and a.var in weights.indices and extent_of(a.extent) not in (0, 1)]
    lying = [a for a in both if stride(data, a.var) == 1]
    return lying[-1] if lying else both[-1] if both else None


def _paired(data: Load, weights: Load, red: Reduction, along: Axis) -> Pairs:
    step = Var(along.var.name, lo=0)
    full, every = simplify(floordiv(along.extent, const(2))), simplify(cdiv(along.extent, const(2)))
    others = tuple(a for a in red.axes if a is not along)
    words = _words(weights, along)
    read = words[tuple(substitute(i, {along.var: step}) for i in weights.indices)]
    assert isinstance(read, Load)
    even, odd = (substitute(data, {along.var: step * 2 + n}) for n in (0, 1))
    none = const(0.0, dt.bfloat16)
    assert isinstance(weights.buffer, Tensor)
    return Pairs(
        body=dot(call("pair", even, odd), read),
        reduction=Reduction(red.combiner, (*others, Axis(step, full)), red.init),
        last=dot(call("pair", even, none), read),
        left=simplify(floormod(along.extent, const(2))),
        weights=read,
        words=Reduction(red.combiner, (*others, Axis(step, every)), red.init),
        source=weights.buffer,
    )


def _words(weights: Load, along: Axis) -> Tensor:
    """The words of the buffer that `weights` reads, paired along the dimension that `along` indexes."""
    source = weights.buffer
    dim = weights.indices.index(along.var)
    shape = [simplify(cdiv(d, const(2))) if n == dim else d for n, d in enumerate(source.shape)]
    axes = tuple(Axis(Var(f"w{n}", lo=0), d) for n, d in enumerate(shape))
    extent = source.shape[dim]
    lo, hi = (Load(source, tuple(a.var * 2 + at if n == dim else a.var for n, a in enumerate(axes))) for at in (0, 1))
    if not (isinstance(extent, Const) and int(extent.value) % 2 == 0):
        behind = lt(axes[dim].var * 2 + 1, extent)
        return Tensor(f"words_{source.name}", shape, dt.uint32,
                      Stage(axes, call("pair", lo, select(behind, hi, const(0.0, dt.bfloat16)))))  # fmt: skip
    return Tensor(f"words_{source.name}", shape, dt.uint32, Stage(axes, call("pair", lo, hi)))

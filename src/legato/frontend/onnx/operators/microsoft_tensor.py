"""Operators of ONNX Runtime's own domain that move elements, or ask what they are: many are older forms of standard
ones."""

from __future__ import annotations

from legato.arith.expr import const
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators import found, index, shape
from legato.ir.expr import Expr

DOMAIN = "com.microsoft"


def pad(b: Emitter, x: Expr, pads: Expr, value: Expr | None = None, *, mode: str = "constant") -> Expr:
    pads = b.reshape(pads, newshape=(b.product(b.dims_of(pads)),), allowzero=True) if b.rank(pads) > 1 else pads
    return shape.pad_11(b, x, pads, value, mode=mode)


def gather_nd(b: Emitter, data: Expr, indices: Expr) -> Expr:
    return index.gather_nd(b, data, indices)


def trilu(b: Emitter, x: Expr, k: Expr | None = None, *, upper: bool = True) -> Expr:
    return shape.trilu(b, x, k, upper=upper)


def unique(b: Emitter, x: Expr) -> tuple[Expr, Expr, Expr]:
    """The different elements in the order in which they come first, which of them each is, and how many there are."""
    values, _, number, counts = found.unique(b, x, sorted=False)
    return values, number, counts


def range_(b: Emitter, start: Expr, limit: Expr, delta: Expr | None = None) -> Expr:
    numbers = [b.like(1, start) if v is None else v for v in (start, limit, delta)]
    return shape.range_(b, *(b.reshape(v, newshape=()) if b.rank(v) else v for v in numbers))


def expand_dims(b: Emitter, x: Expr, axis: Expr) -> Expr:
    place = int(b.scalar(axis, "axis"))
    return b.expand_dims(x, axis=b.axis(place, b.rank(x) + 1), num_newaxis=1)


def sample_op(b: Emitter, x: Expr) -> tuple[Expr]:
    return (x,)


def unfold_tensor(b: Emitter, x: Expr, *, dim: int = -1, size: int, step: int = 1) -> Expr:
    """Windows of `size` along a dim, one every `step`; their elements are a new last dim."""
    axis = b.axis(dim, b.rank(x))
    if size < 1 or step < 1:
        raise ImportModelError(f"windows of {size} every {step}, wanted positive numbers")
    room = simplify(b.dims_of(x)[axis] - size)
    b.require_least(room, const(0), "what windows leave of a dim")
    first = b.arange(start=const(0), stop=simplify(room // step + 1), step=1, dtype=dt.int64)
    first = b.expand_dims(b.multiply(first, b.constant(step, dt.int64)), axis=1)
    places = b.add(first, b.arange(start=const(0), stop=const(size), step=1, dtype=dt.int64))
    y = b.take(x, places, axis=axis, mode="fast")
    rank = b.rank(y)
    order = [n for n in range(rank) if n != axis + 1]
    return b.transpose(y, axes=(*order, axis + 1))


def torch_embedding(
    b: Emitter, weight: Expr, indices: Expr, padding_idx: Expr | None = None, scale_grad_by_freq: Expr | None = None
) -> Expr:
    """The other inputs matter to gradients only."""
    return b.take(weight, indices, axis=0)


def is_all_finite(b: Emitter, *xs: Expr, isinf_only: bool = False, isnan_only: bool = False) -> Expr:
    """Whether no element of any input is NaN or infinite; of these, one kind may be all that is asked for."""
    if isinf_only and isnan_only:
        raise ImportModelError("isinf_only and isnan_only exclude each other")
    total: Expr = b.constant(True, dt.bool_)
    for x in xs:
        bad = b.isnan(x) if isnan_only else b.isinf(x) if isinf_only else b.logical_not(b.isfinite(x))
        total = b.logical_and(total, b.logical_not(b.any(bad, axis=tuple(range(b.rank(x))))))
    return total


_MIX = (0xCC9E2D51, 0x1B873593)
_FINAL = ((16, 0x85EBCA6B), (13, 0xC2B2AE35))


def murmur_hash3(b: Emitter, x: Expr, *, positive: bool = True, seed: int = 0) -> Expr:
    """MurmurHash3 for 32 bits, of each element's 4 or 8 bytes."""
    dtype = b.dtype(x)
    if not dtype.is_int or dtype.bits not in (32, 64):
        raise UnsupportedError(
            f"hashes of {dtype}: those of integers of 32 and 64 bits are possible", hint="Cast to int32 or int64 before"
        )
    bits = b.cast(x, dtype=dt.uint64)
    blocks = [b.cast(bits, dtype=dt.uint32)]
    if dtype.bits == 64:
        blocks.append(b.cast(b.right_shift(bits, b.constant(32, dt.uint64)), dtype=dt.uint32))
    state: Expr = b.constant(seed % 2**32, dt.uint32)
    for block in blocks:
        word = b.multiply(_rotated(b, b.multiply(block, b.like(_MIX[0], block)), 15), b.like(_MIX[1], block))
        state = _rotated(b, b.bitwise_xor(word, state), 13)
        state = b.add(b.multiply(state, b.like(5, state)), b.like(0xE6546B64, state))
    state = b.bitwise_xor(state, b.like(4 * len(blocks), state))
    for shift, factor in _FINAL:
        state = b.multiply(_folded(b, state, shift), b.like(factor, state))
    state = _folded(b, state, 16)
    return state if positive else b.cast(state, dtype=dt.int32)


def _rotated(b: Emitter, x: Expr, by: int) -> Expr:
    return b.bitwise_or(b.left_shift(x, b.like(by, x)), b.right_shift(x, b.like(32 - by, x)))


def _folded(b: Emitter, x: Expr, by: int) -> Expr:
    return b.bitwise_xor(x, b.right_shift(x, b.like(by, x)))

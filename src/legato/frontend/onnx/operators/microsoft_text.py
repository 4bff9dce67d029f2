"""Words and tokens in ONNX Runtime's own domain."""

from __future__ import annotations

from legato.arith.expr import const, max_
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.types import Dim

DOMAIN = "com.microsoft"


def _windows(b: Emitter, count: Dim, size: Dim) -> Expr:
    """The places of windows: [count, size]."""
    first = b.expand_dims(b.arange(start=const(0), stop=count, step=1, dtype=dt.int64), axis=1)
    return b.add(first, b.arange(start=const(0), stop=size, step=1, dtype=dt.int64))


def word_conv_embedding(
    b: Emitter,
    words: Expr,
    weight: Expr,
    bias: Expr,
    characters: Expr,
    *,
    char_embedding_size: int | None = None,
    conv_window_size: int | None = None,
    embedding_size: int | None = None,
) -> Expr:
    """[words, filters]: the largest of what windows over the characters of a word give, by a product and tanh. Words
    [words, length] have numbers of characters, and 0 behind them; one of none has zeros."""
    b.dims_of_rank(weight, 4, "the weight")
    weight = b.agreed(weight, (embedding_size, None, conv_window_size, char_embedding_size), "the weight")
    filters, one, size, width = b.dims_of(weight)
    b.require(one, const(1), "channels of words")
    b.require(width, b.dims_of_rank(characters, 2, "characters")[1], "elements of a character")
    room = simplify(b.dims_of_rank(words, 2, "words")[1] - size)
    b.require_least(room, const(0), "characters of a word beside those of a window")
    places = _windows(b, simplify(room + 1), size)
    found = b.take(b.take(characters, words, axis=0), places, axis=1, mode="fast")
    taps = b.reshape(weight, newshape=(filters, size, width), allowzero=True)
    z = b.tanh(b.add(b.einsum(found, taps, equation="npsw,fsw->npf"), bias))
    is_given = b.greater(words, b.like(0, words))
    last = b.subtract(b.sum(b.cast(is_given, dtype=dt.int64), axis=(1,), keepdims=True), b.extent(size, dt.int64))
    first = b.columns(places, 0, 1)  # of a window; those of characters alone count, and the one that all have
    inside = b.less_equal(first, b.expand_dims(b.maximum(last, b.constant(0, dt.int64)), axis=1))
    y = b.max(b.where(inside, z, b.like(-1, z)), axis=(1,))  # tanh is not below
    return b.where(b.columns(is_given, 0, 1), y, b.like(0, y))


def n_gram_repeat_block(b: Emitter, ids: Expr, scores: Expr, *, ngram_size: int) -> Expr:
    """Scores of -∞ for what would repeat the last `ngram_size` - 1 ids of a row and the one that came after them; rows
    of fewer ids repeat nothing."""
    if ngram_size < 1:
        raise ImportModelError(f"ngram_size is {ngram_size}, wanted a positive number")
    length = b.dims_of_rank(ids, 2, "ids")[1]
    b.dims_of_rank(scores, 2, "scores")
    before = ngram_size - 1
    count = simplify(max_(length - before, const(0)))
    if count is const(0):
        return scores
    compared = b.arange(start=const(0), stop=const(before), step=1, dtype=dt.int64)
    last = b.take(ids, b.add(compared, b.extent(count, dt.int64)), axis=1, mode="clip")
    places = _windows(b, count, const(before))
    same = b.all(b.equal(b.take(ids, places, axis=1, mode="fast"), b.expand_dims(last, axis=1)), axis=(2,))
    begin = simplify(length - count)
    after = b.strided_slice(ids, begin=(begin,), end=(length,), strides=(1,), axes=(1,))
    words = b.arange(start=const(0), stop=b.dims_of(scores)[1], step=1, dtype=dt.int64)
    hit = b.logical_and(b.expand_dims(same, axis=2), b.equal(b.expand_dims(b.to(after, dt.int64), axis=2), words))
    return b.where(b.any(hit, axis=(1,)), b.like(float("-inf"), scores), scores)

"""TfIdfVectorizer: how often n-grams occur in rows of tokens. Tokens are integers or strings, both only compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.arith.expr import Const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.tensors import Array
from legato.ir.expr import Expr

_MODES = ("TF", "IDF", "TFIDF")
_MOST_STEPS = 512  # comparisons of tokens that are written out
_MOST_COLUMNS = 1 << 24


def tf_idf_vectorizer(
    b: Emitter,
    x: Expr,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: tuple[int, ...],
    ngram_indexes: tuple[int, ...],
    pool_int64s: tuple[int, ...] = (),
    pool_strings: tuple[str, ...] = (),
    weights: tuple[float, ...] = (),
) -> Expr:
    """x [tokens] or [rows, tokens]: a number for each n-gram of the pool, at the column that its index says."""
    if mode not in _MODES or not 1 <= min_gram_length <= max_gram_length or max_skip_count < 0:
        raise ImportModelError(f"{mode} of {min_gram_length}- to {max_gram_length}-grams, {max_skip_count} skipped")
    tokens = _tokens(b, x, pool_int64s, pool_strings)
    grams = _grams(tokens, ngram_counts)
    if len(ngram_indexes) != sum(map(len, grams)) or len(weights) not in (0, len(ngram_indexes)):
        raise ImportModelError(
            f"{len(ngram_indexes)} indexes and {len(weights)} weights of {sum(map(len, grams))} n-grams"
        )
    lengths = range(min_gram_length, min(max_gram_length, len(grams)) + 1)
    chosen = [n for length in lengths for n in _numbers(grams, length)]
    columns = _columns(ngram_indexes, chosen)
    rows = _Rows(b, x, max_skip_count)
    found = [rows.counts(grams[length - 1]) for length in lengths if len(grams[length - 1])]
    scale = np.array(weights or (1.0,) * len(ngram_indexes), np.float32)[chosen]
    if not found:
        return b.zeros(shape=(*b.dims_of(x)[:-1], len(columns)), dtype=dt.float32)
    return _arranged(b, _weighted(b, b.concatenate(tuple(found), axis=-1), mode, scale), columns)


def _tokens(b: Emitter, x: Expr, integers: Sequence[int], strings: Sequence[str]) -> Array:
    """The pool, in the dtype of x."""
    kind = b.dtype(x)
    if b.rank(x) not in (1, 2):
        raise ImportModelError(f"tokens in {b.rank(x)} dimensions, wanted one or two")
    if bool(integers) == bool(strings) or kind.is_string != bool(strings) or not (kind.is_int or kind.is_string):
        given = f"{len(integers)} integers and {len(strings)} strings in the pool"
        raise ImportModelError(f"{given}, for tokens of {kind}")
    if kind.is_string:
        return np.array(strings, object)
    pool = np.array(integers, np.int64)
    if pool.min() < kind.min or pool.max() > kind.max:
        raise UnsupportedError(f"tokens in the pool that {kind} does not have", hint="Cast the tokens to int64 before")
    return pool.astype(kind.numpy)


def _grams(tokens: Array, starts: Sequence[int]) -> list[Array]:
    """The n-grams of each length, one in a row."""
    ends = [*starts[1:], len(tokens)]
    if not starts or list(starts) != sorted(starts) or starts[0] != 0 or starts[-1] > len(tokens):
        raise ImportModelError(f"ngram_counts {tuple(starts[:8])} of {len(tokens)} tokens")
    found = []
    for length, (begin, end) in enumerate(zip(starts, ends, strict=True), 1):
        if (end - begin) % length:
            raise ImportModelError(f"{end - begin} tokens in {length}-grams")
        found.append(tokens[begin:end].reshape(-1, length))
    return found


def _numbers(grams: Sequence[Array], length: int) -> range:
    """The numbers of the n-grams of a length among all."""
    before = sum(map(len, grams[: length - 1]))
    return range(before, before + len(grams[length - 1]))


def _columns(indexes: Sequence[int], chosen: Sequence[int]) -> Array:
    """For each column of the result which of the `chosen` n-grams is there, counted from 1; 0: none."""
    if min(indexes, default=0) < 0 or max(indexes, default=0) >= _MOST_COLUMNS:
        raise ImportModelError(f"an index of {max(indexes)}, wanted 0 to {_MOST_COLUMNS - 1}")
    if len(set(indexes)) != len(indexes):
        raise UnsupportedError("two n-grams in one column")
    found = np.zeros(max(indexes, default=-1) + 1, np.int64)
    found[[indexes[n] for n in chosen]] = np.arange(1, len(chosen) + 1)
    return found


def _weighted(b: Emitter, counts: Expr, mode: str, weights: Array) -> Expr:
    if mode == "TF":
        return counts
    factor = counts if mode == "TFIDF" else b.cast(b.greater(counts, b.like(0, counts)), dtype=dt.float32)
    return b.multiply(factor, b.constant(weights))


def _arranged(b: Emitter, values: Expr, columns: Array) -> Expr:
    """Values of n-grams in their columns."""
    if np.array_equal(columns, np.arange(1, len(columns) + 1)):
        return values
    nothing = b.zeros(shape=(*b.dims_of(values)[:-1], 1), dtype=dt.float32)
    return b.take(b.concatenate((nothing, values), axis=-1), b.constant(columns), axis=b.rank(values) - 1)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of tokens, of which n-grams are made that leave out up to `skips` tokens between any two."""

    b: Emitter
    x: Expr
    skips: int

    def counts(self, grams: Array) -> Expr:
        """How often each of these n-grams, all of one length, is in each row."""
        b, length = self.b, grams.shape[1]
        extent = b.dims_of(self.x)[-1]
        skips = self.skips if length > 1 else 0
        if isinstance(extent, Const):
            skips = min(skips, int(extent.value))
        if length * (skips + 1) > _MOST_STEPS:
            raise UnsupportedError(f"{length}-grams with up to {skips} tokens left out")
        places = b.arange(stop=extent, dtype=dt.int64)
        total: Expr | None = None
        for step in range(1, skips + 2):
            found = b.sum(b.cast(self._hits(grams, step, places), dtype=dt.float32), axis=-1)
            total = found if total is None else b.add(total, found)
        assert total is not None
        return total

    def _hits(self, grams: Array, step: int, places: Expr) -> Expr:
        """[…, n-gram, place]: whether the n-gram begins there, its tokens `step` apart."""
        b, axis = self.b, self.b.rank(self.x) - 1
        reach = b.constant((grams.shape[1] - 1) * step, dt.int64)
        found = b.less(b.add(places, reach), b.extent(b.dims_of(self.x)[-1], dt.int64))
        for n in range(grams.shape[1]):
            tokens = b.take(self.x, b.add(places, b.constant(n * step, dt.int64)), axis=axis, mode="clip")
            wanted = b.constant(np.ascontiguousarray(grams[:, n : n + 1]))
            found = b.logical_and(found, b.equal(b.expand_dims(tokens, axis=axis), wanted))
        return found

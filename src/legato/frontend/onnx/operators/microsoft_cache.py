"""GroupQueryAttention: attention that keeps keys and values of rows of different lengths in one cache."""

from __future__ import annotations

import numpy as np

from legato.arith.expr import Const, const, max_
from legato.arith.prove import prove_equal
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.heads import attended, capped, heads_of, joined, past_of, scores_of
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.rotary import angles_at, places_from, turned
from legato.ir.expr import Expr
from legato.ir.types import Dim

DOMAIN = "com.microsoft"


def group_query_attention(
    b: Emitter,
    query: Expr,
    key: Expr | None = None,
    value: Expr | None = None,
    past_key: Expr | None = None,
    past_value: Expr | None = None,
    seqlens_k: Expr | None = None,
    total_sequence_length: Expr | None = None,
    cos_cache: Expr | None = None,
    sin_cache: Expr | None = None,
    position_ids: Expr | None = None,
    attention_bias: Expr | None = None,
    head_sink: Expr | None = None,
    k_scale: Expr | None = None,
    v_scale: Expr | None = None,
    q_norm_weight: Expr | None = None,
    k_norm_weight: Expr | None = None,
    query_seqlens: Expr | None = None,
    *,
    causal: bool = True,
    do_rotary: bool = False,
    k_norm_epsilon: float | None = None,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    q_norm_epsilon: float | None = None,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    rotary_interleaved: bool = False,
    scale: float | None = None,
    sliding_window_cache: bool = False,
    smooth_softmax: int = -1,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
) -> tuple[Expr, ...]:
    """Each query attends to the keys of its row up to its own place, which are the past's and the new ones; further
    outputs: the cache with these, and the scores or weights."""
    if k_quant_type != "NONE" or v_quant_type != "NONE" or k_scale is not None or v_scale is not None:
        raise UnsupportedError("a cache of quantised keys and values", hint="export the decoder with one of floats")
    if seqlens_k is None or total_sequence_length is None:
        raise ImportModelError("GroupQueryAttention lacks seqlens_k or total_sequence_length")
    q, k, v = _operands(b, query, key, value, num_heads, kv_num_heads)
    q = _normalised(b, q, q_norm_weight, qk_norm_epsilon if q_norm_epsilon is None else q_norm_epsilon)
    k = _normalised(b, k, k_norm_weight, qk_norm_epsilon if k_norm_epsilon is None else k_norm_epsilon)
    rows = _Rows(b, b.dims_of(q)[2], seqlens_k, query_seqlens)
    if do_rotary:
        total = total_sequence_length if query_seqlens is None else None
        places = rows.positions if position_ids is None else _given(b, position_ids, b.dims_of(q)[2], total)
        q, k = _turned(b, (q, k), cos_cache, sin_cache, places, interleaved=rotary_interleaved)
    past = past_of(past_key, past_value)
    if sliding_window_cache:
        held = rows.of_a_window(past, (k, v), local_window_size)
    else:
        held = rows.of_all(past, (k, v), total_sequence_length, causal=causal, window=local_window_size)
    scores = held.scores(b, q, attention_bias, scale, softcap)
    weights = _weights(b, scores, head_sink, smooth=smooth_softmax > 0)
    y = joined(b, b.to(attended(b, weights, b.wide(held.values)), b.dtype(query)))
    if sliding_window_cache or b.outputs < 4:
        return y, *held.present
    shown = weights if qk_output == 2 else b.where(held.seen, scores, b.like(0, scores))
    if past is not None:  # whose buffer may have room for more
        shown = b.columns(shown, 0, b.dim(total_sequence_length, "the number of tokens"))
    return y, *held.present, b.to(shown, b.dtype(query))


def _operands(
    b: Emitter, query: Expr, key: Expr | None, value: Expr | None, heads: int, own: int
) -> tuple[Expr, Expr, Expr]:
    """Heads of queries, keys and values, which one tensor may hold: [batch, heads, length, size]."""
    if (key is None) != (value is None):
        raise ImportModelError("keys without values, or values without keys")
    if key is not None and value is not None:
        return heads_of(b, query, heads), heads_of(b, key, own), heads_of(b, value, own)
    if min(heads, own) < 1:
        raise ImportModelError(f"{heads} heads of queries and {own} of keys, wanted 1 or more")
    whole = heads_of(b, query, heads + 2 * own)
    bounds = ((0, heads), (heads, heads + own), (heads + own, heads + 2 * own))
    q, k, v = (b.strided_slice(whole, begin=(n,), end=(m,), strides=(1,), axes=(1,)) for n, m in bounds)
    return q, k, v


def _normalised(b: Emitter, x: Expr, weight: Expr | None, epsilon: float) -> Expr:
    """Heads by the root of the mean of their squares."""
    return x if weight is None else b.nn.rms_norm(x, b.to(weight, b.dtype(x)), axes=(3,), epsilon=epsilon)


def _given(b: Emitter, positions: Expr, length: Dim, total: Expr | None) -> Expr:
    """Positions [batch, length] that are given; of a first prompt, which is as long as the `total` says, only the very
    first one counts."""
    positions = b.to(positions, dt.int64)
    if total is None:
        return positions
    first = b.strided_slice(positions, begin=(0, 0), end=(1, 1), strides=(1, 1), axes=(0, 1))
    is_first = b.equal(b.reshape(b.to(total, dt.int64), newshape=()), b.extent(length, dt.int64))
    return b.where(is_first, places_from(b, first, length), positions)


def _turned(
    b: Emitter, heads: tuple[Expr, Expr], cos: Expr | None, sin: Expr | None, places: Expr, *, interleaved: bool
) -> tuple[Expr, Expr]:
    """Heads of queries and keys, turned by the rows of tables at their places. Where it is not known how many elements
    of a head the tables turn, it is all."""
    if cos is None or sin is None:
        raise ImportModelError("rotary positions without their tables")
    columns = b.dim_of(cos, -1)
    count = 2 * int(columns.value) if isinstance(columns, Const) else 0
    angles = angles_at(b, cos, places), angles_at(b, sin, places)
    first, second = (turned(b, x, *angles, interleaved=interleaved, count=count) for x in heads)
    return first, second


def _weights(b: Emitter, scores: Expr, sink: Expr | None, *, smooth: bool) -> Expr:
    """Softmax over the keys, and one more score: 0, or that of `sink` for each head."""
    if sink is None and not smooth:
        return b.nn.softmax(scores, axis=-1)
    batch, heads, rows, columns = b.dims_of(scores)
    more: Expr = b.like(0, scores)
    if sink is not None:
        b.require(b.dims_of_rank(sink, 1, "head_sink")[0], heads, "heads of head_sink")
        more = b.expand_dims(b.to(sink, b.dtype(scores)), axis=1, num_newaxis=2)
    more = b.broadcast_to(more, shape=(batch, heads, rows, const(1)))
    return b.columns(b.nn.softmax(b.concatenate(scores, more, axis=3), axis=-1), 0, columns)


@dataclass(frozen=True, slots=True)
class _Held:
    """What queries attend to, and what of it the cache has after them. `seen` [batch, 1, length, keys] are the keys
    that each sees; `places` [batch, keys] are theirs among all tokens, where they do not stand in their order."""

    keys: Expr
    values: Expr
    present: tuple[Expr, Expr]
    seen: Expr
    places: Expr | None = None

    def scores(self, b: Emitter, q: Expr, bias: Expr | None, scale: float | None, softcap: float) -> Expr:
        """Those of each key that a query sees; of others, -∞."""
        found = capped(b, scores_of(b, b.wide(q), b.wide(self.keys), scale), softcap)
        found = found if bias is None else b.add(found, b.to(self._bias(b, bias), b.dtype(found)))
        return b.where(self.seen, found, b.like(-np.inf, found))

    def _bias(self, b: Emitter, x: Expr) -> Expr:
        """What is added to the scores: x [batch or 1, heads or 1, length, tokens] for each of the keys."""
        if self.places is not None:
            batch, (_, *inner) = b.dims_of(self.places)[0], b.dims_of_rank(x, 4, "attention_bias")
            return b.take(b.broadcast(x, (batch, *inner)), self.places, axis=3, batch_dims=1)
        more = simplify(b.dims_of(self.keys)[2] - b.dims_of_rank(x, 4, "attention_bias")[3])
        if prove_equal(more, const(0)):
            return x
        b.require_least(more, const(0), "keys beside those that have a bias")
        return b.nn.pad(x, b.like(0, x), pad_width=((0, 0), (0, 0), (0, 0), (0, more)))


class _Rows:
    """Where the tokens of each row are: `total` of them, [batch, 1], of which the last `own` are new."""

    def __init__(self, b: Emitter, length: Dim, last: Expr, own: Expr | None) -> None:
        self.b, self.length = b, length
        one, self._zero = b.constant(1, dt.int64), b.constant(0, dt.int64)
        self.total = b.add(b.reshape(b.to(last, dt.int64), newshape=(-1, 1)), one)
        if own is None:
            self.own = b.minimum(self.total, b.extent(length, dt.int64))
        else:
            self.own = b.reshape(b.to(own, dt.int64), newshape=(-1, 1))
        self.past = b.subtract(self.total, self.own)
        # [batch, length]: the places of new tokens; of padding behind them, that of the last
        end = b.maximum(b.subtract(self.total, one), self._zero)
        self.positions = b.minimum(b.add(self.past, self._numbers(length)), end)

    def _numbers(self, count: Dim) -> Expr:
        return self.b.arange(start=const(0), stop=count, step=1, dtype=dt.int64)

    def of_all(
        self, past: tuple[Expr, Expr] | None, new: tuple[Expr, Expr], total: Expr, *, causal: bool, window: int
    ) -> _Held:
        """A cache of all tokens: it has as many places as that of the past, if these are enough."""
        b = self.b
        if past is None:
            return _Held(*new, new, self._seen(self._numbers(self.length), causal, window))
        room = b.dims_of_rank(past[0], 4, "past keys")[2]
        extent = simplify(max_(b.dim(total, "the number of tokens"), room))
        place = self._numbers(extent)
        at = b.subtract(place, self.past)
        is_new = b.logical_and(b.greater_equal(at, self._zero), b.less(at, self.own))
        both = self._both(past, new)
        present = self._read(both, b.where(is_new, b.add(at, b.extent(room, dt.int64)), place))
        return _Held(*present, present, self._seen(place, causal, window))

    def of_a_window(self, past: tuple[Expr, Expr] | None, new: tuple[Expr, Expr], window: int) -> _Held:
        """A cache of the last tokens, of the past's size: they begin at its first place. Where it is full, so many are
        dropped at once that those of a window are left."""
        b = self.b
        if past is None or window < 1:
            raise ImportModelError(f"a cache of the last tokens without a past, or of a window of {window}")
        room = b.dims_of_rank(past[0], 4, "past keys")[2]
        size = b.extent(room, dt.int64)
        b.require_least(simplify(room - window), const(0), "places of a cache beside those of a window")
        begins = [self._dropped(count, size, window) for count in (self.past, self.total)]
        held, fresh = self._numbers(room), self._numbers(self.length)
        old_places, new_places = b.add(begins[0], held), b.add(self.past, fresh)
        is_there = b.concatenate(b.less(old_places, self.past), b.less(fresh, self.own), axis=1)
        places = b.where(is_there, b.concatenate(old_places, new_places, axis=1), b.constant(-1, dt.int64))
        kept = b.add(begins[1], held)
        own = b.where(b.less(kept, self.past), b.subtract(kept, begins[0]), b.add(b.subtract(kept, self.past), size))
        both = self._both(past, new)
        seen = self._seen(b.expand_dims(places, axis=1), causal=True, window=window)
        present = b.expand_dims(is_there, axis=1, num_newaxis=2)
        return _Held(*both, self._read(both, own), b.logical_and(seen, present), places)

    def _dropped(self, count: Expr, size: Expr, window: int) -> Expr:
        """How many of the first tokens a cache of so many places no longer has."""
        b, one = self.b, self.b.constant(1, dt.int64)
        step = b.add(b.subtract(size, b.constant(window, dt.int64)), one)
        over = b.maximum(b.subtract(count, size), self._zero)
        return b.multiply(step, b.floor_divide(b.subtract(b.add(over, step), one), step))

    def _both(self, past: tuple[Expr, Expr], new: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        """Keys and values of the past, and new ones behind them."""
        return self.b.concatenate(past[0], new[0], axis=2), self.b.concatenate(past[1], new[1], axis=2)

    def _read(self, both: tuple[Expr, Expr], places: Expr) -> tuple[Expr, Expr]:
        """Those at places [batch, …]."""
        return self.b.take(both[0], places, axis=2, batch_dims=1), self.b.take(both[1], places, axis=2, batch_dims=1)

    def _seen(self, place: Expr, causal: bool, window: int) -> Expr:
        """[batch, 1, length, …]: which places a token sees: up to its own, or all; of a window the last ones."""
        b, row = self.b, self.b.expand_dims(self.positions, axis=2)
        found = b.less_equal(place, row) if causal else b.less(place, b.expand_dims(self.total, axis=2))
        if window >= 0:
            found = b.logical_and(found, b.greater(place, b.subtract(row, b.constant(window, dt.int64))))
        return b.expand_dims(found, axis=1)

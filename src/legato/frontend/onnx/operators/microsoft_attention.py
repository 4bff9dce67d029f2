"""Attention of ONNX Runtime's own domain, as its optimiser fuses it, with the products before it or without."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Const, const
from legato.arith.prove import provably_different
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.heads import attended, heads_of, joined, past_of, scores_of
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.masks import Sizes, masked
from legato.ir.expr import Expr
from legato.ir.types import Dim

DOMAIN = "com.microsoft"

_FILL = -10000.0  # added to the scores of what is masked
_BEAMS = "a past of which each beam reads what others wrote (cache_indirection)"
_HINT = "export the decoder without beams, and reorder the past between its calls"


@dataclass(frozen=True, slots=True)
class _Form:
    """What the attributes of the operators say."""

    heads: int
    scale: float | None
    fill: float
    causal: bool = False

    def attend(
        self, b: Emitter, q: Expr, k: Expr, v: Expr, past: Dim, mask: Expr | None, added: Expr | None
    ) -> tuple[Expr, Expr]:
        """The result [batch, queries, hidden size], and the scores that the softmax was of."""
        batch, _, queries, _ = b.dims_of(q)
        sizes = Sizes(batch, queries, b.dims_of(k)[2], past)
        scores = scores_of(b, b.wide(q), b.wide(k), self.scale)
        scores = masked(b, scores, mask, added, sizes, fill=self.fill, causal=self.causal)
        y = attended(b, b.nn.softmax(scores, axis=-1), b.wide(v))
        return joined(b, b.to(y, b.dtype(q))), b.to(scores, b.dtype(q))


def attention(
    b: Emitter,
    x: Expr,
    weights: Expr,
    bias: Expr | None = None,
    mask_index: Expr | None = None,
    past: Expr | None = None,
    attention_bias: Expr | None = None,
    past_sequence_length: Expr | None = None,
    *,
    do_rotary: bool = False,
    mask_filter_value: float = _FILL,
    num_heads: int,
    past_present_share_buffer: bool = False,
    qkv_hidden_sizes: tuple[int, ...] = (),
    rotary_embedding_dim: int = 0,
    scale: float | None = None,
    unidirectional: bool = False,
) -> tuple[Expr, ...]:
    """Of x by one matrix for queries, keys and values; and keys and values with those of the past."""
    if do_rotary:
        raise UnsupportedError("rotary positions in Attention", hint="export the decoder with GroupQueryAttention")
    q, k, v = (heads_of(b, part, num_heads) for part in _projected(b, x, weights, bias, qkv_hidden_sizes))
    old = None if past is None else [b.take(past, b.constant(n, "int64"), axis=0, mode="fast") for n in range(2)]
    held = _Past(b, old, past_sequence_length if past_present_share_buffer else None, b.dims_of(k)[2])
    form = _Form(num_heads, scale, mask_filter_value, unidirectional)
    y, _ = form.attend(b, q, held.before(k, 0), held.before(v, 1), held.length, mask_index, attention_bias)
    if b.outputs == 1 or provably_different(b.dims_of(k)[3], b.dims_of(v)[3]):  # one tensor cannot hold both
        return (y,)
    return y, b.stack(held.after(k, 0), held.after(v, 1), axis=0)


def _projected(b: Emitter, x: Expr, weights: Expr, bias: Expr | None, sizes: Sequence[int]) -> list[Expr]:
    """Queries, keys and values of `x`: the product's parts of the given sizes, or thirds."""
    z = b.matmul(x, weights, out_dtype=b.sum_dtype(x, bias is not None))
    z = z if bias is None else b.to(b.add(z, b.to(bias, b.dtype(z))), b.dtype(x))
    total = b.dim_of(z, -1)
    if len(sizes) not in (0, 3):
        raise ImportModelError(f"qkv_hidden_sizes is {list(sizes)}, wanted three numbers")
    third = simplify(total // 3)
    return _parted(b, z, [const(s) for s in sizes] or [third] * 3)


def _parted(b: Emitter, x: Expr, sizes: Sequence[Dim]) -> list[Expr]:
    """Parts of the last dim, of the given sizes, which are all of it."""
    total = b.dim_of(x, -1)
    whole = simplify(sizes[0] + sizes[1] + sizes[2])
    if provably_different(whole, total):
        raise ImportModelError(f"queries, keys and values of {', '.join(map(str, sizes))} elements: {total} are given")
    if isinstance(whole, Const):
        x = b.agreed(x, (*[None] * (b.rank(x) - 1), int(whole.value)), "queries, keys and values")
    b.require(whole, total, "the elements of queries, keys and values")
    first, second = sizes[0], simplify(sizes[0] + sizes[1])
    return [b.columns(x, 0, first), b.columns(x, first, second), b.columns(x, second, total)]


def multi_head_attention(
    b: Emitter,
    query: Expr,
    key: Expr | None = None,
    value: Expr | None = None,
    bias: Expr | None = None,
    key_padding_mask: Expr | None = None,
    attention_bias: Expr | None = None,
    past_key: Expr | None = None,
    past_value: Expr | None = None,
    past_sequence_length: Expr | None = None,
    cache_indirection: Expr | None = None,
    *,
    mask_filter_value: float = _FILL,
    num_heads: int,
    scale: float | None = None,
    unidirectional: bool = False,
) -> tuple[Expr, ...]:
    """Of queries, keys and values, or of all three, or the last two, in one tensor; further outputs: keys and values
    with those of the past, and the scores."""
    if cache_indirection is not None:
        raise UnsupportedError(_BEAMS, hint=_HINT)
    form = _Form(num_heads, scale, mask_filter_value, unidirectional)
    operands = _operands(b, form, query, key, value, bias)
    past = (past_key, past_value, past_sequence_length)
    return _all_outputs(b, form, operands, past, key_padding_mask, attention_bias)


class _Past:
    """Keys and values of the past, before `count` new ones. Of those in a buffer only the first are there, and new ones
    are written behind them."""

    def __init__(self, b: Emitter, old: Sequence[Expr] | None, length: Expr | None, count: Dim) -> None:
        self.b, self.old, self.count, self.buffered = b, old, count, length is not None
        self.length: Dim = const(0)
        if old is not None:
            room = b.dims_of_rank(old[0], 4, "the past")[2]
            self.length = room if length is None else b.dim(length, "the length of the past")
            b.require_least(simplify(room - self.length), const(0), "the length of the past")

    def before(self, x: Expr, n: int) -> Expr:
        """New keys (`n` is 0) or values (1) behind those of the past."""
        return x if self.old is None else self.b.concatenate(self._part(n, const(0), self.length), x, axis=2)

    def after(self, x: Expr, n: int) -> Expr:
        """What the next call has as its past."""
        found = self.before(x, n)
        if self.old is None or not self.buffered:
            return found
        end, room = simplify(self.length + self.count), self.b.dims_of(self.old[n])[2]
        self.b.require_least(simplify(room - end), const(0), "the room for keys and values")
        return self.b.concatenate(found, self._part(n, end, room), axis=2)

    def _part(self, n: int, begin: Dim, end: Dim) -> Expr:
        assert self.old is not None
        if not self.buffered:
            return self.old[n]
        return self.b.strided_slice(self.old[n], begin=(begin,), end=(end,), strides=(1,), axes=(2,))


def _all_outputs(
    b: Emitter,
    form: _Form,
    operands: tuple[Expr, Expr, Expr],
    past: tuple[Expr | None, Expr | None, Expr | None],
    mask: Expr | None,
    added: Expr | None,
) -> tuple[Expr, ...]:
    """The result, keys and values with those of the past, and the scores. `past`: keys, values, and how many of these
    there are if they are in a buffer."""
    (q, k, v), (past_key, past_value, length) = operands, past
    held = _Past(b, past_of(past_key, past_value), length, b.dims_of(k)[2])
    y, scores = form.attend(b, q, held.before(k, 0), held.before(v, 1), held.length, mask, added)
    return y, held.after(k, 0), held.after(v, 1), scores


def _operands(
    b: Emitter, form: _Form, query: Expr, key: Expr | None, value: Expr | None, bias: Expr | None
) -> tuple[Expr, Expr, Expr]:
    """Heads of queries, keys and values, with their bias."""
    if b.rank(query) == 5:
        if key is not None or value is not None:
            raise ImportModelError(f"keys or values beside {query.ty}, which has them")
        found = [_part(b, query, n, 3) for n in range(3)]
    elif key is None:
        raise ImportModelError(f"queries {query.ty} without keys")
    elif b.rank(key) == 5:
        if value is not None:
            raise ImportModelError(f"values beside {key.ty}, which has them")
        found = [query, _part(b, key, 0, 2), _part(b, key, 1, 2)]
    elif value is None:
        raise ImportModelError(f"keys {key.ty} without values")
    else:
        found = [query, key, value]
    if bias is not None:
        sizes = [_hidden(b, x) for x in found]
        parts = _parted(b, bias, sizes)
        found = [_with_bias(b, x, part) for x, part in zip(found, parts, strict=True)]
    q, k, v = (heads_of(b, x, form.heads) for x in found)
    return q, k, v


def _part(b: Emitter, x: Expr, n: int, count: int) -> Expr:
    """Of x [batch, length, heads, count, size] the `n`-th part, as [batch, length, heads · size]."""
    b.require(b.dims_of(x)[3], const(count), "what one tensor holds of queries, keys and values")
    batch, length, heads, _, size = b.dims_of(x)
    part = b.take(x, b.constant(n, "int64"), axis=3, mode="fast")
    return b.reshape(part, newshape=(batch, length, simplify(heads * size)), allowzero=True)


def _hidden(b: Emitter, x: Expr) -> Dim:
    """Elements of all heads."""
    dims = b.dims_of(x)
    return simplify(dims[1] * dims[3]) if len(dims) == 4 else b.dims_of_rank(x, 3, "queries, keys or values")[2]


def _with_bias(b: Emitter, x: Expr, bias: Expr) -> Expr:
    """Queries, keys or values and their bias; keys and values of the past, which are heads already, have theirs."""
    return x if b.rank(x) == 4 else b.to(b.add(b.wide(x), b.wide(bias)), b.dtype(x))


def decoder_masked_multi_head_attention(
    b: Emitter,
    query: Expr,
    key: Expr | None = None,
    value: Expr | None = None,
    mask_index: Expr | None = None,
    attention_bias: Expr | None = None,
    past_key: Expr | None = None,
    past_value: Expr | None = None,
    past_sequence_length: Expr | None = None,
    beam_width: Expr | None = None,
    cache_indirection: Expr | None = None,
    bias: Expr | None = None,
    *,
    mask_filter_value: float = _FILL,
    num_heads: int,
    output_qk: bool = False,
    past_present_share_buffer: bool = False,
    scale: float | None = None,
) -> tuple[Expr, ...]:
    """Of one query for each row of the batch, which sees all keys that are not masked."""
    if cache_indirection is not None or beam_width is not None:
        raise UnsupportedError(_BEAMS, hint=_HINT)
    form = _Form(num_heads, scale, mask_filter_value)
    if key is None:
        third = simplify(b.dims_of_rank(query, 3, "queries, keys and values")[2] // 3)
        query, key, value = _parted(b, query, [third] * 3)
    length = past_sequence_length if past_present_share_buffer else None
    past = (past_key, past_value, length)
    return _all_outputs(b, form, _operands(b, form, query, key, value, bias), past, mask_index, attention_bias)

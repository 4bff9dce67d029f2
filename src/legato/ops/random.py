"""Random numbers by keys: the same key gives the same numbers, on any number of threads.

    key', numbers = random.uniform(key, low, high, out_shape=…)

A key is a tensor of ten words of 64 bits (`_threefry`). Who draws numbers gives a key and gets the one to go on with;
`random.threefry_split` makes two keys of one, for numbers that have nothing to do with each other. A key that is used
twice gives the same numbers twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import legato.te.math as te
from legato.arith.expr import Const, Expr, Var, const, floordiv, floormod, shr
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, TupleType, Type, dims
from legato.ops._families import Array
from legato.ops._gradients import Contribution
from legato.ops._rules import FLOAT, at_least, require_dtype, tensor
from legato.ops._tensors import accumulator, as_int, product, tensor_bytes, wide
from legato.ops._threefry import KEY_WORDS, advanced, blocks, high_word, numbers, program
from legato.ops.scan import ScanAttrs, cumsum
from legato.te.tensor import Tensor, compute, loops, reduce
from legato.tir.stmt import For, Stmt, Store, block

__all__ = ["BitsAttrs", "DropoutAttrs", "MultinomialAttrs", "NumbersAttrs", "dropout", "multinomial", "normal",
           "threefry_generate", "threefry_split", "uniform"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class BitsAttrs(Attrs):
    """The shape of what is drawn."""

    out_shape: tuple[Dim | int, ...]


@dataclass(frozen=True, slots=True)
class NumbersAttrs(Attrs):
    """`out_shape`: the shape of what is drawn; `out_dtype`: its dtype."""

    out_shape: tuple[Dim | int, ...]
    out_dtype: DType = dt.float32


@dataclass(frozen=True, slots=True)
class MultinomialAttrs(Attrs):
    """How many places are drawn of each distribution."""

    num_samples: int | Dim = 1


@dataclass(frozen=True, slots=True)
class DropoutAttrs(Attrs):
    """The share of elements that becomes 0, at least 0 and below 1."""

    rate: float = 0.5


# ------------------------------------------------------------------------------- types

_KEY = TensorType((const(KEY_WORDS),), dt.uint64)


def _key(rel: Relation, key: Type) -> TensorType:
    rel.unify(key, _KEY, "the key")
    return _KEY


def _shape(rel: Relation, a: BitsAttrs | NumbersAttrs) -> tuple[Dim, ...]:
    shape = dims(a.out_shape)
    for d in shape:
        if isinstance(d, Const) and d.value < 0:
            raise rel.fail(f"a dim is negative: {', '.join(map(str, shape))}")
        at_least(rel, d, 0, "a dim")
    return shape


def _bits_relation(rel: Relation, key: Type, a: BitsAttrs) -> Type:
    return TupleType((_key(rel, key), TensorType(_shape(rel, a), dt.uint64)))


def _split_relation(rel: Relation, key: Type) -> Type:
    return TupleType((_key(rel, key), _KEY))


def _numbers_relation(rel: Relation, key: Type, first: Type, second: Type, a: NumbersAttrs) -> Type:
    if not a.out_dtype.is_float:
        raise rel.fail(f"got out_dtype {a.out_dtype}, wanted floats")
    for ty in (first, second):
        rel.unify(ty, TensorType((), a.out_dtype), "a parameter of the distribution")
    return TupleType((_key(rel, key), TensorType(_shape(rel, a), a.out_dtype)))


def _multinomial_relation(rel: Relation, key: Type, probs: Type, a: MultinomialAttrs) -> Type:
    ty = tensor(rel, probs, "probs")
    require_dtype(rel, ty, FLOAT, "probs")
    if not ty.rank:
        raise rel.fail("probs is a scalar, wanted probabilities along its last dimension")
    at_least(rel, ty.shape[-1], 1, "the number of probabilities")
    (count,) = dims((a.num_samples,))
    at_least(rel, count, 0, "num_samples")
    return TupleType((_key(rel, key), TensorType((*ty.shape[:-1], count), dt.int32)))


def _dropout_relation(rel: Relation, key: Type, data: Type, a: DropoutAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, FLOAT, "data")
    if not 0 <= a.rate < 1:
        raise rel.fail(f"got rate {a.rate}, wanted at least 0 and less than 1")
    return TupleType((_key(rel, key), ty))


# ------------------------------------------------------------------------------- what words mean


def _digits(dtype: DType) -> int:
    """Binary digits of a number of `dtype` below 1, all of which are drawn."""
    return {"float64": 53, "float32": 24, "float16": 11}.get(dtype.name, 8)


def _fractions(words: Array, dtype: DType) -> Array:
    """Numbers of the accumulation dtype in [0, 1) from the high bits of words."""
    n = _digits(dtype)
    result = (words >> np.uint64(64 - n)).astype(accumulator(dtype).numpy)
    return np.asarray(result * result.dtype.type(2.0**-n))


def _fraction(word: Expr, dtype: DType) -> Expr:
    n, wide_ = _digits(dtype), accumulator(dtype)
    bits = te.cast(shr(word, const(64 - n, dt.uint64)), dt.int64)
    return te.cast(bits, wide_) * te.literal(2.0**-n, wide_)


def _drawn(key: Tensor, shape: Sequence[Dim], each: int, f: Callable[..., Expr], name: str) -> Tensor:
    """The tensor whose element at i is `f(words, *i)` of its own `each` words: one, or two."""
    words = program(key, product(shape) * each)

    def element(*i: Expr) -> Expr:
        place: Expr = const(0)
        for n, extent in zip(i, shape, strict=True):
            place = place * extent + n
        first = place * each
        return f([words[floordiv(first + k, const(4)), floormod(first + k, const(4))] for k in range(each)], *i)

    return compute(shape, element, name)


def _behind(key: Tensor, count: Expr) -> Tensor:
    """The key behind `count` words."""
    i = Var("i", dt.index, 0)
    low = key[7] + te.cast(blocks(count), dt.uint64)

    def body(out: Tensor) -> Stmt:
        same = For(i, const(KEY_WORDS), Store(out, (i,), key[i]))
        return block(same, Store(out, (const(6),), high_word(key, low)), Store(out, (const(7),), low))

    (out,) = loops([((const(KEY_WORDS),), dt.uint64)], [key], body, "key")
    return out


# ------------------------------------------------------------------------------- bits


def _sizes(a: BitsAttrs | NumbersAttrs) -> list[int]:
    return [as_int(d) for d in dims(a.out_shape)]


def _bits_reference(key: Array, a: BitsAttrs) -> tuple[Array, Array]:
    shape = _sizes(a)
    count = math.prod(shape)
    return advanced(key, count), numbers(key, count).reshape(shape)


def _bits_compute(key: Tensor, a: BitsAttrs, out: TupleType) -> tuple[Tensor, Tensor]:
    shape = dims(a.out_shape)
    return _behind(key, product(shape)), _drawn(key, shape, 1, lambda words, *i: words[0], "bits")


def _split_reference(key: Array) -> tuple[Array, Array]:
    rest = np.array([0, 0, 0, 0, 1 << 63, 0], np.uint64)
    left, right = (np.concatenate([numbers(key, 4, purpose), rest]) for purpose in (1, 2))
    return left, right


def _split_compute(key: Tensor, out: TupleType) -> tuple[Tensor, Tensor]:
    def made(purpose: int) -> Tensor:
        words = program(key, const(4), purpose)

        def element(i: Expr) -> Expr:
            rest = te.select(te.eq(i, const(8)), const(1 << 63, dt.uint64), const(0, dt.uint64))
            return te.select(te.lt(i, const(4)), words[const(0), te.min_(i, const(3))], rest)

        return compute((const(KEY_WORDS),), element, "key")

    return made(1), made(2)


_ZERO = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1 << 63, 0], np.uint64)
_SOME = np.array([7, 1 << 63, 12345, 2**64 - 1, 0, 5, 9, 2**64 - 2, 1 << 63, 0], np.uint64)  # its counter carries


def _cost(args: Sequence[Type], out: Type, attrs: Any = None) -> Cost:
    """About 40 operations for a word."""
    assert isinstance(out, TupleType)
    last = out.fields[-1]
    assert isinstance(last, TensorType)
    return Cost(product(last.shape) * 40, tensor_bytes([*args, *out.fields]))


threefry_generate = Op(
    name="random.threefry_generate",
    args=("key",),
    attrs=BitsAttrs,
    type_rel=_bits_relation,
    reference=_bits_reference,
    compute=_bits_compute,
    fusion=Fusion.OPAQUE,
    cost=_cost,
    samples=(
        Sample((_ZERO,), {"out_shape": (4,)}, exact=True),
        Sample((_SOME,), {"out_shape": (3, 5)}, exact=True),
        Sample((_SOME,), {"out_shape": ()}, exact=True),
        Sample((_SOME,), {"out_shape": (0, 2)}, exact=True),
    ),
    doc="""(the key to go on with, random words of 64 bits of `out_shape`).

Words come in blocks of four from Threefry-4x64 with 20 rounds, of the key's first four words and words 4 to 7, the last
two of which count the blocks. A last block that is used in part is used up.""",
)

threefry_split = Op(
    name="random.threefry_split",
    args=("key",),
    type_rel=_split_relation,
    reference=_split_reference,
    compute=_split_compute,
    fusion=Fusion.OPAQUE,
    cost=_cost,
    samples=(Sample((_ZERO,), exact=True), Sample((_SOME,), exact=True)),
    doc="Two keys whose numbers have nothing to do with each other, nor with those of `key`, which nobody uses again.",
)


# ------------------------------------------------------------------------------- numbers


def _uniform_reference(key: Array, low: Array, high: Array, a: NumbersAttrs) -> tuple[Array, Array]:
    shape = _sizes(a)
    count = math.prod(shape)
    least, most = wide(low), wide(high)
    found = _fractions(numbers(key, count), a.out_dtype) * (most - least) + least
    return advanced(key, count), np.asarray(found).astype(a.out_dtype.numpy).reshape(shape)


def _uniform_compute(key: Tensor, low: Tensor, high: Tensor, a: NumbersAttrs, out: TupleType) -> tuple[Tensor, Tensor]:
    shape, total = dims(a.out_shape), accumulator(a.out_dtype)

    def number(words: Sequence[Expr], *i: Expr) -> Expr:
        least, most = te.cast(low[()], total), te.cast(high[()], total)
        return te.cast(_fraction(words[0], a.out_dtype) * (most - least) + least, a.out_dtype)

    return _behind(key, product(shape)), _drawn(key, shape, 1, number, "uniform")


def _normal_reference(key: Array, mean: Array, scale: Array, a: NumbersAttrs) -> tuple[Array, Array]:
    shape = _sizes(a)
    count = 2 * math.prod(shape)
    u = _fractions(numbers(key, count), a.out_dtype).reshape(-1, 2)
    radius = np.sqrt(-2 * np.log(1 - u[:, 0]))
    found = radius * np.cos(u.dtype.type(2 * math.pi) * u[:, 1]) * wide(scale) + wide(mean)
    return advanced(key, count), np.asarray(found).astype(a.out_dtype.numpy).reshape(shape)


def _normal_compute(key: Tensor, mean: Tensor, scale: Tensor, a: NumbersAttrs, out: TupleType) -> tuple[Tensor, Tensor]:
    shape, total = dims(a.out_shape), accumulator(a.out_dtype)

    def number(words: Sequence[Expr], *i: Expr) -> Expr:
        first, second = (_fraction(w, a.out_dtype) for w in words)
        radius = te.sqrt(te.literal(-2, total) * te.log(te.literal(1, total) - first))
        found = radius * te.cos(te.literal(2 * math.pi, total) * second)
        return te.cast(found * te.cast(scale[()], total) + te.cast(mean[()], total), a.out_dtype)

    return _behind(key, product(shape) * 2), _drawn(key, shape, 2, number, "normal")


def _of_parameters(share: Callable[[Builder, Node, Node], tuple[Node, Node]]) -> Any:
    """The rule of a distribution whose numbers are made of others that no parameter changes, drawn by the same key.

    share: (b, dy, those numbers) -> what each element adds to the two parameters.
    """

    def rule(b: Builder, call: Call, dy: Node) -> list[Contribution]:
        key, dy = call.args[0], b.get(dy, 1)
        like = call.args[1]
        assert isinstance(call.op, Op)
        plain = b.get(b.call_op(call.op, [key, b.zeros_like(like), b.ones_like(like)], call.attrs), 1)
        return [None, *(b.sum(g) for g in share(b, dy, plain))]

    return rule


_SCALARS = (np.array(-1.5, np.float32), np.array(2.25, np.float32))

uniform = Op(
    name="random.uniform",
    args=("key", "low", "high"),
    attrs=NumbersAttrs,
    type_rel=_numbers_relation,
    reference=_uniform_reference,
    compute=_uniform_compute,
    grad=_of_parameters(lambda b, dy, u: (b.multiply(dy, b.subtract(1, u)), b.multiply(dy, u))),
    fusion=Fusion.OPAQUE,
    cost=_cost,
    samples=(
        Sample((_ZERO, *_SCALARS), {"out_shape": (3, 7), "out_dtype": "float32"}),
        Sample(
            (_SOME, np.array(0, np.float64), np.array(1, np.float64)),
            {"out_shape": (9,), "out_dtype": "float64"},
            exact=True,
        ),
        Sample(
            (_SOME, np.array(-1, np.float16), np.array(1, np.float16)), {"out_shape": (2, 0, 1), "out_dtype": "float16"}
        ),
        Sample(
            (_SOME, np.array(-1, np.float16), np.array(1, np.float16)), {"out_shape": (13,), "out_dtype": "float16"}
        ),
    ),
    doc="""(the key to go on with, numbers of `out_shape` that are evenly spread from `low` to below `high`).

As many binary digits are drawn as the dtype has below 1, low + (high − low)·k/2^digits; rounding may give `high`.""",
)

normal = Op(
    name="random.normal",
    args=("key", "mean", "scale"),
    attrs=NumbersAttrs,
    type_rel=_numbers_relation,
    reference=_normal_reference,
    compute=_normal_compute,
    grad=_of_parameters(lambda b, dy, z: (dy, b.multiply(dy, z))),
    fusion=Fusion.OPAQUE,
    cost=_cost,
    samples=(
        Sample((_ZERO, *_SCALARS), {"out_shape": (3, 7), "out_dtype": "float32"}),
        Sample(
            (_SOME, np.array(0, np.float64), np.array(1, np.float64)),
            {"out_shape": (9,), "out_dtype": "float64"},
            rtol=1e-12,
        ),
        Sample((_SOME, np.array(0, np.float16), np.array(1, np.float16)), {"out_shape": (13,), "out_dtype": "float16"}),
    ),
    doc="""(the key to go on with, numbers of `out_shape` with the normal distribution of `mean` and deviation `scale`).

By Box and Muller, of two words each: √(−2 log(1 − u))·cos(2πv).""",
)


# ------------------------------------------------------------------------------- places


def _multinomial_reference(key: Array, probs: Array, a: MultinomialAttrs) -> tuple[Array, Array]:
    count, rows = as_int(dims((a.num_samples,))[0]), math.prod(probs.shape[:-1])
    u = _fractions(numbers(key, rows * count), dt.float64).reshape(rows, count, 1)
    sums = np.cumsum(probs.reshape(rows, probs.shape[-1]).astype(np.float64), axis=1)[:, None]
    found = np.sum(sums[..., :-1] <= u * sums[..., -1:], axis=2)
    return advanced(key, rows * count), found.reshape(*probs.shape[:-1], count).astype(np.int32)


def _multinomial_compute(key: Tensor, probs: Tensor, a: MultinomialAttrs, out: TupleType) -> tuple[Tensor, Tensor]:
    (count,) = dims((a.num_samples,))
    shape, choices = (*probs.shape[:-1], count), probs.shape[-1]
    sums: Any = cumsum.compute(probs, ScanAttrs(-1, dt.float64), TensorType(probs.shape, dt.float64))  # type: ignore[misc]
    u = _drawn(key, shape, 1, lambda words, *i: _fraction(words[0], dt.float64), "u")

    def passed(*i: Expr) -> Expr:
        *place, k = i
        row = place[:-1]
        is_below = te.le(sums[(*row, k)], u[tuple(place)] * sums[(*row, choices - 1)])
        return te.select(is_below, const(1, dt.int32), const(0, dt.int32))

    return _behind(key, product(shape)), reduce("sum", shape, (choices - 1,), passed, "place")


multinomial = Op(
    name="random.multinomial",
    args=("key", "probs"),
    attrs=MultinomialAttrs,
    type_rel=_multinomial_relation,
    reference=_multinomial_reference,
    compute=_multinomial_compute,
    fusion=Fusion.OPAQUE,
    cost=_cost,
    samples=(
        Sample((_ZERO, np.array([0.25, 0.5, 0.0, 0.25], np.float32)), {"num_samples": 9}, exact=True),
        Sample((_SOME, np.array([[[3, 1]], [[0, 2]]], np.float16)), {"num_samples": 5}, exact=True),
        Sample((_SOME, np.ones((2, 1))), {}, exact=True),
        Sample((_SOME, np.ones((0, 3))), {"num_samples": 2}, exact=True),
    ),
    doc="""(the key to go on with, places along the last dimension of `probs`), drawn with putting back.

A place is drawn as often as its share of the sum says; `probs` [..., n] need not sum to 1. The result is int32
[..., num_samples]. Running sums are formed in float64, in order.""",
)


# ------------------------------------------------------------------------------- dropout


def _least(rate: float) -> int:
    """The least number of 53 bits that keeps an element."""
    return math.ceil(rate * 2**53)


def _dropout_reference(key: Array, data: Array, a: DropoutAttrs) -> tuple[Array, Array]:
    x = wide(data)
    stays = (numbers(key, data.size) >> np.uint64(11) >= np.uint64(_least(a.rate))).reshape(data.shape)
    kept = np.where(stays, x * x.dtype.type(1 / (1 - a.rate)), x.dtype.type(0))
    return advanced(key, data.size), np.asarray(kept).astype(data.dtype)


def _dropout_compute(key: Tensor, data: Tensor, a: DropoutAttrs, out: TupleType) -> tuple[Tensor, Tensor]:
    least, total = const(_least(a.rate), dt.uint64), accumulator(data.dtype)

    def element(words: Sequence[Expr], *i: Expr) -> Expr:
        scaled = te.cast(data[i], total) * te.literal(1 / (1 - a.rate), total)
        stays = te.le(least, shr(words[0], const(11, dt.uint64)))
        return te.cast(te.select(stays, scaled, te.literal(0, total)), data.dtype)

    return _behind(key, product(data.shape)), _drawn(key, data.shape, 1, element, "dropped")


def _dropout_gradient(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """What was dropped is drawn again: no mask is kept."""
    return [None, b.get(b.call_op(dropout, [call.args[0], b.get(dy, 1)], call.attrs), 1)]


dropout = Op(
    name="random.dropout",
    args=("key", "data"),
    attrs=DropoutAttrs,
    type_rel=_dropout_relation,
    reference=_dropout_reference,
    compute=_dropout_compute,
    grad=_dropout_gradient,
    fusion=Fusion.OPAQUE,
    cost=_cost,
    samples=(
        Sample((_ZERO, ((3, 7), "float32"))),
        Sample((_SOME, ((5,), "float64")), {"rate": 0.9}),
        Sample((_SOME, ((9,), "float16")), {"rate": 0.25}),
        Sample((_SOME, ((2, 0), "float32")), {"rate": 0.0}),
    ),
    doc="""(the key to go on with, data with a share `rate` of its elements 0, the others divided by 1 − rate).

This is dropout in training. The same key drops the same elements. In inference nothing is dropped: `nn.dropout`.""",
)

"""Random numbers by keys: the published generator, its distributions, and the same bits however they are made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato import autodiff, relay
from legato.base.errors import TypeCheckError
from legato.interp import evaluate
from legato.ir.module import Module

PI = [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89, 0x452821E638D01377]
PI = [*PI, 0xBE5466CF34E90C6C, 0xBE5466CF34E90C6C, 0xC0AC29B7C97C50DD]  # a word stands twice there
ONES = [2**64 - 1] * 8
# Counter, key and words of Threefry-4x64 with 20 rounds, from the known answers of Random123.
KNOWN = [
    ([0] * 8, [0x09218EBDE6C85537, 0x55941F5266D86105, 0x4BD25E16282434DC, 0xEE29EC846BD2E40B]),
    (ONES, [0x29C24097942BBA1B, 0x0371BBFB0F6F4E11, 0x3C231FFA33F83A1C, 0xCD29113FDE32D168]),
    (PI, [0xA7E8FDE591651BD9, 0xBAAFD0C30138319B, 0x84A5C1A729E685B9, 0x901D406CCEBC1BA4]),
]


def module(*results: Any, params: tuple[Any, ...] = ()) -> Module:
    fields = [r.astuple() if isinstance(r, relay.TupleWrapper) else r for r in results]
    return Module.from_expr(relay.Function(list(params), relay.Tuple(fields)))


@pytest.mark.parametrize(("counter_and_key", "wanted"), KNOWN)
def test_known_answers(counter_and_key: list[int], wanted: list[int]) -> None:
    counter, key = counter_and_key[:4], counter_and_key[4:]
    k = relay.var("k", shape=(10,), dtype="uint64")
    mod = module(relay.random.threefry_generate(k, (4,)), params=(k,))
    value = np.array([*key, *counter, 0, 0], np.uint64)
    for ((_, words),) in (evaluate(mod, [value]), legato.compile(mod)(value)):
        assert words.tolist() == wanted


def test_blocks_count_on_and_keys_go_on() -> None:
    key = relay.random.threefry_key(2**200 + 7)
    behind, first = relay.random.threefry_generate(key, (2, 4))
    _, second = relay.random.threefry_generate(behind, 5)
    _, whole = relay.random.threefry_generate(key, [13])
    left, right = relay.random.threefry_split(key)
    a, b, c, *keys = evaluate(module(first, second, whole, left, right, key), [])
    assert [*a.ravel(), *b] == list(c)
    words = {int(w) for k in keys for w in k[:4]} | set(map(int, c))
    assert len(words) == 11 + 13  # two words of the first key are 0


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_are_those_of_the_interpreter(threads: int) -> None:
    key, count = relay.random.threefry_key(11), 50_001
    data = relay.var("x", shape=(count,))
    drawn = (relay.random.threefry_generate(key, (count,)), relay.random.uniform(key, (count,), low=-1.0),
             relay.random.dropout(key, data, 0.3), relay.random.threefry_split(key))  # fmt: skip
    mod = module(*drawn, params=(data,))
    x = np.linspace(-1, 1, count, dtype=np.float32)
    for got, wanted in zip(legato.compile(mod, threads=threads)(x), evaluate(mod, [x]), strict=True):
        for g, w in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(g, w)


def test_distributions() -> None:
    """Moments, and shares of an octile, of 200,000 numbers: five deviations of what they should be."""
    key, n = relay.random.threefry_key(3), 200_000
    draw = relay.random
    (_, u), (_, z), (_, k) = evaluate(
        module(draw.uniform(key, (n,), "float64", -1, 3), draw.normal(key, (n,), "float64", 2, 3),
               draw.multinomial(key, relay.const(np.array([1, 0, 2, 5], np.float32)), num_samples=n)), []
    )  # fmt: skip
    assert u.min() >= -1
    assert u.max() < 3
    assert abs(u.mean() - 1) < 5 * 4 / np.sqrt(12 * n)
    shares = np.histogram(u, 8, (-1, 3))[0] / n
    np.testing.assert_allclose(shares, 1 / 8, atol=5 * np.sqrt(7 / 64 / n))
    y = (z - 2) / 3
    for power, moment, deviation in ((1, 0, 1), (2, 1, 2**0.5), (3, 0, 15**0.5), (4, 3, 96**0.5)):
        assert abs(np.mean(y**power) - moment) < 5 * deviation / np.sqrt(n)
    np.testing.assert_allclose(np.bincount(k) / n, np.array([1, 0, 2, 5]) / 8, atol=5 * np.sqrt(1 / 4 / n))


def test_dropout_scales_what_it_keeps() -> None:
    key, x = relay.random.threefry_key(5), np.ones((100, 100), np.float32)
    ((_, y),) = evaluate(module(relay.random.dropout(key, relay.const(x), 0.2)), [])
    assert sorted(set(y.ravel().tolist())) == [0.0, 1.25]
    assert abs(np.mean(y == 0) - 0.2) < 5 * 0.4 / 100


def test_gradients_of_the_parameters_and_through_dropout() -> None:
    key, other = relay.random.threefry_split(relay.random.threefry_key(9))
    low, high, x = relay.var("low", shape=()), relay.var("high", shape=()), relay.var("x", shape=(50,))
    _, u = relay.random.uniform(key, (50,), low=low, high=high)
    _, y = relay.random.dropout(other, u * x, 0.5)
    mod = module(relay.sum(y), y, u, params=(low, high, x))
    values = [np.float32(-1), np.float32(2), np.linspace(0.1, 1, 50, dtype=np.float32)]
    (_, y_, u_), grads = evaluate(autodiff.value_and_grad(mod, has_aux=True), values)
    kept = (y_ != 0) * 2.0
    share = (u_ + 1) / 3
    wanted = np.sum(kept * values[2] * (1 - share)), np.sum(kept * values[2] * share), kept * u_
    for g, w in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda k: relay.random.dropout(k, relay.const(np.zeros(3, np.float32)), 1.0), "got rate 1.0"),
        (lambda k: relay.random.uniform(k, (2,), dtype="int32", low=0, high=2), "wanted floats"),
        (lambda k: relay.random.threefry_generate(k, (-2,)), "a dim is negative"),
        (lambda k: relay.random.multinomial(k, relay.const(np.float32(1)), num_samples=2), "probs is a scalar"),
        (lambda k: relay.random.uniform(relay.const(np.zeros(4, np.uint64)), (2,)), "the key"),
    ],
)
def test_what_is_refused(call: Any, wanted: str) -> None:
    mod = module(call(relay.random.threefry_key(0)))
    with pytest.raises(TypeCheckError, match=wanted):
        relay.transform.InferType()(mod)


@pytest.mark.parametrize("seed", [-1, 2**256, 1.5, True])
def test_seeds_are_numbers_of_256_bits(seed: Any) -> None:
    with pytest.raises(TypeCheckError, match="wanted an integer from 0"):
        relay.random.threefry_key(seed)

"""Threefry-4x64 with 20 rounds (Salmon, Moraes, Dror and Shaw, SC 2011): four words of a key and four of a counter give
four words that look random. Words of different counters do not depend on each other: they are made in any order.

A key of the operators has ten words, as Relay's have: four of the key, two that say what it is used for, two of a
counter of 128 bits, high word first, and two that Relay writes and nothing here reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from legato.arith.expr import Expr, Var, bitor, bitxor, cdiv, const, lt, select, shl, shr
from legato.base import dtype as dt
from legato.ops._tensors import Array
from legato.te.math import cast
from legato.te.tensor import Tensor, loops
from legato.tir.stmt import For, Let, Stmt, Store, block

__all__ = ["KEY_WORDS", "advanced", "blocks", "key_of", "numbers", "program", "words"]

KEY_WORDS: Final = 10
_WORDS: Final = 4
_PARITY: Final = 0x1BD11BDAA9FC1A22
_ROTATIONS: Final = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
_ROUNDS: Final = 20
Word = Any  # an array of uint64, or an expression


def words(key: Sequence[Word], counter: Sequence[Word], literal: Callable[[int], Word], ops: Any) -> list[Word]:
    """The four words of `key` and `counter`; `ops` has xor(a, b), rotated(a, by) and bound(a), a value to be named."""
    parity = literal(_PARITY)
    for k in key:
        parity = ops.xor(parity, k)
    schedule = (*key, ops.bound(parity))
    x = [ops.bound(c + k) for c, k in zip(counter, schedule, strict=False)]
    for n in range(_ROUNDS):
        for first, by in zip((0, 2), _ROTATIONS[n % len(_ROTATIONS)], strict=True):
            x[first] = ops.bound(x[first] + x[first + 1])
            x[first + 1] = ops.bound(ops.xor(x[first], ops.rotated(x[first + 1], by)))
        x[1], x[3] = x[3], x[1]
        if (n + 1) % 4 == 0:
            s = (n + 1) // 4
            x = [a + schedule[(s + j) % (_WORDS + 1)] for j, a in enumerate(x)]
            x[3] = x[3] + literal(s)
            x = list(map(ops.bound, x))
    return x


def key_of(seed: int) -> Array:
    """The key of a seed, a number of up to 256 bits."""
    return np.array([*(seed >> 64 * n & (1 << 64) - 1 for n in range(4)), 0, 0, 0, 0, 1 << 63, 0], np.uint64)


def blocks(count: Any) -> Any:
    """How many blocks of words `count` numbers take: a dim or an integer."""
    return cdiv(count, _WORDS) if isinstance(count, Expr) else -(-count // _WORDS)


# ------------------------------------------------------------------------------- in NumPy


class _Arrays:
    @staticmethod
    def xor(a: Array, b: Array) -> Array:
        return np.asarray(a ^ b)

    @staticmethod
    def rotated(a: Array, by: int) -> Array:
        return np.asarray((a << np.uint64(by)) | (a >> np.uint64(64 - by)))

    @staticmethod
    def bound(a: Array) -> Array:
        return a


def numbers(key: Array, count: int, purpose: int = 0) -> Array:
    """The first `count` words of `key`, for a purpose of their own."""
    first, step = np.uint64(key[7]), np.arange(blocks(count), dtype=np.uint64)
    with np.errstate(over="ignore"):
        low = first + step
        high = key[6] + (low < first).astype(np.uint64)
        counter = [np.broadcast_to(w, low.shape) for w in (key[4] + np.uint64(purpose), key[5], high, low)]
        found = words([key[n : n + 1] for n in range(4)], counter, lambda n: np.full(1, n, np.uint64), _Arrays)
    return np.stack(found, 1).reshape(-1)[:count]


def advanced(key: Array, count: int) -> Array:
    """The key whose counter is behind `count` words."""
    after = key.copy()
    with np.errstate(over="ignore"):
        after[7] = key[7] + np.uint64(blocks(count))
        after[6] = key[6] + np.uint64(after[7] < key[7])
    return after


# ------------------------------------------------------------------------------- in kernels


class _Lets:
    """Values of a kernel, each in a variable of its own."""

    def __init__(self) -> None:
        self.found: list[tuple[Var, Expr]] = []

    @staticmethod
    def xor(a: Expr, b: Expr) -> Expr:
        return bitxor(a, b)

    @staticmethod
    def rotated(a: Expr, by: int) -> Expr:
        return bitor(shl(a, const(by, dt.uint64)), shr(a, const(64 - by, dt.uint64)))

    def bound(self, a: Expr) -> Expr:
        var = Var(f"w{len(self.found)}", dt.uint64)
        self.found.append((var, a))
        return var

    def around(self, body: Stmt) -> Stmt:
        """`body` within all of them."""
        for var, value in reversed(self.found):
            body = Let(var, value, body)
        return body


def high_word(key: Tensor, low: Expr) -> Expr:
    """The high word of the counter, whose low one is now `low`."""
    one, zero = const(1, dt.uint64), const(0, dt.uint64)
    return key[6] + select(lt(low, key[7]), one, zero)


def program(key: Tensor, count: Expr, purpose: int = 0) -> Tensor:
    """The words that `numbers` gives, whole blocks of them: [blocks, 4]."""

    def body(out: Tensor) -> Stmt:
        lets, i = _Lets(), Var("i", dt.index, 0)
        low = lets.bound(key[7] + cast(i, dt.uint64))
        counter = (key[4] + const(purpose, dt.uint64), key[5], high_word(key, low), low)
        found = words([key[n] for n in range(4)], counter, lambda n: const(n, dt.uint64), lets)
        return For(i, blocks(count), lets.around(block(*(Store(out, (i, const(j)), w) for j, w in enumerate(found)))))

    (out,) = loops([((blocks(count), const(_WORDS)), dt.uint64)], [key], body, "words")
    return out

"""Small programs with and without batches, compiled."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import legato
from legato.runtime import Executable

HEAD = '#[version = "0.0.5"]\n'
NET = HEAD + (  # the rows of %x, each through a dense layer; the second output has a dim of its own
    "def @main(%x: Tensor[(n, m), float32], %w: Tensor[(n, 2), float32]) "
    "{ (sum(%x, axis=[1]), concatenate((%w, %w), axis=1)) }"
)
SUM = HEAD + "def @main(%x: Tensor[(n, 3), float32]) { sum(%x, axis=[0]) }"
SQUARE = HEAD + "def @main(%x: Tensor[(n, n), float32]) { nn.relu(%x) }"
PAIR = HEAD + "def @main(%x: Tensor[(n, 3), float32], %y: Tensor[(4, 3), float32]) { (nn.relu(%x), nn.relu(%y)) }"
DEEP = HEAD + (  # its workspace grows with n: 4 kB for each row
    "def @main(%x: Tensor[(n, 1024), float32]) "
    '{ nn.relu(nn.dense(nn.softmax(%x), ones(shape=(3, 1024), dtype="float32"))) }'
)
BFLOAT = HEAD + 'def @main(%x: Tensor[(n, 3), bfloat16]) { (nn.relu(%x), cast(%x, dtype="float32")) }'
STRINGS = HEAD + "def @main(%x: Tensor[(n,), string]) { strings.concat(%x, %x) }"
GROUPS = HEAD + (  # rows in groups of four
    "def @main(%x: Tensor[(n, 3), float32]) { reshape_like(nn.relu(reshape(%x, newshape=[-1, 4, 3])), %x) }"
)
SCALAR = HEAD + "def @main(%x: Tensor[(n, 3), float32], %y: float32) { multiply(%x, %y) }"


@cache
def compiled(text: str, **shapes: Any) -> Executable:
    """The program of a text; keywords are sizes of dims to compile for."""
    return legato.compile(legato.parse(text), shapes=dict(shapes) or None)


def random(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Normally distributed numbers."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)

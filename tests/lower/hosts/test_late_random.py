"""Random programs over tensors whose number of rows only data tell: compiled is interpreted, and no object is left."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import legato
from legato.interp import evaluate
from tests.lower.hosts.programs import leaked
from tests.lower.test_whole_programs import agrees
from tests.programs.settings import FUZZ

FUNCTIONS = """#[version = "0.0.5"]
    type Box { Box(Tensor[(?, 4), float32]), Two(Box, Box), Empty }
    def @either(%c: bool, %x: Tensor[(?, 4), float32]) { if (%c) { %x } else { concatenate((%x, %x)) } }
    def @head(%x: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] { strided_slice(%x, begin=[0], end=[3]) }
    def @rows(%b: Box) -> Tensor[(?, 4), float32] {
      match (%b) { Box(%x) => %x, Two(%a, %b) => concatenate((@rows(%b), @rows(%a))), Empty => zeros(shape=[0, 4]) }
    }
    def @grow(%n: int32, %x: Tensor[(?, 4), float32], %y: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] {
      if (%n == 0) { %x } else { @grow(%n - 1, concatenate((%y, @head(%x))), tanh(%x)) }
    }
    def @tower(%n: int32, %x: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] {
      if (%n == 0) { %x } else { concatenate((@tower(%n - 1, negative(%x)), @head(%x))) }
    }
    def @apply(%f: fn (Box) -> Box, %b: Box) -> Box { %f(%b) }
"""


class Writer:
    """Writes a program; `names` are the tensors in scope."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.names = ["%x", "%y"]
        self.count = 0

    def tensor(self, depth: int) -> str:
        """A tensor of some number of rows."""
        if depth <= 0:
            return self.random.choice(self.names)
        rule = self.random.choice([
            lambda: f"tanh({self.tensor(depth - 1)})",
            lambda: f"concatenate(({self.tensor(depth - 1)}, {self.tensor(depth - 2)}))",
            lambda: f"@either({self.flag()}, {self.tensor(depth - 1)})",
            lambda: f"@head({self.tensor(depth - 1)})",
            lambda: f"@rows({self.box(depth)})",
            lambda: f"@grow({self.random.randrange(4)}, {self.tensor(depth - 1)}, {self.tensor(depth - 2)})",
            lambda: f"@tower(%n, {self.tensor(depth - 1)})",
            lambda: f"nn.softmax({self.tensor(depth - 1)} * 2f, axis=-1)",
            lambda: self.branch(depth),
            lambda: self.let(depth),
            lambda: self.closure(depth),
        ])  # fmt: skip
        return rule()

    def flag(self) -> str:
        """A condition."""
        return self.random.choice(["%c", f"sum({self.random.choice(self.names)}) > 0f", "%n == 2"])

    def box(self, depth: int) -> str:
        """A value that holds tensors."""
        if depth < 2 or self.random.random() < 0.5:
            return f"Box({self.tensor(depth - 1)})"
        return f"Two({self.box(depth - 1)}, {self.box(depth - 2)})"

    def branch(self, depth: int) -> str:
        """A choice between two tensors, which are objects: whether they may have as many rows is no question there."""
        one, two = self.tensor(depth - 1), self.tensor(depth - 2)
        return f"@rows(if ({self.flag()}) {{ Box({one}) }} else {{ Two(Box({two}), Empty) }})"

    def let(self, depth: int) -> str:
        """A tensor that is used several times."""
        value, name = self.tensor(depth - 1), self.name()
        self.names.append(name)
        body = f"concatenate(({self.tensor(depth - 1)}, {name}))"
        self.names.remove(name)
        return f"@rows({{ let {name} = {value}; Box({body}) }})"

    def closure(self, depth: int) -> str:
        """The call of one of two functions that see what is around them."""
        value, name = self.tensor(depth - 1), self.name()
        one, two = (f"fn ({name}: Box) -> Box {{ Two({name}, {self.box(depth - 2)}) }}" for _ in range(2))
        return f"@rows(@apply(if ({self.flag()}) {{ {one} }} else {{ {two} }}, Box({value})))"

    def name(self) -> str:
        """The name of a new variable."""
        self.count += 1
        return f"%v{self.count}"

    def program(self) -> str:
        """The text of a program."""
        parts = self.tensor(4), self.tensor(3), self.tensor(2)
        return FUNCTIONS + (
            "def @main(%c: bool, %n: int32, %x: Tensor[(n, 4), float32], %y: Tensor[(m, 4), float32]) {"
            f" ({parts[0]}, sum({parts[1]}), Box({parts[2]}), max({parts[0]} + 1f)) }}"
        )


@pytest.mark.parametrize("seed", range(FUZZ or 12))
@pytest.mark.shared(3)
def test_compiled_is_interpreted(seed: int) -> None:
    module = legato.parse(Writer(seed).program())
    exe = legato.compile(module)
    rng = np.random.default_rng(seed)
    for flag, n, rows in ((True, 0, (1, 2)), (False, 2, (3, 1)), (True, 3, (2, 5))):
        x, y = (rng.standard_normal((r, 4)).astype(np.float32) for r in rows)
        args = [np.asarray(flag), np.asarray(n, np.int32), x, y]
        assert agrees(exe(*args), evaluate(module, args))
    assert leaked(exe) == 0

"""A call that fails leaves the arrays that it was given for outputs as they were, whatever it has computed by then."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import legato
from legato.base.config import config
from legato.base.errors import InternalError, RunError
from legato.interp import evaluate
from legato.ir.module import Module
from legato.runtime.executable import Executable

HEAD = """
#[version = "0.0.5"]
def @size(%k: int64) -> int64 { if (%k < 9i64) { %k } else { @size(%k - 9i64) + 9i64 } }
def @half(%x: Tensor[(?, 4), float32], %k: int64) -> (Tensor[(?, 4), float32], float32) {
  let %d = match_cast(tensor_to_shape(reshape(%k, newshape=[1])), Shape[(h,)]);
  (exp(%x), sum(reshape(%x, newshape=[h, 2])))
}
"""
UNARY = ("exp({0})", "negative({0})", "nn.softmax({0})", "add({0}, %x)", "multiply({0}, sum({0}))")
SIZES = ('sum(cast({0} > 0f, dtype="int64"))', "take(%s, 0i64)", "@size(take(%s, 1i64))")
USES = (
    "sum(reshape({0}, newshape=[{1}, 2]))",
    "sum(multiply({0}, full(2f, shape=[{1}, 4])))",
    "sum(strided_slice({0}, begin=[0], end=[{1}], axes=[0]))",
)


class Draft:
    """The text of a program over %x: (n, 4) and %s: (2,), integers, which computes sizes and asks things of them."""

    def __init__(self, seed: int) -> None:
        self.random, self.count, self.lines = Random(seed), 0, list[str]()
        self.tensors, self.scalars = ["%x"], list[str]()
        for _ in range(self.random.randrange(2, 6)):
            self.random.choice((self.unary, self.use, self.branch, self.call))()
        self.unary()

    def name(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"let %v{self.count} = {text};")
        return f"%v{self.count}"

    def unary(self) -> None:
        self.tensors.append(self.name(self.random.choice(UNARY).format(self.random.choice(self.tensors))))

    def used(self) -> list[str]:
        x, y = self.random.choices(self.tensors, k=2)
        size = self.random.choice(SIZES).format(y)
        self.count += 1
        dim = f"d{self.count}"
        cast = f"let %c{dim} = match_cast(tensor_to_shape(reshape({size}, newshape=[1])), Shape[({dim},)]);"
        return [cast, self.random.choice(USES).format(x, dim)]

    def use(self) -> None:
        cast, value = self.used()
        self.lines.append(cast)
        self.scalars.append(self.name(value))

    def branch(self) -> None:
        x, value = self.random.choice(self.tensors), " ".join(self.used())
        both = self.name(
            f"if (sum({x}) > 0f) {{ (exp({x}), 0f) }} else {{ let %w = negative({x}); (%w, {{ {value} }}) }}"
        )
        self.tensors.append(self.name(f"{both}.0"))
        self.scalars.append(self.name(f"{both}.1"))

    def call(self) -> None:
        x = self.random.choice(self.tensors)
        both = self.name(f"@half({x}, {self.random.choice(SIZES).format(x)})")
        self.scalars += [self.name(f"sum({both}.0)"), self.name(f"{both}.1")]

    def text(self) -> str:
        results = [*self.tensors[:0:-1], *self.scalars]
        body = "\n  ".join([*self.lines, f"({', '.join(results)},)"])
        return f"{HEAD}def @main(%x: Tensor[(n, 4), float32], %s: Tensor[(2,), int64]) {{\n  {body}\n}}"


def room(exe: Executable, n: int) -> dict[str, np.ndarray]:
    """Arrays for all outputs, filled with what no result is likely to be."""
    shapes = {t.name: tuple(n if d == "n" else int(str(d)) for d in t.shape) for t in exe.outputs}
    return {name: np.full(shape, -1234.5, np.float32) for name, shape in shapes.items()}


def refused(module: Module, exe: Executable, x: np.ndarray, s: np.ndarray) -> bool:
    """Whether the call fails, with `out` as it was; else the outputs are there, and the interpreter's."""
    out = room(exe, len(x))
    before = {name: array.tobytes() for name, array in out.items()}
    try:
        expected = evaluate(module, [x, s])
    except RunError:
        with pytest.raises(RunError) as error:
            exe.run({"x": x, "s": s}, out=out)
        assert not isinstance(error.value, InternalError)
        assert {name: array.tobytes() for name, array in out.items()} == before
        return True
    got = exe.run({"x": x, "s": s}, out=out)
    assert all(got[name] is array for name, array in out.items())
    for array, value in zip(out.values(), expected, strict=True):
        np.testing.assert_allclose(array, np.asarray(value), rtol=2e-5)
    return False


def test_calls_that_fail_write_nothing_and_others_what_they_compute() -> None:
    found, late = list[bool](), list[bool]()
    for seed in range(16):
        module = legato.parse(Draft(seed).text())
        exe = legato.compile(module, threads=1)
        late.append(bool(exe.deferred))
        for n in (0, 1, 2, 3):
            x = np.linspace(-1, 2, 4 * n, dtype=np.float32).reshape(n, 4)
            found += [refused(module, exe, x, np.array([k, 2 * n])) for k in (n, 2 * n, -1)]
    assert {*found} == {False, True}
    assert {*late} == ({True} if config().bounds else {False, True})  # of the bounds-checked build any access may fail


SIZE = 'let %y = exp(%x); let %k = sum(cast(%y > 0f, dtype="int64"));'
FAILS = """{
  let %d = match_cast(tensor_to_shape(reshape(%k, newshape=[1])), Shape[(a,)]);
  sum(reshape(%x, newshape=[a, 2]))
}"""


@pytest.mark.skipif(config().bounds, reason="any access may fail there, so that all outputs are deferred")
@pytest.mark.parametrize(
    ("body", "deferred"),
    [
        (f"{SIZE} (%y, {FAILS})", ["output0"]),  # a check behind the write
        (f"let %k = take(%s, 0i64); let %z = {FAILS}; (exp(%x), %z)", []),  # in front of it
        (f"{SIZE} if (sum(%x) > 0f) {{ (tanh(%x), 0f) }} else {{ (negative(%x), {FAILS}) }}", []),  # of both
        (f"{SIZE} if (sum(%x) > 0f) {{ (%y, 0f) }} else {{ (%y, {FAILS}) }}", ["output0"]),  # computed there at once
        (f"{SIZE} (%y, @size(%k))", ["output0"]),  # calls that nest
        (f"{SIZE} (%y, sum(@half(%x, %k).0))", ["output0"]),  # a function that checks
        (f"{SIZE} (%y, argwhere(%y))", ["output0"]),  # objects
        (f"{SIZE} (nn.softmax(%y), %k)", []),
    ],
)
def test_which_outputs_are_deferred(body: str, deferred: list[str]) -> None:
    text = f"{HEAD}def @main(%x: Tensor[(n, 4), float32], %s: Tensor[(2,), int64]) {{ {body} }}"
    assert list(legato.compile(legato.parse(text), threads=1).deferred) == deferred

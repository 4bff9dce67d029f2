"""The conformance test of generators: who keeps the promises passes, and who breaks one is told which."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import GeneratorError
from legato.testing import check_generator
from tests.generators.samples import Changed, Interpreting, dense_relu

OPERATORS = ("exp", "negative", "add", "multiply", "tanh", "nn.dense")


def test_who_keeps_them_passes() -> None:
    report = check_generator(Interpreting("c", OPERATORS))
    assert report.operators == tuple(sorted(OPERATORS))
    assert report.functions >= 8
    assert check_generator(Interpreting("c", ("exp",)), seed=3).operators == ("exp",)


def test_programs_of_ones_own() -> None:
    text = "def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(3, 4), float32]) { nn.relu(nn.dense(%x, %w)) }"
    program = legato.parse(text)
    assert check_generator(Interpreting("c", (), (dense_relu(),)), [program]).operators == ()
    with pytest.raises(GeneratorError, match="takes nothing of a program that is given"):
        check_generator(Interpreting("c", ("exp",)), [program])
    with pytest.raises(GeneratorError, match="it supports no call of any operator, and no program"):
        check_generator(Interpreting("c", ()))


class Fickle(Interpreting):
    """Says yes and no."""

    __slots__ = ()
    said = False

    def supports(self, call: Any) -> bool:
        type(self).said = not type(self).said
        return type(self).said


class Greedy(Interpreting):
    """Writes to what it is given."""

    __slots__ = ()

    def compile(self, function: Any) -> Any:
        run = super().compile(function)

        def engine(*arrays: np.ndarray) -> Any:
            result = run(*arrays)
            for a in arrays:
                ctypes.memset(a.ctypes.data, 1, a.nbytes)
            return result

        return engine


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: y + 1, "a call of exp .*: its values are not those: the largest difference is 1"),
        (lambda y: y.astype(np.float64) if y.dtype == np.float32 else y, r"wanted float32\[.*\]"),
        (lambda y: y.ravel(), r"wanted float32\[.*\]"),
        (lambda y: np.full_like(y, np.nan), "its values are not those"),
    ],
)
def test_who_lies_is_told(change: Callable[[Any], Any], message: str) -> None:
    def changed(result: Any) -> Any:
        return tuple(map(change, result)) if isinstance(result, tuple) else change(result)

    with pytest.raises(GeneratorError, match=f"^generator 'c', function @checked_.*{message}"):
        check_generator(Changed(changed, Interpreting("c", ("exp",))))


def test_who_breaks_rules_is_told() -> None:
    with pytest.raises(GeneratorError, match="supports says yes and no to a call of"):
        check_generator(Fickle("c"))
    with pytest.raises(GeneratorError, match="it changes an array that it may only read"):
        check_generator(Greedy("c", ("exp",)))
    with pytest.raises(GeneratorError, match="is none"):
        check_generator(object())

"""Random programs with effects: compiled, they do the same as in the interpreter, in the same order, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import legato
from legato.base.errors import RunError, UnsupportedError
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.script import parse, show
from tests.programs.settings import examples
from tests.runtime.random_outside import arguments, functions, program


@examples(12)
@given(st.integers(0, 10**6))
def test_effects_are_those_of_the_interpreter(seed: int) -> None:
    module, x = legato.parse(program(seed)), arguments(seed)
    assert alpha_equal(legato.parse(str(module)), module)
    assert alpha_equal(parse(show(module)), module)
    with pytest.MonkeyPatch.context() as patch:
        wanted = _done(patch, lambda packed: evaluate(module, [x], packed=packed))
        try:
            got = _done(patch, lambda packed: legato.compile(module, packed=packed)(x))
        except UnsupportedError:  # shared nodes whose shapes the program finds
            assume(False)
    assert got == wanted


def _done(patch: pytest.MonkeyPatch, run: Callable[[Any], Any]) -> tuple[object, list[object]]:
    """The result of a run, or its error, and what has happened in it."""
    events: list[object] = []
    patch.setattr("builtins.print", lambda text, file: events.append(text))
    try:
        return np.asarray(run(functions(events))).tolist(), events
    except RunError as error:
        return str(error), events

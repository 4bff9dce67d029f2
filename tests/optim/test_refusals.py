"""Arguments of another kind than training takes: one error, before anything is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato import optim
from legato.base.errors import CompileError, LegatoError

LOSS = legato.parse("def @main(%w: Tensor[(3,), float64], %x: Tensor[(n, 3), float64]) { sum(%w * %x) }")
SGD = optim.SGD(0.1)
FIRST = {"w": np.ones(3)}


def trainer(**options: Any) -> optim.Trainer:
    """One for LOSS."""
    given = {"optimizer": SGD, "params": FIRST, **options}
    return optim.Trainer(LOSS, **given)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "params as a number": (lambda: trainer(params=3), "params: got 3, wanted first values"),
    "params as names": (lambda: trainer(params=["w"]), "params: got"),
    "carry": (lambda: trainer(carry=3), "carry: got 3"),
    "a bound": (lambda: trainer(clip=3), "clip: got 3, wanted a Clipping"),
    "an optimizer": (lambda: trainer(optimizer=3), "optimizer: got 3, wanted an Optimizer"),
    "a class": (lambda: trainer(optimizer=optim.SGD), "optimizer: got"),
    "one name": (lambda: optim.training_step(LOSS, SGD, "w"), "params: got 'w', wanted names"),
    "numbers": (lambda: optim.training_step(LOSS, SGD, [0]), "params: got [0]"),  # type: ignore[list-item]
    "a name to carry": (lambda: optim.training_step(LOSS, SGD, ["w"], carry="x"), "carry: got 'x'"),
    "nesterov": (lambda: optim.SGD(momentum=0.9, nesterov="no"), "nesterov is 'no', wanted true or false"),  # type: ignore[arg-type]
    "amsgrad": (lambda: optim.AdamW(amsgrad=2), "amsgrad is 2, wanted true or false"),  # type: ignore[arg-type]
    "rules": (lambda: optim.initial(LOSS, 3), "rules: got 3"),  # type: ignore[arg-type]
    "a rule": (lambda: optim.initial(LOSS, {"w": 3}), "the rule for 'w': got 3"),  # type: ignore[dict-item]
    "a seed": (lambda: optim.initial(LOSS, {"w": optim.zeros}, seed=-1), "seed: got -1, wanted an integer from 0"),
    "sizes": (lambda: optim.initial(LOSS, {"x": optim.zeros}, sizes=3), "sizes: got 3"),  # type: ignore[arg-type]
    "a size": (lambda: optim.initial(LOSS, {"x": optim.zeros}, sizes={"n": -1}), "the dim n: got -1"),
    "width": (lambda: optim.uniform(-1), "bound: got -1"),
    "deviation": (lambda: optim.normal("a"), "deviation: got 'a'"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_arguments_of_another_kind(name: str) -> None:
    make, message = WRONG[name]
    with pytest.raises(CompileError) as error:
        make()
    assert message in str(error.value)


@pytest.mark.parametrize("path", [3, None, b"run"])
def test_checkpoints_have_paths(path: Any) -> None:
    given = trainer()
    for use in (given.save, given.load):
        with pytest.raises(LegatoError, match="a checkpoint is a file"):
            use(path)

"""What tests, benchmarks and the demo know about one model file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Feeds = dict[str, Array]  # input name → array


def cache() -> Path:
    """The folder of the model files: `$LEGATO_MODELS`, or `.models` beside this source tree."""
    named = os.environ.get("LEGATO_MODELS")
    return Path(named) if named else Path(__file__).parents[2] / ".models"


def cached(name: str) -> Path:
    """The path of a file in the cache; FileNotFoundError, with what to do, if it was not made yet."""
    path = cache() / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: `make models` makes it (python -m tools.models)")
    return path


@dataclass(frozen=True, slots=True)
class Model:
    """One model file, real inputs for it, and what its outputs mean.

    `cases()` are complete sets of inputs; where dimensions are symbolic the cases differ in them. `decode` takes the
    outputs in the order of the file and returns what a user wants of them (text, classes, notes): a plain value that
    must be equal for two correct implementations. `expected` is that value for each case where the weights are trained,
    and () where they are random.
    """

    name: str
    about: str
    cases: Callable[[], tuple[Feeds, ...]]
    decode: Callable[[Sequence[Array]], object]
    expected: tuple[object, ...] = ()
    opset: int = 0
    symbolic: tuple[str, ...] = ()  # the input dimensions that are not fixed in the file, by meaning

    def path(self) -> Path:
        """The ONNX file; FileNotFoundError if it was not made yet."""
        return cached(f"{self.name}.onnx")

    def static_shapes(self) -> dict[str, tuple[int, ...]]:
        """Input shapes of the first case: what to compile for where nothing shall be symbolic."""
        return {name: array.shape for name, array in self.cases()[0].items()}


def best_classes(outputs: Sequence[Array]) -> tuple[int, ...]:
    """The class with the highest score in each row of the first output."""
    return tuple(int(index) for index in np.argmax(outputs[0], axis=-1))

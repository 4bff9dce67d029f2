"""What the process of a framework does: `python -m tools.bench.peers.FRAMEWORK FOLDER THREADS OPTION`.

FOLDER has the model, as `graph` writes it, and inputs.npz. The process answers each line of its standard input by one
line of JSON: first, unasked, that it is ready ("version"; or "error": why it is not); `run` writes the outputs to
outputs.npz; a number of seconds gives the "seconds" of each call in a block that long. Needs NumPy, and of Legato the
runtime alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from legato.runtime.timing import block_of, rest

__all__ = ["INPUTS", "OUTPUTS", "Refused", "serve"]

INPUTS, OUTPUTS = "inputs.npz", "outputs.npz"

Arrays = dict[str, np.ndarray[Any, Any]]
Run = Callable[[], list[np.ndarray[Any, Any]]]
Make = Callable[[Path, Arrays, int, str], tuple[str, Run]]


class Refused(Exception):
    """The framework cannot run the model, or this translation of it cannot."""


def serve(make: Make) -> None:
    """Serves what `make` makes of a folder, the inputs, threads and the option: a version, and a call of the model."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # frameworks write to standard output
    place, threads, option = sys.argv[1:]
    folder = Path(place)
    with np.load(folder / INPUTS) as arrays:
        inputs = dict(arrays)
    try:
        version, call = make(folder, inputs, int(threads), option)
        call()
    except Exception as error:  # of whatever class the framework has; its last line says what is wrong
        lines = [line for line in str(error).splitlines() if line.strip()]
        _answer(answers, {"error": f"{type(error).__name__}: {lines[-1] if lines else 'no message'}"})
        return
    _answer(answers, {"version": version})
    for line in sys.stdin:
        if line.strip() == "run":
            np.savez(folder / OUTPUTS, *call())
            _answer(answers, {})
        else:
            seconds = list(block_of(call, float(line)))
            rest()
            _answer(answers, {"seconds": seconds})


def _answer(answers: TextIO, data: dict[str, Any]) -> None:
    answers.write(json.dumps(data) + "\n")
    answers.flush()

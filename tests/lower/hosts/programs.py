"""Programs with objects, run by `tir.interp` and natively, against the interpreter; nothing is left of any run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import legato
from legato.interp import evaluate
from legato.lower.hosts.program import HostProgram
from legato.runtime.binding import library
from legato.runtime.executable import Executable
from tests.graphs import leaves
from tests.lower import programs

__all__ = ["agree", "leaked", "lowered"]

Array = np.ndarray[Any, Any]


def lowered(text: str) -> HostProgram:
    """The host functions and kernels that the program becomes."""
    return programs.lowered(legato.parse(f'#[version = "0.0.5"]\n{text}'))


def leaked(exe: Executable) -> int:
    """How many objects the calls of `exe` have forgotten so far."""
    return sum(int(library().lg_objects_leaked(workspace.handle)) for workspace in exe._free)


def agree(text: str, *calls: Sequence[Any]) -> Executable:
    """Compares every call with the interpreter, as loop program and compiled; the executable."""
    module = legato.parse(f'#[version = "0.0.5"]\n{text}')
    loops, exe = lowered(text), legato.compile(module)
    for args in calls:
        wanted = leaves(evaluate(module, args))
        for got in (programs.interpreted(loops, args), leaves(exe(*args))):
            for g, w in zip(got, wanted, strict=True):
                assert (g.shape, g.dtype) == (w.shape, w.dtype)
                np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
    assert leaked(exe) == 0
    return exe

"""Whether a module means the same everywhere: parsed, printed and parsed again, interpreted, compiled, and in TVM."""

from __future__ import annotations

from typing import Any

import numpy as np

import legato
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.verify import verify
from legato.runtime.values import Data
from legato.script import parse, show
from tests.script.modules.tvm.cases import Case, Value, arguments
from tests.script.modules.tvm.peer import PACKED, SEEN, Extents


def compiled(case: Case) -> list[Value]:
    """The results of each run, compiled: the interpreter gives the same, and the printed module is the same."""
    module = parse(case.script)
    again = parse(show(module))
    assert alpha_equal(again, module), show(module)
    verify(module)
    packed: Any = PACKED if "test." in case.script else None
    exe = legato.compile(module, packed=packed)
    found = []
    for args in arguments(case, module):
        SEEN.clear()
        with np.errstate(all="ignore"):
            interpreted = evaluate(module, list(args), packed=packed)
        SEEN.clear()
        found.append(exe(*(_given(a) for a in args)))
        differs = difference(found[-1], interpreted)
        assert differs is None, f"compiled and interpreted: {differs}"
    return found


def difference(a: Value, b: Value) -> str | None:
    """In what two values differ; None where they agree."""
    a, b = _plain(a), _plain(b)
    if isinstance(a, list) or isinstance(b, list):
        if not isinstance(a, list) or not isinstance(b, list) or len(a) != len(b):
            return f"{a} is no {b}"
        return next((f for x, y in zip(a, b, strict=True) if (f := difference(x, y)) is not None), None)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{a.dtype}{list(a.shape)} is no {b.dtype}{list(b.shape)}"
    tolerance = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-9}.get(str(a.dtype), 0)
    wide = np.float64 if tolerance else a.dtype
    if np.allclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True):
        return None
    return f"{a.ravel()[:8].tolist()} is no {b.ravel()[:8].tolist()}"


def _given(value: Value) -> Any:
    """What the compiled program takes: the extents of a shape are arrays there."""
    return tuple(np.asarray(n) for n in value) if isinstance(value, Extents) else value


def _plain(value: Value) -> Any:
    """Arrays, and lists of what tuples have."""
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    assert not isinstance(value, Data)
    return np.asarray(value)

"""Random modules of both levels: compiled = interpreted, results and refusals alike."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError, RunError
from legato.interp import evaluate
from legato.script import parse
from tests.script.modules.random_modules import script

COUNT = int(os.environ.get("LEGATO_FUZZ", "24"))
BATCH = 6
SIZES = ((0, 0, 3), (0, 2, 0), (1, 1, 1), (2, 0, -1), (3, 4, 2), (5, 2, 7))


def outcome(run: Any, args: list[Any]) -> list[Any] | str:
    """The results, or that the call was refused."""
    try:
        return [np.asarray(r) for r in run(*args)]
    except RunError as error:
        return f"refused: {error}"


def same(a: list[Any] | str, b: list[Any] | str) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str)
    pairs = zip(a, b, strict=True)
    return all(x.shape == y.shape and np.allclose(x, y, rtol=1e-4, atol=1e-5, equal_nan=True) for x, y in pairs)


def judge(seed: int) -> str | None:
    """What is wrong with a module; None where nothing is."""
    text = script(seed)
    try:
        module = parse(text)
        exe = legato.compile(module, precision="exact" if seed % 3 == 2 else None)  # exact: programs as written
    except CompileError as error:
        return f"{error}\n{text}"
    rng = np.random.default_rng(seed)
    names = [leaf.name for leaf in exe.arguments]
    for n, m, p in SIZES:
        args = [rng.standard_normal(n, np.float32), rng.standard_normal((n, m), np.float32),
                rng.integers(-2, 4, n, np.int32), np.array(p), np.array(p + n)][: len(names)]  # fmt: skip
        kept = [a.copy() for a in args]
        with np.errstate(all="ignore"):
            wanted = outcome(lambda *a: evaluate(module, [*a[:3], *([tuple(map(int, a[3:]))] if a[3:] else [])]), args)
        found = outcome(exe, args)
        if not same(found, wanted):
            return f"n={n}, m={m}, p={p}: {found}, wanted {wanted}\n{text}"
        if not all(np.array_equal(a, b) for a, b in zip(args, kept, strict=True)):
            return f"an input was changed\n{text}"
        donated = [name for name in names if rng.random() < 0.5]
        found = outcome(lambda *a, d=donated: exe.run(dict(zip(names, a, strict=True)), donate=d).values(), args)
        if not same(found, wanted):
            return f"n={n}, m={m}, p={p}, donated {donated}: {found}, wanted {wanted}\n{text}"
        pairs = zip(names, args, kept, strict=True)
        if not all(name in donated or np.array_equal(a, b) for name, a, b in pairs):
            return f"an input was changed, donated {donated}\n{text}"
    return None


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_random_modules(first: int) -> None:
    faults = [f for seed in range(first, min(first + BATCH, COUNT)) if (f := judge(seed)) is not None]
    assert not faults, faults[0]

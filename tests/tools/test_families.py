"""Passes and lowering take near-linear time in whatever a program has many of: steps are counted, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

import legato
from legato.transform.fuse import Fuse
from tests.heavy import share
from tests.lower.programs import lowered
from tools.families import FAMILIES

SMALL = {
    "functions in continuation-passing style": 2, "closures in a list": 5, "functions that call themselves": 5,
    "nodes in a graph": 4,  # up to 128 are one kernel, whose expression is written out node by node: 0.3 s at the most
}  # fmt: skip
KERNELS = {
    "inputs of a concatenation, of any extent": 200,
    "concatenations in one another": 16,
    "parts of a split": 200,
}


def steps(work: Callable[[], object]) -> int:
    """How many functions `work` calls."""
    count = 0

    def called(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", share((name for name in FAMILIES if name not in KERNELS), 3))
def test_twice_as_many_take_twice_the_steps(name: str) -> None:
    n = SMALL.get(name, 8)
    modules = [legato.parse(FAMILIES[name](n << k)) for k in range(3)]
    lowered(modules[0])  # imports, tables
    a, b, c = (steps(lambda m=module: lowered(m)) for module in modules)  # type: ignore[misc]
    assert c - b <= 2.8 * (b - a)  # from n to 2n, then from 2n to 4n: twice if linear, four times if quadratic


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_stay_short(name: str) -> None:
    """What would be one long kernel becomes several."""
    kernels = lowered(legato.parse(FAMILIES[name](KERNELS[name]))).kernels.values()
    assert max(str(kernel).count("select(") for kernel in kernels) <= Fuse().max_reads

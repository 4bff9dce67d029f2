"""Orders in memory: a transpose is a relabelling, whatever dimensions of extent 1 come and go."""

from __future__ import annotations

import pytest

from legato.arith.expr import Expr, Var, const
from legato.lower.layout import choose_order
from legato.te.tensor import Axis, placeholder
from legato.tir.expr import Load

N, C, H, W = (Var(name, lo=0) for name in "nchw")


def order(extents: list[int], shape: list[int], index: list[Expr], *, constant: bool = False) -> tuple[int, ...]:
    """The order chosen for a tensor of `extents` that reads one of `shape` at `index`."""
    source = placeholder("x", [const(d) for d in shape], "float32")
    axes = [Axis(v, const(e)) for v, e in zip((N, C, H, W), extents, strict=False)]
    return choose_order(axes, Load(source, tuple(index)), [source] if constant else [], False, 16).order


@pytest.mark.parametrize(
    ("extents", "shape", "index", "expected"),
    [
        ([1, 256, 512, 1], [1, 512, 256], [const(0), H, C + W], (0, 2, 3, 1)),
        ([2, 96, 56, 56], [2, 56, 56, 96], [N, H, W, C], (0, 2, 3, 1)),
        ([1, 96, 56, 56], [1, 56, 56, 96], [N, H, W, C], (0, 2, 3, 1)),
        ([64, 32], [64], [N], (0, 1)),  # broadcast along the second: as it is written
    ],
)
def test_elementwise_keeps_the_order_it_reads(
    extents: list[int], shape: list[int], index: list[Expr], expected: tuple[int, ...]
) -> None:
    assert order(extents, shape, index) == expected


def test_constants_decide_nothing() -> None:
    assert order([32, 64], [64, 32], [C, N], constant=True) == (0, 1)

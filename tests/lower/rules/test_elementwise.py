"""Loops over elements: what is joined or padded is written part by part; a short last axis, with the one before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Select
from legato.arith.substitute import nodes
from legato.base.target import Target
from legato.driver import CompileOptions, compile_module
from legato.infer.infer import infer
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ops import table
from legato.tir.stmt import For, LoopKind
from legato.tir.walk import expressions, statements
from tests.lower.programs import interpreted, lowered
from tests.machines import LEVELS
from tests.programs.settings import examples

Array = np.ndarray[Any, Any]
BEST = LEVELS[-1]


def joined(
    shapes: list[list[int | str]], axis: int, then: str = "%c", dtype: str = "float32", what: str = "concatenate"
) -> Module:
    """Tensors of these shapes side by side, the second one negative, and what becomes of them."""
    params = [f"%x{i}: Tensor[({', '.join(map(str, s))},), {dtype}]" for i, s in enumerate(shapes)]
    parts = [f"negative(%x{i})" if i == 1 else f"%x{i}" for i in range(len(shapes))]
    return infer(parse(f"""#[version = "0.0.5"]
def @main({", ".join(params)}) {{
  let %c = {what}(({", ".join(parts)},), axis={axis});
  {then}
}}""", ops=table()))  # fmt: skip


def data(shapes: list[list[int]], dtype: str = "float32") -> list[Array]:
    return [np.random.default_rng(i).integers(-99, 99, s).astype(dtype) for i, s in enumerate(shapes)]


def check(mod: Module, inputs: list[Array], want: Array, target: Target) -> None:
    exe: Any = compile_module(mod, CompileOptions(target)).executable
    assert all(np.array_equal(exe.with_threads(threads)(*inputs), want) for threads in (1, 3))


def turned_round(inputs: list[Array]) -> list[Array]:
    return [-x if i == 1 else x for i, x in enumerate(inputs)]


@examples(15, fuzz=False, heavy=40)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=3), st.lists(st.integers(1, 9), min_size=2, max_size=20),
       st.integers(0, 2), st.sampled_from(("float32", "int64", "int8")), st.booleans(),
       st.sampled_from(LEVELS))  # fmt: skip
def test_joined_along_any_axis(
    shape: list[int], parts: list[int], axis: int, dtype: str, is_symbolic: bool, target: Target
) -> None:
    axis = min(axis, len(shape) - 1)
    shapes = [[n if d == axis else s for d, s in enumerate(shape)] for n in parts]
    types: list[list[int | str]] = [
        ["n" if is_symbolic and axis and d == 0 else s for d, s in enumerate(x)] for x in shapes
    ]
    inputs = data(shapes, dtype)
    check(joined(types, axis, dtype=dtype), inputs, np.concatenate(turned_round(inputs), axis), target)


@examples(12, fuzz=False, heavy=30)
@given(st.integers(2, 5), st.integers(1, 5), st.integers(1, 70), st.integers(1, 3),
       st.sampled_from(("float32", "int64")), st.sampled_from(LEVELS))  # fmt: skip
def test_a_short_last_axis(count: int, rows: int, length: int, parts: int, dtype: str, target: Target) -> None:
    """Corners of boxes, real and imaginary parts: stacked behind, of parts that are joined before."""
    stack = joined([[rows, length]] * count, -1, what="stack", dtype=dtype)
    inputs = data([[rows, length]] * count, dtype)
    want = np.stack(turned_round(inputs), -1)
    check(stack, inputs, want, target)
    again = f"concatenate(({', '.join(['%c'] * parts)},), axis=1)"
    check(
        joined([[rows, length]] * count, -1, again, dtype, "stack"), inputs, np.concatenate([want] * parts, 1), target
    )


@examples(8, fuzz=False, heavy=20)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4),
       st.sampled_from(LEVELS))  # fmt: skip
def test_padded_along_all_axes(dims: list[tuple[int, int, int]], target: Target) -> None:
    shape, widths = [n for n, _, _ in dims], [(lo, hi) for _, lo, hi in dims]
    pad = f"nn.pad(%c, 7f, pad_width={[list(w) for w in widths]})"
    (x,) = data([shape])
    check(joined([[*shape]], 0, pad), [x], np.pad(x, widths, constant_values=7), target)


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_loop_programs(axis: int, backwards: bool) -> None:
    """No access out of bounds, nothing read that was not written, no order among the parts."""
    shapes = [[2, 18, 2], [2, 18, 2], [2, 18, 2]]
    inputs = data(shapes)
    (out,) = interpreted(lowered(joined([[*s] for s in shapes], axis), BEST), inputs, backwards=backwards)
    assert np.array_equal(out, np.concatenate(turned_round(inputs), axis))


def test_no_element_asks_which_part_it_is_of() -> None:
    mod = joined([[8, 40, 50], [8, 3, 50], [8, 1, 50]], 1)
    (kernel,) = lowered(mod, BEST).kernels.values()
    assert not any(isinstance(n, Select) for e in expressions(kernel.body) for n in nodes(e))


def test_vectors_run_along_two_axes_where_the_last_is_short() -> None:
    for count in (2, 3, 4):
        (kernel,) = lowered(joined([[8, 64]] * count, -1, what="stack"), BEST).kernels.values()
        loops = [s for s in statements(kernel.body) if isinstance(s, For) and s.kind is LoopKind.VECTOR]
        assert loops
        assert all(s.extent is loops[0].extent for s in loops)

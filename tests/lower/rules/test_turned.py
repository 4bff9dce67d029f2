"""Tensors that are read along another axis than they are written: turned round by blocks, they are what they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.base.target import Target
from legato.compare.exact import interpret
from legato.driver import CompileOptions, compile_module
from legato.infer.infer import infer
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.lower.access import extent_of
from legato.ops import table
from legato.tir.buffer import Buffer
from legato.tir.walk import bound_buffers
from tests.lower.programs import interpreted, lowered
from tests.machines import LEVELS
from tests.programs.settings import examples

Array = np.ndarray[Any, Any]
BEST = LEVELS[-1]
DTYPES = ("float32", "float64", "int64", "float16", "int8", "bool")


def program(
    shape: tuple[int, ...], order: tuple[int, ...], dtype: str, then: str = "%t", symbolic: bool = False
) -> Module:
    """A tensor transposed, and what becomes of it with another one, %y, that lies as the result does."""
    extents, others = [str(n) for n in shape], [str(shape[d]) for d in order]
    if symbolic:
        extents[0] = others[order.index(0)] = "n"
    return infer(parse(f"""#[version = "0.0.5"]
def @main(%x: Tensor[({", ".join(extents)},), {dtype}], %y: Tensor[({", ".join(others)},), {dtype}]) {{
  let %t = transpose(%x, axes={list(order)});
  {then}
}}""", ops=table()))  # fmt: skip


def data(shape: tuple[int, ...], dtype: str) -> Array:
    found = np.random.default_rng(0).integers(-99, 99, shape)
    return found % 2 == 0 if dtype == "bool" else found.astype(dtype)


def blocks(mod: Module, target: Target = BEST) -> list[Buffer]:
    """What is turned round in registers."""
    kernels = lowered(mod, target).kernels.values()
    found = [b for k in kernels for b in bound_buffers(k.body) if b.name.startswith("part")]
    return [b for b in found if b.shape[0] is b.shape[1]]


@examples(20, fuzz=False, heavy=60)
@given(st.lists(st.integers(1, 37), min_size=2, max_size=4), st.randoms(use_true_random=False),
       st.sampled_from(DTYPES), st.booleans(), st.sampled_from(LEVELS))  # fmt: skip
def test_transposed(shape: list[int], random: Any, dtype: str, symbolic: bool, target: Target) -> None:
    order = list(range(len(shape)))
    random.shuffle(order)
    mod = program(tuple(shape), tuple(order), dtype, symbolic=symbolic)
    x = data(tuple(shape), dtype)
    want = x.transpose(order)
    exe: Any = compile_module(mod, CompileOptions(target)).executable
    for threads in (1, 3):
        assert np.array_equal(exe.with_threads(threads)(x, np.zeros_like(want)), want)


@examples(8, fuzz=False, heavy=20)
@given(st.integers(1, 3), st.integers(4, 40), st.integers(1, 9), st.integers(4, 20),
       st.sampled_from(("float32", "float64", "int64")), st.sampled_from(LEVELS))  # fmt: skip
def test_what_lies_along_is_read_beside(n: int, c: int, h: int, w: int, dtype: str, target: Target) -> None:
    mod = program((n, h, w, c), (0, 3, 1, 2), dtype, "add(multiply(%t, %y), abs(%t))")
    x, y = data((n, h, w, c), dtype), data((n, c, h, w), dtype)
    t = x.transpose(0, 3, 1, 2)
    exe: Any = compile_module(mod, CompileOptions(target)).executable
    assert np.array_equal(exe(x, y), t * y + abs(t))


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("shape", [(2, 5, 7, 21), (1, 3, 5, 40), (3, 4, 4, 7), (1, 2, 2, 70)])
def test_loop_programs(shape: tuple[int, ...], backwards: bool) -> None:
    """No access out of bounds, nothing read that was not written, no order among the blocks."""
    mod = program(shape, (0, 3, 1, 2), "float32", "add(%t, %y)")
    x, y = data(shape, "float32"), data(tuple(shape[d] for d in (0, 3, 1, 2)), "float32")
    (out,) = interpreted(lowered(mod, BEST), [x, y], backwards=backwards)
    assert np.array_equal(out, x.transpose(0, 3, 1, 2) + y)


JOIN = "concatenate((transpose(%x0, axes=[0, 2, 1]), transpose(%x1, axes=[0, 2, 1])), axis=0)"
MANY = f"concatenate(({', '.join(f'transpose(%x{i}, axes=[0, 2, 1])' for i in range(20))}), axis=0)"
PAD = "nn.pad(transpose(%x0, axes=[0, 2, 1]), 1f, pad_width=[[2, 3], [0, 0], [0, 0]])"
ROWS = "take(transpose(concatenate((%x0, %x1), axis=0), axes=[0, 2, 1]), %i, axis=0)"


@pytest.mark.parametrize(("extents", "body"), [(["n", "m"], JOIN), ([1] * 20, MANY), (["n"], PAD), ([1, 3], ROWS)],
                         ids=["a symbolic join", "many parts", "padding", "rows of a join"])  # fmt: skip
def test_what_is_not_there_is_not_read(extents: list[int | str], body: str) -> None:
    """Whole blocks are read only of what every place of them reads."""
    params = ", ".join(f"%x{i}: Tensor[({n}, 24, 17), float32]" for i, n in enumerate(extents))
    params += ", %i: Tensor[(4,), int64]"
    mod = infer(parse(f'#[version = "0.0.5"]\ndef @main({params}) {{ {body} }}', ops=table()))
    xs = [data((n if isinstance(n, int) else i + 1, 24, 17), "float32") + i for i, n in enumerate(extents)]
    xs.append(np.array([0, 3, 1, 2]))
    (out,) = interpreted(lowered(mod, BEST), xs)
    assert np.array_equal(out, interpret(mod, xs, float64=False)[0])


def test_blocks_are_as_large_as_vectors_and_axes_are() -> None:
    def sizes(shape: tuple[int, ...], target: Target = BEST) -> set[int | None]:
        return {extent_of(b.shape[0]) for b in blocks(program(shape, (0, 3, 1, 2), "float32"), target)}

    lanes = min(16, BEST.vector_bytes // 4)
    assert sizes((1, 8, 8, 32)) == {lanes}
    assert sizes((1, 7, 7, 32)) == {lanes}  # lines lie together: 49 places
    assert sizes((1, 8, 8, 20)) == {lanes, 4}
    assert sizes((1, 8, 8, 6)) == {4}
    assert sizes((1, 1, 6, 32)) == {4}
    assert not sizes((1, 8, 8, 3))
    assert not sizes((1, 1, 3, 32))
    assert sizes((1, 8, 8, 32), target=LEVELS[0]) == {4}
    assert not blocks(program((1, 8, 8, 32), (0, 2, 1, 3), "float32"))  # both run along the last axis

"""Products with a flattened image: the sum is over the image's dimensions, in the order of its memory, and the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legato
import legato.ops  # which `Builder.op` finds by name
from legato.arith.expr import Expr, const, floordiv, floormod, fresh
from legato.base import dtype as dt
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir import expr as ir
from legato.ir.module import Module
from legato.ir.types import TensorType, dims
from legato.lower.algorithms.unflatten import unflatten
from legato.te.lower import to_tir
from legato.te.tensor import Stage, Tensor, placeholder, reduce
from legato.tir import interp


def product(batch: int | None, image: tuple[int, ...], units: int, *, of_input: bool = False) -> Module:
    """Of a pooled image, or of the input itself (None: a symbolic batch), flattened, with constant weights; relu."""
    b, rng = Builder(), np.random.default_rng(0)
    x = ir.Var("x", ty=TensorType(dims([fresh("n") if batch is None else batch, *image]), dt.float32))
    data: ir.Expr = x
    if not of_input:
        rank = len(image) - 1
        mix = rng.standard_normal((image[0], image[0], *(1,) * rank)).astype(np.float32)
        data = b.op(f"nn.conv{rank}d")(x, b.constant(mix))
    weights = rng.standard_normal((units, int(np.prod(image)))).astype(np.float32)
    flat = b.op("nn.batch_flatten")(data)
    return Module.from_expr(b.function([x], b.op("nn.relu")(b.op("nn.dense")(flat, b.constant(weights)))))


images = st.lists(st.integers(1, 9), min_size=2, max_size=4).map(tuple)


@settings(max_examples=30, deadline=None)
@given(st.none() | st.integers(1, 3), images, st.integers(1, 40), st.booleans())
def test_products_of_images_are_as_interpreted(
    batch: int | None, image: tuple[int, ...], units: int, of_input: bool
) -> None:
    mod = product(batch, image, units, of_input=of_input)
    x = np.random.default_rng(1).standard_normal((batch or 2, *image)).astype(np.float32)
    expected = evaluate(mod, [x], float64=True)
    np.testing.assert_allclose(legato.compile(mod)(x), expected, atol=1e-5 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("batch", [1, 5, None])
def test_nothing_is_copied_or_divided(batch: int | None) -> None:
    exe = legato.compile(product(batch, (24, 5, 7), 32), keep=("lower",))
    assert exe.stats["kernels"] == 2
    text = exe.module_after("lower")
    assert "// 7" not in text[text.index("kernel @relu") :]


def test_an_input_is_flattened_as_it_lies() -> None:
    """Its memory is flat already: dims apart would only make loops shorter."""
    exe = legato.compile(product(2, (24, 5, 7), 32, of_input=True), keep=("fuse",))
    assert exe.module_after("fuse").count("Primitive=1") == 2


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 3))
def test_the_sum_is_the_same(image: list[int], rows: int) -> None:
    x, flat, y = sums(image, rows)
    stage = y.stage
    assert isinstance(stage, Stage)
    assert stage.reduction is not None
    body, reduction = unflatten(stage.body, stage.axes, stage.reduction)
    assert [int(str(a.extent)) for a in reduction.axes] in ([n for n in image if n > 1], [flat])
    again = Tensor("z", y.shape, y.dtype, Stage(stage.axes, body, reduction))
    data = np.random.default_rng(2).standard_normal([rows, *image])
    found = [run(t, x, data) for t in (y, again)]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def sums(image: list[int], rows: int) -> tuple[Tensor, int, Tensor]:
    """Data, how many elements a row of it has, and the sum of each row's squares, by number of element."""
    x, flat = placeholder("x", (rows, *image), "float64"), int(np.prod(image))

    def element(n: Expr, k: Expr) -> Expr:
        place: list[Expr] = []
        step = flat
        for size in image:
            step //= size
            place.append(floormod(floordiv(k, const(step)), const(size)))
        return x[(n, *place)] * x[(n, *place)]

    return x, flat, reduce("sum", (rows,), (flat,), element, "y")


def run(y: Tensor, x: Tensor, data: np.ndarray) -> np.ndarray:
    out = np.zeros([int(str(d)) for d in y.shape])
    assert interp.run(to_tir([y], [x], "f"), [data, out]) == 0
    return out

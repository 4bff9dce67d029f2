"""Products with a flattened image: the sum is over the image's dimensions, in the order of its memory, and the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
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
from legato.lower.conditions import simplified
from legato.runtime.executable import Executable
from legato.te.lower import to_tir
from legato.te.tensor import Reduction, Stage, Tensor, placeholder, reduce
from legato.tir import interp
from legato.tir.buffer import Layout
from tests.programs.settings import examples


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


@examples(10, fuzz=False, heavy=30)
@given(st.none() | st.integers(1, 3), images, st.integers(1, 40), st.booleans())
def test_products_of_images_are_as_interpreted(
    batch: int | None, image: tuple[int, ...], units: int, of_input: bool
) -> None:
    mod = product(batch, image, units, of_input=of_input)
    x = np.random.default_rng(1).standard_normal((batch or 2, *image)).astype(np.float32)
    expected = evaluate(mod, [x], float64=True)
    np.testing.assert_allclose(legato.compile(mod)(x), expected, atol=1e-5 * max(1, np.abs(expected).max()))


def checked(mod: Module, batch: int, keep: str) -> Executable:
    """A program over images of 24 × 5 × 7, compiled, which computes what it means."""
    exe = legato.compile(mod, keep=(keep,))
    x = np.random.default_rng(1).standard_normal((batch, 24, 5, 7)).astype(np.float32)
    expected = evaluate(mod, [x], float64=True)
    np.testing.assert_allclose(exe(x), expected, atol=1e-5 * np.abs(expected).max())
    return exe


@pytest.mark.parametrize("batch", [1, 5, None])
def test_nothing_is_copied_or_divided(batch: int | None) -> None:
    exe = checked(product(batch, (24, 5, 7), 32), batch or 3, "lower")
    assert exe.stats["kernels"] == 2
    text = exe.module_after("lower")
    assert "// 7" not in text[text.index("kernel @dense_0") :]


def test_an_input_is_flattened_as_it_lies() -> None:
    """Its memory is flat already: dims apart would only make loops shorter."""
    exe = checked(product(2, (24, 5, 7), 32, of_input=True), 2, "fuse")
    assert exe.module_after("fuse").count("Primitive=1") == 2


def test_what_computes_an_image_is_not_repeated() -> None:
    """It would run once per unit of the product: the product reads what was computed once."""
    b, rng = Builder(), np.random.default_rng(0)
    x = ir.Var("x", ty=TensorType(dims([3, 24, 5, 7]), dt.float32))
    weights = rng.standard_normal((64, 24 * 5 * 7)).astype(np.float32)
    body = b.op("nn.dense")(b.op("nn.batch_flatten")(b.op("exp")(x)), b.constant(weights))
    exe = checked(Module.from_expr(b.function([x], body)), 3, "lower")
    assert exe.stats["kernels"] == 2
    product = exe.module_after("lower").split("kernel @")[2]
    assert "exp" not in product


orders = st.lists(st.integers(1, 5), min_size=1, max_size=4).flatmap(
    lambda image: st.tuples(st.just(image), st.permutations(range(1, len(image) + 1)))
)


@given(orders, st.integers(1, 3))
def test_the_sum_is_the_same(found: tuple[list[int], list[int]], rows: int) -> None:
    image, order = found
    x, y = sums(image, rows, digits(image))
    x.layout = Layout((0, *order))
    stage, body, reduction = unflattened(y)
    large = [d for d in order if image[d - 1] > 1]
    lies_flat = large == sorted(large)
    extents = [int(str(a.extent)) for a in reduction.axes]
    assert extents == ([int(np.prod(image))] if lies_flat else [n for n in image if n > 1])
    again = Tensor("z", y.shape, y.dtype, Stage(stage.axes, body, reduction))
    data = np.random.default_rng(2).standard_normal([rows, *image])
    results = [run(t, x, data) for t in (y, again)]
    np.testing.assert_allclose(results[1], results[0], rtol=1e-12)


def test_maxima_are_the_same() -> None:
    x, y = sums([4, 3], 2, digits([4, 3]), "max")
    x.layout = Layout((0, 2, 1))
    stage, body, reduction = unflattened(y)
    assert [int(str(a.extent)) for a in reduction.axes] == [4, 3]
    again = Tensor("z", y.shape, y.dtype, Stage(stage.axes, body, reduction))
    data = np.random.default_rng(2).standard_normal([2, 4, 3])
    np.testing.assert_array_equal(run(again, x, data), run(y, x, data))


@pytest.mark.parametrize("extent", [12, fresh("k")])
def test_what_is_not_a_flattened_tensor_is_left(extent: Expr | int) -> None:
    """Subscripts by numbers of which one does not divide the next; and an extent that nobody knows."""
    place = (lambda k: [floordiv(k, const(5)), floormod(k, const(5))]) if extent == 12 else digits([4, 3])
    x, y = sums([4, 5], 2, place, extent=extent)
    x.layout = Layout((0, 2, 1))
    stage, _, reduction = unflattened(y)
    assert reduction is stage.reduction


def digits(image: list[int]) -> Callable[[Expr], list[Expr]]:
    """Where in `image` an element is, by its number."""

    def place(k: Expr) -> list[Expr]:
        steps = [int(np.prod(image[n + 1 :])) for n in range(len(image))]
        return [floormod(floordiv(k, const(step)), const(size)) for step, size in zip(steps, image, strict=True)]

    return place


def sums(
    image: list[int], rows: int, place: Callable[[Expr], list[Expr]], combiner: str = "sum", extent: Expr | int = 0
) -> tuple[Tensor, Tensor]:
    """Data, and the sum of each row's squares, by number of element, up to `extent` (0: all)."""
    x = placeholder("x", (rows, *image), "float64")
    over = extent or int(np.prod(image))
    return x, reduce(combiner, (rows,), (over,), lambda n, k: x[(n, *place(k))] * x[(n, *place(k))], "y")


def unflattened(y: Tensor) -> tuple[Stage, Expr, Reduction]:
    """How `y` is computed, and its body and reduction in the order of memory."""
    stage = y.stage
    assert isinstance(stage, Stage)
    assert stage.reduction is not None
    body = simplified(stage.body, (*stage.axes, *stage.reduction.axes))
    return stage, *unflatten(body, stage.axes, stage.reduction)


def run(y: Tensor, x: Tensor, data: np.ndarray) -> np.ndarray:
    out = np.zeros([int(str(d)) for d in y.shape])
    assert interp.run(to_tir([y], [x], "f"), [data, out]) == 0
    return out

"""Rounding is part of the meaning: passes that do not say that they round keep every bit of special values, too, and
those that do round change nothing but weights and biases."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.base.node import post_order
from legato.base.precision import Precision
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.expr import Call, Constant, Expr, Var
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.ops.binary import multiply
from legato.pipelines import DEFAULT, for_precision
from legato.runtime.floats import float_environment
from legato.transform import table
from legato.transform.fold_constant import FoldConstant
from legato.transform.fold_scale import FoldScale
from legato.transform.pass_ import run
from tests.graphs import leaves
from tests.programs.settings import examples

Array = np.ndarray[Any, Any]
HEAD = '#[version = "0.0.5"]\n'
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    0.5,
    3.3,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    5e-39,
    1e38,
    -3e38,
    12582912.0,
    -12582912.0,
]
DTYPES = ["float32", "float32", "float16", "bfloat16", "float64"]
EXACT = sorted(name for name, p in table().items() if not p.rounds and p.keeps_meaning)


def special(random: Random, shape: Sequence[int], dtype: str) -> Array:
    """Ordinary numbers, or those at which sums and products misbehave, if anywhere."""
    odd = random.choice([0.0, 0.0, 0.2, 1.0])
    many = [random.choice(SPECIAL) if random.random() < odd else random.gauss(0, 1) for _ in range(int(np.prod(shape)))]
    with np.errstate(over="ignore"):
        return np.array(many).reshape(shape).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@dataclass(eq=False)
class Maker:
    """A program being drawn, over images (2, 4, 3, 3) and what becomes of them."""

    random: Random
    b: Builder = field(default_factory=Builder)
    params: list[Var] = field(default_factory=list)
    pool: list[Expr] = field(default_factory=list)

    def step(self) -> Expr:
        """A tensor made of one or two from the pool."""
        b, choose = self.b, self.random.choice
        x = choose(self.pool[-2:])
        if len(self.pool) > 3 and self.random.random() < 0.5:
            x = self.pool[-1]
        ty = x.ty
        assert isinstance(ty, TensorType)
        shape, dtype = ty.static_shape(), ty.dtype.name

        def of(*size: int) -> Constant:
            return b.constant(special(self.random, size, dtype))

        channels = shape[1] if len(shape) > 1 else 1
        along = (channels, *(1,) * (len(shape) - 2))
        steps = [
            lambda: b.add(x, of(*choose([(), along]))),
            lambda: b.multiply(x, of(*choose([(), along]))),
            lambda: b.subtract(x, of(*choose([(), along]))),
            lambda: b.multiply(x, b.constant(np.asarray(choose([1, -1]), ty.dtype.numpy))),
            lambda: b.add(x, choose([p for p in self.pool if p.ty == ty])),
            lambda: b.cast(x, dtype=choose(DTYPES)),
            lambda: b.clip(x, a_min=choose([0.0, -0.0]), a_max=1.0),
            lambda: b.maximum(x, of()),
            lambda: b.get(b.nn.dropout(x), 0),
            lambda: b.reshape(x, newshape=(shape[0], -1)) if len(shape) > 1 else b.copy(x),
            lambda: b.transpose(b.transpose(x)),
            lambda: b.sum(b.transpose(x), axis=0, keepdims=True) if len(shape) > 2 else b.negative(x),
        ]
        if len(shape) > 1:
            steps += [
                lambda: b.nn.bias_add(x, of(channels), axis=1),
                lambda: b.get(b.nn.batch_norm(x, *(of(channels) for _ in range(4)), epsilon=choose([0.0, 1e-5])), 0),
            ]
        if len(shape) == 2:
            steps.append(lambda: b.nn.dense(x, self.weight((3, channels), dtype), out_dtype="float32"))
        elif len(shape) == 4:
            steps.append(lambda: b.nn.conv2d(x, self.weight((4, channels, 1, 1), dtype), out_dtype="float32"))
        if len(shape) in (2, 4):
            contraction = steps.pop()
            is_scaled = isinstance(x, Call) and getattr(x.op, "name", "") in (
                "nn.dense",
                "nn.conv2d",
                "add",
                "multiply",
            )
            steps = steps[:3] if is_scaled and self.random.random() < 0.7 else [*steps, *[contraction] * 4]
        return choose(steps)()

    def weight(self, shape: Sequence[int], dtype: str) -> Constant:
        return self.b.constant(special(self.random, shape, self.random.choice([dtype, dtype, "float16"])))


def make(seed: int, steps: int) -> tuple[Module, list[Array]]:
    """The program of `seed`, and what to call it with."""
    maker = Maker(Random(seed))
    b, random = maker.b, maker.random
    args = []
    for n, shape in enumerate([(2, 4, 3, 3), (4,), (2, 4)]):
        dtype = random.choice(DTYPES)
        args.append(special(random, shape, dtype))
        maker.params.append(b.var(f"x{n}", shape, dtype))
    maker.pool += maker.params
    for _ in range(steps):
        maker.pool.append(maker.step())
    made = maker.pool[3:]
    read = {id(node) for e in made for node in post_order([e]) if node is not e}
    return Module.from_expr(b.function(maker.params, b.tuple_([e for e in made if id(e) not in read]))), args


def same(a: Any, b: Any) -> bool:
    """Equal to the sign of every zero; NaNs are alike."""
    pairs = list(zip(leaves(a), leaves(b), strict=True))
    return all(
        x.dtype == y.dtype
        and np.array_equal(x, y, equal_nan=x.dtype.kind not in "biu")
        and np.array_equal(np.signbit(x[x == 0]), np.signbit(y[y == 0]))
        for x, y in pairs
    )


@pytest.mark.parametrize("name", EXACT)
@examples(12)
@given(st.integers(0, 1 << 32), st.integers(1, 10))
def test_every_bit_stays(name: str, seed: int, steps: int) -> None:
    module, args = make(seed, steps)
    if name == "fuse":
        module = run(module, for_precision(DEFAULT[:-1], Precision.EXACT))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = table()[name]()(module)
    assert same(evaluate(new, args), evaluate(module, args))


@examples(25)
@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_every_bit_stays_through_the_exact_pipeline(seed: int, steps: int) -> None:
    module, args = make(seed, steps)
    assert same(evaluate(run(module, for_precision(DEFAULT, Precision.EXACT)), args), evaluate(module, args))


@examples(10)
@given(st.integers(0, 1 << 32), st.integers(1, 10))
def test_compiled_exactly_is_interpreted(seed: int, steps: int) -> None:
    """Infinities and NaNs where the interpreter has them, whatever the dtypes; other numbers up to rounding."""
    module, args = make(seed, steps)
    found = leaves(legato.compile(module, precision="exact")(*args))
    native, wide = (leaves(evaluate(module, args, float64=is_wide)) for is_wide in (False, True))
    for got, want, exact in zip(found, native, wide, strict=True):
        assert got.dtype == want.dtype
        rounding = {2: 1e-2, 4: 1e-4, 8: 1e-9}[got.dtype.itemsize]
        x, y = got.astype(np.float64), want.astype(np.float64)
        # What overflows may do so in one order of a sum, and not in another.
        alike = (np.isnan(y) == np.isnan(exact)) & (np.isinf(y) == np.isinf(exact))
        alike &= ~np.isfinite(exact) | (np.abs(exact) < 1e30)
        np.testing.assert_array_equal(np.isfinite(x[alike]), np.isfinite(y[alike]))
        np.testing.assert_array_equal(np.isnan(x[alike]), np.isnan(y[alike]))
        np.testing.assert_allclose(x[alike], y[alike], rtol=rounding, atol=1e-3)


@examples(25)
@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_weights_and_biases_stay_finite_and_normal(seed: int, steps: int) -> None:
    """What FoldScale makes of constants are numbers like any other, and nothing else is touched."""
    module, _ = make(seed, steps)
    canonical = run(module, [table()["fold-constant"](), table()["canonicalize"]()])
    known = {c.data.tobytes() for c in nodes(canonical) if isinstance(c, Constant)}
    for c in nodes(FoldScale()(canonical)):
        if isinstance(c, Constant) and c.data.tobytes() not in known and np.negative(c.data).tobytes() not in known:
            wide = np.abs(c.data.astype(np.float64))
            assert np.isfinite(wide).all()
            assert ((wide == 0) | (wide >= float(ml_dtypes.finfo(c.data.dtype).smallest_normal))).all()


def nodes(module: Module) -> list[Expr]:
    return list(post_order(f.body for _, f in module.graph_functions()))


SUMS = [  # what they are of, what is added
    ("add(add(%x, 12582912f), -12582912f)", [0.3, 1.6, -2.4, 100.49]),
    ("add(add(%x, 3e38f), 3e38f)", [-3e38] * 4),
    ("subtract(add(nn.relu(%x), 12582912f), 12582912f)", [0.3, 1.6, 2.4, 100.49]),
    ("multiply(multiply(%x, 1e30f), 1e30f)", [1e-30] * 4),
    ("multiply(multiply(%x, 1e-30f), 1e30f)", [1e-20] * 4),
]
CONTRACTIONS = [  # of rows of two numbers
    ("multiply(nn.dense(%x, full(1e30f, shape=[1, 2])), 1e10f)", [[1e-20, 1e-20]]),
    ("multiply(nn.dense(%x, full(1e-30f, shape=[1, 2])), 1e-10f)", [[1e30, 1e30]]),
    ("multiply(nn.dense(%x, concatenate((full(2f, shape=[1, 1]), full(-1f, shape=[1, 1])), axis=1)), divide(1f, 0f))",
     [[1.0, 1.0]]),
    ("add(add(nn.dense(%x, full(0.5f, shape=[1, 2])), 12582912f), -12582912f)", [[0.3, 1.6], [-2.4, 100.49]]),
    ("add(add(nn.dense(%x, full(0.5f, shape=[1, 2])), 12582912f), -12582900f)", [[0.3, 1.6], [-2.4, 100.49]]),
    ("multiply(add(nn.dense(%x, full(0.5f, shape=[1, 2])), 12582912f), 0.1f)", [[0.3, 1.6], [-2.4, 100.49]]),
    ("add(add(nn.dense(%x, full(1f, shape=[1, 2])), 3e38f), 3e38f)", [[-3e38, 0.0]]),
    ("nn.batch_norm(nn.dense(%x, full(1f, shape=[1, 2])), full(1f, shape=[1]), full(0f, shape=[1]), "
     "full(0f, shape=[1]), full(0f, shape=[1]), epsilon=0.0).0", [[1.0, 0.0], [-1.0, 0.0]]),
]  # fmt: skip


@pytest.mark.parametrize("precision", [None, "exact"])
@pytest.mark.parametrize(("body", "x"), [*SUMS, *CONTRACTIONS], ids=lambda v: v if isinstance(v, str) else "")
def test_constants_are_not_added_before_the_program_adds_them(body: str, x: Any, precision: str | None) -> None:
    data = np.array(x, np.float32)
    text = f"{HEAD}def @main(%x: Tensor[{data.shape}, float32]) {{ {body} }}"
    module = legato.parse(text)
    np.testing.assert_array_equal(legato.compile(module, precision=precision)(data), evaluate(module, [data]))


def test_the_default_moves_scales_into_weights_and_exact_does_not() -> None:
    body = "multiply(nn.dense(%x, full(0.3f, shape=[1, 2])), 1.7f)"
    module = legato.parse(f"{HEAD}def @main(%x: Tensor[(1, 2), float32]) {{ {body} }}")

    def products(precision: Precision) -> int:
        done = run(module, for_precision(DEFAULT, precision))
        return sum(isinstance(e, Call) and getattr(e.op, "name", "") == "multiply" for e in nodes(done))

    assert products(Precision.DEFAULT) == 0
    assert products(Precision.EXACT) == 1


@pytest.mark.parametrize("dtype", ["f", "f16", "bf16", "f64"])
def test_scalars_of_every_float_are_folded(dtype: str) -> None:
    name = {"f": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}[dtype]
    body = f'add(add(nn.dense(%x, ones(shape=[2, 2], dtype="{name}")), 1{dtype}), 2{dtype})'
    module = legato.parse(f"{HEAD}def @main(%x: Tensor[(2, 2), {name}]) {{ {body} }}")
    new = run(module, [FoldConstant(), FoldScale()])
    assert any(isinstance(e, Constant) and e.data.shape == () and float(e.data) == 3.0 for e in nodes(new))


def test_zeros_of_different_sign_are_not_one() -> None:
    body = "(clip(%x, a_min=0.0, a_max=1.0), clip(%x, a_min=-0.0, a_max=1.0))"
    module = legato.parse(f"{HEAD}def @main(%x: Tensor[(2,), float32]) {{ {body} }}")
    x = np.array([-1.0, 2.0], np.float32)
    assert same(legato.compile(module)(x), evaluate(module, [x]))


SMALL = f"""{HEAD}def @main(%x: Tensor[(4,), float32]) {{
  multiply(%x, multiply(full(5e-39f, shape=[4]), full(0.5f, shape=[4])))
}}"""


@pytest.mark.parametrize("flush", [False, True], ids=["kept", "flushed"])
@pytest.mark.parametrize("precision", [None, "exact"])
def test_constants_are_folded_as_kernels_compute(precision: str | None, flush: bool) -> None:
    """Whatever the caller's thread does to subnormal numbers."""
    x = np.full(4, 2.0**100, np.float32)
    with float_environment(flush=flush):
        module = legato.parse(SMALL)
        text = str(module)
        interpreted = evaluate(module, [x])
        compiled = legato.compile(module, precision=precision)(x)
    assert text == str(legato.parse(SMALL))
    np.testing.assert_array_equal(interpreted, np.full(4, np.float32(5e-39) * np.float32(0.5) * x[0]))
    np.testing.assert_array_equal(compiled, interpreted if precision == "exact" else np.zeros(4, np.float32))


@pytest.mark.parametrize("exponent", [2.0, 0.5, -1.0, 3.0, 0.0])
def test_powers_do_not_depend_on_how_the_exponent_is_written(exponent: float) -> None:
    b = Builder()
    x, one = b.var("x", (200,)), b.constant(np.float32(exponent))
    many = b.constant(np.full(200, exponent, np.float32))
    module = Module.from_expr(b.function([x], b.tuple_([b.power(x, one), b.power(x, many)])))
    data = np.append(np.random.default_rng(0).standard_normal(197), [0.0, -0.0, -np.inf]).astype(np.float32)
    first, second = evaluate(module, [data])
    assert same(first, second)


def test_exact_products_of_bfloat16_keep_subnormal_numbers() -> None:
    b = Builder()
    x = b.var("x", (2, 4), "bfloat16")
    weight = b.constant(np.array([[1e-40, 0, 0, 1.0]] * 3, ml_dtypes.bfloat16))
    module = Module.from_expr(b.function([x], b.nn.dense(x, weight, out_dtype="float32")))
    data = np.array([[2.0, 1, 1, 0], [np.inf, 0, 0, 0]], ml_dtypes.bfloat16)
    found = legato.compile(module, precision="exact")(data)
    np.testing.assert_array_equal(found, evaluate(module, [data]))
    assert (found[0] > 0).all()
    assert np.isinf(found[1]).all()


@pytest.mark.parametrize("flush", [False, True], ids=["kept", "flushed"])
@pytest.mark.parametrize("precision", [None, "exact"])
def test_operators_without_kernels_compute_as_kernels_do(precision: str | None, flush: bool) -> None:
    product = replace(multiply, name="mine.multiply", compute=None)
    text = f"{HEAD}def @main(%x: Tensor[(4,), float32], %y: Tensor[(4,), float32]) {{ mine.multiply(%x, %y) }}"
    small, large = np.full(4, 5e-39, np.float32), np.full(4, 2.0**100, np.float32)
    with float_environment(flush=flush):
        found = legato.compile(legato.parse(text, ops=[product]), ops=[product], precision=precision)(small, large)
    np.testing.assert_array_equal(found, small * large if precision == "exact" else np.zeros(4, np.float32))

"""Scales that move through operators into contractions, forwards and backwards: the meaning stays, up to rounding."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.base.node import post_order
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Call, Expr, Var
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.ir.verify import verify
from legato.ops.binary import divide, multiply
from legato.transform.fold_scale_backward import FoldScaleBackward
from legato.transform.fold_scale_forward import FoldScaleForward
from tests.programs.settings import examples


class Chain:
    """Images and what becomes of them, one operator behind the other; now and then an earlier one is used again."""

    def __init__(self, seed: int, computed: bool) -> None:
        self.random, self.rng, self.b = Random(seed), np.random.default_rng(seed), Builder()
        self.params: list[Var] = []
        self.computed, self.state = computed, self.random.getstate()
        self.steps: list[Expr] = [self.parameter(self.random.choice([(2, 4, 5, 6), (2, 5, 6, 4)]))]
        for _ in range(self.random.randint(2, 9)):
            self.steps.append(self.step(self.steps[-1]))
        if self.random.random() < 0.2:
            self.steps.append(self.b.tuple_([self.steps[-1], self.random.choice(self.steps)]))

    def parameter(self, shape: tuple[int, ...]) -> Var:
        self.params.append(self.b.var(f"x{len(self.params)}", shape))
        return self.params[-1]

    def leaf(self, *shape: int) -> Expr:
        if self.computed and self.random.random() < 0.5:
            return self.parameter(shape)
        data = self.rng.uniform(0.5, 2, shape) * self.random.choice([1, 1, -1])
        return self.b.constant(data.astype(np.float32))

    def step(self, x: Expr) -> Expr:
        """An operator on images, rows or stacks of them."""
        assert isinstance(x.ty, TensorType)
        shape = x.ty.static_shape()
        axis = self.random.randrange(len(shape))
        along = [n if d == axis else 1 for d, n in enumerate(shape)]
        b, random = self.b, self.random
        steps: list[Callable[[], Expr]] = [
            lambda: b.multiply(x, self.leaf(*along)),
            lambda: b.multiply(self.leaf(), x),
            lambda: b.divide(x, self.leaf(*along)),
            lambda: b.add(x, self.leaf(*along)),
            lambda: b.subtract(x, self.leaf(*along[axis:])),
            lambda: b.nn.relu(x),
            lambda: b.nn.leaky_relu(x, alpha=0.5),
            lambda: b.negative(x),
            lambda: b.transpose(x, axes=tuple(random.sample(range(len(shape)), len(shape)))),
            lambda: b.reshape(x, newshape=random.choice([(*shape[:-2], -1), (1, *shape), (*shape[:-1], 1, -1)])),
            lambda: b.nn.pad(x, 0.0, pad_width=tuple((n % 2, 1) if n == axis else (0, 0) for n in range(len(shape)))),
            lambda: b.nn.bias_add(x, self.leaf(shape[axis]), axis=axis),
            lambda: self.contraction(x, shape),
            lambda: self.contraction(x, shape),
            lambda: b.add(self.contraction(x, shape), self.contraction(x, shape, again=True)),
        ]
        if len(shape) == 4 and min(shape) > 1:
            layout = random.choice(["NCHW", "NHWC"])
            for name in ("max", "avg"):
                steps.append(lambda name=name: b.op(f"nn.{name}_pool2d")(x, pool_size=(2, 2), layout=layout))
                steps.append(lambda name=name: b.op(f"nn.adaptive_{name}_pool2d")(x, output_size=(1, 2), layout=layout))
        return random.choice(steps)()

    def contraction(self, x: Expr, shape: tuple[int, ...], again: bool = False) -> Expr:
        """One of the same form as the last one, if `again`."""
        state = self.random.getstate()
        if again:
            self.random.setstate(self.state)
        self.state = state
        b, random, last = self.b, self.random, shape[-1]
        if len(shape) == 4:
            layout, groups = random.choice(["NCHW", "NHWC"]), random.choice([1, 2])
            c = shape[layout.index("C")]
            groups = groups if c % groups == 0 else 1
            if random.random() < 0.5:
                kernel = self.leaf(*((4, c // groups, 1, 1) if layout == "NCHW" else (1, 1, c // groups, 4)))
                order = "OIHW" if layout == "NCHW" else "HWIO"
                return b.nn.conv2d(x, kernel, groups=groups, data_layout=layout, kernel_layout=order)
            kernel = self.leaf(c, 4 // groups, 1, 2)
            return b.nn.conv2d_transpose(x, kernel, groups=groups, data_layout=layout)
        if len(shape) == 3 and random.random() < 0.5:
            return b.nn.batch_matmul(x, self.leaf(shape[0], 4, last))
        if len(shape) == 2 and random.random() < 0.5:
            return b.nn.matmul(x, self.leaf(shape[0], 3), transpose_a=True)
        return b.nn.dense(x, self.leaf(4, last)) if random.random() < 0.5 else b.matmul(x, self.leaf(last, 3))

    def module(self) -> Module:
        return Module.from_expr(self.b.function(self.params, self.steps[-1]))


def close(got: Any, wanted: Any) -> None:
    for g, w in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, wanted)), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4 * float(np.abs(w).max(initial=1)))


def scales(mod: Module) -> int:
    return sum(isinstance(n, Call) and n.op in (multiply, divide) for n in post_order([mod["main"]]))


@pytest.mark.parametrize("kind", [FoldScaleForward, FoldScaleBackward])
@pytest.mark.parametrize("computed", [False, True])
@examples(120)
@given(st.integers(0, 1 << 32))
def test_the_meaning_stays(kind: Any, computed: bool, seed: int) -> None:
    chain = Chain(seed, computed)
    old, p = chain.module(), kind(computed=computed)
    new = p(old)
    verify(new)
    assert infer(new) is new
    assert p(new) is new
    if not computed:
        assert scales(new) <= scales(old)
    args = [np.abs(chain.rng.normal(size=v.checked_type.static_shape())).astype("float32") + 0.5 for v in chain.params]
    close(evaluate(new, args), evaluate(old, args))


@pytest.mark.parametrize("kind", [FoldScaleForward, FoldScaleBackward])
def test_scales_do_move(kind: Any) -> None:
    """Of random chains with scales a good part loses some."""
    pairs = [(scales(m), scales(kind()(m))) for m in (Chain(seed, False).module() for seed in range(200))]
    assert sum(after < before for before, after in pairs) > 10


@pytest.mark.parametrize("kind", [FoldScaleForward, FoldScaleBackward])
def test_constants_that_round_stay(kind: Any) -> None:
    """(x·2 + 1.5·2²³) rounds; an overflowing product is not formed."""
    b = Builder()
    x, large = b.var("x", (2, 2)), b.constant(np.float32(12582912))
    eye, huge = b.constant(np.eye(2, dtype=np.float32)), b.constant(np.full((2, 2), 1e38, np.float32))
    for inner in (b.add(b.multiply(x, 2.0), large), b.add(b.nn.dense(x, eye), large)):
        mod = Module.from_expr(b.function([x], b.multiply(b.nn.dense(inner, eye), b.negative(inner))))
        assert kind()(mod) is mod
    for body in (b.multiply(b.nn.dense(x, huge), 10.0), b.nn.dense(b.multiply(x, 10.0), huge)):
        mod = Module.from_expr(b.function([x], body))
        assert kind()(mod) is mod


def test_long_chains_of_scales() -> None:
    b = Builder()
    x = b.var("x", (2, 2))
    e: Expr = x
    for n in range(1000):
        e = b.multiply(e, 2.0 if n % 2 else 0.5)
    mod = Module.from_expr(b.function([x], b.nn.dense(e, b.constant(np.ones((2, 2), np.float32)))))
    assert scales(FoldScaleForward()(mod)) == 0


def test_channels_in_blocks_stay() -> None:
    """Blocks of channels have dims of their own, in data and weight of different sizes."""
    b = Builder()
    x = b.var("x", (1, 2, 4, 4, 4))
    scale, weight = (b.constant(np.full(s, 2, np.float32)) for s in ((2, 1, 1, 1), (1, 4, 1, 1, 2, 4)))
    conv = {"data_layout": "NCHW4c", "kernel_layout": "OIHW2i4o", "out_layout": "NCHW4c"}
    pooled = b.nn.max_pool2d(b.multiply(x, scale), pool_size=(2, 2), layout="NCHW4c")
    body = b.multiply(b.nn.conv2d(pooled, weight, **conv), b.constant(np.full((1, 1, 1, 1), 2, np.float32)))
    mod = Module.from_expr(b.function([x], body))
    assert FoldScaleForward()(mod) is mod
    assert FoldScaleBackward()(mod) is mod

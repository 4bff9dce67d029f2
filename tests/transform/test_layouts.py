"""Other layouts, over random networks of images of integers, whose sums are exact; and what cannot be asked for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.arith.expr import fresh
from legato.base.errors import CompileError, TypeCheckError
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Call, Expr, Function, Var
from legato.ir.layout import layout
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.parser import parse
from legato.ir.scope import post_order
from legato.ir.types import TensorType
from legato.ir.verify import verify
from legato.ops import table as operators
from legato.transform.convert_layout import ConvertLayout
from legato.transform.dissolve_layouts import DissolveLayouts
from legato.transform.fold_constant import FoldConstant
from tests.graphs import concrete_type, leaves
from tests.programs.settings import examples

BATCH = 2


def count(mod: Module, name: str) -> int:
    nodes = (n for _, f in mod.graph_functions() for n in post_order(f))
    return Counter(n.op.name for n in nodes if isinstance(n, Call) and isinstance(n.op, Op))[name]


def shape_of(e: Expr) -> tuple[int, ...]:
    assert isinstance(e.ty, TensorType)
    return concrete_type(e.ty, BATCH)


class Network:
    """A random network of images in NCHW or NHWC."""

    def __init__(self, rng: np.random.Generator, order: str, symbolic: bool) -> None:
        self.rng, self.order, self.b = rng, order, Builder()
        self.channels, self.rows = order.index("C"), order.index("H")
        n: Any = fresh("n") if symbolic else BATCH
        extents = {"N": n, "C": int(rng.choice([3, 4, 8])), "H": 6, "W": 5}
        self.params = [self.b.var("x", [extents[letter] for letter in order])]
        self.nodes: list[Expr] = [self.params[0]]
        self.results: list[Expr] = []

    def var(self, *shape: int) -> Var:
        self.params.append(self.b.var(f"p{len(self.params)}", shape))
        return self.params[-1]

    def weight(self, *shape: int) -> Expr:
        if self.rng.random() < 0.5:
            return self.var(*shape)
        return self.b.constant(self.rng.integers(-2, 3, shape).astype("float32"))

    def pick(self) -> Expr:
        return self.nodes[-1] if self.rng.random() < 0.6 else self.nodes[self.rng.integers(len(self.nodes))]

    def conv(self, x: Expr) -> Expr:
        c, k, o = shape_of(x)[self.channels], int(self.rng.choice([1, 3])), int(self.rng.choice([2, 4, 8]))
        groups = int(self.rng.choice([1, c, 2 if c % 2 == 0 else 1]))
        o = c if groups == c else o
        kernel = str(self.rng.choice(["OIHW", "HWIO"]))
        extents = {"O": o, "I": c // groups, "H": k, "W": k}
        weight = self.weight(*(extents[letter] for letter in kernel))
        return self.b.nn.conv2d(x, weight, padding=(k // 2, k // 2), groups=groups, data_layout=self.order,
                                kernel_layout=kernel)  # fmt: skip

    def transposed(self, x: Expr) -> Expr:
        weight = self.weight(shape_of(x)[self.channels], 4, 2, 2)
        return self.b.op("nn.conv2d_transpose")(x, weight, data_layout=self.order)

    def pool(self, x: Expr) -> Expr:
        name = str(self.rng.choice(["nn.max_pool2d", "nn.max_pool2d", "nn.global_max_pool2d"]))
        more = {} if "global" in name else {"pool_size": (2, 2), "padding": (0, 1), "strides": (1, 1)}
        if min(shape_of(x)[self.rows : self.rows + 2]) < 2:
            return self.b.nn.relu(x)
        return self.b.op(name)(x, layout=self.order, **more)

    def beside(self, x: Expr) -> Expr:
        shape = shape_of(x)
        same = [y for y in self.nodes if y.ty == x.ty]
        vector = [e if n == self.channels else 1 for n, e in enumerate(shape)]
        choices: list[Callable[[], Expr]] = [
            lambda: self.b.add(x, same[self.rng.integers(len(same))]),
            lambda: self.b.multiply(x, self.weight(*vector[1:])),
            lambda: self.b.subtract(self.weight(1, 1, 1, shape[3]), x),
            lambda: self.b.add(self.weight(), x),
            lambda: self.b.nn.bias_add(x, self.weight(shape[self.channels]), axis=self.channels),
        ]
        return choices[self.rng.integers(len(choices))]()

    def moved(self, x: Expr) -> Expr:
        shape, b, rng = shape_of(x), self.b, self.rng
        axis = int(rng.choice([self.channels, self.rows]))
        choices: list[Callable[[], Expr]] = [
            lambda: b.concatenate([x, b.negative(x)], axis=axis),
            lambda: b.get(b.split(b.concatenate([x, x], axis=axis), indices_or_sections=2, axis=axis - 4), 1),
            lambda: b.op("strided_slice")(x, begin=(0,), end=(max(1, shape[axis] - 1),), axes=(axis,)),
            lambda: b.nn.pad(x, 1.0, pad_width=[(1, 0) if n == axis else (0, 0) for n in range(4)]),
            lambda: b.op("reverse")(x, axis=axis),
            lambda: b.transpose(b.nn.relu(b.transpose(x, axes=(0, 2, 3, 1))), axes=(0, 3, 1, 2)),
            lambda: b.op("nn.upsampling")(x, scale_h=2.0, scale_w=1.0, layout=self.order),
            lambda: b.squeeze(b.nn.relu(b.expand_dims(x, axis=axis)), axis=axis),
            lambda: b.clip(x, a_min=-3.0, a_max=4.0),
            lambda: b.where(b.greater(x, 0.0), b.negative(x), self.weight(*shape[1:3], 1)),
            lambda: b.nn.prelu(x, self.weight(shape[self.channels]), axis=self.channels - 4),
            lambda: b.op("nn.space_to_depth")(b.concatenate([x, x, x, x][: 2 if shape[axis] % 2 else 1], axis=axis),
                                              block_size=1, layout=self.order),
            lambda: b.op("nn.depth_to_space")(b.concatenate([x] * 4, axis=self.channels), block_size=2,
                                              layout=self.order),
            lambda: b.op("layout_transform")(
                b.nn.relu(b.op("layout_transform")(x, src_layout="ABCD", dst_layout="DABC")),
                src_layout="DABC", dst_layout="ABCD"),
        ]  # fmt: skip
        return choices[rng.integers(len(choices))]()

    def ended(self, x: Expr) -> Expr:
        b, rng = self.b, self.rng
        spatial = tuple(n for n in range(1, 4) if n != self.channels)
        choices: list[Callable[[], Expr]] = [
            lambda: b.nn.batch_flatten(x),
            lambda: b.op("sum")(x, axis=spatial, keepdims=bool(rng.integers(2))),
            lambda: b.op("max")(x, axis=(self.channels,), exclude=bool(rng.integers(2))),
            lambda: b.op("argmax")(x, axis=self.channels - 4, keepdims=bool(rng.integers(2))),
            lambda: b.op("mean")(x, axis=[d - 4 for d in spatial]),
            lambda: b.op("nn.global_avg_pool2d")(x, layout=self.order),
            lambda: b.op("nn.avg_pool2d")(x, pool_size=(1, 2), padding=(0, 1), layout=self.order, out_layout="NCHW"),
            lambda: b.get(
                b.op("nn.batch_norm")(
                    x, *(b.abs(self.weight(shape_of(x)[self.channels])) for _ in range(4)), axis=self.channels
                ),
                0,
            ),
            lambda: b.op("image.resize2d")(x, size=(3, 2), layout=self.order, method="nearest_neighbor"),
            lambda: b.tuple_([b.reshape(x, newshape=(-1,)), b.op("strided_slice")(x, begin=(0,), end=(1,), axes=(3,))]),
            lambda: b.transpose(x, axes=tuple(int(a) for a in rng.permutation(4))),
        ]
        return choices[rng.integers(len(choices))]()

    def module(self, steps: int) -> Module:
        kinds = [self.conv, self.conv, self.transposed, self.pool, self.beside, self.beside, self.moved, self.moved]
        for _ in range(steps):
            x = self.pick()
            if np.prod(shape_of(x)) > 4000:
                x = self.nodes[0]
            self.nodes.append(kinds[self.rng.integers(len(kinds))](x))
            if self.rng.random() < 0.2:
                self.results.append(self.ended(self.pick()))
        return infer(Module.from_expr(self.b.function(self.params, self.b.tuple_([*self.results, self.nodes[-1]]))))


LAYOUTS = [
    ("nn.conv2d:NHWC",), ("nn.conv2d:NCHW",), ("nn.conv2d:NCHW4c",), ("nn.conv2d:NCHW2c:OIHW2o",),
    ("nn.conv2d:NHWC", "nn.max_pool2d:NCHW"), ("nn.conv2d:CHWN:HWIO", "nn.conv2d_transpose:NHWC"),
    ("nn.max_pool2d:NCHW4c", "nn.upsampling:NHWC"), ("nn.conv2d:NHWC2c:OIHW", "nn.global_max_pool2d:NCHW"),
    ("nn.conv2d_transpose:NCHW2c:IOHW2i",),
]  # fmt: skip


@st.composite
def networks(draw: st.DrawFn) -> tuple[ConvertLayout, Module, list[Any]]:
    """A network, what is asked for, and arguments."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    network = Network(rng, draw(st.sampled_from(["NCHW", "NHWC"])), draw(st.booleans()))
    mod = network.module(draw(st.integers(2, 9)))
    skip = draw(st.sampled_from([frozenset[int](), frozenset[int](), frozenset({0})]))
    args = [rng.integers(-2, 3, shape_of(p)).astype("float32") for p in network.params]
    return ConvertLayout(draw(st.sampled_from(LAYOUTS)), skip), mod, args


def same(got: list[Any], want: list[Any], mod: Module) -> None:
    """All but norms computes with integers."""
    error = 1e-5 if count(mod, "nn.batch_norm") else 0
    for g, w in zip(got, want, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        np.testing.assert_allclose(g, w, rtol=error, atol=error)


def check(new: Module, mod: Module, want: list[Any], args: list[Any]) -> None:
    main, old = new["main"], mod["main"]
    assert isinstance(main, Function)
    assert isinstance(old, Function)
    assert [p.ty for p in main.params] == [p.ty for p in old.params]
    assert main.body.ty == old.body.ty
    verify(new)
    assert infer(new) is new
    same(leaves(evaluate(new, args)), want, mod)


@examples(120)
@given(networks())
def test_the_meaning_stays(case: tuple[ConvertLayout, Module, list[Any]]) -> None:
    convert, mod, args = case
    want = leaves(evaluate(mod, args))
    new = convert(mod)
    check(new, mod, want, args)
    whole = FoldConstant()(DissolveLayouts()(FoldConstant()(new)))
    check(whole, mod, want, args)
    assert not re.search(r'layout="[A-Z]+\d', str(whole))  # nothing in blocks is left


@examples(3, fuzz=False)
@given(networks())
def test_compiled(case: tuple[ConvertLayout, Module, list[Any]]) -> None:
    convert, mod, args = case
    want = leaves(evaluate(mod, args))
    new = convert(mod)
    for precision in ("exact", None):
        same(leaves(legato.compile(new, precision=precision)(*args)), want, mod)


def test_the_networks_are_converted() -> None:
    found: Counter[str] = Counter()
    for seed in range(30):
        mod = Network(np.random.default_rng(seed), "NCHW", seed % 2 > 0).module(7)
        for wanted in ("nn.conv2d:NHWC", "nn.conv2d:NCHW4c"):
            new = ConvertLayout((wanted,))(mod)
            found["changed"] += new is not mod
            found["blocked"] += count(new, "nn.contrib_conv2d_NCHWc") + count(new, "nn.contrib_depthwise_conv2d_NCHWc")
    assert found["changed"] > 20
    assert found["blocked"] > 15


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        (("nn.relu:NHWC",), "'nn.relu' has no layout to convert"),
        (("nn.conv:NHWC",), "'nn.conv' has no layout to convert"),
        (("nn.conv2d",), "'nn.conv2d' has 0 layouts, wanted 1 or 2"),
        (("nn.max_pool2d:NHWC:HWIO",), "'nn.max_pool2d:NHWC:HWIO' has 2 layouts, wanted 1"),
        (("nn.conv2d:default",), "nn.conv2d: the layout of data cannot be 'default'"),
        (("nn.conv2d:CHWN",), "nn.conv2d of CHWN has no default layout of kernels"),
        (("nn.conv2d:NCHW16",), "'NCHW16' is not a layout"),
        (("nn.conv2d:NCHW:OIHW16",), "'OIHW16' is not a layout"),
        (("nn.conv2d:NCDHW",), "nn.conv2d: 'NCDHW' is no layout of its data, NCHW"),
        (("nn.max_pool2d:NCHW4h",), "nn.max_pool2d: 'NCHW4h' is no layout of its data, NCHW"),
        (("nn.conv2d:NHWC:HWI",), "nn.conv2d: 'HWI' is no layout of its weight, OIHW"),
    ],
)
def test_what_cannot_be_asked_for(layouts: tuple[str, ...], message: str) -> None:
    with pytest.raises((CompileError, TypeCheckError)) as caught:
        ConvertLayout(layouts)
    assert caught.value.message == message


CONV = """
def @main(%x: Tensor[(1, {c}, 4, 4), float32], %w: Tensor[({o}, {c}, 1, 1), float32]) {{
  nn.relu(nn.conv2d(%x, %w))
}}"""


@pytest.mark.parametrize(("c", "o"), [("3", "8"), ("8", "3"), ("c", "8"), ("c", "c")])
def test_blocks_that_do_not_surely_divide_channels(c: str, o: str) -> None:
    mod = infer(parse(CONV.format(c=c, o=o), ops=operators()))
    assert ConvertLayout(("nn.conv2d:NCHW8c",))(mod) is mod


def test_blocks_of_symbolic_channels() -> None:
    mod = infer(parse(CONV.format(c="8 * c", o="8 * c"), ops=operators()))
    new = ConvertLayout(("nn.conv2d:NCHW8c",))(mod)
    assert count(new, "nn.contrib_conv2d_NCHWc") == 1
    assert count(new, "layout_transform") == 3
    assert main_type(new) == main_type(mod)
    x, w = np.ones((1, 16, 4, 4), "float32"), np.ones((16, 16, 1, 1), "float32")
    np.testing.assert_array_equal(legato.compile(new)(x, w), np.full((1, 16, 4, 4), 16, "float32"))


def main_type(mod: Module) -> Any:
    main = mod["main"]
    assert isinstance(main, Function)
    return main.body.ty


def test_skipped_layers_are_counted() -> None:
    b = Builder()
    x, w = b.var("x", (1, 4, 4, 4)), b.var("w", (4, 4, 1, 1))
    y = b.nn.conv2d(b.nn.conv2d(b.nn.conv2d(x, w), w), w)
    mod = infer(Module.from_expr(b.function([x, w], y)))
    new = ConvertLayout(skip_layers=frozenset({1}))(mod)
    nodes = [n for n in post_order(new["main"]) if isinstance(n, Call) and n.op is operators()["nn.conv2d"]]
    assert [n.attrs.data_layout for n in nodes] == ["NHWC", "NCHW", "NHWC"]


def test_long_chains() -> None:
    b = Builder()
    x, w = b.var("x", (1, 4, 4, 4)), b.var("w", (4, 4, 1, 1))
    y: Expr = b.nn.conv2d(x, w)
    for _ in range(5_000):
        y = b.nn.relu(b.add(y, 1.0))
    new = ConvertLayout()(infer(Module.from_expr(b.function([x, w], y))))
    assert count(new, "layout_transform") == 3


@pytest.mark.parametrize("text", ["", "c", "16c", "NCHW16", "NCHWC", "NCHW4x", "N0c", "NC-HW", "NCHW16C"])
def test_what_is_no_layout(text: str) -> None:
    if text:
        with pytest.raises(TypeCheckError, match="is not a layout"):
            layout(text)


@pytest.mark.parametrize("text", ["NCHW", "NHWC", "NCHW16c", "OIHW4i16o", "OIHW4i16o2i", "16cNHWC"])
def test_layouts_as_text(text: str) -> None:
    found = layout(text)
    assert str(found) == text
    letters = "".join(sorted(found.letters))
    x = np.arange(np.prod([found.block(c) * 2 for c in letters]), dtype="int64")
    x = x.reshape([found.block(c) * 2 for c in letters])
    np.testing.assert_array_equal(found.axes_of(found.of_axes(x, letters), letters), x)

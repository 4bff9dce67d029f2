"""Random ONNX graphs: every operator set from 7 on, all dtypes, odd attributes, broadcasting, empty and symbolic dims.

A graph grows node by node: ONNX Runtime computes each at once, so that the next one knows what it reads. What it
refuses is dropped, or now and then kept as the last node, so that refusals are compared as well. The same number makes
the same graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tests.frontend.onnx.peer import ort_outputs

__all__ = ["Graph", "draw"]

Array = NDArray[Any]
Made = tuple[str, Sequence[str], Mapping[str, Any]] | None  # operator, inputs, attributes
Maker = Callable[["_Draft"], Made]

FLOATS, INTS = ("float32", "float32", "float32", "float64", "float16"), ("int64", "int64", "int32", "int8", "uint8")
OPSETS = range(7, 22)


@dataclass(frozen=True)
class Graph:
    """A model, the values of its inputs, and what the caller may say of their shapes."""

    seed: int
    proto: onnx.ModelProto
    feeds: Mapping[str, Array]
    shapes: Mapping[str, Sequence[int | str]]

    def __str__(self) -> str:
        return f"seed {self.seed}, shapes {dict(self.shapes)}\n{onnx.printer.to_text(self.proto)}"


def draw(seed: int) -> Graph:
    """The graph of a number."""
    return _Draft(Random(seed), seed).graph()


@dataclass
class _Draft:
    """A graph being drawn: `values` has what every name holds."""

    rng: Random
    seed: int
    values: dict[str, Array] = field(default_factory=dict)
    weights: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, Array] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    opset: int = 17

    def graph(self) -> Graph:
        self.opset = self.rng.choice(OPSETS)
        for n in range(self.rng.randint(1, 3)):
            self.inputs[f"x{n}"] = self.values[f"x{n}"] = self.array(self.shape())
        makers = [make for since, make in MAKERS if since <= self.opset]
        wanted = self.rng.randint(1, 5)
        for _ in range(8 * wanted):
            if len(self.nodes) < wanted:
                self._grow(self.rng.choice(makers))
        named = self._names()
        shapes = {name: tuple(self._ranged(d) for d in dims) for name, dims in named.items() if self.rng.random() < 0.3}
        return Graph(self.seed, self._model(named), self.inputs, shapes)

    def _grow(self, make: Maker) -> None:
        """Adds a node, if ONNX Runtime takes it."""
        before = dict(self.weights), dict(self.inputs), dict(self.values)
        made = make(self)
        if made is not None:
            operator, reads, attributes = made
            outputs = [f"y{len(self.nodes)}"]
            if operator in ("TopK", "Split"):
                outputs = [f"{outputs[0]}{letter}" for letter in "ab"]
            self.nodes.append(helper.make_node(operator, reads, outputs, **attributes))
            try:
                found = ort_outputs(self._model({}), self.inputs)
            except Exception:  # of its many classes; the graph is drawn without this node
                self.nodes.pop()
            else:
                if all(a.size <= 20_000 for a in found):
                    self.values.update(zip(self.outputs(), found, strict=True))
                    return
                self.nodes.pop()
        self.weights, self.inputs, self.values = before

    def outputs(self) -> list[str]:
        """What nothing reads, and each fourth of the others."""
        if not self.nodes:
            return list(self.inputs)[:1]
        return [name for node in self.nodes for name in node.output]

    def _model(self, dims: Mapping[str, Sequence[int | str]]) -> onnx.ModelProto:
        declared = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), dims.get(name, a.shape))
            for name, a in self.inputs.items()
        ]
        tensors = [numpy_helper.from_array(a, name) for name, a in self.weights.items()]
        nodes = self.nodes or [helper.make_node("Identity", ["x0"], ["y0"])]
        results = [onnx.ValueInfoProto(name=name) for node in nodes for name in node.output]
        graph = helper.make_graph(nodes, "g", declared, results, tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def _names(self) -> dict[str, list[int | str]]:
        """The dims of inputs, each a number or a name; equal ones have now and then the same."""
        rng = self.rng

        def dim(extent: int, place: str) -> int | str:
            return extent if rng.random() < 0.4 else rng.choice((f"n{extent}", place))

        return {name: [dim(d, f"{name}_{axis}") for axis, d in enumerate(a.shape)] for name, a in self.inputs.items()}

    def _ranged(self, dim: int | str) -> int | str:
        if isinstance(dim, int) or self.rng.random() < 0.5:
            return dim
        return f"{dim}:0..{self.rng.choice((8, 32, 100))}"

    # ------------------------------------------------------------------ what makers draw

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        rank = self.rng.randint(least, most)
        return tuple(self.rng.choice((1, 2, 3, 4, 5, 2, 3, 0 if self.rng.random() < 0.2 else 4)) for _ in range(rank))

    def array(self, shape: Sequence[int], dtype: str | None = None) -> Array:
        """Random numbers, a few of them awkward."""
        dtype = dtype or self.rng.choice((*FLOATS, *FLOATS, *INTS, "bool"))
        noise = np.random.default_rng(self.rng.getrandbits(32))
        if dtype == "bool":
            return noise.integers(0, 2, shape).astype(bool)
        if np.dtype(dtype).kind in "iu":
            return noise.integers(0 if dtype.startswith("u") else -4, 6, shape).astype(dtype)
        return np.round(noise.standard_normal(shape) * 2, self.rng.choice((0, 1, 3))).astype(dtype)

    def pick(self, kinds: str = "fiub", least: int = 0, most: int = 9) -> str | None:
        """A value whose dtype is of one of the `kinds` and whose rank lies between."""
        fits = [n for n, a in self.values.items() if a.dtype.kind in kinds and least <= a.ndim <= most]
        return self.rng.choice(fits) if fits else None

    def given(self, array: Any, dtype: str = "int64") -> str:
        """A constant: an initializer mostly, an input now and then."""
        name = f"c{len(self.values)}"
        self.values[name] = np.asarray(array, dtype)
        (self.inputs if self.rng.random() < 0.1 else self.weights)[name] = self.values[name]
        return name

    def beside(self, name: str) -> str:
        """A value of the same dtype that may broadcast with another."""
        a, rng = self.values[name], self.rng
        fits = [n for n, b in self.values.items() if b.dtype == a.dtype and _broadcast(a.shape, b.shape)]
        if rng.random() < 0.5 or not fits:
            shape = [1 if rng.random() < 0.3 else d for d in a.shape][rng.randint(0, a.ndim) :]
            return self.given(self.array(shape, a.dtype.name), a.dtype.name)
        return rng.choice(fits)

    def axis(self, rank: int) -> int:
        return self.rng.randint(-rank, rank - 1) if rank else 0

    def axes(self, rank: int) -> list[int]:
        chosen = self.rng.sample(range(rank), self.rng.randint(0, rank))
        return [a - rank if self.rng.random() < 0.3 else a for a in chosen]


def _broadcast(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


# ------------------------------------------------------------------ operators


def _unary(operator: str, kinds: str = "f", **choices: Sequence[Any]) -> Maker:
    def make(d: _Draft) -> Made:
        x = d.pick(kinds)
        return x and (operator, [x], {k: d.rng.choice(v) for k, v in choices.items() if d.rng.random() < 0.7})

    return make


def _binary(operator: str, kinds: str = "fi", **choices: Sequence[Any]) -> Maker:
    def make(d: _Draft) -> Made:
        x = d.pick(kinds)
        if x is None:
            return None
        reads = [x, d.beside(x)]
        d.rng.shuffle(reads)
        return operator, reads, {k: d.rng.choice(v) for k, v in choices.items()}

    return make


def _reduce(operator: str) -> Maker:
    def make(d: _Draft) -> Made:
        x = d.pick("fi")
        if x is None:
            return None
        axes, attributes = d.axes(d.values[x].ndim), {"keepdims": d.rng.randint(0, 1)}
        if d.opset >= 18 or (operator == "ReduceSum" and d.opset >= 13):
            if d.rng.random() < 0.3:
                attributes["noop_with_empty_axes"] = d.rng.randint(0, 1)
            return operator, [x, d.given(axes)] if d.rng.random() < 0.8 else [x], attributes
        return operator, [x], attributes | ({"axes": axes} if axes else {})

    return make


def _along(operator: str, kinds: str = "f", **choices: Sequence[Any]) -> Maker:
    def make(d: _Draft) -> Made:
        x = d.pick(kinds, 1)
        if x is None:
            return None
        more = {k: d.rng.choice(v) for k, v in choices.items() if d.rng.random() < 0.6}
        return operator, [x], {"axis": d.axis(d.values[x].ndim), **more}

    return make


def _cast(d: _Draft) -> Made:
    x = d.pick()
    return x and (
        "Cast",
        [x],
        {"to": helper.np_dtype_to_tensor_dtype(np.dtype(d.rng.choice((*FLOATS, *INTS, "bool"))))},
    )


def _reshape(d: _Draft) -> Made:
    x = d.pick()
    if x is None:
        return None
    shape = list(d.values[x].shape)
    if len(shape) > 1 and d.rng.random() < 0.6:
        at = d.rng.randrange(len(shape) - 1)
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    elif d.rng.random() < 0.5:
        shape.insert(d.rng.randint(0, len(shape)), 1)
    codes = [0 if d.rng.random() < 0.2 else n for n in shape]
    if codes and d.rng.random() < 0.5:
        codes[d.rng.randrange(len(codes))] = -1
    allow = {"allowzero": 1} if d.opset >= 14 and d.rng.random() < 0.1 else {}
    return "Reshape", [x, d.given(codes)], allow


def _squeeze(d: _Draft) -> Made:
    x = d.pick()
    if x is None:
        return None
    ones = [n for n, e in enumerate(d.values[x].shape) if e == 1]
    axes = d.rng.sample(ones, d.rng.randint(0, len(ones)))
    if not axes:
        return "Squeeze", [x], {}
    return ("Squeeze", [x, d.given(axes)], {}) if d.opset >= 13 else ("Squeeze", [x], {"axes": axes})


def _unsqueeze(d: _Draft) -> Made:
    x = d.pick(most=4)
    if x is None:
        return None
    axes = d.rng.sample(range(d.values[x].ndim + 2), 2) if d.rng.random() < 0.3 else [d.axis(d.values[x].ndim + 1)]
    return ("Unsqueeze", [x, d.given(axes)], {}) if d.opset >= 13 else ("Unsqueeze", [x], {"axes": axes})


def _transpose(d: _Draft) -> Made:
    x = d.pick()
    if x is None:
        return None
    order = d.rng.sample(range(d.values[x].ndim), d.values[x].ndim)
    return "Transpose", [x], {"perm": order} if order and d.rng.random() < 0.8 else {}


def _concat(d: _Draft) -> Made:
    x = d.pick(least=1)
    if x is None:
        return None
    a, axis = d.values[x], d.axis(d.values[x].ndim)
    shape = list(a.shape)
    shape[axis] = d.rng.randint(0, 3)
    reads = [x, x if d.rng.random() < 0.4 else d.given(d.array(shape, a.dtype.name), a.dtype.name)]
    d.rng.shuffle(reads)
    return "Concat", reads, {"axis": axis}


def _split(d: _Draft) -> Made:
    x = d.pick(least=1)
    if x is None:
        return None
    axis = d.axis(d.values[x].ndim)
    extent = d.values[x].shape[axis]
    first = d.rng.randint(0, extent)
    if d.rng.random() < 0.5:
        return "Split", [x], {"axis": axis, **({"num_outputs": 2} if d.opset >= 18 else {})}
    sizes = [first, extent - first + (d.rng.random() < 0.05)]
    return (
        ("Split", [x, d.given(sizes)], {"axis": axis})
        if d.opset >= 13
        else ("Split", [x], {"axis": axis, "split": sizes})
    )


_BOUNDS = (0, 1, 2, 3, -1, -2, -3, -9, 9, 2**31 - 1, -(2**31), 2**63 - 1)


def _slice(d: _Draft) -> Made:
    x = d.pick(least=1)
    if x is None:
        return None
    rank = d.values[x].ndim
    axes = d.rng.sample(range(rank), d.rng.randint(1, rank))
    starts, ends = ([d.rng.choice(_BOUNDS) for _ in axes] for _ in range(2))
    if d.opset < 10:
        return "Slice", [x], {"axes": axes, "starts": starts, "ends": ends}
    steps = [d.rng.choice((1, 1, 2, -1, -2, 3)) for _ in axes]
    reads = [x, d.given(starts), d.given(ends), d.given([a - rank if d.rng.random() < 0.3 else a for a in axes])]
    return "Slice", [*reads, d.given(steps)] if d.rng.random() < 0.7 else reads, {}


def _gather(operator: str) -> Maker:
    def make(d: _Draft) -> Made:
        x = d.pick(least=1)
        if x is None:
            return None
        a = d.values[x]
        axis = d.axis(a.ndim)
        extent = a.shape[axis]
        shape = d.shape(0, 2) if operator == "Gather" else [d.rng.randint(0, n) for n in a.shape]
        noise = np.random.default_rng(d.rng.getrandbits(32))
        return (
            operator,
            [x, d.given(noise.integers(-extent, max(extent, 1), shape) if extent else np.zeros(shape))],
            {"axis": axis},
        )

    return make


def _scatter(d: _Draft) -> Made:
    x = d.pick("fi", 1)
    if x is None or 0 in d.values[x].shape:
        return None
    a = d.values[x]
    axis = d.axis(a.ndim)
    shape = [d.rng.randint(0, n) for n in a.shape]
    noise = np.random.default_rng(d.rng.getrandbits(32))
    if d.opset < 16:  # which of two updates of one element is the last is not said
        shape[axis] = min(shape[axis], 1)
    places = d.given(noise.integers(-a.shape[axis], a.shape[axis], shape))
    more = {"reduction": "add"} if d.opset >= 16 else {}
    return "ScatterElements", [x, places, d.given(d.array(shape, a.dtype.name), a.dtype.name)], {"axis": axis, **more}


def _expand(d: _Draft) -> Made:
    x = d.pick()
    if x is None:
        return None
    shape = [d.rng.randint(0, 3) if n == 1 else d.rng.choice((n, 1)) for n in d.values[x].shape]
    return "Expand", [x, d.given(list(d.shape(0, 1)) + shape)], {}


def _tile(d: _Draft) -> Made:
    x = d.pick()
    return x and ("Tile", [x, d.given([d.rng.randint(0, 3) for _ in d.values[x].shape])], {})


def _pad(d: _Draft) -> Made:
    x = d.pick("f", 1)
    if x is None:
        return None
    pads = [d.rng.choice((0, 0, 1, 2, -1)) for _ in range(2 * d.values[x].ndim)]
    mode = {"mode": d.rng.choice(("constant", "constant", "edge", "reflect"))}
    if d.opset < 11:
        return "Pad", [x], {"pads": pads, **mode}
    reads = [x, d.given(pads)]
    return "Pad", [*reads, d.given(1.5, d.values[x].dtype.name)] if d.rng.random() < 0.5 else reads, mode


def _where(d: _Draft) -> Made:
    condition, x = d.pick("b"), d.pick("fi")
    return None if condition is None or x is None else ("Where", [condition, x, d.beside(x)], {})


def _clip(d: _Draft) -> Made:
    x = d.pick("fi" if d.opset >= 12 else "f")
    if x is None:
        return None
    if d.opset < 11:
        return "Clip", [x], {"min": -1.0, "max": d.rng.choice((1.0, -2.0))}
    kind = d.values[x].dtype.name
    low, high = (d.given(v, kind) if d.rng.random() < 0.7 else "" for v in (-1, 2))
    return "Clip", [x, low, high], {}


def _top_k(d: _Draft) -> Made:
    x = d.pick("fi", 1)
    if x is None:
        return None
    axis = d.axis(d.values[x].ndim)
    k = d.rng.randint(0, d.values[x].shape[axis])
    if d.opset < 10:
        return "TopK", [x], {"k": k, "axis": axis}
    more = {"largest": d.rng.randint(0, 1)} if d.opset >= 11 else {}
    return "TopK", [x, d.given([k])], {"axis": axis, **more}


def _one_hot(d: _Draft) -> Made:
    x = d.pick("i", most=3)
    return x and (
        "OneHot",
        [x, d.given(d.rng.choice((1, 3))), d.given([0, 2], "float32")],
        {"axis": d.axis(d.values[x].ndim + 1)},
    )


def _cum_sum(d: _Draft) -> Made:
    x = d.pick("fi", 1)
    if x is None:
        return None
    return (
        "CumSum",
        [x, d.given(d.axis(d.values[x].ndim), "int32")],
        {k: d.rng.randint(0, 1) for k in ("exclusive", "reverse")},
    )


def _mat_mul(d: _Draft) -> Made:
    x = d.pick("f", 1)
    if x is None:
        return None
    a = d.values[x]
    return "MatMul", [x, d.given(d.array((a.shape[-1], d.rng.randint(0, 3)), a.dtype.name), a.dtype.name)], {}


def _gemm(d: _Draft) -> Made:
    x = d.pick("f", 2, 2)
    if x is None:
        return None
    a, (ta, tb) = d.values[x], (d.rng.randint(0, 1), d.rng.randint(0, 1))
    k, n = a.shape[1 - ta], d.rng.randint(1, 3)
    reads = [x, d.given(d.array((n, k) if tb else (k, n), a.dtype.name), a.dtype.name)]
    if d.opset < 11 or d.rng.random() < 0.6:
        reads.append(d.given(d.array(d.rng.choice(((), (n,), (1, n), (a.shape[ta], 1))), a.dtype.name), a.dtype.name))
    return "Gemm", reads, {"transA": ta, "transB": tb, "alpha": 0.5, "beta": d.rng.choice((0.0, 1.0, -2.0))}


def _window(operator: str) -> Maker:
    def make(d: _Draft) -> Made:
        a = d.array((d.rng.randint(1, 2), 2, d.rng.randint(1, 7), d.rng.randint(1, 7)), "float32")
        x = d.pick("f", 4, 4) if d.rng.random() < 0.4 else None
        if x is None:
            x = f"x{len(d.inputs)}i"
            d.inputs[x] = d.values[x] = a
        a = d.values[x]
        kernel = [d.rng.randint(1, 3) for _ in range(2)]
        more: dict[str, Any] = {"strides": [d.rng.randint(1, 3) for _ in range(2)]}
        padding = d.rng.choice(("pads", "SAME_UPPER", "SAME_LOWER", "VALID"))
        if operator == "ConvTranspose":  # with SAME ONNX Runtime's extents are not those of the standard
            padding = "pads"
        more |= {"pads": [d.rng.randint(0, k - 1) for k in kernel * 2]} if padding == "pads" else {"auto_pad": padding}
        if operator.startswith("Conv"):
            channels = a.shape[1]
            shape = (channels, 2, *kernel) if operator == "ConvTranspose" else (2, channels, *kernel)
            return operator, [x, d.given(d.array(shape, a.dtype.name), a.dtype.name)], more
        if d.opset >= 10 and padding == "pads" and d.rng.random() < 0.3:
            more["ceil_mode"] = 1
        if operator == "AveragePool":
            more["count_include_pad"] = d.rng.randint(0, 1)
        return operator, [x], {"kernel_shape": kernel, **more}

    return make


def _resize(d: _Draft) -> Made:
    x = d.pick("f", 4, 4)
    if x is None or d.opset < 11 or 0 in d.values[x].shape:
        return None
    shape = d.values[x].shape
    more = {"mode": d.rng.choice(("nearest", "linear")),
            "coordinate_transformation_mode": d.rng.choice(("half_pixel", "asymmetric", "align_corners"))}  # fmt: skip
    if d.rng.random() < 0.5:
        scales = [1.0, 1.0, *(d.rng.choice((0.5, 2.0, 1.5, 0.6, 1.3)) for _ in range(2))]
        return "Resize", [x, "", d.given(scales, "float32")], more
    return "Resize", [x, "", "", d.given([*shape[:2], d.rng.randint(1, 6), d.rng.randint(1, 6)])], more


def _depth(operator: str) -> Maker:
    def make(d: _Draft) -> Made:
        x = d.pick("f", 4, 4)
        return x and (operator, [x], {"blocksize": d.rng.choice((1, 2))})

    return make


def _layer_norm(d: _Draft) -> Made:
    x = d.pick("f", 1)
    if x is None:
        return None
    a, axis = d.values[x], d.axis(d.values[x].ndim)
    return (
        "LayerNormalization",
        [x, d.given(d.array(a.shape[axis:] if axis else a.shape, a.dtype.name), a.dtype.name)],
        {"axis": axis},
    )


def _batch_norm(d: _Draft) -> Made:
    x = d.pick("f", 2)
    if x is None:
        return None
    a = d.values[x]
    four = [d.given(np.abs(d.array((a.shape[1],), a.dtype.name)) + 1, a.dtype.name) for _ in range(4)]
    return "BatchNormalization", [x, *four], {}


def _constant_of_shape(d: _Draft) -> Made:
    fill = numpy_helper.from_array(d.array((1,)), "v")
    return "ConstantOfShape", [d.given(d.shape(0, 3))], {"value": fill} if d.rng.random() < 0.7 else {}


def _range(d: _Draft) -> Made:
    start, limit, delta = d.rng.randint(-3, 3), d.rng.randint(-3, 6), d.rng.choice((1, 2, -1, 3))
    kind = d.rng.choice(("int64", "int32", "float32"))
    return "Range", [d.given(v, kind) for v in (start, limit, delta)], {}


_ALL = "fiub"
MAKERS: Sequence[tuple[int, Maker]] = (
    *((7, _unary(o)) for o in ("Exp", "Log", "Sqrt", "Sigmoid", "Tanh", "Reciprocal")),
    *((7, _unary(o)) for o in ("Softplus", "Softsign", "Sin", "Cos")),
    *((7, _unary(o, "fi")) for o in ("Abs", "Neg", "Relu")),
    *((7, _unary(o)) for o in ("Floor", "Ceil", "Tan", "Atan", "Asin")),
    (7, _unary("Identity", _ALL)), (7, _unary("Not", "b")), (7, _unary("Shape", _ALL)), (7, _unary("Size", _ALL)),
    (7, _unary("Elu", alpha=(0.5, 2.0))), (7, _unary("LeakyRelu", alpha=(0.1, -0.3))), (7, _unary("Selu")),
    (7, _unary("HardSigmoid", alpha=(0.3,), beta=(0.4,))), (10, _unary("ThresholdedRelu", alpha=(0.5,))),
    (9, _unary("Sign", "fi")), (9, _unary("Erf")), (9, _unary("IsNaN")), (10, _unary("IsInf")), (11, _unary("Round")),
    (9, _unary("Sinh")), (9, _unary("Asinh")), (12, _unary("Celu", alpha=(0.5,))), (14, _unary("HardSwish")),
    (18, _unary("Mish")), (20, _unary("Gelu", approximate=("none", "tanh"))), (18, _unary("BitwiseNot", "iu")),
    *((7, _binary(o)) for o in ("Add", "Sub", "Mul", "Div", "Pow", "Less", "Greater")),
    *((8, _binary(o)) for o in ("Max", "Min", "Sum", "Mean")), (7, _binary("Equal", "fib")),
    *((12, _binary(o)) for o in ("LessOrEqual", "GreaterOrEqual")),
    *((7, _binary(o, "b")) for o in ("And", "Or", "Xor")),
    (10, _binary("Mod", "i", fmod=(0, 1))), (10, _binary("Mod", "f", fmod=(1,))), (7, _binary("PRelu", "f")),
    (11, _binary("BitShift", "u", direction=("LEFT", "RIGHT"))), (18, _binary("BitwiseAnd", "iu")),
    *((7, _reduce(f"Reduce{o}")) for o in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2")),
    *((7, _reduce(f"Reduce{o}")) for o in ("SumSquare", "LogSum", "LogSumExp")),
    *((7, _along(o)) for o in ("Softmax", "LogSoftmax", "Hardmax", "Flatten")),
    *((7, _along(o, "fi", keepdims=(0, 1))) for o in ("ArgMax", "ArgMin")),
    (7, _cast), (7, _reshape), (7, _squeeze), (7, _unsqueeze), (7, _transpose), (7, _concat), (7, _split), (7, _slice),
    (7, _gather("Gather")), (11, _gather("GatherElements")), (11, _scatter), (8, _expand), (7, _tile), (7, _pad),
    (9, _where), (7, _clip), (7, _top_k), (9, _one_hot), (11, _cum_sum), (7, _mat_mul), (7, _gemm),
    *((7, _window(o)) for o in ("Conv", "ConvTranspose", "MaxPool", "AveragePool")),
    (7, _unary("GlobalAveragePool")), (7, _unary("GlobalMaxPool")), (11, _resize), (7, _depth("SpaceToDepth")),
    (7, _depth("DepthToSpace")), (17, _layer_norm), (7, _batch_norm), (9, _constant_of_shape), (11, _range),
    (14, _unary("Trilu", "fi", upper=(0, 1))), (9, _unary("EyeLike", "fi", k=(-1, 0, 1))),
)  # fmt: skip

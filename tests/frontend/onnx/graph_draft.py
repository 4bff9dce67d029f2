"""A random ONNX graph while it is drawn: what its names hold, and what makers of operators ask of it.

A graph grows node by node. A peer computes each at once, so that the next one knows what it reads: ONNX Runtime, or,
where that has no kernel for a dtype, the reference of the onnx package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tests.frontend.onnx.peer import peer_outputs

__all__ = ["BFLOAT16", "FLOATS", "INTS", "Array", "Draft", "Graph", "Made", "Maker", "kind_of"]

Array = NDArray[Any]
Feeds = Mapping[str, Array]
Dims = Mapping[str, Sequence[int | str]]
Made = tuple[str, Sequence[str], Mapping[str, Any]] | None  # operator, inputs, attributes
Maker = Callable[["Draft"], Made]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = ("float32", "float32", "float32", "float64", "float16", "float16", "bfloat16")
INTS = ("int64", "int64", "int32", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
OPSETS = range(7, onnx.defs.onnx_opset_version() + 1)
_TWO = ("TopK", "Split")  # operators with two results
_RANGES = ("0..8", "0..100", "0..64", "1..", "1..32", "2..", "3..3", "1..2", "2..4")


@dataclass(frozen=True)
class Graph:
    """A model; what its inputs hold, first as it was drawn, then for other values of its dims; and what the caller may
    say of their shapes."""

    seed: int
    proto: onnx.ModelProto
    feeds: Sequence[Feeds]
    shapes: Dims

    def __str__(self) -> str:
        return f"seed {self.seed}, shapes {dict(self.shapes)}\n{onnx.printer.to_text(self.proto)}"


@dataclass
class Draft:
    """`values` has what every name holds, `weights` and `inputs` what of it is given."""

    rng: Random
    seed: int
    opset: int = 17
    values: dict[str, Array] = field(default_factory=dict)
    weights: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, Array] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def graph(self, makers: Iterable[tuple[int, Maker]]) -> Graph:
        """A graph of operators that `makers` make, each since an operator set."""
        rng = self.rng
        self.opset = rng.choice(OPSETS)
        for n in range(rng.randint(1, 3)):
            self.inputs[f"x{n}"] = self.values[f"x{n}"] = self.array(self.shape())
        usable = [make for since, make in makers if since <= self.opset]
        wanted = rng.randint(1, 6)
        for _ in range(8 * wanted):
            if len(self.nodes) == wanted or not self._grow(rng.choice(usable)):
                break
        named = self._names()
        ranges = {name: self._ranged(name, self._extent(named, name)) for dims in named.values() for name in dims}
        shapes = {n: [ranges[d] for d in dims] for n, dims in named.items() if rng.random() < 0.4}
        return Graph(self.seed, self._model(named), [self.inputs, *self._others(named)], shapes)

    # ------------------------------------------------------------------ growth

    def _grow(self, make: Maker) -> bool:
        """Adds a node if a peer takes it; what none takes is dropped, or now and then kept as the last: then False."""
        before = dict(self.weights), dict(self.inputs), dict(self.values)
        made = make(self)
        if made is not None:
            operator, reads, attributes = made
            name = f"y{len(self.nodes)}"
            results = [f"{name}{letter}" for letter in "ab"] if operator in _TWO else [name]
            self.nodes.append(helper.make_node(operator, reads, results, **attributes))
            found = peer_outputs(self._model({}), self.inputs)
            if found is None and self.rng.random() < 0.03:
                return False
            if found is not None and all(a.size <= 20_000 for a in found):
                names = (name for node in self.nodes for name in node.output)
                self.values.update(zip(names, map(np.asarray, found), strict=True))
                return True
            self.nodes.pop()
        self.weights, self.inputs, self.values = before
        return True

    def _model(self, dims: Dims) -> onnx.ModelProto:
        """The model, all of whose values are results."""
        declared = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), dims.get(name, a.shape))
            for name, a in self.inputs.items()
        ]
        tensors = [numpy_helper.from_array(a, name) for name, a in self.weights.items()]
        nodes = self.nodes or [helper.make_node("Identity", ["x0"], ["y0"])]
        results = [onnx.ValueInfoProto(name=name) for node in nodes for name in node.output]
        graph = helper.make_graph(nodes, "g", declared, results, tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    # ------------------------------------------------------------------ dims

    def _names(self) -> dict[str, list[int | str]]:
        """The dims of inputs, each a number or a name; equal ones have now and then the same."""
        rng = self.rng

        def dim(extent: int, place: str) -> int | str:
            return extent if rng.random() < 0.4 else rng.choice((f"n{extent}", place))

        return {name: [dim(d, f"{name}_{axis}") for axis, d in enumerate(a.shape)] for name, a in self.inputs.items()}

    def _extent(self, named: Dims, dim: int | str) -> int:
        return next(e for n, dims in named.items() for d, e in zip(dims, self.inputs[n].shape, strict=True) if d == dim)

    def _ranged(self, dim: int | str, extent: int) -> int | str:
        """A dim with bounds that hold `extent`, now and then."""
        if isinstance(dim, int) or self.rng.random() < 0.4:
            return dim
        bounds = self.rng.choice(_RANGES)
        low, _, high = bounds.partition("..")
        return f"{dim}:{bounds}" if int(low) <= extent <= int(high or extent) else dim

    def _others(self, named: Dims) -> list[Feeds]:
        """Inputs once more, with other values of the dims that have names."""
        dims = sorted({d for dims in named.values() for d in dims if isinstance(d, str)})
        if not dims:
            return []
        found = []
        for _ in range(2):
            new = {d: self.rng.choice((0, 1, 1, 2, 3, 5, 9)) for d in dims}
            shapes = {n: [d if isinstance(d, int) else new[d] for d in dims] for n, dims in named.items()}
            found.append({n: self._like(a, shapes[n]) for n, a in self.inputs.items()})
        return found

    def _like(self, a: Array, shape: Sequence[int]) -> Array:
        """Elements of `a`, or others of its dtype, in another shape."""
        if not a.size:
            return self.array(shape, a.dtype.name)
        return np.resize(a, shape) if all(shape) else np.zeros(shape, a.dtype)

    # ------------------------------------------------------------------ what makers draw

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        rank = self.rng.randint(least, most)
        return tuple(self.rng.choice((1, 2, 3, 4, 5, 2, 3, 0 if self.rng.random() < 0.2 else 4)) for _ in range(rank))

    def array(self, shape: Sequence[int], dtype: str | None = None) -> Array:
        """Random numbers, a few of them awkward."""
        dtype = dtype or self.rng.choice((*FLOATS, *FLOATS, *INTS, "bool"))
        noise = np.random.default_rng(self.rng.getrandbits(32))
        if dtype == "bool":
            return np.asarray(noise.integers(0, 2, shape), bool)
        if dtype in INTS:
            return np.asarray(noise.integers(0 if dtype.startswith("u") else -4, 6, shape), dtype)
        return np.asarray(np.round(noise.standard_normal(shape) * 2, self.rng.choice((0, 1, 3)))).astype(dtype)

    def pick(self, kinds: str = "fiub", least: int = 0, most: int = 9) -> str | None:
        """A value whose dtype is of one of the `kinds` and whose rank lies between."""
        fits = [n for n, a in self.values.items() if kind_of(a) in kinds and least <= a.ndim <= most]
        return self.rng.choice(fits) if fits else None

    def given(self, array: Any, dtype: str = "int64") -> str:
        """A constant: an initializer mostly, an input now and then."""
        name = f"c{len(self.values)}"
        self.values[name] = np.asarray(array).astype(dtype)
        (self.inputs if self.rng.random() < 0.1 else self.weights)[name] = self.values[name]
        return name

    def like(self, name: str, shape: Sequence[int]) -> str:
        """A constant of a shape and the dtype of another value."""
        dtype = self.values[name].dtype.name
        return self.given(self.array(shape, dtype), dtype)

    def beside(self, name: str) -> str:
        """A value of the same dtype that may broadcast with another."""
        a, rng = self.values[name], self.rng
        fits = [n for n, b in self.values.items() if b.dtype == a.dtype and _broadcast(a.shape, b.shape)]
        if rng.random() < 0.5 or not fits:
            return self.like(name, [1 if rng.random() < 0.3 else d for d in a.shape][rng.randint(0, a.ndim) :])
        return rng.choice(fits)

    def axis(self, rank: int) -> int:
        return self.rng.randint(-rank, rank - 1) if rank else 0

    def axes(self, rank: int) -> list[int]:
        chosen = self.rng.sample(range(rank), self.rng.randint(0, rank))
        return [a - rank if self.rng.random() < 0.3 else a for a in chosen]

    def places(self, extent: int, shape: Sequence[int]) -> Array:
        """Positions along an axis, counted from either end."""
        noise = np.random.default_rng(self.rng.getrandbits(32))
        return noise.integers(-extent, extent, shape) if extent else np.zeros(shape, np.int64)


def kind_of(a: Array) -> str:
    """The letter of NumPy's kinds: f, i, u, b."""
    return "f" if a.dtype == BFLOAT16 else a.dtype.kind


def _broadcast(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))

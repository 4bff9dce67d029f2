"""A random ONNX graph that computes shapes, while it is drawn: what its names hold in several calls at once.

The inputs have symbolic dims. A *call* gives these values: first those that the makers of nodes look at, then 0, 1, 2,
7 and the ends of the dims' ranges. ONNX Runtime computes each node at once for every call; in some it may fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from tests.frontend.onnx.graph_draft import Array, Graph

__all__ = ["Draft", "DroppedError", "Maker"]

Maker = Callable[["Draft"], None]

OPSETS = (13, 15, 17, 18, 19, 21)
SIZES = (0, 0, 1, 1, 2, 2, 7, 7, 64)
_RANGES = ((0, None),) * 6 + ((0, 8), (1, None), (2, None), (1, 16), (0, 64), (3, 9), (1, 2))
_LARGEST, _MOST = 1 << 20, 1 << 14  # of numbers, and of elements
_FAIL = onnx.TensorProto.UNDEFINED


class DroppedError(Exception):
    """A node that shall not be in the graph, or for which there is nothing to read."""


@dataclass
class Call:
    """The values of the dims, and of all names; None where ONNX Runtime refuses."""

    dims: dict[str, int]
    values: dict[str, Array | None] = field(default_factory=dict)


@dataclass
class Draft:
    """`numbers` are names of small integer tensors of which shapes are made, `tensors` of the others."""

    rng: Random
    seed: int
    opset: int = 17
    calls: list[Call] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, Sequence[int | str]] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    tensors: list[str] = field(default_factory=list)

    def graph(self, starts: Maker, makers: Sequence[Sequence[Maker]]) -> Graph:
        """A graph of what `starts` makes and up to ten of the `makers`, from each list as many."""
        rng = self.rng
        self.opset = rng.choice(OPSETS)
        self._give()
        for make in (starts, starts, *(rng.choice(rng.choice(makers)) for _ in range(rng.randint(3, 10)))):
            self.attempt(make)
        if not self.nodes:
            self.add("Shape", self.tensors[0])
        shapes = {
            name: [self._ranged(d) for d in dims] for name, dims in self.inputs.items()
            if any(self.ranges.get(str(d), (0, None)) != (0, None) for d in dims)
        }  # fmt: skip
        feeds = [{name: c.values[name] for name in self.inputs} for c in self.calls]
        return Graph(self.seed, self._model(), feeds, shapes)  # type: ignore[arg-type]  # inputs are always there

    # ------------------------------------------------------------------ inputs

    def _give(self) -> None:
        """Symbolic dims with ranges, their values in each call, and inputs that have them."""
        rng = self.rng
        names = "nmk"[: rng.randint(1, 3)]
        self.ranges = {d: rng.choice(_RANGES) for d in names}
        self.calls = [Call({d: self._inside(d, rng.choice((2, 3, 4, 5, 6))) for d in names})]
        for _ in range(4):
            self.calls.append(Call({d: rng.choice([*map(lambda s, d=d: self._inside(d, s), SIZES), *self._ends(d)])
                                    for d in names}))  # type: ignore[misc]  # fmt: skip
        self.calls.append(Call({d: self._inside(d, 1) for d in names}))
        for x in range(rng.randint(1, 2)):
            dims = [rng.choice((*names, *names, 1, 2, 3, 4)) for _ in range(rng.randint(1, 3))]
            dims[rng.randrange(len(dims))] = names[x % len(names)]
            self._input(f"x{x}", dims, rng.choice(("float32", "float32", "float32", "int64", "bool")), 3)
            self.tensors.append(f"x{x}")
        if rng.random() < 0.4:  # numbers that only the data decides
            self._input("s", [rng.choice((1, 2, 3))] if rng.random() < 0.7 else [], "int64", 0)
            self.numbers.append("s")

    def _input(self, name: str, dims: Sequence[int | str], dtype: str, least: int) -> None:
        self.inputs[name] = dims
        for call in self.calls:
            noise = np.random.default_rng(self.rng.getrandbits(32))
            shape = [call.dims[d] if isinstance(d, str) else d for d in dims]
            call.values[name] = np.asarray(noise.integers(-least, 2 if dtype == "bool" else 4, shape)).astype(dtype)

    def _inside(self, dim: str, size: int) -> int:
        low, high = self.ranges[dim]
        return max(low, size if high is None else min(size, high))

    def _ends(self, dim: str) -> list[int]:
        low, high = self.ranges[dim]
        return [low, low if high is None else high]

    def _ranged(self, dim: int | str) -> int | str:
        low, high = self.ranges.get(str(dim), (0, None))
        return dim if (low, high) == (0, None) else f"{dim}:{low}..{'' if high is None else high}"

    # ------------------------------------------------------------------ growth

    def attempt(self, make: Maker) -> None:
        """What `make` adds, or nothing."""
        before = len(self.nodes), dict(self.weights), list(self.numbers), list(self.tensors)
        try:
            make(self)
        except DroppedError:
            count, self.weights, self.numbers, self.tensors = before
            for node in self.nodes[count:]:
                for call in self.calls:
                    for name in node.output:
                        call.values.pop(name, None)
            del self.nodes[count:]

    def add(self, operator: str, *reads: str, results: int = 1, captured: Sequence[str] = (), **attributes: Any) -> str:
        """The (first) result of a new node, whose graphs read what is `captured`.

        DroppedError where the first call refuses it, many others do, or it is large.
        """
        name = f"y{len(self.nodes)}"
        names = [name, *(f"{name}{letter}" for letter in "abc"[: results - 1])]
        node = helper.make_node(operator, reads, names, **attributes)
        found = [self._computed(node, (*reads, *captured), call) for call in self.calls]
        refused = sum(f is None and all(not r or call.values.get(r, _FAIL) is not None for r in (*reads, *captured))
                      for f, call in zip(found, self.calls, strict=True))  # fmt: skip
        if found[0] is None or (refused and self.rng.random() < 0.3 * refused):
            raise DroppedError
        for arrays in found:
            if arrays is not None and not all(map(_is_modest, arrays)):
                raise DroppedError
        self.nodes.append(node)
        for call, arrays in zip(self.calls, found, strict=True):
            call.values.update(zip(names, arrays or [None] * len(names), strict=True))
        return name

    def _computed(self, node: onnx.NodeProto, reads: Sequence[str], call: Call) -> list[Array] | None:
        given = {name: self.weights.get(name, call.values.get(name)) for name in reads if name}
        if any(a is None for a in given.values()):
            return None
        feeds = {name: a for name, a in given.items() if a is not None}
        declared = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                    for name, a in feeds.items()]  # fmt: skip
        results = [onnx.ValueInfoProto(name=name) for name in node.output]
        graph = helper.make_graph([node], "g", declared, results)
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        try:
            session = ort.InferenceSession(proto.SerializeToString(), _OPTIONS, providers=["CPUExecutionProvider"])
            return [np.asarray(a) for a in session.run(None, feeds)]
        except Exception:  # of its many classes
            return None

    def _model(self) -> onnx.ModelProto:
        """The model; its results are the values that no node reads, and a few of the others."""
        read = {name for node in self.nodes for name in node.input}
        dtypes = {name: self.value(name).dtype for name in self.inputs}
        declared = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtypes[name]), dims)
                    for name, dims in self.inputs.items()]  # fmt: skip
        names = [name for node in self.nodes for name in node.output]
        results = [onnx.ValueInfoProto(name=n) for n in names if n not in read or self.rng.random() < 0.2]
        tensors = [numpy_helper.from_array(a, name) for name, a in self.weights.items()]
        graph = helper.make_graph(self.nodes, "g", declared, results, tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    # ------------------------------------------------------------------ what makers ask for

    def value(self, name: str) -> Array:
        """What a name holds in the first call."""
        found = self.weights.get(name, self.calls[0].values.get(name))
        assert found is not None
        return found

    def constant(self, array: Any, dtype: str = "int64") -> str:
        """An initializer."""
        name = f"c{len(self.weights)}"
        self.weights[name] = np.asarray(array).astype(dtype)
        return name

    def tensor(self, least: int = 0, most: int = 4, kinds: str = "fib") -> str:
        """A tensor whose rank lies between, of one of the kinds of dtypes; DroppedError where there is none."""
        fits = [n for n in self.tensors
                if least <= self.value(n).ndim <= most and self.value(n).dtype.kind in kinds]  # fmt: skip
        if not fits:
            raise DroppedError
        return self.rng.choice(fits)

    def number(self, least: int | None = None, most: int | None = None) -> str:
        """A vector of one number, of those that were computed, which in the first call lies between."""
        fits = [(n, at) for n in self.numbers for at, v in enumerate(self.value(n).ravel().tolist())
                if (least is None or v >= least) and (most is None or v <= most)]  # fmt: skip
        if not fits:
            raise DroppedError
        name, at = self.rng.choice(fits)
        if self.value(name).ndim == 0:
            return self.add("Reshape", name, self.constant([1]))
        if self.value(name).size == 1:
            return name
        if self.rng.random() < 0.5:
            return self.add("Slice", name, self.constant([at]), self.constant([at + 1]))
        return self.add("Gather", name, self.constant([at]))

    def number_or(self, value: int, chance: float = 0.6) -> str:
        """A vector of one number that is `value` in the first call: computed if there is one, by chance."""
        if self.rng.random() < chance and any(value in self.value(n).ravel() for n in self.numbers):
            return self.number(value, value)
        return self.constant([value])

    def scalar(self, vector: str) -> str:
        """The number of a vector of one."""
        if self.rng.random() < 0.5:
            return self.add("Squeeze", vector, self.constant([0]))
        return self.add("Gather", vector, self.constant(0))

    def extent(self, x: str, axis: int) -> str:
        """An extent as a vector of one number, as exporters ask for it."""
        shape, how = self.add("Shape", x), self.rng.random()
        if how < 0.5:
            return self.add("Slice", shape, self.constant([axis]), self.constant([axis + 1]))
        if how < 0.75:
            return self.add("Gather", shape, self.constant([axis]))
        return self.add("Unsqueeze", self.add("Gather", shape, self.constant(axis)), self.constant([0]))

    def listed(self, parts: Sequence[str]) -> str:
        """The vectors one behind the other."""
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=0)


def _session_options() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options


_OPTIONS = _session_options()


def _is_modest(a: Array) -> bool:
    return a.size <= _MOST and bool(np.all(np.abs(a.astype(np.float64)) <= _LARGEST))

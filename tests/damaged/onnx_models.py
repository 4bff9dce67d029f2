"""Damaged ONNX files: of ONNX's own node tests, random graphs, control flow, functions, and weights in files beside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.damaged.structure import restructured
from tests.damaged.trees import altered_message, flipped
from tests.damaged.use import compiled_and_called
from tests.frontend.onnx.damage import damage, with_constants
from tests.frontend.onnx.node_suite import array_of, cases
from tests.frontend.onnx.peer import model, value
from tests.frontend.onnx.random_graphs import draw

__all__ = ["attempt_graph", "attempt_node_test", "beside", "damaged", "network", "small_cases"]

_LARGEST = 64 << 10  # bytes of a model that is damaged
_PATHS = ("../side.bin", "/etc/passwd", "/dev/zero", "side.bin\0", "", ".", "none.bin", "pipe", "side.bin", "a" * 300)


def attempt_graph(number: int, folder: Path) -> bool:
    """A random graph, or one of those below, damaged, compiled and called."""
    rng = Random(number)
    base = rng.choice((*_HAND, _drawn, _drawn, _drawn, _drawn))(rng)
    if rng.random() < 0.2:
        beside(rng, base, folder)
    return _attempt(rng, base, folder)


def attempt_node_test(number: int, folder: Path) -> bool:
    """One of ONNX's own tests of an operator, damaged, compiled and called."""
    rng = Random(number)
    case = rng.choice(small_cases())
    base = onnx.ModelProto()
    base.CopyFrom(case.model)
    if rng.random() < 0.7:
        names = [value.name for value in base.graph.input]
        with_constants(rng, base, dict(zip(names, map(array_of, case.data_sets[0][0]), strict=False)))
    return _attempt(rng, base, folder)


@cache
def small_cases() -> tuple[onnx.backend.test.case.test_case.TestCase, ...]:
    return tuple(c for c in cases() if c.model.graph.node and c.model.ByteSize() <= _LARGEST)


def _attempt(rng: Random, base: onnx.ModelProto, folder: Path) -> bool:
    path = folder / "model.onnx"
    path.write_bytes(damaged(rng, base))
    return compiled_and_called(path)


def damaged(rng: Random, base: onnx.ModelProto) -> bytes:
    """The bytes of a model with one to three changes, which are all of one kind."""
    times = rng.choice((1, 1, 2, 3))
    if rng.random() < 0.5:
        for _ in range(times):
            if base.graph.node:
                rng.choice(_CHANGES)(rng, base)
        return base.SerializeToString()
    data = base.SerializeToString()
    change: Callable[[bytes, Random], bytes] = altered_message if rng.random() < 0.7 else flipped
    for _ in range(times):
        data = change(data, rng)
    return data


# ------------------------------------------------------------------ changes of what is a model still


def _exchange_attributes(rng: Random, base: onnx.ModelProto) -> None:
    a, b = rng.choice(base.graph.node), rng.choice(base.graph.node)
    if a.attribute and b.attribute:
        one, other = rng.choice(a.attribute), rng.choice(b.attribute)
        name = other.name
        other.CopyFrom(one)
        if rng.random() < 0.5:
            other.name = name


def _exchange_nodes(rng: Random, base: onnx.ModelProto) -> None:
    nodes = list(base.graph.node)
    rng.shuffle(nodes)
    if rng.random() < 0.3:
        nodes.append(rng.choice(nodes))
    del base.graph.node[:]
    base.graph.node.extend(nodes)


def _rewire(rng: Random, base: onnx.ModelProto) -> None:
    """A node reads what another one makes, perhaps a later one, or makes what there is already."""
    names = [name for node in base.graph.node for name in (*node.input, *node.output)]
    node = rng.choice(base.graph.node)
    ends = node.input if rng.random() < 0.8 else node.output
    if ends and names:
        ends[rng.randrange(len(ends))] = rng.choice(names)


def _other_operator(rng: Random, base: onnx.ModelProto) -> None:
    node, other = rng.choice(base.graph.node), rng.choice(_OPERATORS)
    node.op_type = rng.choice((other, rng.choice(base.graph.node).op_type))
    if rng.random() < 0.2:
        node.domain = rng.choice(("com.microsoft", "ai.onnx.ml", "none", "ai.onnx"))


def _version(rng: Random, base: onnx.ModelProto) -> None:
    if base.opset_import:
        rng.choice(base.opset_import).version = rng.choice((-1, 0, 1, 6, 7, 9, 10, 11, 13, 18, 21, 99, 1 << 40))


_CHANGES = (damage, damage, restructured, restructured, _exchange_attributes, _exchange_nodes, _rewire,
            _other_operator, _version)  # fmt: skip
_OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})


def beside(rng: Random, base: onnx.ModelProto, folder: Path) -> None:
    """Initializers in a file beside the model; where they are said to lie is damaged now and then."""
    (folder / "side.bin").write_bytes(bytes(4096))
    (folder / "pipe").symlink_to("/dev/zero")
    for tensor in base.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            continue
        size = len(numpy_helper.to_array(tensor).tobytes())
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        wild = rng.random() < 0.3
        location = rng.choice(_PATHS) if wild and rng.random() < 0.5 else "side.bin"
        numbers = ("-1", "0", "4095", "1e3", "", str(1 << 62), str(1 << 64), "²")
        for key, text in {
            "location": location,
            "offset": rng.choice(numbers) if wild else "0",
            "length": rng.choice(numbers) if wild else str(size),
        }.items():
            tensor.external_data.add(key=key, value=text)


# ------------------------------------------------------------------ models


def _drawn(rng: Random) -> onnx.ModelProto:
    return draw(rng.randrange(1 << 30)).proto


def _body(
    nodes: Sequence[onnx.NodeProto], reads: Sequence[onnx.ValueInfoProto], makes: Sequence[str]
) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "body", reads, [onnx.ValueInfoProto(name=name) for name in makes])


def _conditional(rng: Random) -> onnx.ModelProto:
    then = _body([helper.make_node("Add", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["a"])], [], ["a"])
    other = _body([helper.make_node("Softmax", ["x"], ["b"], axis=-1)], [], ["b"])
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Greater", ["m", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    weights = {"w": np.ones(4, np.float32), "zero": np.array(0, np.float32)}
    return model(nodes, [value("x", rng.choice(([3, 4], ["n", 4])))], weights=weights)


def _loop(rng: Random) -> onnx.ModelProto:
    reads = [value("i", [], "int64"), value("c", [], "bool"), value("s", [4])]
    steps = [
        helper.make_node("Tanh", ["s"], ["t"]),
        helper.make_node("Mul", ["t", "w"], ["u"]),
        helper.make_node("Identity", ["c"], ["d"]),
    ]
    nodes = [
        helper.make_node("Loop", ["trips", "", "x"], ["z", "all"], body=_body(steps, reads, ["d", "u", "t"])),
        helper.make_node("ReduceSum", ["all", "axes"], ["y"], keepdims=1),
    ]
    weights = {"trips": np.array(rng.choice((0, 3, 50))), "w": np.ones(4, np.float32), "axes": np.array([0])}
    return model(nodes, [value("x", [4])], ["y", "z"], weights=weights)


def _scan(rng: Random) -> onnx.ModelProto:
    reads = [value("s", [2]), value("e", [2])]
    steps = [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Exp", ["t"], ["u"])]
    body = _body(steps, reads, ["t", "u"])
    nodes = [helper.make_node("Scan", ["w", "x"], ["z", "y"], body=body, num_scan_inputs=1)]
    return model(
        nodes, [value("x", rng.choice(([5, 2], ["n", 2])))], ["z", "y"], weights={"w": np.zeros(2, np.float32)}
    )


def _shapes(rng: Random) -> onnx.ModelProto:
    """What exporters write to compute a shape."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "axes"], ["m"]),
        helper.make_node("Concat", ["m", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["r"]),
        helper.make_node("Slice", ["r", "from", "to", "axes"], ["y"]),
    ]
    weights = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([2, -1]), "from": np.array([0]),
               "to": np.array([1 << 31])}  # fmt: skip
    return model(nodes, [value("x", ["n", 4])], weights=weights, opset=rng.choice((13, 17, 21)))


def _function(rng: Random) -> onnx.ModelProto:
    """A function of the model's own, which is called twice."""
    steps = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Add", ["b", "a"], ["c"])]
    own = helper.make_function("own", "Twice", ["a"], ["c"], steps, [helper.make_opsetid("", 17)])
    nodes = [
        helper.make_node("Twice", ["x"], ["h"], domain="own"),
        helper.make_node("Twice", ["h"], ["y"], domain="own"),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return model(nodes, [value("x", [3, rng.choice((1, 4))])], opset_imports=opsets, functions=[own], ir_version=8)


def network(rng: Random) -> onnx.ModelProto:
    """A convolution, pooling, a layer: with weights."""
    noise = np.random.default_rng(rng.randrange(8))
    weights = {
        "k": noise.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "b": np.zeros(4, np.float32),
        "w": noise.standard_normal((4, 5)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"], axis=1),
        helper.make_node("Gemm", ["f", "w"], ["y"], alpha=0.5),
    ]
    return model(nodes, [value("x", [rng.choice((1, "n")), 3, 8, 8])], weights=weights)


_HAND = (_conditional, _loop, _scan, _shapes, _function, network)

"""Changes of an ONNX model that keep to its form: dims, types, names, counts, data, bodies, functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

import onnx
from onnx import AttributeProto, TensorProto, helper

from tests.frontend.onnx.damage import NUMBERS

__all__ = ["CHANGES", "nodes_within", "rank", "restructured"]

NAMES: Final = ("", "x", "../../x", "/etc/passwd", "a\0b", "é/\n", "%", "@main", "a" * 70_000, "__class__")
_LARGEST_BODY: Final = 100  # nodes of a graph that is put into a node
Change = Callable[[Random, onnx.ModelProto], None]


def restructured(rng: Random, base: onnx.ModelProto) -> None:
    """One change, in place."""
    if base.graph.node:
        rng.choice(CHANGES)(rng, base)


def nodes_within(base: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a model, those of bodies and functions included."""
    left = [base.graph.node, *(function.node for function in base.functions)]
    while left:
        for node in left.pop():
            yield node
            for attribute in node.attribute:
                left += [graph.node for graph in (attribute.g, *attribute.graphs) if graph.node]


def _graphs(base: onnx.ModelProto) -> list[onnx.GraphProto]:
    bodies = (a.g for node in nodes_within(base) for a in node.attribute if a.type == AttributeProto.GRAPH)
    return [base.graph, *bodies]


def _node(rng: Random, base: onnx.ModelProto) -> onnx.NodeProto:
    return rng.choice(list(nodes_within(base)) or list(base.graph.node))


def _tensors(base: onnx.ModelProto) -> list[onnx.TensorProto]:
    constants = (a.t for node in nodes_within(base) for a in node.attribute if a.type == AttributeProto.TENSOR)
    return [*(tensor for graph in _graphs(base) for tensor in graph.initializer), *constants]


def _data(rng: Random, base: onnx.ModelProto) -> None:
    """Less data than the shape needs, or more, or of two encodings."""
    if not (tensors := _tensors(base)):
        return
    tensor = rng.choice(tensors)
    change = rng.randrange(5)
    if change == 0:
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
    elif change == 1:
        tensor.raw_data += bytes(rng.choice((1, 3, 4, 8)))
    elif change == 2:
        tensor.float_data.append(rng.choice((1.0, float("nan"))))
    elif change == 3:
        tensor.int64_data.append(rng.choice(NUMBERS))
    else:
        tensor.raw_data = bytes(rng.randrange(256) for _ in tensor.raw_data[:4096])


def _dims(rng: Random, base: onnx.ModelProto) -> None:
    if not (tensors := _tensors(base)):
        return
    dims = rng.choice(tensors).dims
    if not dims or rng.random() < 0.2:
        dims.extend([rng.choice(NUMBERS)] * rng.choice((1, 1, 2, 65)))
    elif rng.random() < 0.3:
        del dims[rng.randrange(len(dims))]
    else:
        dims[rng.randrange(len(dims))] = rng.choice(NUMBERS)


def _element_type(rng: Random, base: onnx.ModelProto) -> None:
    if tensors := _tensors(base):
        rng.choice(tensors).data_type = rng.choice((*TensorProto.DataType.values(), 99, -1))


def _kind(rng: Random, base: onnx.ModelProto) -> None:
    """An input, output or value becomes a sequence, an optional or a sparse one, or has no type."""
    graph = rng.choice(_graphs(base))
    if not (values := [*graph.input, *graph.output, *graph.value_info]):
        return
    value, change = rng.choice(values), rng.randrange(5)
    own = onnx.TypeProto()
    own.CopyFrom(value.type)
    if change == 0:
        value.ClearField("type")
    elif change == 1:
        value.type.sequence_type.elem_type.CopyFrom(own)
    elif change == 2:
        value.type.optional_type.elem_type.CopyFrom(own)
    elif change == 3:
        value.type.sparse_tensor_type.elem_type = own.tensor_type.elem_type
    else:
        value.type.map_type.value_type.CopyFrom(own)


def rank(value: onnx.ValueInfoProto, how: int) -> None:
    """Another rank, in one of four ways: none, one less, one more, nothing along the only dim."""
    dims = value.type.tensor_type.shape.dim
    if how == 1:
        del dims[len(dims) - 1 :]
    elif how == 2:
        dims.add().dim_value = 2
    else:
        del dims[:]
        if how == 3:
            dims.add().dim_value = 0


def _rank(rng: Random, base: onnx.ModelProto) -> None:
    if values := [value for value in base.graph.input if value.type.HasField("tensor_type")]:
        rank(rng.choice(values), rng.randrange(4))


def _name(rng: Random, base: onnx.ModelProto) -> None:
    """A name of something becomes an odd one, everywhere or in one place."""
    node, new = _node(rng, base), rng.choice(NAMES)
    names = [*node.input, *node.output]
    if names and rng.random() < 0.5:
        old = rng.choice(names)
        for one in nodes_within(base):
            for ends in (one.input, one.output):
                for n, name in enumerate(ends):
                    if name == old:
                        ends[n] = new
        for thing in (*base.graph.input, *base.graph.output, *base.graph.initializer):
            if thing.name == old:
                thing.name = new
        return
    thing = rng.choice([node, base.graph, *base.graph.input, *base.graph.output, *base.graph.initializer])
    thing.name = rng.choice((new, *names))


def _count(rng: Random, base: onnx.ModelProto) -> None:
    """One more or one less of what there are several of."""
    node, graph = _node(rng, base), rng.choice(_graphs(base))
    fields = (node.input, node.output, node.attribute, graph.input, graph.output, graph.initializer, base.opset_import)
    field = rng.choice([f for f in fields if f] or [base.graph.node])
    if rng.random() < 0.5:
        del field[rng.randrange(len(field))]
    else:
        field.extend([rng.choice(field)] * rng.choice((1, 1, 1, 40)))


def _attribute(rng: Random, base: onnx.ModelProto) -> None:
    """An attribute of another kind or name, or one that stands for that of a function."""
    nodes = [node for node in nodes_within(base) if node.attribute]
    if not nodes:
        return
    attribute, change = rng.choice(rng.choice(nodes).attribute), rng.randrange(4)
    if change == 0:
        attribute.type = rng.choice(AttributeProto.AttributeType.values())
    elif change == 1:
        attribute.name = rng.choice((*NAMES, rng.choice(rng.choice(nodes).attribute).name))
    elif change == 2:
        attribute.ref_attr_name = rng.choice(("alpha", "", attribute.name))
    else:
        attribute.ints.extend([rng.choice(NUMBERS)] * rng.choice((1, 3, 70)))
        attribute.type = AttributeProto.INTS


def _body(rng: Random, base: onnx.ModelProto) -> None:
    """A body is exchanged for another graph of the model, or a node gets one."""
    graphs = [graph for graph in _graphs(base) if len(graph.node) <= _LARGEST_BODY]
    if not graphs:
        return
    new = onnx.GraphProto()
    new.CopyFrom(rng.choice(graphs))
    bodies = [a for node in nodes_within(base) for a in node.attribute if a.type == AttributeProto.GRAPH]
    if bodies and rng.random() < 0.6:
        rng.choice(bodies).g.CopyFrom(new)
    else:
        _node(rng, base).attribute.append(helper.make_attribute(rng.choice(("body", "then_branch", "x")), new))


def _nested(rng: Random, base: onnx.ModelProto) -> None:
    """What a node does, it does in branches in each other."""
    at = rng.randrange(len(base.graph.node))
    node = onnx.NodeProto()
    node.CopyFrom(base.graph.node[at])
    base.graph.initializer.append(helper.make_tensor("_always", TensorProto.BOOL, [], [True]))
    for _ in range(rng.choice((1, 2, 20))):
        results = [onnx.ValueInfoProto(name=name) for name in node.output]
        body = helper.make_graph([node], "body", [], results)
        if node.ByteSize() < 10_000:  # each branch has it whole
            node = helper.make_node("If", ["_always"], list(node.output), then_branch=body, else_branch=body)
    base.graph.node[at].CopyFrom(node)


def _function(rng: Random, base: onnx.ModelProto) -> None:
    """A function of the model's own by the name of one of its operators: of what it is made of, or of itself."""
    node = _node(rng, base)
    inner = onnx.NodeProto()
    inner.CopyFrom(node)
    domain = rng.choice(("own", node.domain))
    if rng.random() < 0.3:
        inner.domain = domain
    ends = [name for name in node.input if name], [name for name in node.output if name]
    made = helper.make_function(domain, node.op_type, *ends, [inner], list(base.opset_import))
    base.functions.append(made)
    node.domain = domain
    if rng.random() < 0.8:
        base.opset_import.append(helper.make_opsetid("own", 1))


CHANGES: Final[tuple[Change, ...]] = (
    _data, _dims, _element_type, _kind, _rank, _rank, _name, _count, _attribute, _body, _nested, _function
)  # fmt: skip

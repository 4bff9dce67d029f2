"""Nodes that have bodies, and what the converters of all of them do."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Generator, Mapping, Sequence

from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.frames import UNKNOWN, Captures, Frame, Value
from legato.frontend.onnx.proto import AttributeProto, GraphProto
from legato.ir.expr import Expr
from legato.ir.types import Type

__all__ = ["Node", "Steps", "all_made", "as_flag", "as_scalar", "here", "require_inputs", "require_outputs", "type_of",
           "unknown"]  # fmt: skip

Steps = Generator[Frame, list[Value], list[Value]]


@dataclass(frozen=True, slots=True)
class Node:
    """A node with bodies. `inputs` are its values, `outputs` how many outputs it has, `opset` the version it is of.

    `body(graph, names, values)` is the frame of a body that sees `names` and whose inputs have `values`; `needed` lists
    why a value could not be made. `trial` begins an attempt, and gives what takes back all that was listed since.
    """

    b: Emitter
    operator: str
    opset: int
    inputs: Sequence[Value]
    outputs: int
    attributes: Mapping[str, AttributeProto]
    names: ChainMap[str, Value]
    body: Callable[[GraphProto, ChainMap[str, Value], Sequence[Value]], Frame]
    needed: Callable[[Value], Value]
    trial: Callable[[], Callable[[], None]]

    def graph(self, name: str) -> GraphProto:
        """The graph that attribute `name` holds."""
        attribute = self.attributes.get(name)
        if attribute is None or attribute.type != AttributeProto.GRAPH:
            raise ImportModelError(f"{self.operator} lacks its attribute {name}")
        return attribute.g

    def inner(self) -> tuple[ChainMap[str, Value], Captures]:
        """The names that the body of a loop sees."""
        captures = Captures(self.names, self.b.named)
        return ChainMap[str, Value](captures), captures


def all_made(node: Node, values: Sequence[Value]) -> list[Expr] | None:
    """`values` if all could be made; else the reasons are listed. ImportModelError where one is left out."""
    if None in values:
        raise ImportModelError(f"{node.operator} lacks an input, or a body of it an output")
    found = [v for v in map(node.needed, values) if isinstance(v, Expr)]
    return found if len(found) == len(values) else None


def here(node: Node, graph: GraphProto, values: Sequence[Value]) -> Steps:
    """What a body gives that stands in the place of `node`."""
    body = node.body(graph, node.names, values)
    found = yield body
    node.b.adopt(body.bound)
    return found


def unknown(node: Node) -> list[Value]:
    return [UNKNOWN] * node.outputs


def type_of(value: Expr) -> Type:
    assert value.ty is not None
    return value.ty


def as_flag(b: Emitter, x: Expr, what: str) -> Expr:
    """A tensor of one element, of dtype bool, as a scalar."""
    if not b.dtype(x).is_bool:
        raise ImportModelError(f"{what} of dtype {b.dtype(x)}, wanted bool")
    return as_scalar(b, x, what)


def as_scalar(b: Emitter, x: Expr, what: str) -> Expr:
    """A tensor of one element as a scalar."""
    if not b.rank(x):
        return x
    if any(not b.is_one(d) for d in b.dims_of(x)):
        raise ImportModelError(f"{what} has shape {b.type_of(x)}, wanted one element")
    return b.reshape(x, newshape=())


def require_outputs(node: Node, graph: GraphProto, least: int, most: int) -> None:
    found = len(graph.output)
    if not least <= found <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise ImportModelError(f"a body of {node.operator} gives {found} outputs, wanted {wanted}")


def require_inputs(node: Node, graph: GraphProto, wanted: int) -> None:
    if len(graph.input) != wanted:
        raise ImportModelError(f"a body of {node.operator} takes {len(graph.input)} inputs, wanted {wanted}")

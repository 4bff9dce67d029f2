"""Programs to be drawn, and questions to graphs."""

from __future__ import annotations

from legato.base.dtype import float32
from legato.ir.attrs import make_attrs
from legato.ir.expr import Call, Expr, Function, GlobalVar, Var
from legato.ir.module import Module
from legato.ir.types import tensor_type
from legato.ops import table
from legato.transform.infer_types import InferTypes
from legato.viz import Graph, Node

__all__ = ["FUSED", "large", "named", "node", "reads"]

FUSED = """
#[version = "0.0.5"]
def @main(%x: Tensor[(2, 4), float32], %w: Tensor[(3, 4), float32]) {
  %0 = fn (%p0: Tensor[(2, 4), float32], %p1: Tensor[(3, 4), float32], Primitive=1) -> Tensor[(2, 3), float32] {
    nn.relu(nn.dense(%p0, %p1))
  };
  abs(%0(%x, %w))
}
"""


def named(graph: Graph, kind: str) -> list[Node]:
    """The nodes of a kind."""
    return [n for n in graph.nodes if n.kind == kind]


def node(graph: Graph, label: str) -> Node:
    """The one node with this label."""
    (found,) = (n for n in graph.nodes if n.label == label)
    return found


def reads(graph: Graph, label: str) -> list[str]:
    """The labels of what it reads."""
    return [graph.nodes[source].label for source in node(graph, label).inputs]


def large(count: int) -> Module:
    """A program of about so many nodes: layers like those of a network, each with a branch around it."""
    x = Var("x", ty=tensor_type((4, 8), float32))
    relu, add, softmax = (table()[name] for name in ("nn.relu", "add", "nn.softmax"))
    value: Expr = x
    for _ in range(count // 4):
        inner = Call(softmax, (Call(relu, (value,)),), make_attrs(softmax, {}))
        value = Call(add, (Call(relu, (inner,)), value))
    return InferTypes()(Module({GlobalVar("main"): Function((x,), value)}))

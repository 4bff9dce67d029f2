"""FlexAttention: attention with bodies that change the scores, and the weights that are made of them."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from legato.arith.prove import provably_different
from legato.base.errors import ImportModelError
from legato.frontend.heads import attended, scores_of
from legato.frontend.onnx.bodies import Node, Steps, all_made, here, require_inputs, require_outputs, unknown
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.frames import UNKNOWN, Frame, Value
from legato.frontend.onnx.proto import AttributeProto, GraphProto
from legato.frontend.onnx.tensors import element_type
from legato.ir.expr import Expr

__all__ = ["flex_attention"]

_KNOWN = {"scale": AttributeProto.FLOAT, "softmax_precision": AttributeProto.INT, "score_mod": AttributeProto.GRAPH,
          "prob_mod": AttributeProto.GRAPH}  # fmt: skip


def flex_attention(node: Node) -> Steps:
    """softmax(score_mod(q · kᵀ · scale)), changed by prob_mod, times v; all between is of dtype softmax_precision."""
    for name, attribute in node.attributes.items():
        if _KNOWN.get(name) != attribute.type:
            raise ImportModelError(f"attribute {name} of FlexAttention is of kind {attribute.type}, or there is none")
    graphs = {name: node.graph(name) for name in ("score_mod", "prob_mod") if name in node.attributes}
    for graph in graphs.values():
        require_inputs(node, graph, 1)
        require_outputs(node, graph, 1, 1)
    if len(node.inputs) != 3:
        raise ImportModelError(f"FlexAttention has {len(node.inputs)} inputs, wanted queries, keys and values")
    values = all_made(node, node.inputs)
    if values is None:
        for graph in graphs.values():
            yield node.body(graph, node.names, [UNKNOWN])
        return unknown(node)
    b, (q, k, v) = node.b, values
    scores = _scores(node, q, k, v)
    changed = yield from _changed(node, graphs.get("score_mod"), scores)
    if changed is None:
        return unknown(node)
    weights = yield from _changed(node, graphs.get("prob_mod"), b.nn.softmax(changed, axis=-1))
    if weights is None:
        return unknown(node)
    return [b.to(attended(b, weights, b.to(v, b.dtype(weights))), b.dtype(q))]


def _scores(node: Node, q: Expr, k: Expr, v: Expr) -> Expr:
    """The products of queries and keys, scaled, in the dtype of the softmax."""
    b = node.b
    if any(b.rank(x) != 4 for x in (q, k, v)):
        raise ImportModelError(f"FlexAttention of {q.ty}, {k.ty} and {v.ty}, wanted tensors of rank 4")
    _require_equal(b, k, v, (1, 2))
    _require_equal(b, q, k, (3,))
    wide, given = b.wide(q), node.attributes.get("scale")
    scores = scores_of(b, wide, b.wide(k), None if given is None else given.f)
    precision = node.attributes.get("softmax_precision")
    dtype = b.dtype(wide) if precision is None else element_type(precision.i, "softmax_precision")
    return b.to(scores, dtype)


def _require_equal(b: Emitter, x: Expr, y: Expr, axes: Sequence[int]) -> None:
    for axis in axes:
        own, other = b.dims_of(x)[axis], b.dims_of(y)[axis]
        if provably_different(own, other):
            raise ImportModelError(f"FlexAttention of {x.ty} and {y.ty}: dim {axis} differs")
        b.require(own, other, f"dim {axis} of what FlexAttention is of")


def _changed(node: Node, graph: GraphProto | None, x: Expr) -> Generator[Frame, list[Value], Expr | None]:
    """`x` as a body, if there is one, changes it; its type must stay."""
    if graph is None:
        return x
    b, found = node.b, all_made(node, (yield from here(node, graph, [x])))
    if found is None:
        return None
    (y,) = found
    if b.dtype(y) != b.dtype(x) or b.rank(y) != 4:
        raise ImportModelError(f"a body of FlexAttention makes {y.ty} of {x.ty}, wanted the same type")
    _require_equal(b, y, x, range(4))
    return y if y.ty == x.ty else b.match_cast(y, b.type_of(x))

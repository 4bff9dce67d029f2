"""Scan and SequenceMap: a body for each part of tensors, or for each element of sequences."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Generator, Sequence

from legato.arith.expr import Var as DimVar
from legato.arith.prove import provably_different
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.bodies import Node, Steps, all_made, here, require_inputs, require_outputs, type_of, unknown
from legato.frontend.onnx.cells import head_of
from legato.frontend.onnx.containers import element_of, is_list, join, map_of, of_own_shape
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.frames import UNKNOWN, Captures, Frame, Unknown, Value
from legato.frontend.onnx.inputs import declared_extents
from legato.frontend.onnx.loops import Loop, Stack
from legato.frontend.onnx.proto import AttributeProto
from legato.frontend.onnx.signature import is_on
from legato.ir.expr import Expr, Var
from legato.ir.types import Dim, TensorType, TupleType

__all__ = ["scan", "sequence_map"]

# ------------------------------------------------------------------ Scan


@dataclass(frozen=True, slots=True)
class _Along:
    """How a Scan goes through its tensors: for each that it reads, and for each that it makes, the axis, and whether
    from back to front."""

    inputs: Sequence[tuple[int, bool]]
    outputs: Sequence[tuple[int, bool]]


def scan(node: Node) -> Steps:
    """A loop over the parts of tensors, along an axis each; before operator set 9, once for each row of a batch."""
    graph = node.graph("body")
    old = node.opset < 9
    given = node.inputs[1:] if old else node.inputs
    count = _int(node, "num_scan_inputs")
    if not 1 <= count <= len(given):
        raise ImportModelError(f"Scan has {len(given)} inputs, of which {count} are read part by part")
    states = len(given) - count
    require_inputs(node, graph, len(given))
    require_outputs(node, graph, max(states, node.outputs), len(graph.output))
    along = _directions(node, count, len(graph.output) - states, old)
    values = all_made(node, given)
    lengths = node.needed(node.inputs[0]) if old else None
    if values is None or isinstance(lengths, Unknown):
        yield node.body(graph, node.names, [UNKNOWN] * len(given))
        return unknown(node)
    names, captures = node.inner()
    if not old:
        found = yield from _scanned(node, names, captures, values[:states], values[states:], along, None)
        return unknown(node) if found is None else list(found)
    return (yield from _batched(node, names, captures, values, states, along, lengths))


def _directions(node: Node, inputs: int, outputs: int, old: bool) -> _Along:
    if old:
        return _Along([(0, d) for d in _flags(node, "directions", inputs)], [(0, False)] * outputs)
    read = zip(_ints(node, "scan_input_axes", inputs), _flags(node, "scan_input_directions", inputs), strict=True)
    made = zip(_ints(node, "scan_output_axes", outputs), _flags(node, "scan_output_directions", outputs), strict=True)
    return _Along(list(read), list(made))


def _int(node: Node, name: str) -> int:
    attribute = node.attributes.get(name)
    if attribute is None or attribute.type != AttributeProto.INT:
        raise ImportModelError(f"{node.operator} lacks its attribute {name}")
    return attribute.i


def _ints(node: Node, name: str, count: int) -> Sequence[int]:
    attribute = node.attributes.get(name)
    if attribute is None:
        return [0] * count
    if attribute.type != AttributeProto.INTS or len(attribute.ints) != count:
        raise ImportModelError(f"attribute {name} of {node.operator}: wanted {count} integers")
    return list(attribute.ints)


def _flags(node: Node, name: str, count: int) -> Sequence[bool]:
    return [is_on(i, f"attribute {name} of {node.operator}") for i in _ints(node, name, count)]


def _batched(
    node: Node,
    names: ChainMap[str, Value],
    captures: Captures,
    values: Sequence[Expr],
    states: int,
    along: _Along,
    lengths: Expr | None,
) -> Steps:
    """A Scan of each row of the batch, which is the first axis of all values; `lengths` says how long the rows are."""
    b, i, outside = node.b, node.b.var("row", (), "int64"), node.b.dims_here()
    size = _same(b, [b.dims_of(v)[b.axis(0, b.rank(v))] for v in values], "extents of the batch")
    rows = [b.take(captures.kept(v, "x"), i, axis=0) for v in values]
    length = None
    if lengths is not None:
        length = b.to(b.take(captures.kept(lengths, "lengths"), i, axis=0), dt.int64)
    inside = Captures(names, b.named)
    view = ChainMap[str, Value](inside)
    found = yield from _scanned(node, view, inside, rows[:states], rows[states:], along, length)
    if found is None:
        return unknown(node)
    limit = captures.kept(b.extent(size, dt.int64), "rows")
    made = Loop(b, "rows", [], set(), captures, limit, i, None, outside)
    return list[Value](made.close([], None, [(Stack(size), part) for part in found], [], None))


def _scanned(
    node: Node,
    names: ChainMap[str, Value],
    captures: Captures,
    initial: Sequence[Expr],
    read: Sequence[Expr],
    along: _Along,
    length: Expr | None,
) -> Generator[Frame, list[Value], list[Expr] | None]:
    """The last state, and what the rounds yielded; there are `length` rounds, or as many as `read` have parts."""
    b, graph, outside = node.b, node.graph("body"), node.b.dims_here()
    i = b.var("i", (), "int64")
    axes = [b.axis(axis, b.rank(x)) for x, (axis, _) in zip(read, along.inputs, strict=True)]
    size = _same(b, [b.dims_of(x)[a] for x, a in zip(read, axes, strict=True)], "extents that Scan goes along")
    state = [b.var(f"s{n}", type_of(v)) for n, v in enumerate(initial)]
    parts = []
    for x, axis, (_, reverse) in zip(read, axes, along.inputs, strict=True):
        at = b.subtract(b.extent(size - 1, dt.int64), i) if reverse else i
        parts.append(b.take(captures.kept(x, "xs"), at, axis=axis))
    body = node.body(graph, names, [*state, *parts])
    found = all_made(node, (yield body))
    if found is None:
        return None
    after = [_unchanged(b, var, value, outside) for var, value in zip(state, found, strict=False)]
    limit = captures.kept(b.extent(size, dt.int64) if length is None else length, "count")
    made = Loop(b, "scan", state, set(), captures, limit, i, None, outside)
    declared = map(declared_extents, graph.output[len(state) :])
    stacks = [Stack(size, *how, declared=own) for how, own in zip(along.outputs, declared, strict=True)]
    yielded = list(zip(stacks, found[len(state) :], strict=True))
    return made.close(after, None, yielded, initial, None, body.bound)


def _unchanged(b: Emitter, var: Var, value: Expr, outside: Collection[DimVar]) -> Expr:
    """The state `var` after a round that makes it `value`. What is required of dims `outside` is checked before."""
    ty = join(b, type_of(var), type_of(value), None, "a value that it changes")
    if ty == value.ty:
        return value
    pairs = list(zip(ty.shape, b.dims_of(value), strict=True)) if isinstance(ty, TensorType) else []
    if not pairs or any(provably_different(*pair) for pair in pairs):
        raise UnsupportedError(f"a round changes the shape of its state, from {var.ty} to {value.ty}")
    for pair in pairs:
        if all(d in outside for d in variables(*pair)):
            b.require(*pair, "no round changes the shape of the state")
    return b.match_cast(value, ty)


def _same(b: Emitter, found: Sequence[Dim], what: str) -> Dim:
    """The dim that all of `found` must be."""
    for d in found[1:]:
        if provably_different(found[0], d):
            raise ImportModelError(f"{what} are {', '.join(map(str, dict.fromkeys(found)))}, wanted equal ones")
        b.require(found[0], d, what)
    return found[0]


# ------------------------------------------------------------------ SequenceMap


def sequence_map(node: Node) -> Steps:
    """The body for each element of a sequence, and for what is at the same place of others."""
    b, graph = node.b, node.graph("body")
    require_inputs(node, graph, len(node.inputs))
    require_outputs(node, graph, node.outputs, len(graph.output))
    if not node.inputs:
        raise ImportModelError("SequenceMap lacks its sequence")
    values = all_made(node, node.inputs)
    if values is None:
        yield node.body(graph, node.names, [UNKNOWN] * len(node.inputs))
        return unknown(node)
    first = values[0].ty
    if isinstance(first, TupleType):
        return (yield from _mapped_items(node, values, len(first.fields)))
    if not is_list(first):
        raise ImportModelError(f"the first input of SequenceMap is of type {first}, wanted a sequence")
    (names, captures), known = node.inner(), b.dims_here()
    lists = [n for n, v in enumerate(values) if is_list(v.ty)]
    if any(isinstance(v.ty, TupleType) for v in values):
        raise UnsupportedError("sequences of which some are of known length, others of any")
    heads = [head_of(b, element_of(values[n]), f"x{n}") for n in lists]
    tails = [Var(f"rest{n}", ty=values[n].ty) for n in lists]
    given: list[Value] = [captures.kept(v, "x") for v in values]
    for n, head in zip(lists, heads, strict=True):
        given[n] = head
    body = node.body(graph, names, given)
    found = all_made(node, (yield body))
    if found is None:
        return unknown(node)
    found = [of_own_shape(b, value, known) for value in found]
    whole = map_of(b, [values[n] for n in lists], heads, tails, found, captures.bound, body.bound)
    return [b.get(whole, n) for n in range(len(found))]


def _mapped_items(node: Node, values: Sequence[Expr], count: int) -> Steps:
    """The bodies of the elements one after the other."""
    b, graph = node.b, node.graph("body")
    rows: list[list[Expr]] = []
    for v in values:
        if isinstance(v.ty, TupleType) and len(v.ty.fields) != count:
            raise ImportModelError(f"sequences of {count} and of {len(v.ty.fields)} elements")
    for n in range(count):
        given = [b.get(v, n) if isinstance(v.ty, TupleType) else v for v in values]
        row = all_made(node, (yield from here(node, graph, given)))
        if row is None:
            return unknown(node)
        for v in row:
            b.type_of(v)  # a tensor: there are no sequences of others
        rows.append(row)
    return [b.tuple_([row[k] for row in rows]) for k in range(node.outputs)]

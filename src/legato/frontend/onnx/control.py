"""If, Loop, Scan, SequenceMap, FlexAttention: nodes that have bodies.

Each is a generator: it yields the frame of a body, is sent the values of the body's outputs when these have been made,
and returns the values of the node's outputs. So bodies nest without recursion.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence

from legato.arith.expr import Const, const, fresh, max_
from legato.arith.expr import Var as DimVar
from legato.arith.simplify import simplify
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.bodies import (
    Node,
    Steps,
    all_made,
    as_flag,
    as_scalar,
    here,
    require_inputs,
    require_outputs,
    type_of,
    unknown,
)
from legato.frontend.onnx.containers import Free, coerced, join
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.flex import flex_attention
from legato.frontend.onnx.frames import UNKNOWN, Frame, Unknown, Value
from legato.frontend.onnx.inputs import declared_extents, declared_rank
from legato.frontend.onnx.loops import Loop, Stack
from legato.frontend.onnx.proto import GraphProto
from legato.frontend.onnx.report import Unsupported
from legato.frontend.onnx.scans import scan, sequence_map
from legato.ir.expr import Expr
from legato.ir.let import lets
from legato.ir.types import Dim, TensorType, Type

__all__ = ["CONTROL"]

_UNROLLED = 64  # rounds of a loop that is unrolled where it cannot be a function
_WIDENINGS = 16  # times that a loop's body is imported, each time for more general types of its state

# ------------------------------------------------------------------ If


def if_(node: Node) -> Steps:
    """The branch that a known condition takes, else an If of both; what the branches give must have one type."""
    b, (then, orelse) = node.b, (node.graph("then_branch"), node.graph("else_branch"))
    if len(node.inputs) != 1 or node.inputs[0] is None:
        raise ImportModelError("If lacks its condition")
    for graph in (then, orelse):
        require_inputs(node, graph, 0)
        require_outputs(node, graph, node.outputs, node.outputs)
    condition = node.needed(node.inputs[0])
    known = b.array(condition) if isinstance(condition, Expr) else None
    if known is not None:
        if known.size != 1:
            raise ImportModelError(f"the condition of If has {known.size} elements, wanted one")
        return (yield from here(node, then if known.all() else orelse, ()))
    bodies = [node.body(graph, node.names, ()) for graph in (then, orelse)]
    left = all_made(node, (yield bodies[0]))
    right = all_made(node, (yield bodies[1]))
    if not isinstance(condition, Expr) or left is None or right is None:
        return unknown(node)
    loose = [_several_ranks(b, x, y) for x, y in zip(left, right, strict=True)]
    left, right = ([_of_rank(b, v, rank) for v, rank in zip(values, loose, strict=True)] for values in (left, right))
    types = [_joined(b, n, x, y, condition) for n, (x, y) in enumerate(zip(left, right, strict=True))]
    branches = [[coerced(b, v, ty) for v, ty in zip(values, types, strict=True)] for values in (left, right)]
    branches = [list(values) for values in zip(*(_open(b, x, y) for x, y in zip(*branches, strict=True)), strict=True)]
    flag = as_flag(b, condition, "the condition")
    given = [values[0] if len(types) == 1 else b.tuple_(values) for values in branches]
    made = b.if_(flag, *(lets(body.bound, value) for body, value in zip(bodies, given, strict=True)))
    results = [made] if len(types) == 1 else [b.get(made, n) for n in range(len(types))]
    return [
        r if rank is None else _without_rank(node, n, r) for n, (r, rank) in enumerate(zip(results, loose, strict=True))
    ]


def _several_ranks(b: Emitter, x: Expr, y: Expr) -> int | None:
    """The higher rank of two tensors of one element, if they have two; None for what has one rank or more elements."""
    if not (isinstance(x.ty, TensorType) and isinstance(y.ty, TensorType)) or x.ty.rank == y.ty.rank:
        return None
    return max(x.ty.rank, y.ty.rank) if all(map(b.is_one, (*x.ty.shape, *y.ty.shape))) else None


def _of_rank(b: Emitter, x: Expr, rank: int | None) -> Expr:
    """`x`; for a rank, as a tensor of one element that has it."""
    return x if rank is None or rank == b.rank(x) else b.reshape(x, newshape=(1,) * rank)


def _without_rank(node: Node, n: int, value: Expr) -> Unknown:
    """An output of which only the data decides the rank."""
    reason = f"its output number {n + 1} has the rank that the data decides, at most {node.b.rank(value)}"
    where = node.b.span.source if node.b.span else ""
    return Unknown(Unsupported(where, node.operator, "", node.opset, reason), value)


def _joined(b: Emitter, n: int, x: Expr, y: Expr, condition: Expr) -> Type:
    """The type of what both branches give for output `n`; where there is none, how to decide what the branch is."""
    try:
        return join(b, type_of(x), type_of(y), None, f"its output number {n + 1}")
    except UnsupportedError as error:
        dims = b.value_of(condition) or ()
        hint = next((found for d in variables(*dims) if (found := b.way_out(d, 1, f"{d}:2.."))), None)
        raise UnsupportedError(error.message, hint=error.hint or hint) from None


def _open(b: Emitter, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Two tensors of one rank; where an extent of theirs differs for certain, neither type says what it is."""
    if not (isinstance(x.ty, TensorType) and isinstance(y.ty, TensorType)):
        return x, y
    pairs = list(zip(x.ty.shape, y.ty.shape, strict=True))
    if not any(isinstance(d, Const) and isinstance(e, Const) and d != e for d, e in pairs):
        return x, y
    shapes = [[fresh("d", 0) if d != e else d for d, e in pairs] for _ in (x, y)]
    return b.match_cast(x, TensorType(tuple(shapes[0]), x.ty.dtype)), b.match_cast(
        y, TensorType(tuple(shapes[1]), y.ty.dtype)
    )


# ------------------------------------------------------------------ Loop


def loop(node: Node) -> Steps:
    """A count, a condition, values that are carried from round to round, and values that each round yields."""
    b, graph = node.b, node.graph("body")
    carried = len(node.inputs) - 2
    if carried < 0:
        raise ImportModelError(f"Loop has {len(node.inputs)} inputs, wanted at least 2")
    require_inputs(node, graph, carried + 2)
    require_outputs(node, graph, max(carried + 1, node.outputs + 1), len(graph.output))
    start = all_made(node, node.inputs[2:])
    count, first = map(node.needed, node.inputs[:2])
    if isinstance(count, Unknown) or isinstance(first, Unknown) or start is None:
        yield node.body(graph, node.names, [UNKNOWN] * (carried + 2))
        return unknown(node)
    back = node.trial()
    found, why = None, None
    try:
        found = yield from _rolled(node, start, count, first)
    except UnsupportedError as error:
        why = error
    if found is not None:
        return found
    times = None if count is None else b.array(b.reshape(count, newshape=(-1,)))
    if times is not None and times.size == 1 and times[0] <= _UNROLLED and (first is None or b.is_scalar(first, 1)):
        back()
        return (yield from _unrolled(node, start, int(times[0])))
    if why is not None:
        raise why
    return unknown(node)


def _unrolled(node: Node, start: Sequence[Expr], times: int) -> Steps:
    """The rounds one after the other, each with types of its own."""
    b, graph = node.b, node.graph("body")
    state, true, rows = list(start), b.constant(True, dt.bool_), list[list[Expr]]()
    for n in range(times):
        b.widened.clear()  # each round has types of its own
        given = _declared(b, graph, [b.constant(n, dt.int64), true, *state])
        values = all_made(node, (yield from here(node, graph, given)))
        if values is None:
            return unknown(node)
        go = b.array(values[0])
        if go is None or go.size != 1:
            raise UnsupportedError("its rounds differ in their types, and when it ends depends on the data")
        state = values[1 : len(start) + 1]
        rows.append(values[len(start) + 1 :])
        if not go.all():
            break
    if not rows and node.outputs > len(start):
        raise UnsupportedError("it has no rounds: what they would yield has no type")
    return [*state, *(_stacked(b, parts) for parts in zip(*rows, strict=True))]


def _declared(b: Emitter, graph: GraphProto, values: Sequence[Expr]) -> list[Expr]:
    """The values that a round of the body `graph` is given: number and condition are scalars or of one element, as it
    declares them."""
    given = list(values)
    for n, (declared, value) in enumerate(zip(graph.input, values, strict=True)):
        rank = declared_rank(declared)
        if n < 2 and rank:
            if rank > 1:
                raise ImportModelError(f"the body of Loop declares {declared.name!r} of rank {rank}, wanted a scalar")
            given[n] = b.reshape(value, newshape=(1,))
    return given


def _stacked(b: Emitter, parts: Sequence[Expr]) -> Expr:
    if any(p.ty != parts[0].ty for p in parts):
        raise UnsupportedError("what its rounds yield differs in type")
    return b.concatenate(tuple(b.expand_dims(p, axis=0) for p in parts), axis=0)


def _rolled(
    node: Node, start: Sequence[Expr], count: Expr | None, first: Expr | None
) -> Generator[Frame, list[Value], list[Value] | None]:
    """The loop as a function; None where something in its body cannot be converted."""
    b, graph, carried, outside = node.b, node.graph("body"), len(start), node.b.dims_here()
    true = b.constant(True, dt.bool_)
    first = true if first is None else as_flag(b, first, "the condition")
    count = None if count is None else b.to(as_scalar(b, count, "the trip count"), dt.int64)
    most, here = _rounds(b, count), b.span.source if b.span else ""
    free, found = set[DimVar](), list[Expr]()
    types = [_widened(type_of(v), n, b.widened.get(here, frozenset()), free) for n, v in enumerate(start)]
    for _ in range(_WIDENINGS):
        names, captures = node.inner()
        state = [b.var(f"s{n}", ty) for n, ty in enumerate(types)]
        i = b.var("i", (), "int64")
        if most is not None:
            b.limits[i] = most
        # A round only runs where the condition holds.
        body = node.body(graph, names, _declared(b, graph, [i, true, *state]))
        values = all_made(node, (yield body))
        if values is None:
            return None
        found, narrow = values, types
        what = "a value that it changes"
        types = [join(b, a, type_of(v), free, what) for a, v in zip(types, found[1:], strict=False)]
        if types == narrow:
            break
    else:
        raise UnsupportedError("the types of what its rounds change do not settle")
    b.widened[here] = frozenset(place for n, ty in enumerate(types) for place in _free_places(ty, n, free))
    go, parts = as_flag(b, found[0], "the condition"), found[carried + 1 :]
    always = b.is_scalar(first, 1) and b.is_scalar(go, 1)
    limit = None if count is None else captures.kept(count, "count")
    made = Loop(b, "loop", state, free, captures, limit, i, None if always else b.var("go", (), "bool"), outside)
    size = most if always else None
    begin = [coerced(b, v, ty) for v, ty in zip(start, types, strict=True)]
    after = [coerced(b, v, ty) for v, ty in zip(found[1:], types, strict=False)]
    stacks = [Stack(size, declared=declared_extents(value)) for value in graph.output[carried + 1 :]]
    return list[Value](made.close(after, go, list(zip(stacks, parts, strict=True)), begin, first, body.bound))


def _widened(ty: Type, n: int, places: frozenset[tuple[int, int]], free: Free) -> Type:
    """The type of state `n` with new dims where rounds were found to change it before: around an inner loop, that saves
    an import of it for each loop that it is in."""
    if not isinstance(ty, TensorType):
        return ty
    shape = tuple(fresh("d", 0) if (n, axis) in places else d for axis, d in enumerate(ty.shape))
    free.update(d for d, old in zip(shape, ty.shape, strict=True) if d is not old and isinstance(d, DimVar))
    return TensorType(shape, ty.dtype)


def _free_places(ty: Type, n: int, free: Free) -> list[tuple[int, int]]:
    return [(n, axis) for axis, d in enumerate(ty.shape) if d in free] if isinstance(ty, TensorType) else []


def _rounds(b: Emitter, count: Expr | None) -> Dim | None:
    """The number of rounds as a dim, where `count` is known to be one."""
    value = None if count is None else b.value_of(count)
    return None if value is None else simplify(max_(value[0], const(0)))


CONTROL: Mapping[tuple[str, str], Callable[[Node], Steps]] = {
    ("", "If"): if_,
    ("", "Loop"): loop,
    ("", "Scan"): scan,
    ("", "SequenceMap"): sequence_map,
    ("ai.onnx.preview", "FlexAttention"): flex_attention,
}

"""If, Loop, Scan and SequenceMap: nodes that have bodies.

Each is a generator: it yields the frame of a body, is sent the values of the body's outputs when these have been made,
and returns the values of the node's outputs. So bodies nest without recursion.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Generator, Mapping, Sequence

from legato.arith.expr import Const, const, fresh, max_
from legato.arith.expr import Var as DimVar
from legato.arith.prove import provably_different
from legato.arith.simplify import simplify
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.cells import head_of
from legato.frontend.onnx.containers import Free, coerced, element_of, is_list, join, map_of, of_own_shape
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.frames import UNKNOWN, Captures, Frame, Unknown, Value
from legato.frontend.onnx.inputs import check_declared, declared_rank
from legato.frontend.onnx.loops import Loop, Stack
from legato.frontend.onnx.proto import AttributeProto, GraphProto
from legato.frontend.onnx.report import Unsupported
from legato.ir.expr import Expr, Var
from legato.ir.let import lets
from legato.ir.types import Dim, TensorType, TupleType, Type

__all__ = ["CONTROL", "Node", "Steps"]

Steps = Generator[Frame, list[Value], list[Value]]
_UNROLLED = 64  # rounds of a loop that is unrolled where it cannot be a function
_WIDENINGS = 16  # times that a loop's body is imported, each time for more general types of its state


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


def _known(node: Node, values: Sequence[Value]) -> list[Expr] | None:
    """`values` if all could be made; else the reasons are listed. ImportModelError where one is left out."""
    if None in values:
        raise ImportModelError(f"{node.operator} lacks an input, or a body of it an output")
    found = [v for v in map(node.needed, values) if isinstance(v, Expr)]
    return found if len(found) == len(values) else None


def _here(node: Node, graph: GraphProto, values: Sequence[Value]) -> Steps:
    """What a body gives that stands in the place of `node`."""
    body = node.body(graph, node.names, values)
    found = yield body
    node.b.adopt(body.bound)
    return found


def _unknown(node: Node) -> list[Value]:
    return [UNKNOWN] * node.outputs


# ------------------------------------------------------------------ If


def if_(node: Node) -> Steps:
    """The branch that a known condition takes, else an If of both; what the branches give must have one type."""
    b, (then, orelse) = node.b, (node.graph("then_branch"), node.graph("else_branch"))
    if len(node.inputs) != 1 or node.inputs[0] is None:
        raise ImportModelError("If lacks its condition")
    for graph in (then, orelse):
        _require_inputs(node, graph, 0)
        _require_outputs(node, graph, node.outputs, node.outputs)
    condition = node.needed(node.inputs[0])
    known = b.array(condition) if isinstance(condition, Expr) else None
    if known is not None:
        if known.size != 1:
            raise ImportModelError(f"the condition of If has {known.size} elements, wanted one")
        return (yield from _here(node, then if known.all() else orelse, ()))
    bodies = [node.body(graph, node.names, ()) for graph in (then, orelse)]
    left = _known(node, (yield bodies[0]))
    right = _known(node, (yield bodies[1]))
    if not isinstance(condition, Expr) or left is None or right is None:
        return _unknown(node)
    loose = [_several_ranks(b, x, y) for x, y in zip(left, right, strict=True)]
    left, right = ([_of_rank(b, v, rank) for v, rank in zip(values, loose, strict=True)] for values in (left, right))
    types = [_joined(b, n, x, y, condition) for n, (x, y) in enumerate(zip(left, right, strict=True))]
    branches = [[coerced(b, v, ty) for v, ty in zip(values, types, strict=True)] for values in (left, right)]
    branches = [list(values) for values in zip(*(_open(b, x, y) for x, y in zip(*branches, strict=True)), strict=True)]
    flag = _flag(b, condition, "the condition")
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
        return join(b, _type(x), _type(y), None, f"its output number {n + 1}")
    except UnsupportedError as error:
        dims = b.value_of(condition) or ()
        hint = next((found for d in variables(*dims) if (found := b.way_out(d, "1", f"{d}:2.."))), None)
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


def _type(value: Expr) -> Type:
    assert value.ty is not None
    return value.ty


def _flag(b: Emitter, x: Expr, what: str) -> Expr:
    """A tensor of one element, of dtype bool, as a scalar."""
    if not b.dtype(x).is_bool:
        raise ImportModelError(f"{what} of dtype {b.dtype(x)}, wanted bool")
    return _scalar(b, x, what)


def _scalar(b: Emitter, x: Expr, what: str) -> Expr:
    """A tensor of one element as a scalar."""
    if not b.rank(x):
        return x
    if any(not b.is_one(d) for d in b.dims_of(x)):
        raise ImportModelError(f"{what} has shape {b.type_of(x)}, wanted one element")
    return b.reshape(x, newshape=())


def _require_outputs(node: Node, graph: GraphProto, least: int, most: int) -> None:
    found = len(graph.output)
    if not least <= found <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise ImportModelError(f"a body of {node.operator} gives {found} outputs, wanted {wanted}")


def _require_inputs(node: Node, graph: GraphProto, wanted: int) -> None:
    if len(graph.input) != wanted:
        raise ImportModelError(f"a body of {node.operator} takes {len(graph.input)} inputs, wanted {wanted}")


# ------------------------------------------------------------------ Loop


def loop(node: Node) -> Steps:
    """A count, a condition, values that are carried from round to round, and values that each round yields."""
    b, graph = node.b, node.graph("body")
    carried = len(node.inputs) - 2
    if carried < 0:
        raise ImportModelError(f"Loop has {len(node.inputs)} inputs, wanted at least 2")
    _require_inputs(node, graph, carried + 2)
    _require_outputs(node, graph, max(carried + 1, node.outputs + 1), len(graph.output))
    start = _known(node, node.inputs[2:])
    count, first = map(node.needed, node.inputs[:2])
    if isinstance(count, Unknown) or isinstance(first, Unknown) or start is None:
        yield node.body(graph, node.names, [UNKNOWN] * (carried + 2))
        return _unknown(node)
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
    return _unknown(node)


def _unrolled(node: Node, start: Sequence[Expr], times: int) -> Steps:
    """The rounds one after the other, each with types of its own."""
    b, graph = node.b, node.graph("body")
    state, true, rows = list(start), b.constant(True, dt.bool_), list[list[Expr]]()
    for n in range(times):
        b.widened.clear()  # each round has types of its own
        given = _declared(b, graph, [b.constant(n, dt.int64), true, *state])
        values = _known(node, (yield from _here(node, graph, given)))
        if values is None:
            return _unknown(node)
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
        check_declared(declared, value.ty)
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
    first = true if first is None else _flag(b, first, "the condition")
    count = None if count is None else b.to(_scalar(b, count, "the trip count"), dt.int64)
    most, here = _rounds(b, count), b.span.source if b.span else ""
    free, found = set[DimVar](), list[Expr]()
    types = [_widened(_type(v), n, b.widened.get(here, frozenset()), free) for n, v in enumerate(start)]
    for _ in range(_WIDENINGS):
        names, captures = node.inner()
        state = [b.var(f"s{n}", ty) for n, ty in enumerate(types)]
        i = b.var("i", (), "int64")
        if most is not None:
            b.limits[i] = most
        # A round only runs where the condition holds.
        body = node.body(graph, names, _declared(b, graph, [i, true, *state]))
        values = _known(node, (yield body))
        if values is None:
            return None
        found, narrow = values, types
        types = [join(b, a, _type(v), free, "a value that it changes") for a, v in zip(types, found[1:], strict=False)]
        if types == narrow:
            break
    else:
        raise UnsupportedError("the types of what its rounds change do not settle")
    b.widened[here] = frozenset(place for n, ty in enumerate(types) for place in _free_places(ty, n, free))
    go, parts = _flag(b, found[0], "the condition"), found[carried + 1 :]
    always = b.is_scalar(first, 1) and b.is_scalar(go, 1)
    limit = None if count is None else captures.kept(count, "count")
    made = Loop(b, "loop", state, free, captures, limit, i, None if always else b.var("go", (), "bool"), outside)
    size = most if always else None
    begin = [coerced(b, v, ty) for v, ty in zip(start, types, strict=True)]
    after = [coerced(b, v, ty) for v, ty in zip(found[1:], types, strict=False)]
    return list[Value](made.close(after, go, [(Stack(size), part) for part in parts], begin, first, body.bound))


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
    _require_inputs(node, graph, len(given))
    _require_outputs(node, graph, max(states, node.outputs), len(graph.output))
    along = _directions(node, count, len(graph.output) - states, old)
    values = _known(node, given)
    lengths = node.needed(node.inputs[0]) if old else None
    if values is None or isinstance(lengths, Unknown):
        yield node.body(graph, node.names, [UNKNOWN] * len(given))
        return _unknown(node)
    names, captures = node.inner()
    if not old:
        found = yield from _scanned(node, names, captures, values[:states], values[states:], along, None)
        return _unknown(node) if found is None else list(found)
    return (yield from _batched(node, names, captures, values, states, along, lengths))


def _directions(node: Node, inputs: int, outputs: int, old: bool) -> _Along:
    if old:
        return _Along([(0, bool(d)) for d in _ints(node, "directions", inputs)], [(0, False)] * outputs)
    read = zip(_ints(node, "scan_input_axes", inputs), _ints(node, "scan_input_directions", inputs), strict=True)
    made = zip(_ints(node, "scan_output_axes", outputs), _ints(node, "scan_output_directions", outputs), strict=True)
    return _Along([(axis, bool(d)) for axis, d in read], [(axis, bool(d)) for axis, d in made])


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
        return _unknown(node)
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
    state = [b.var(f"s{n}", _type(v)) for n, v in enumerate(initial)]
    parts = []
    for x, axis, (_, reverse) in zip(read, axes, along.inputs, strict=True):
        at = b.subtract(b.extent(size - 1, dt.int64), i) if reverse else i
        parts.append(b.take(captures.kept(x, "xs"), at, axis=axis))
    body = node.body(graph, names, [*state, *parts])
    found = _known(node, (yield body))
    if found is None:
        return None
    after = [_unchanged(b, var, value, outside) for var, value in zip(state, found, strict=False)]
    limit = captures.kept(b.extent(size, dt.int64) if length is None else length, "count")
    made = Loop(b, "scan", state, set(), captures, limit, i, None, outside)
    stacks = [Stack(size, axis, reverse) for axis, reverse in along.outputs]
    yielded = list(zip(stacks, found[len(state) :], strict=True))
    return made.close(after, None, yielded, initial, None, body.bound)


def _unchanged(b: Emitter, var: Var, value: Expr, outside: Collection[DimVar]) -> Expr:
    """The state `var` after a round that makes it `value`. What is required of dims `outside` is checked before."""
    ty = join(b, _type(var), _type(value), None, "a value that it changes")
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
    _require_inputs(node, graph, len(node.inputs))
    _require_outputs(node, graph, node.outputs, len(graph.output))
    if not node.inputs:
        raise ImportModelError("SequenceMap lacks its sequence")
    values = _known(node, node.inputs)
    if values is None:
        yield node.body(graph, node.names, [UNKNOWN] * len(node.inputs))
        return _unknown(node)
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
    found = _known(node, (yield body))
    if found is None:
        return _unknown(node)
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
        row = _known(node, (yield from _here(node, graph, given)))
        if row is None:
            return _unknown(node)
        for v in row:
            b.type_of(v)  # a tensor: there are no sequences of others
        rows.append(row)
    return [b.tuple_([row[k] for row in rows]) for k in range(node.outputs)]


CONTROL: Mapping[str, Callable[[Node], Steps]] = {"If": if_, "Loop": loop, "Scan": scan, "SequenceMap": sequence_map}

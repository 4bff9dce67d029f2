"""A function that calls itself in tail position is a loop over copies of its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from legato.arith.expr import Var, const
from legato.arith.prove import prove_equal
from legato.base import dtype as dt
from legato.infer.replace import replace_vars
from legato.ir import expr as ir
from legato.ir._dims import free_dims
from legato.ir.let import chain
from legato.ir.types import TensorType, Type
from legato.lower.hosts.blocks import lower_block
from legato.lower.hosts.body import Body
from legato.lower.hosts.cells import leaf_types
from legato.lower.hosts.frame import Frame, Jump
from legato.lower.hosts.objects import box, opened
from legato.lower.hosts.ownership import handle
from legato.lower.hosts.results import Place
from legato.lower.hosts.values import Value, flat, flat_all, function_dims, instantiate, nest, same_type
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load, cast
from legato.tir.objects import Retain
from legato.tir.stmt import Store, While

__all__ = ["changing", "lower_loop", "tail_calls"]


def tail_calls(func: ir.Function, gv: ir.GlobalVar) -> dict[ir.Var, ir.Call]:
    """The calls of function `gv` by itself with their variables, if it is a loop: all are in tail position, and have
    arguments that differ from the parameters' types in dims of the function at most. Else nothing."""
    found = _calls(func.body, gv)
    for _, call in found:
        dims = dict(zip(function_dims(func), instantiate(func, call), strict=True))
        wanted = [replace_vars(t, {}, dims) for p in func.params for t in leaf_types(p.ty)]
        got = [t for a in call.args for t in leaf_types(a.ty)]
        if not all(same_type(a, b) for a, b in zip(got, wanted, strict=True)):
            return {}
    return dict(found)


def changing(func: ir.Function, calls: Mapping[ir.Var, ir.Call]) -> tuple[Var, ...]:
    """The dims of `func`, a loop by these `calls`, that are not the same in every turn."""
    dims = function_dims(func)
    found = [
        {d for d, value in zip(dims, instantiate(func, call), strict=True) if not prove_equal(value, d)}
        for call in calls.values()
    ]
    return tuple(d for d in dims if any(d in each for each in found))


def _calls(body: ir.Expr, gv: ir.GlobalVar) -> list[tuple[ir.Var, ir.Call]]:
    """The calls of `gv` in tail position with their variables; empty if any self call is elsewhere."""
    found: list[tuple[ir.Var, ir.Call]] = []
    stack = [(body, True)]
    while stack:
        expr, tail = stack.pop()
        bindings, result = chain(expr)
        for n, (var, value) in enumerate(bindings):
            last = tail and n == len(bindings) - 1 and var == result
            if isinstance(value, ir.Call) and value.op == gv:
                if not last:
                    return []
                found.append((var, value))
            elif isinstance(value, ir.If):
                stack += [(value.then, last), (value.orelse, last)]
            elif isinstance(value, ir.Match):
                stack += [(clause.body, last) for clause in value.clauses]
    return found


def lower_loop(
    frame: Frame,
    func: ir.Function,
    calls: Mapping[ir.Var, ir.Call],
    params: Sequence[Value],
    given: Mapping[Var, Var],
    place: Place,
    out: Body,
) -> None:
    """The body as a While over copies of the parameters; a tail call updates them, any other result ends it.

    A tensor that every call passes on is not copied. `given` are what the dims are at first that turns change: these
    are in registers, and tensors of such extents are objects.
    """
    loop = _Loop(frame, func, given, out)
    homes = _homes(func.body, calls, place)
    for n, (param, value) in enumerate(zip(func.params, params, strict=True)):
        loop.add(param, value, all(call.args[n] == param for call in calls.values()), homes.get(param), out)
    running = out.register(Buffer("running", (), dt.bool_, scope=Scope.REGISTER))
    out.append(Store(running, (), const(True, dt.bool_)))

    def emit(call: ir.Call, stmts: Body) -> None:
        loop.assign(call, stmts)
        stmts.append(Store(running, (), const(True, dt.bool_)))

    frame.jump = Jump(frozenset(calls), emit, frozenset(loop.held))
    body = Body()
    body.append(Store(running, (), const(False, dt.bool_)))
    loop.enter(body)
    lower_block(frame, func.body, place, body, loop.owned)
    out.append(While(Load(running, ()), body.done()))


def _homes(body: ir.Expr, calls: Mapping[ir.Var, ir.Call], place: Place) -> dict[ir.Var, Buffer]:
    """Where in `place` the variables belong that a loop returns there, however it ends."""
    leaves = list(flat(place.value))
    exits = [tuple(_fields(e, bound)) for e, bound in _exits(body, calls)]
    found: dict[ir.Var, Buffer] = {}
    for n, leaf in enumerate(leaves):
        values = {e[n] if all(isinstance(part.ty, TensorType) for part in e) else None for e in exits}
        if len(values) == 1 and isinstance(value := values.pop(), ir.Var) and leaf.rank:
            found.setdefault(value, leaf)
    return found


def _exits(body: ir.Expr, calls: Mapping[ir.Var, ir.Call]) -> Iterator[tuple[ir.Expr, Mapping[ir.Var, ir.Expr]]]:
    """What a loop may return, each with what is bound there."""
    stack = [body]
    while stack:
        bindings, result = chain(stack.pop())
        bound = dict(bindings)
        value = bound.get(result) if isinstance(result, ir.Var) else None
        if isinstance(value, ir.If):
            stack += [value.then, value.orelse]
        elif isinstance(value, ir.Match):
            stack += [clause.body for clause in value.clauses]
        elif result not in calls:
            yield result, bound


def _fields(value: ir.Expr, bound: Mapping[ir.Var, ir.Expr]) -> Iterator[ir.Expr]:
    """The parts of a value, taken apart as far as it is known to be a tuple."""
    stack = [value]
    while stack:
        e = stack.pop()
        while isinstance(e, ir.Var) and isinstance(bound.get(e), ir.Var | ir.Tuple):
            e = bound[e]
        if isinstance(e, ir.Tuple):
            stack += reversed(e.fields)
        else:
            yield e


class _Loop:
    """The state of a function that is a loop: `targets` hold its parameters, `dims` those dims that change. The loop
    owns the handles `owned`, and the memory of the tensors `held`."""

    def __init__(self, frame: Frame, func: ir.Function, given: Mapping[Var, Var], out: Body) -> None:
        self.frame, self.func, self.given = frame, func, given
        self.targets: list[Buffer] = []
        self.owned: list[Buffer] = []
        self.held: list[Buffer] = []
        self.dims = {d: out.register(Buffer(d.name, (), dt.int64, scope=Scope.REGISTER)) for d in given}
        out.extend(Store(register, (), cast(given[d], dt.int64)) for d, register in self.dims.items())
        self.params: list[tuple[ir.Var, list[Buffer]]] = []

    def add(self, param: ir.Var, value: Value, is_same: bool, home: Buffer | None, out: Body) -> None:
        """Appends the making of the state for one more parameter, `value` at first: in its `home`, if it has one."""
        leaves = list(zip(leaf_types(param.ty), flat(value), strict=True))
        state = [self._boxed(b, out) if self._is_changing(t) else self._state(b, is_same, home, out) for t, b in leaves]
        self.targets += state
        self.params.append((param, state))

    def _is_changing(self, ty: Type) -> bool:
        return isinstance(ty, TensorType) and not self.given.keys().isdisjoint(free_dims(ty))

    def _boxed(self, param: Buffer, out: Body) -> Buffer:
        handle = box(self.frame, param, out)
        self.frame.owners.take(handle, (), out)
        self.owned.append(handle)
        return handle

    def _state(self, param: Buffer, is_same: bool, home: Buffer | None, out: Body) -> Buffer:
        """What holds a parameter while the loop runs: scalars are in registers, objects belong to the loop."""
        if is_same and (param.rank or param.dtype == dt.handle):
            return param
        scope = Scope.GLOBAL if param.rank else Scope.REGISTER
        own = Buffer(param.name, param.shape, param.dtype, param.layout, scope)
        is_home = home is not None and home.shape == own.shape and home.layout == own.layout
        copy = home if home is not None and is_home else self.frame.like(own, out)
        out.append(self.frame.copy(param, copy))
        if copy.rank:
            self.held.append(copy)
        if copy.dtype == dt.handle:
            out.append(Retain(handle(copy)))
            self.owned.append(copy)
        return copy

    def enter(self, body: Body) -> None:
        """Appends what a turn begins with: the dims have values, and the parameters what the state holds."""
        frame = self.frame
        frame.bring({d: Load(register, ()) for d, register in self.dims.items()}, body)
        for param, state in self.params:
            assert param.ty is not None
            leaves = [
                self._opened(b, t, body) if self._is_changing(t) else b
                for t, b in zip(leaf_types(param.ty), state, strict=True)
            ]
            frame.env[param] = nest(param.ty, iter(leaves))

    def _opened(self, place: Buffer, ty: Type, body: Body) -> Buffer:
        assert isinstance(ty, TensorType)
        tensor = opened(Buffer(place.name, ty.shape, ty.dtype), place, body)
        self.frame.borrowed.box(tensor, place)
        return tensor

    def assign(self, call: ir.Call, out: Body) -> None:
        """Appends the copies of the arguments of `call` to the state, all at once as it were; handles there are owned.

        What else the block owns is released then, and not before: values may lie in it.
        """
        frame = self.frame
        dims = dict(zip(function_dims(self.func), instantiate(self.func, call), strict=True))
        frame.require_held((dims[d] for d in self.dims), out)
        args = flat_all(map(frame.atom, call.args))
        values = [
            box(frame, v, out) if t.dtype == dt.handle and v.dtype != dt.handle else v
            for v, t in zip(args, self.targets, strict=True)
        ]
        self._move(values, out)
        for d, register in self.dims.items():
            out.append(Store(register, (), cast(dims[d], dt.int64)))

    def _move(self, values: Sequence[Buffer], out: Body) -> None:
        frame, targets = self.frame, self.targets
        for v, t in zip(values, targets, strict=True):
            if v is t:
                frame.owners.held.pop(v, None)  # stays where it is
        moved = [(v, t) for v, t in zip(values, targets, strict=True) if v is not t]
        handles = [v for v, _ in moved if v.dtype == dt.handle]
        for n, v in enumerate(handles):
            frame.owners.take(v, handles[n + 1 :], out)
        temps: dict[Buffer, Buffer] = {}  # of sources that an earlier copy would overwrite
        written: set[Buffer] = set()
        for v, t in moved:
            if v in written and v not in temps:
                temps[v] = frame.like(v, out)
            written.add(t)
        out.extend(frame.copy(v, t) for v, t in temps.items())
        pairs = [(temps.get(v, v), t) for v, t in moved]
        out.extend(frame.copy(v, t) for v, t in pairs if t.rank)
        frame.owners.release(out)
        out.extend(frame.copy(v, t) for v, t in pairs if not t.rank)

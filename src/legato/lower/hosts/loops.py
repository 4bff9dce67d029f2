"""A function that calls itself in tail position is a loop over copies of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.ir import expr as ir
from legato.ir.let import chain
from legato.lower.hosts.blocks import lower_block
from legato.lower.hosts.body import Body
from legato.lower.hosts.cells import leaf_types
from legato.lower.hosts.frame import Frame, Jump
from legato.lower.hosts.ownership import handle
from legato.lower.hosts.values import Value, flat, flat_all, nest, same_type
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Retain, Store, While

__all__ = ["lower_loop", "tail_calls"]


def tail_calls(func: ir.Function, gv: ir.GlobalVar) -> dict[ir.Var, ir.Call]:
    """The calls of function `gv` by itself with their variables, if it is a loop: all are in tail position, and have
    arguments of the parameters' types. Else nothing."""
    wanted = [t for p in func.params for t in leaf_types(p.ty)]
    found = _calls(func.body, gv)
    for _, call in found:
        got = [t for a in call.args for t in leaf_types(a.ty)]
        if not all(same_type(a, b) for a, b in zip(got, wanted, strict=True)):
            return {}
    return dict(found)


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
    frame: Frame, func: ir.Function, calls: Mapping[ir.Var, ir.Call], params: Sequence[Value], outs: Value, out: Body
) -> None:
    """The body as a While over copies of the parameters; a tail call updates them, any other result ends it.

    A tensor that every call passes on is not copied.
    """
    state: list[Value] = []
    for n, (param, value) in enumerate(zip(func.params, params, strict=True)):
        assert param.ty is not None
        is_same = all(call.args[n] == param for call in calls.values())
        copy = nest(param.ty, iter([_state(frame, b, is_same, out) for b in flat(value)]))
        frame.env[param] = copy
        state.append(copy)
    running = out.register(Buffer("running", (), dt.bool_, scope=Scope.REGISTER))
    out.append(Store(running, (), const(True, dt.bool_)))

    targets, given = flat_all(state), set(flat_all(params))
    owned = [b for b in targets if b.dtype == dt.handle and b not in given]

    def emit(args: Sequence[ir.Expr], stmts: Body) -> None:
        _assign(frame, flat_all(map(frame.atom, args)), targets, stmts)
        stmts.append(Store(running, (), const(True, dt.bool_)))

    frame.jump = Jump(frozenset(calls), emit)
    body = Body()
    body.append(Store(running, (), const(False, dt.bool_)))
    lower_block(frame, func.body, outs, body, owned)
    out.append(While(Load(running, ()), body.done()))


def _state(frame: Frame, param: Buffer, is_same: bool, out: Body) -> Buffer:
    """What holds a parameter while the loop runs: scalars are in registers, objects belong to the loop."""
    if is_same and (param.rank or param.dtype == dt.handle):
        return param
    scope = Scope.GLOBAL if param.rank else Scope.REGISTER
    copy = frame.like(Buffer(param.name, param.shape, param.dtype, param.layout, scope), out)
    out.append(frame.copy(param, copy))
    if copy.dtype == dt.handle:
        out.append(Retain(handle(copy)))
    return copy


def _assign(frame: Frame, values: Sequence[Buffer], targets: Sequence[Buffer], out: Body) -> None:
    """Appends the copies of `values` to `targets`, all at once as it were; handles in `targets` are owned.

    What else the block owns is released then, and not before: values may lie in it.
    """
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

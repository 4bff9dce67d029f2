"""Relay functions that call tensor programs → host functions of the loop language.

Tensors become buffers, tuples disappear, results are written where the caller says. A block runs its bindings in
order: `call_tir` launches kernels, If branches, calls invoke other host functions, operators without a loop definition
are run by their reference. A function that calls itself in tail position becomes a loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from legato.arith.expr import Var, fresh
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.graph import components
from legato.base.target import Target
from legato.infer.replace import replace_vars
from legato.ir import expr as ir
from legato.ir._dims import free_dims
from legato.ir.types import Type
from legato.lower.deferred import called
from legato.lower.functions import LoweredModule
from legato.lower.hosts.blocks import lower_block
from legato.lower.hosts.body import Body
from legato.lower.hosts.devices import Lying, lying, module_devices, require_arguments, with_constants
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.loops import changing, lower_loop, tail_calls
from legato.lower.hosts.magnitude import fits
from legato.lower.hosts.program import HostProgram
from legato.lower.hosts.results import new_place
from legato.lower.hosts.tensor_programs import add_written
from legato.lower.hosts.values import Value, flat, flat_all, function_dims, nest, new_value
from legato.lower.lives import Sharing
from legato.lower.plan import plan_memory
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import cast
from legato.tir.stmt import Func, FuncKind, Launch, Stmt, Store, block
from legato.tir.walk import statements

__all__ = ["lower_hosts"]


def lower_hosts(lowered: LoweredModule, target: Target) -> HostProgram:
    """The host functions of every graph-level function of `lowered`, whose kernels are its loop-level functions."""
    mod = lowered.module
    program = HostProgram(target, found=dict(lowered.found), facts=dict(lowered.facts))
    for gv, func in mod.functions.items():
        if isinstance(func, Func):
            program.kernels[gv.name] = func
    add_written(program, (program.kernels[name] for name in sorted(lowered.written)))
    devices = module_devices(mod)
    hosts = {
        gv.name: _function(Frame(lowered, program, devices=devices), gv, graph) for gv, graph in mod.graph_functions()
    }
    program.functions = {name: host.func for name, host in hosts.items()}
    places = {name: host.lying for name, host in hosts.items()}
    require_arguments(program.functions, places)
    program.functions = {name: with_constants(f, program, places) for name, f in program.functions.items()}
    if any(places.values()):
        read = {name for f in program.functions.values() for _, name in f.constants}
        program.constants = {name: node for name, node in program.constants.items() if name in read}
    for together in components({name: called(f) for name, f in program.functions.items()}):
        for name in together:  # those that it calls, but for itself, are planned
            program.functions[name] = _planned(replace(hosts[name], func=program.functions[name]), program)
    _drop_copies(program)
    return program


@dataclass(frozen=True, slots=True)
class _Host:
    """A host function whose memory is not planned yet: `checks` come before, `results` are where its results belong.
    `lying` has the devices of its tensors."""

    func: Func
    frame: Frame
    checks: list[Stmt]
    results: tuple[Buffer, ...]
    lying: Lying


def _function(frame: Frame, gv: ir.GlobalVar, func: ir.Function) -> _Host:
    assert isinstance(func.body.ty, Type)
    out, handles = Body(), dict[Buffer, Var]()
    dims, calls = function_dims(func), tail_calls(func, gv)
    given = {d: fresh(d.name, d.lo, d.hi) for d in changing(func, calls)}  # what they are before the first turn
    frame.planned = frame.known = frozenset(d for d in dims if d not in given).union(given.values())
    frame.waiting = func.attrs.get("constraints", ())
    params = [_param(frame, p, given, handles, out) for p in func.params]
    late = [d for d in free_dims(func.body.ty) if d not in dims]
    place = new_place(replace_vars(func.body.ty, {}, given), "out", late, Scope.GLOBAL)
    checks = frame.checks()
    if calls:
        lower_loop(frame, func, calls, params, given, place, out)
    else:
        lower_block(frame, func.body, place, out)
    inputs = [handles.get(b, b) for b in flat_all(params)]
    words: tuple[Buffer | Var, ...] = (*inputs, *(given.get(d, d) for d in dims), *place.words)
    host = Func(gv.name, words, _with_extents(frame, out.done()), FuncKind.HOST, tuple(frame.constants.values()))
    results = tuple(b for b in flat(place.value) if b.rank)
    return _Host(host, frame, checks, results, lying(frame, func, host, place))


def _planned(host: _Host, program: HostProgram) -> Func:
    """The function with a plan of its memory, which is noted in `program`."""
    frame, checks, name = host.frame, host.checks, host.func.name
    sharing = Sharing(program.in_place, frozenset(program.copies.values()))
    planned, program.plans[name] = plan_memory(
        host.func, frame.buffers, frame.views.within, sharing, host.results, host.lying
    )
    size = program.plans[name].size
    if variables(size):
        checks.append(frame.require(fits(size)))
    return planned.with_body(block(*checks, planned.body))  # sizes are checked before their use


def _drop_copies(program: HostProgram) -> None:
    """Drops the kernels that copy where nothing was left to copy."""
    launched = {s.kernel for f in program.functions.values() for s in statements(f.body) if isinstance(s, Launch)}
    for digest, name in list(program.copies.items()):
        if name not in launched:
            del program.copies[digest], program.facts[name]
            program.kernels.pop(name, None)
            program.found.pop(name, None)


def _param(frame: Frame, param: ir.Var, given: Mapping[Var, Var], handles: dict[Buffer, Var], out: Body) -> Value:
    """The value of a parameter, its dims called as `given`. Handles are given as such, noted in `handles`, and put into
    registers."""
    assert param.ty is not None
    ty = replace_vars(param.ty, {}, given)
    value = nest(ty, iter([_register(b, handles, out) for b in flat(new_value(ty, param.name))]))
    frame.env[param] = value
    return value


def _register(buffer: Buffer, handles: dict[Buffer, Var], out: Body) -> Buffer:
    if buffer.dtype != dt.handle:
        return buffer
    register = out.register(Buffer(buffer.name, (), dt.handle, scope=Scope.REGISTER))
    handles[register] = Var(buffer.name, dt.handle)
    out.append(Store(register, (), handles[register]))
    return register


def _with_extents(frame: Frame, body: Stmt) -> Stmt:
    """`body`, with the dims in their registers that are values in it."""
    out = Body()
    frame.require_held(frame.extents, out)
    for dim, register in frame.extents.items():
        out.register(register)
        out.append(Store(register, (), cast(dim, dt.int64)))
    out.append(body)
    return out.done()

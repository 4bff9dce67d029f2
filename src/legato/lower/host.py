"""Relay functions that call tensor programs → host functions of the loop language.

Tensors become buffers, tuples disappear, results are written where the caller says. A block runs its bindings in
order: `call_tir` launches kernels, If branches, calls invoke other host functions, operators without a loop definition
are run by their reference. A function that calls itself in tail position becomes a loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Var, eq
from legato.base import dtype as dt
from legato.base.target import Target
from legato.ir import expr as ir
from legato.ir.types import Type
from legato.lower.functions import LoweredModule
from legato.lower.hosts.blocks import lower_block
from legato.lower.hosts.body import Body
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.loops import lower_loop, tail_calls
from legato.lower.hosts.program import HostProgram
from legato.lower.hosts.values import Value, flat, flat_all, function_dims, nest, new_value
from legato.lower.plan import plan_memory
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import cast
from legato.tir.stmt import Check, Func, FuncKind, Stmt, Store, block

__all__ = ["lower_hosts"]


def lower_hosts(lowered: LoweredModule, target: Target) -> HostProgram:
    """The host functions of every graph-level function of `lowered`, whose kernels are its loop-level functions."""
    mod = lowered.module
    program = HostProgram(target, found=dict(lowered.found), facts=dict(lowered.facts))
    for gv, func in mod.functions.items():
        if isinstance(func, Func):
            program.kernels[gv.name] = func
    for gv, graph in mod.graph_functions():
        program.functions[gv.name] = _function(Frame(lowered, program), gv, graph)
    return program


def _function(frame: Frame, gv: ir.GlobalVar, func: ir.Function) -> Func:
    assert isinstance(func.body.ty, Type)
    out, handles = Body(), dict[Buffer, Var]()
    params = [_param(frame, p, handles, out) for p in func.params]
    outs = new_value(func.body.ty, "out")
    calls = tail_calls(func, gv)
    if calls:
        lower_loop(frame, func, calls, params, outs, out)
    else:
        lower_block(frame, func.body, outs, out)
    inputs = [handles.get(b, b) for b in flat_all(params)]
    words: tuple[Buffer | Var, ...] = (*inputs, *function_dims(func), *flat(outs))
    host = Func(gv.name, words, _with_extents(frame, out.done()), FuncKind.HOST, tuple(frame.constants.values()))
    program = frame.program
    planned, program.plans[gv.name] = plan_memory(
        host, frame.buffers, frame.views.within, lambda kernel: program.facts[kernel].in_place
    )
    return planned.with_body(block(*_constraints(program, func), planned.body))  # sizes are checked before their use


def _param(frame: Frame, param: ir.Var, handles: dict[Buffer, Var], out: Body) -> Value:
    """The value of a parameter. Handles are given as such, noted in `handles`, and put into registers."""
    assert param.ty is not None
    value = nest(param.ty, iter([_register(b, handles, out) for b in flat(new_value(param.ty, param.name))]))
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
    for dim, register in frame.extents.items():
        out.register(register)
        out.append(Store(register, (), cast(dim, dt.int64)))
    out.append(body)
    return out.done()


def _constraints(program: HostProgram, func: ir.Function) -> Sequence[Stmt]:
    return [
        Check(eq(c.a, c.b), program.check(f"{c.what}: {c.a} and {c.b} must be equal"))
        for c in func.attrs.get("constraints", ())
    ]

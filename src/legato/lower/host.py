"""Relay functions that call tensor programs → host functions of the loop language.

Tensors become buffers, tuples disappear, results are written where the caller says. A block runs its bindings in
order: `call_tir` launches kernels, If branches, calls invoke other host functions, operators without a loop definition
are run by their reference. A function that calls itself in tail position becomes a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from legato.arith.expr import Expr, Var, const, eq
from legato.arith.prove import prove_equal
from legato.base import dtype as dt
from legato.base.errors import UnsupportedError
from legato.base.span import Span
from legato.base.target import Target
from legato.ir import expr as ir
from legato.ir.call_tir import CALL_TIR, CallTirAttrs
from legato.ir.let import chain
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType, TupleType, Type
from legato.ir.views import JOIN, PART, PartAttrs
from legato.lower.describe import describe_copy
from legato.lower.facts import KernelFacts
from legato.lower.functions import LoweredModule
from legato.lower.group import tensor_types
from legato.lower.homes import Homes, Views
from legato.lower.plan import Plan, plan_memory
from legato.lower.reuse import Groups
from legato.lower.stored import Found, StoredKernel
from legato.tir.buffer import Buffer, Layout
from legato.tir.expr import Load
from legato.tir.stmt import Check, Func, FuncKind, HostOp, If, Invoke, Launch, Stmt, Store, While, block

__all__ = ["HostOpRecord", "HostProgram", "Site", "lower_hosts"]

Value = Buffer | tuple["Value", ...]
Layouts = Mapping[str, tuple[Layout, ...]]


@dataclass(frozen=True, slots=True)
class HostOpRecord:
    """An operator that is run by its reference: its record, attributes, and how many of the words are inputs."""

    op: Op
    attrs: object
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """A place that launches kernel `kernel`: the operators that it computes there, and their place in the source."""

    kernel: str
    operators: tuple[str, ...]
    span: Span | None


@dataclass(slots=True)
class HostProgram:
    """What host lowering gathers: host functions, extra kernels, constants, check messages, host operators, plans, and
    the sites of launches in the order of the program.

    `kernels` are programs, `found` those whose machine code is at hand; `facts` has all of both, in their order.
    """

    target: Target
    functions: dict[str, Func] = field(default_factory=dict)
    kernels: dict[str, Func] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)
    facts: dict[str, KernelFacts] = field(default_factory=dict)
    constants: dict[str, ir.Constant] = field(default_factory=dict)
    checks: list[str] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)  # of the checks' messages
    host_ops: list[HostOpRecord] = field(default_factory=list)
    plans: dict[str, Plan] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)  # of constants, by identity
    copies: dict[str, str] = field(default_factory=dict)  # names of copy kernels by their digests

    def copy(self, kernel: StoredKernel, program: Func | bytes) -> str:
        """The name of a copy kernel, which joins the kernels unless an equal one is there."""
        name = self.copies.get(kernel.digest)
        if name is None:
            name = self.copies[kernel.digest] = f"copy_{len(self.copies)}"
            self.facts[name] = kernel.facts
            if isinstance(program, Func):
                self.kernels[name] = replace(program, name=name)
            else:
                self.found[name] = Found(tuple(o.layout for o in kernel.outputs), kernel.facts, program)
        return name

    def layouts(self, kernel: str, inputs: int) -> tuple[Layout, ...]:
        """The layouts of what a kernel with so many inputs stores."""
        found = self.found.get(kernel)
        if found is not None:
            return found.layouts
        buffers = [p for p in self.kernels[kernel].params if isinstance(p, Buffer)]
        return tuple(b.layout for b in buffers[inputs:])

    def constant(self, node: ir.Constant) -> str:
        """The name of `node` in the constant segment."""
        name = self.names.setdefault(id(node), f"c{len(self.names)}")
        self.constants[name] = node
        return name

    def check(self, message: str) -> int:
        """The code of a check that fails with `message`."""
        if message not in self.codes:
            self.codes[message] = len(self.checks)
            self.checks.append(message)
        return self.codes[message]


def lower_hosts(lowered: LoweredModule, target: Target) -> HostProgram:
    """The host functions of every graph-level function of `lowered`, whose kernels are its loop-level functions."""
    mod = lowered.module
    program = HostProgram(target, found=dict(lowered.found), facts=dict(lowered.facts))
    for gv, func in mod.functions.items():
        if isinstance(func, Func):
            program.kernels[gv.name] = func
    for gv, graph in mod.graph_functions():
        program.functions[gv.name] = _Lowering(mod, program, lowered.groups, gv, graph).run()
    return program


def function_dims(func: ir.Function) -> tuple[Var, ...]:
    """The dim variables of `func`, in the order of its words."""
    return tuple(p for p in func.type_params if isinstance(p, Var))


class _Lowering:
    """One function. `env` maps variables to values; statements are appended to the block that is being built."""

    def __init__(self, mod: Module, program: HostProgram, groups: Groups, gv: ir.GlobalVar, func: ir.Function) -> None:
        self.mod, self.program, self.groups, self.gv, self.func = mod, program, groups, gv, func
        self.env: dict[ir.Var, Value] = {}
        self.views = Views()
        self.buffers = self.views.own  # to be placed by the memory plan
        self.items: dict[ir.Var, dict[int, Buffer]] = {}  # where results of launches are wanted, by their numbers
        self.constants: dict[int, tuple[Buffer, str]] = {}
        self.tail: Callable[[Sequence[ir.Expr], list[Stmt]], None] | None = None
        self.homes = Homes(self.views)  # of the block that is being built

    def run(self) -> Func:
        assert isinstance(self.func.body.ty, Type)
        params = [self._param(p) for p in self.func.params]
        outs = _new(self.func.body.ty, "out")
        dims = function_dims(self.func)
        out: list[Stmt] = []
        if self._is_tail_recursive():
            self._loop(params, outs, out)
        else:
            self._block(self.func.body, outs, out)
        flat: tuple[Buffer | Var, ...] = (*(b for p in params for b in _flat(p)), *dims, *_flat(outs))
        func = Func(self.gv.name, flat, block(*out), FuncKind.HOST, tuple(self.constants.values()))
        planned, self.program.plans[self.gv.name] = plan_memory(
            func, self.buffers, self.views.within, lambda kernel: self.program.facts[kernel].in_place
        )
        return planned.with_body(block(*self._constraints(), planned.body))  # sizes are checked before they are used

    def _param(self, param: ir.Var) -> Value:
        assert param.ty is not None
        value = _new(param.ty, param.name)
        self.env[param] = value
        return value

    def _constraints(self) -> list[Stmt]:
        found: list[Stmt] = []
        for c in self.func.attrs.get("constraints", ()):
            found.append(Check(eq(c.a, c.b), self.program.check(f"{c.what}: {c.a} and {c.b} must be equal")))
        return found

    # Values

    def _atom(self, expr: ir.Expr) -> Value:
        match expr:
            case ir.Var():
                return self.env[expr]
            case ir.Constant():
                return self._constant(expr)
            case ir.Tuple():
                return tuple(self._atom(f) for f in expr.fields)
            case _:
                raise UnsupportedError(f"{type(expr).__name__} as a value in compiled code", span=expr.span)

    def _constant(self, node: ir.Constant) -> Buffer:
        found = self.constants.get(id(node))
        if found is None:
            (ty,) = tensor_types(node.ty)
            name = self.program.constant(node)
            found = (Buffer(name, ty.shape, ty.dtype), name)
            self.constants[id(node)] = found
        return found[0]

    def _fresh(self, ty: Type, name: str, layouts: Iterator[Layout] | None = None) -> Value:
        value = _new(ty, name, layouts)
        self.buffers += _flat(value)
        return value

    # Statements

    def _block(self, body: ir.Expr, dest: Value, out: list[Stmt]) -> None:
        """Appends the statements that evaluate `body` into `dest`."""
        bindings, result = chain(body)
        placed = self._place_results(bindings, result, dest)
        outside, self.homes = self.homes, Homes(self.views)
        self.homes.plan(bindings, placed)
        for var, value in bindings:
            self.env[var] = self._bind(var, value, placed.get(var), out)
        self.homes = outside
        if self._is_self_call(bindings, result):
            return
        for source, target in zip(_flat(self._atom(result)), _flat(dest), strict=True):
            if source is not target:
                out.append(self._copy(source, target))

    def _place_results(
        self, bindings: Sequence[tuple[ir.Var, ir.Expr]], result: ir.Expr, dest: Value
    ) -> dict[ir.Var, Value]:
        """Where bindings that the block returns may be computed at once, instead of being copied.

        Of a launch of which only some results are returned, these are noted in `items`.
        """
        bound = {var for var, value in bindings if isinstance(value, ir.Call | ir.If)}
        parts = {var: value for var, value in bindings if isinstance(value, ir.TupleGetItem | ir.Var)}
        found: dict[ir.Var, Value] = {}
        stack = [(result, dest)]
        while stack:
            expr, target = stack.pop()
            if isinstance(expr, ir.Tuple) and isinstance(target, tuple):
                stack += zip(expr.fields, target, strict=True)
            elif isinstance(expr, ir.Var) and expr in bound and expr not in found:
                found[expr] = target
            elif isinstance(expr, ir.Var) and expr in parts:
                part = parts[expr]
                if isinstance(part, ir.Var):
                    stack.append((part, target))
                elif isinstance(part.value, ir.Var) and part.value in bound and isinstance(target, Buffer):
                    self.items.setdefault(part.value, {}).setdefault(part.index, target)
        return found

    def _bind(self, var: ir.Var, value: ir.Expr, dest: Value | None, out: list[Stmt]) -> Value:
        match value:
            case ir.Call() if value.op is CALL_TIR:
                return self._launch(var, value, dest, out)
            case ir.Call() if value.op is JOIN:
                return self.homes.joined(var)
            case ir.Call() if value.op is PART:
                source = self._atom(value.args[0])
                assert isinstance(source, Buffer)
                assert isinstance(value.attrs, PartAttrs)
                return self.views.part(var.name, source, value.attrs)
            case ir.Call(op=Op()):
                return self._host_op(var, value, dest, out)
            case ir.Call(op=ir.GlobalVar()) if self.tail is not None and value.op == self.gv and self._tail_of(var):
                self.tail(value.args, out)
                return ()
            case ir.Call(op=ir.GlobalVar()):
                return self._invoke(var, value, dest, out)
            case ir.If():
                return self._if(var, value, dest, out)
            case ir.TupleGetItem():
                inner = self._atom(value.value)
                assert isinstance(inner, tuple)
                return inner[value.index]
            case ir.Var() | ir.Constant() | ir.Tuple():
                return self._atom(value)
            case _:
                raise UnsupportedError(f"{type(value).__name__} in compiled code", span=value.span)

    def _launch(self, var: ir.Var, call: ir.Call, dest: Value | None, out: list[Stmt]) -> Value:
        kernel_var, args = call.args
        assert isinstance(kernel_var, ir.GlobalVar)
        assert isinstance(call.attrs, CallTirAttrs)
        inputs = list(_flat(self._atom(args)))
        layouts = self.program.layouts(kernel_var.name, len(inputs))
        outs = self._outs(var, call.attrs.out_type, layouts, dest)
        self.program.sites.append(Site(kernel_var.name, call.attrs.operators, call.span))
        out.append(Launch((*inputs, *_flat(outs), *call.attrs.dims), kernel_var.name))
        return outs

    def _outs(self, var: ir.Var, ty: Type, layouts: Sequence[Layout], dest: Value | None) -> Value:
        """What a kernel stores its results to: where they are wanted, if their layout is that of the kernel."""
        types = tensor_types(ty)
        places = dict(enumerate(_flat(dest))) if dest is not None else self.items.get(var, {})
        found: list[Buffer] = []
        if var in self.homes.places.of:
            (layout,) = layouts
            return self.homes.buffer(var, var.name, layout)
        for n, (t, layout) in enumerate(zip(types, layouts, strict=True)):
            if n not in places or places[n].layout != layout:
                found.append(Buffer(var.name if len(types) == 1 else f"{var.name}_{n}", t.shape, t.dtype, layout))
                self.buffers.append(found[-1])
            else:
                found.append(places[n])
        return found[0] if isinstance(ty, TensorType) else tuple(found)

    def _host_op(self, var: ir.Var, call: ir.Call, dest: Value | None, out: list[Stmt]) -> Value:
        assert isinstance(call.op, Op)
        assert call.ty is not None
        inputs = tuple(t for a in call.args for t in tensor_types(a.ty))
        outs = self._fresh(call.ty, var.name) if dest is None else dest
        record = HostOpRecord(call.op, call.attrs, inputs, tensor_types(call.ty))
        self.program.host_ops.append(record)
        values = [b for a in call.args for b in _flat(self._atom(a))]
        extents = [d for t in (*record.inputs, *record.outputs) for d in t.shape]
        out.append(HostOp((*values, *_flat(outs), *extents), len(self.program.host_ops) - 1))
        return outs

    def _invoke(self, var: ir.Var, call: ir.Call, dest: Value | None, out: list[Stmt]) -> Value:
        assert isinstance(call.op, ir.GlobalVar)
        assert call.ty is not None
        callee = self.mod[call.op]
        assert isinstance(callee, ir.Function)
        outs = self._fresh(call.ty, var.name) if dest is None else dest
        inputs = [b for a in call.args for b in _flat(self._atom(a))]
        dims = _instantiate(callee, call)
        out.append(Invoke((*inputs, *dims, *_flat(outs)), call.op.name))
        return outs

    def _if(self, var: ir.Var, value: ir.If, dest: Value | None, out: list[Stmt]) -> Value:
        assert value.ty is not None
        outs = self._fresh(value.ty, var.name) if dest is None else dest
        cond = self._atom(value.cond)
        assert isinstance(cond, Buffer)
        branches = []
        for branch in (value.then, value.orelse):
            stmts: list[Stmt] = []
            self._block(branch, outs, stmts)
            branches.append(block(*stmts))
        out.append(If(Load(cond, ()), *branches))
        return outs

    def _copy(self, source: Buffer, target: Buffer) -> Stmt:
        description = describe_copy(source, target)
        lowered = self.groups.copied(source, target, description)
        (kernel,), (program,) = lowered.group.kernels, lowered.kernels
        dims = tuple(description.dims)
        return Launch((source, target, *(dims[n] for n in kernel.dims)), self.program.copy(kernel, program))

    # Tail recursion

    def _is_self_call(self, bindings: Sequence[tuple[ir.Var, ir.Expr]], result: ir.Expr) -> bool:
        """True if the block's result is a call of this very function, turned into a jump."""
        return bool(bindings) and self.tail is not None and bindings[-1][0] == result and self._is_jump(bindings[-1][1])

    def _is_jump(self, value: ir.Expr) -> bool:
        return isinstance(value, ir.Call) and value.op == self.gv

    def _tail_of(self, var: ir.Var) -> bool:
        return var in self.tail_vars

    def _is_tail_recursive(self) -> bool:
        """Self calls exist, all in tail position, with arguments of the parameters' types: the function is a loop."""
        self.tail_vars: set[ir.Var] = set()
        found = _tail_calls(self.func.body, self.gv)
        if not found:
            return False
        wanted = [t for p in self.func.params for t in tensor_types(p.ty)]
        for var, call in found:
            got = [t for a in call.args for t in tensor_types(a.ty)]
            if not all(_same_type(a, b) for a, b in zip(got, wanted, strict=True)):
                return False
            self.tail_vars.add(var)
        return True

    def _loop(self, params: Sequence[Value], outs: Value, out: list[Stmt]) -> None:
        """The body as a While over copies of the parameters; a tail call updates them, any other result ends it."""
        state: list[Value] = []
        for param, value in zip(self.func.params, params, strict=True):
            assert param.ty is not None
            copy = self._fresh(param.ty, param.name)
            out += [self._copy(a, b) for a, b in zip(_flat(value), _flat(copy), strict=True)]
            self.env[param] = copy
            state.append(copy)
        running = Buffer("running", (), dt.bool_)
        self.buffers.append(running)
        out.append(Store(running, (), const(True, dt.bool_)))

        def jump(args: Sequence[ir.Expr], stmts: list[Stmt]) -> None:
            values = [b for a in args for b in _flat(self._atom(a))]
            targets = [b for s in state for b in _flat(s)]
            moved = [(v, t) for v, t in zip(values, targets, strict=True) if v is not t]
            held = {v for v, _ in moved} & set(targets)  # sources that an earlier copy would overwrite
            temps = {v: self._like(v) for v in held}
            stmts += [self._copy(v, t) for v, t in temps.items()]
            stmts += [self._copy(temps.get(v, v), t) for v, t in moved]
            stmts.append(Store(running, (), const(True, dt.bool_)))

        self.tail = jump
        body: list[Stmt] = [Store(running, (), const(False, dt.bool_))]
        self._block(self.func.body, outs, body)
        out.append(While(Load(running, ()), block(*body)))

    def _like(self, buffer: Buffer) -> Buffer:
        copy = Buffer(buffer.name, buffer.shape, buffer.dtype, buffer.layout)
        self.buffers.append(copy)
        return copy


def _tail_calls(body: ir.Expr, gv: ir.GlobalVar) -> list[tuple[ir.Var, ir.Call]]:
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
    return found


def _same_type(a: TensorType, b: TensorType) -> bool:
    return (
        a.dtype == b.dtype
        and a.rank == b.rank
        and all(prove_equal(x, y) for x, y in zip(a.shape, b.shape, strict=True))
    )


def _instantiate(callee: ir.Function, call: ir.Call) -> list[Expr]:
    """The values of the callee's dims in `call`: inference noted them, or the shapes of the arguments give them."""
    known: dict[Var, Expr] = {}
    if len(call.type_args) == len(callee.type_params):
        noted = zip(callee.type_params, call.type_args, strict=True)
        known = {d: value for d, value in noted if isinstance(d, Var) and isinstance(value, Expr)}
    params = [t for p in callee.params for t in tensor_types(p.ty)]
    args = [t for a in call.args for t in tensor_types(a.ty)]
    for param, arg in zip(params, args, strict=True):
        for want, got in zip(param.shape, arg.shape, strict=True):
            if isinstance(want, Var):
                known.setdefault(want, got)
    dims = function_dims(callee)
    missing = [d.name for d in dims if d not in known]
    if missing:
        raise UnsupportedError(
            f"dims {', '.join(missing)} of a called function are not plain dims of its parameters",
            span=call.span,
            hint="give the function a parameter whose shape has the dim itself as an entry",
        )
    return [known[d] for d in dims]


def _new(ty: Type, name: str, layouts: Iterator[Layout] | None = None) -> Value:
    if isinstance(ty, TensorType):
        return Buffer(name, ty.shape, ty.dtype, next(layouts) if layouts is not None else None)
    if isinstance(ty, TupleType):
        return tuple(_new(f, f"{name}_{n}", layouts) for n, f in enumerate(ty.fields))
    raise UnsupportedError(f"values of type {ty} in compiled code")


def _flat(value: Value) -> Iterator[Buffer]:
    if isinstance(value, Buffer):
        yield value
    else:
        for v in value:
            yield from _flat(v)

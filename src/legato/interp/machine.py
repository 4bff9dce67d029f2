"""The machine: activations with their own work lists and value stacks, and one step for every kind of node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np

from legato.arith.evaluate import evaluate as evaluate_dim
from legato.arith.expr import Const, const
from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import InternalError, RunError
from legato.base.node import post_order
from legato.interp.dims import dim_value, fit, learn
from legato.interp.values import Array, Closure, Data, Ref, Value, as_value, evaluate_op
from legato.ir.call_tir import CALL_TIR, CallTirAttrs
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    MatchCast,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
)
from legato.ir.module import Module
from legato.ir.op import Op
from legato.tir import interp as tir_interp
from legato.tir.stmt import Func

__all__ = ["Frame", "Machine", "Observer", "evaluate"]

Observer = Callable[[Expr, Value], None]


def evaluate(
    module: Module,
    args: Sequence[Value] = (),
    name: str = "main",
    *,
    float64: bool = False,
    observe: Observer | None = None,
) -> Value:
    """The value of function `name` of `module` on `args`.

    Arguments are arrays (or what NumPy takes as one) and tuples of them; they are checked against the parameters'
    types. `observe(node, value)` is told of every node that is computed. RunError for arguments that do not fit, a
    failed match or cast, or a dim equality that does not hold.
    """
    func = module[name]
    if not isinstance(func, Function):
        raise RunError(f"@{name} is a loop program; tir.interp runs those")
    machine = Machine(module, float64, observe)
    return machine.run(Closure(func), [machine.widen(as_value(a)) for a in args], f"@{name}")


# ------------------------------------------------------------------ frames

_FOREVER: Final = 1 << 60  # uses of a value that a closure may read


@dataclass(eq=False, slots=True)
class Frame:
    """One activation: variables, values of computed nodes, dims, what is still to do, and the operands so far."""

    parent: Frame | None  # the activation in which the function was made
    uses: Mapping[int, int]  # how often each node's value is read in this function
    dims: dict[DimVar, int]
    vars: dict[Var, Value] = field(default_factory=dict)
    memo: dict[int, Value] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    work: list[Any] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def pop(self, count: int) -> list[Value]:
        """The last `count` operands, in order."""
        if not count:
            return []
        taken = self.values[-count:]
        del self.values[-count:]
        return taken


def _count_uses(func: Function) -> dict[int, int]:
    """How often the value of each node (of each variable, by uid) is asked for in one activation of `func`."""
    uses: dict[int, int] = {}
    inner: list[Expr] = []
    roots: list[Expr] = [func.body]
    for node in post_order(roots, lambda n: not isinstance(n, Function)):
        if isinstance(node, Function):
            inner.append(node.body)
            continue
        for child in node.children():
            key = _key(child)
            uses[key] = uses.get(key, 0) + 1
    for node in post_order(inner):
        uses[_key(node)] = _FOREVER
    return uses


def _key(node: Expr) -> int:
    return -node.uid if isinstance(node, Var) else id(node)


# ------------------------------------------------------------------ the machine


class Machine:
    """Runs calls; holds what all activations share."""

    def __init__(self, module: Module, float64: bool, observe: Observer | None) -> None:
        self.module, self.float64, self.observe = module, float64, observe
        self._frames: list[Frame] = []
        self._uses: dict[int, dict[int, int]] = {}
        self._constants: dict[int, Array] = {}
        self._attrs: dict[int, Any] = {}

    def run(self, callee: Closure, args: Sequence[Value], what: str) -> Value:
        """The value of the call."""
        self._frames.append(self._enter(callee, args, what))
        while True:
            frame = self._frames[-1]
            if frame.work:
                item = frame.work.pop()
                if isinstance(item, Expr):
                    self._visit(frame, item)
                else:
                    item[0](self, frame, *item[1:])
                continue
            value = frame.values.pop()
            self._frames.pop()
            if not self._frames:
                return value
            self._frames[-1].values.append(value)

    def _enter(self, callee: Closure, args: Sequence[Value], what: str) -> Frame:
        """A new activation of `callee`."""
        func = callee.func
        if len(args) != len(func.params):
            raise RunError(f"{what}: got {len(args)} arguments, wanted {len(func.params)}")
        uses = self._uses.get(id(func))
        if uses is None:
            uses = self._uses[id(func)] = _count_uses(func)
        frame = Frame(callee.frame, uses, {} if callee.frame is None else dict(callee.frame.dims))
        for n, (param, arg) in enumerate(zip(func.params, args, strict=True)):
            if param.ty is not None:
                fit(frame.dims, param.ty, arg, f"{what}, argument {n + 1} (%{param.name})", float64=self.float64)
            frame.vars[param] = arg
        self._check(frame, func)
        frame.work.append(func.body)
        return frame

    def _check(self, frame: Frame, func: Function) -> None:
        """The equalities of dims that inference left to run time, as far as they are about the arguments."""
        for c in func.attrs.get("constraints", ()):
            if all(v in frame.dims for v in variables(c.a, c.b)):
                a, b = evaluate_dim(c.a, frame.dims), evaluate_dim(c.b, frame.dims)
                if a != b:
                    raise RunError(f"{c.what}: {c.a} = {a} and {c.b} = {b} must be equal")

    # ------------------------------------------------------------------ visiting a node

    def _visit(self, frame: Frame, node: Expr) -> None:
        match node:
            case Var():
                frame.values.append(self._variable(frame, node))
            case Constant():
                frame.values.append(self._constant(node))
            case GlobalVar():
                func = self.module[node]
                frame.values.append(Closure(func) if isinstance(func, Function) else func)
            case Op() | Constructor():
                frame.values.append(node)
            case Function():
                frame.values.append(Closure(node, frame))
            case _:
                if not self._recall(frame, node):
                    frame.work.append((_store, node))
                    self._start(frame, node)

    def _variable(self, frame: Frame, var: Var) -> Value:
        at: Frame | None = frame
        while at is not None:
            if var in at.vars:
                value = at.vars[var]
                if at is frame and self._last_read(frame, -var.uid):
                    del frame.vars[var]
                return value
            at = at.parent
        raise InternalError(f"%{var.name} is read before it is bound")

    def _recall(self, frame: Frame, node: Expr) -> bool:
        """Pushes the value of `node` if this activation, or one around it, has computed it."""
        at: Frame | None = frame
        while at is not None:
            if id(node) in at.memo:
                frame.values.append(at.memo[id(node)])
                if at is frame and self._last_read(frame, id(node)):
                    del frame.memo[id(node)]
                return True
            at = at.parent
        return False

    def _last_read(self, frame: Frame, key: int) -> bool:
        count = frame.read.get(key, 0) + 1
        frame.read[key] = count
        return count >= frame.uses.get(key, 1)

    def _constant(self, node: Constant) -> Array:
        if not self.float64:
            return node.data
        found = self._constants.get(id(node))
        if found is None:
            found = self._constants[id(node)] = self.widen(node.data)
        return found

    def widen(self, value: Value) -> Value:
        """`value` with floats as float64, in float64 mode."""
        if not self.float64 or isinstance(value, Closure | Data | Ref):
            return value
        if isinstance(value, tuple):
            return tuple(self.widen(v) for v in value)
        return value.astype(np.float64) if dt.dtype(value.dtype).is_float else value

    def _start(self, frame: Frame, node: Expr) -> None:
        """Puts the steps that compute `node` on the work list, last step first."""
        work = frame.work
        match node:
            case Call():
                work.append((_call, node))
                work += reversed(node.args)
                if not isinstance(node.op, Op):
                    work.append(node.op)
            case Let():
                work += (node.body, (_bind, node.var), node.value)
            case If():
                work += ((_branch, node), node.cond)
            case Match():
                work += ((_match, node), node.data)
            case Dataflow():
                work.append((_tuple, len(node.outputs)))
                work += reversed(node.outputs)
                for var, value in reversed(node.bindings):
                    work += ((_bind, var), value)
            case Tuple():
                work.append((_tuple, len(node.fields)))
                work += reversed(node.fields)
            case Shape():
                frame.values.append(tuple(dim_value(d, frame.dims) for d in node.dims))
            case TupleGetItem() | RefCreate() | RefRead() | RefWrite() | MatchCast():
                work.append((_simple, node))
                work += reversed(node.children())
            case _:
                raise InternalError(f"no evaluation rule for {type(node).__name__}")

    # ------------------------------------------------------------------ calls

    def call(self, frame: Frame, node: Call) -> None:
        """Applies the callee to the operands on the stack."""
        args = frame.pop(len(node.args))
        if isinstance(node.op, Op):
            frame.values.append(self._operator(frame, node, node.op, args))
            return
        callee = frame.values.pop()
        match callee:
            case Constructor():
                frame.values.append(Data(callee, tuple(args)))
            case Op():
                frame.values.append(self.widen(evaluate_op(callee, args, None)))
            case Closure():
                called = self._enter(callee, args, _name(node.op))
                if all(type(w) is tuple and w[0] is _store for w in reversed(frame.work)):
                    self._frames.pop()  # a tail call: nothing of this activation is needed any more
                self._frames.append(called)
            case _:
                raise RunError(f"{_name(node.op)} is called but is no function")

    def _operator(self, frame: Frame, node: Call, op: Op, args: Sequence[Value]) -> Value:
        attrs = self._resolved(frame, node)
        if op is CALL_TIR:
            return self._call_tir(frame, args, attrs)
        return self.widen(evaluate_op(op, args, attrs))

    def _resolved(self, frame: Frame, node: Call) -> Any:
        """The attributes with dims as numbers and, in float64 mode, float dtypes widened."""
        if node.attrs is None or id(node) in self._attrs:
            return self._attrs.get(id(node), None)
        new, symbolic = {}, False
        for f in fields(node.attrs):
            old = getattr(node.attrs, f.name)
            value, depends = self._attr(frame, old)
            symbolic |= depends
            if value is not old:
                new[f.name] = value
        attrs = replace(node.attrs, **new) if new else node.attrs
        if not symbolic:
            self._attrs[id(node)] = attrs
        return attrs

    def _attr(self, frame: Frame, value: Any) -> tuple[Any, bool]:
        """An attribute's value here, and whether it depends on dims."""
        if isinstance(value, Dim):
            return const(dim_value(value, frame.dims)), not isinstance(value, Const)
        if isinstance(value, tuple):
            parts = [self._attr(frame, v) for v in value]
            changed = any(p is not v for (p, _), v in zip(parts, value, strict=True))
            return (tuple(p for p, _ in parts) if changed else value), any(d for _, d in parts)
        if isinstance(value, DType) and self.float64 and value.is_float:
            return dt.float64, False
        return value, False

    def _call_tir(self, frame: Frame, args: Sequence[Value], attrs: CallTirAttrs) -> Value:
        """Runs a loop program on inputs, fresh outputs and dims, in its own dtypes (in float64 mode too)."""
        func, inputs = args
        if not isinstance(func, Func):
            raise RunError("call_tir needs a loop program of the module")
        outs = [np.zeros([dim_value(d, frame.dims) for d in t.shape], t.dtype.numpy) for t in attrs.out]
        buffers = [np.ascontiguousarray(a, p.dtype.numpy) for a, p in zip(inputs, func.params, strict=False)]
        status = tir_interp.run(func, [*buffers, *outs, *(dim_value(d, frame.dims) for d in attrs.dims)])
        if status:
            raise RunError(f"{func.name} ended with status {status}")
        results = tuple(self.widen(o) for o in outs)
        return results[0] if len(results) == 1 else results

    def cast(self, frame: Frame, node: MatchCast, value: Value) -> Value:
        """`value`, checked to have the target type."""
        fit(frame.dims, node.target, value, "match_cast", float64=self.float64)
        return value


def _name(callee: Expr) -> str:
    match callee:
        case GlobalVar():
            return f"@{callee.name}"
        case Var():
            return f"%{callee.name}"
        case _:
            return "a function"


# ------------------------------------------------------------------ steps of the work list


def _store(machine: Machine, frame: Frame, node: Expr) -> None:
    """Remembers the value just computed if it is asked for again, and what its type says of dims."""
    value = frame.values[-1]
    if machine.observe is not None:
        machine.observe(node, value)
    learn(frame.dims, node.ty, value)
    if frame.uses.get(id(node), 1) > 1:
        frame.read[id(node)] = 1
        frame.memo[id(node)] = value


def _bind(machine: Machine, frame: Frame, var: Var) -> None:
    frame.vars[var] = frame.values.pop()


def _call(machine: Machine, frame: Frame, node: Call) -> None:
    machine.call(frame, node)


def _tuple(machine: Machine, frame: Frame, count: int) -> None:
    frame.values.append(tuple(frame.pop(count)))


def _branch(machine: Machine, frame: Frame, node: If) -> None:
    frame.work.append(node.then if bool(frame.values.pop()) else node.orelse)


def _simple(machine: Machine, frame: Frame, node: Expr) -> None:
    values = frame.values
    match node:
        case TupleGetItem():
            values.append(values.pop()[node.index])
        case RefCreate():
            values.append(Ref(values.pop()))
        case RefRead():
            values.append(values.pop().value)
        case RefWrite():
            ref, value = frame.pop(2)
            ref.value = value
            values.append(())
        case MatchCast():
            values.append(machine.cast(frame, node, values.pop()))
        case _:
            raise InternalError(f"no step for {type(node).__name__}")


def _match(machine: Machine, frame: Frame, node: Match) -> None:
    value = frame.values.pop()
    for clause in node.clauses:
        bound: dict[Var, Value] = {}
        if _matches(clause.pattern, value, bound):
            frame.vars.update(bound)
            frame.work.append(clause.body)
            return
    shown = value.constructor.name if isinstance(value, Data) else type(value).__name__
    raise RunError(f"no clause of match fits the value {shown}")


def _matches(pattern: Pattern, value: Value, bound: dict[Var, Value]) -> bool:
    """True if `value` fits; what the pattern's variables stand for goes to `bound`."""
    match pattern:
        case PatternWildcard():
            return True
        case PatternVar(var):
            bound[var] = value
            return True
        case PatternTuple(patterns):
            return all(_matches(p, v, bound) for p, v in zip(patterns, value, strict=True))
        case PatternConstructor(con, patterns):
            if value.constructor is not con and not _same(value.constructor, con):
                return False
            return all(_matches(p, v, bound) for p, v in zip(patterns, value.fields, strict=True))
        case _:
            raise InternalError(f"no match rule for {type(pattern).__name__}")


def _same(a: Constructor, b: Constructor) -> bool:
    return a.belongs_to is b.belongs_to and a.tag == b.tag and a.name == b.name

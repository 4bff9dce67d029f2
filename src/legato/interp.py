"""The definition of the language: evaluates programs with the operators' NumPy references.

    value = array | tuple of values | Closure | Data (a constructor applied) | Ref

A machine with an explicit stack: one frame per active call, each with a list of work to do and a stack of values. A
call in tail position replaces its frame, so loops written as recursion run in constant space, and nothing here
recurses on the program. Evaluation is strict, left to right. A node that is used twice within one activation is
computed once; its value is dropped after its last use.

In float64 mode every float in the program is a float64: constants and arguments are widened, and attributes that name
a float dtype (of cast, zeros, …) name float64. It tells rounding from error when compiled results are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np

from legato.arith.evaluate import evaluate as evaluate_dim
from legato.arith.expr import Const, const
from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.arith.linear import solve
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import InternalError, RunError
from legato.base.node import post_order
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
from legato.ir.types import ShapeType, TensorType, TupleType, Type
from legato.tir import interp as tir_interp
from legato.tir.stmt import Func

__all__ = ["Closure", "Data", "Ref", "Value", "evaluate", "evaluate_op"]

Value = Any  # see the module's grammar
Array = np.ndarray[Any, Any]
Observer = Callable[[Expr, Value], None]


@dataclass(frozen=True, eq=False, slots=True)
class Closure:
    """A function with the activation in which it was made (None: a global function)."""

    func: Function
    frame: _Frame | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Data:
    """A value of a data type."""

    constructor: Constructor
    fields: tuple[Value, ...]


@dataclass(eq=False, slots=True)
class Ref:
    """A cell."""

    value: Value


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
    machine = _Machine(module, float64, observe)
    return machine.run(Closure(func), [machine.widen(_argument(a)) for a in args], f"@{name}")


def evaluate_op(op: Op, args: Sequence[Value], attrs: Any = None) -> Value:
    """The result of one operator on arrays, by its reference."""
    result = op.reference(*args, *op.tail(attrs))
    return _arrays(result)


def _argument(value: Value) -> Value:
    if isinstance(value, tuple | list):
        return tuple(_argument(v) for v in value)
    if isinstance(value, Closure | Data | Ref):
        return value
    return np.asarray(value)


def _arrays(result: Value) -> Value:
    return tuple(_arrays(r) for r in result) if isinstance(result, tuple) else np.asarray(result)


# ------------------------------------------------------------------ frames

_FOREVER: Final = 1 << 60  # uses of a value that a closure may read


@dataclass(eq=False, slots=True)
class _Frame:
    """One activation: variables, values of computed nodes, dims, what is still to do, and the operands so far."""

    parent: _Frame | None  # the activation in which the function was made
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


class _Machine:
    """Runs calls; holds what all activations share."""

    def __init__(self, module: Module, float64: bool, observe: Observer | None) -> None:
        self.module, self.float64, self.observe = module, float64, observe
        self._frames: list[_Frame] = []
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

    def _enter(self, callee: Closure, args: Sequence[Value], what: str) -> _Frame:
        """A new activation of `callee`."""
        func = callee.func
        if len(args) != len(func.params):
            raise RunError(f"{what}: got {len(args)} arguments, wanted {len(func.params)}")
        uses = self._uses.get(id(func))
        if uses is None:
            uses = self._uses[id(func)] = _count_uses(func)
        frame = _Frame(callee.frame, uses, {} if callee.frame is None else dict(callee.frame.dims))
        for n, (param, arg) in enumerate(zip(func.params, args, strict=True)):
            if param.ty is not None:
                self._fit(frame.dims, param.ty, arg, f"{what}, argument {n + 1} (%{param.name})")
            frame.vars[param] = arg
        self._check(frame, func)
        frame.work.append(func.body)
        return frame

    def _check(self, frame: _Frame, func: Function) -> None:
        """The equalities of dims that inference left to run time, as far as they are about the arguments."""
        for c in func.attrs.get("constraints", ()):
            if all(v in frame.dims for v in variables(c.a, c.b)):
                a, b = evaluate_dim(c.a, frame.dims), evaluate_dim(c.b, frame.dims)
                if a != b:
                    raise RunError(f"{c.what}: {c.a} = {a} and {c.b} = {b} must be equal")

    # ------------------------------------------------------------------ visiting a node

    def _visit(self, frame: _Frame, node: Expr) -> None:
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

    def _variable(self, frame: _Frame, var: Var) -> Value:
        at: _Frame | None = frame
        while at is not None:
            if var in at.vars:
                value = at.vars[var]
                if at is frame and self._last_read(frame, -var.uid):
                    del frame.vars[var]
                return value
            at = at.parent
        raise InternalError(f"%{var.name} is read before it is bound")

    def _recall(self, frame: _Frame, node: Expr) -> bool:
        """Pushes the value of `node` if this activation, or one around it, has computed it."""
        at: _Frame | None = frame
        while at is not None:
            if id(node) in at.memo:
                frame.values.append(at.memo[id(node)])
                if at is frame and self._last_read(frame, id(node)):
                    del frame.memo[id(node)]
                return True
            at = at.parent
        return False

    def _last_read(self, frame: _Frame, key: int) -> bool:
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

    def _start(self, frame: _Frame, node: Expr) -> None:
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
                frame.values.append(tuple(self._dim(frame, d) for d in node.dims))
            case TupleGetItem() | RefCreate() | RefRead() | RefWrite() | MatchCast():
                work.append((_simple, node))
                work += reversed(node.children())
            case _:
                raise InternalError(f"no evaluation rule for {type(node).__name__}")

    # ------------------------------------------------------------------ calls

    def call(self, frame: _Frame, node: Call) -> None:
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

    def _operator(self, frame: _Frame, node: Call, op: Op, args: Sequence[Value]) -> Value:
        attrs = self._resolved(frame, node)
        if op is CALL_TIR:
            return self._call_tir(frame, args, attrs)
        return self.widen(evaluate_op(op, args, attrs))

    def _resolved(self, frame: _Frame, node: Call) -> Any:
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

    def _attr(self, frame: _Frame, value: Any) -> tuple[Any, bool]:
        """An attribute's value here, and whether it depends on dims."""
        if isinstance(value, Dim):
            return const(self._dim(frame, value)), not isinstance(value, Const)
        if isinstance(value, tuple):
            parts = [self._attr(frame, v) for v in value]
            changed = any(p is not v for (p, _), v in zip(parts, value, strict=True))
            return (tuple(p for p, _ in parts) if changed else value), any(d for _, d in parts)
        if isinstance(value, DType) and self.float64 and value.is_float:
            return dt.float64, False
        return value, False

    def _call_tir(self, frame: _Frame, args: Sequence[Value], attrs: CallTirAttrs) -> Value:
        """Runs a loop program on inputs, fresh outputs and dims, in its own dtypes (in float64 mode too)."""
        func, inputs = args
        if not isinstance(func, Func):
            raise RunError("call_tir needs a loop program of the module")
        outs = [np.zeros([self._dim(frame, d) for d in t.shape], t.dtype.numpy) for t in attrs.out]
        buffers = [np.ascontiguousarray(a, p.dtype.numpy) for a, p in zip(inputs, func.params, strict=False)]
        status = tir_interp.run(func, [*buffers, *outs, *(self._dim(frame, d) for d in attrs.dims)])
        if status:
            raise RunError(f"{func.name} ended with status {status}")
        results = tuple(self.widen(o) for o in outs)
        return results[0] if len(results) == 1 else results

    # ------------------------------------------------------------------ dims

    def _dim(self, frame: _Frame, d: Dim) -> int:
        if isinstance(d, Const):
            return int(d.value)
        unbound = [v.name for v in variables(d) if v not in frame.dims]
        if unbound:
            raise InternalError(f"dim {d}: {', '.join(unbound)} has no value here")
        return int(evaluate_dim(d, frame.dims))

    def learn(self, dims: dict[DimVar, int], ty: Type | None, value: Value) -> None:
        """Binds the dim variables of `ty` that have no value yet, from a value of that type."""
        if isinstance(ty, TensorType) and isinstance(value, np.ndarray):
            for d, n in zip(ty.shape, value.shape, strict=False):
                if isinstance(d, DimVar):
                    dims.setdefault(d, n)
        elif isinstance(ty, TupleType) and isinstance(value, tuple):
            for f, v in zip(ty.fields, value, strict=False):
                self.learn(dims, f, v)

    def _fit(self, dims: dict[DimVar, int], ty: Type, value: Value, what: str) -> None:
        """Requires `value` to have type `ty`, binding its new dim variables."""
        match ty:
            case TensorType():
                self._fit_tensor(dims, ty, value, what)
            case TupleType():
                if not isinstance(value, tuple) or len(value) != len(ty.fields):
                    raise RunError(f"{what}: wanted a tuple of {len(ty.fields)} fields")
                for n, (f, v) in enumerate(zip(ty.fields, value, strict=True)):
                    self._fit(dims, f, v, f"{what}.{n}")
            case ShapeType() if ty.dims is not None:
                if not isinstance(value, tuple) or len(value) != len(ty.dims):
                    raise RunError(f"{what}: wanted a shape of rank {len(ty.dims)}")
                self._fit_dims(dims, ty.dims, value, what)
            case _:
                pass  # functions, cells and data: their parts are checked where they are used

    def _fit_tensor(self, dims: dict[DimVar, int], ty: TensorType, value: Value, what: str) -> None:
        if not isinstance(value, np.ndarray):
            raise RunError(f"{what}: got a {type(value).__name__}, wanted {ty}")
        wanted = dt.float64 if self.float64 and ty.dtype.is_float else ty.dtype
        if dt.dtype(value.dtype) != wanted:
            raise RunError(f"{what}: got dtype {value.dtype}, wanted {wanted}")
        if value.ndim != ty.rank:
            raise RunError(f"{what}: got shape {value.shape}, wanted {ty}")
        self._fit_dims(dims, ty.shape, value.shape, what)

    def _fit_dims(self, dims: dict[DimVar, int], wanted: Sequence[Dim], got: Sequence[int], what: str) -> None:
        for d, n in zip(wanted, got, strict=True):
            if isinstance(d, DimVar) and d not in dims:
                dims[d] = n
        for axis, (d, n) in enumerate(zip(wanted, got, strict=True)):
            unbound = [v for v in variables(d) if v not in dims]
            if unbound:
                found = solve(d, const(n), unbound)
                dims.update({v: int(evaluate_dim(e, dims)) for v, e in (found or {}).items()})
            elif evaluate_dim(d, dims) != n:
                raise RunError(f"{what}: dim {axis} is {n}, wanted {d}" + _given(d, dims))

    def cast(self, frame: _Frame, node: MatchCast, value: Value) -> Value:
        """`value`, checked to have the target type."""
        self._fit(frame.dims, node.target, value, "match_cast")
        return value


def _given(d: Dim, dims: Mapping[DimVar, int]) -> str:
    return "" if isinstance(d, Const) else f" = {evaluate_dim(d, dims)}"


def _name(callee: Expr) -> str:
    match callee:
        case GlobalVar():
            return f"@{callee.name}"
        case Var():
            return f"%{callee.name}"
        case _:
            return "a function"


# ------------------------------------------------------------------ steps of the work list


def _store(machine: _Machine, frame: _Frame, node: Expr) -> None:
    """Remembers the value just computed if it is asked for again, and what its type says of dims."""
    value = frame.values[-1]
    if machine.observe is not None:
        machine.observe(node, value)
    machine.learn(frame.dims, node.ty, value)
    if frame.uses.get(id(node), 1) > 1:
        frame.read[id(node)] = 1
        frame.memo[id(node)] = value


def _bind(machine: _Machine, frame: _Frame, var: Var) -> None:
    frame.vars[var] = frame.values.pop()


def _call(machine: _Machine, frame: _Frame, node: Call) -> None:
    machine.call(frame, node)


def _tuple(machine: _Machine, frame: _Frame, count: int) -> None:
    frame.values.append(tuple(frame.pop(count)))


def _branch(machine: _Machine, frame: _Frame, node: If) -> None:
    frame.work.append(node.then if bool(frame.values.pop()) else node.orelse)


def _simple(machine: _Machine, frame: _Frame, node: Expr) -> None:
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


def _match(machine: _Machine, frame: _Frame, node: Match) -> None:
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

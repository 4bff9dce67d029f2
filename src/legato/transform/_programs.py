"""Calls of tensor programs as calls of the operators that these are read as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.arith.expr import const
from legato.arith.prove import prove_equal
from legato.arith.substitute import substitute
from legato.base.dataclass import dataclass
from legato.base.node import post_order, transform
from legato.ir.call_tir import CALL_TIR, CallTirAttrs, program_dims, program_fault
from legato.ir.expr import Call, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var, tuple_of
from legato.ir.let import Binding, chain
from legato.ir.module import Module
from legato.ir.types import TensorType, TupleType, Type
from legato.ops.call_te import CallTeAttrs, Portion, call_te, portions
from legato.te.readback import Stages, read_back
from legato.te.tensor import Tensor
from legato.tir.buffer import Buffer
from legato.tir.destination import with_copies
from legato.tir.schedule._cover import stores_all
from legato.tir.stmt import Func
from legato.tir.walk import rewrite_loads
from legato.transform._blocks import with_bindings, with_blocks

__all__ = ["unread", "with_read_programs"]


def with_read_programs(mod: Module) -> Module:
    """`mod`, in A-normal form, without calls of tensor programs that are tensor expressions, and without these."""
    programs = _Programs(mod)
    new = dict(mod.functions)
    for gv, func in mod.graph_functions():
        body = programs.block(func.body)
        new[gv] = func if body is func.body else replace(func, body=body)
    if not programs.known:
        return mod
    called = {
        v for f in new.values() if isinstance(f, Function) for v in post_order([f.body]) if isinstance(v, GlobalVar)
    }
    read = {gv for gv, *_ in programs.known}
    return mod.with_functions({gv: f for gv, f in new.items() if gv in called or gv not in read})


@dataclass(frozen=True, eq=False, slots=True)
class _Reading:
    """A tensor program as calls of operators."""

    stages: Stages
    portions: tuple[Portion, ...]


class _Programs:
    """The tensor programs of a module, each read once."""

    def __init__(self, mod: Module) -> None:
        self.mod = mod
        self.known: dict[tuple[GlobalVar, int, tuple[int, ...]], _Reading | str] = {}

    def reading(self, call: Call) -> _Reading | str:
        """What the program that `call`, of `call_tir`, names is read as; why it is not, in words."""
        gv, attrs = call.args[0], call.attrs
        assert isinstance(gv, GlobalVar)
        assert isinstance(attrs, CallTirAttrs)
        key = gv, len(attrs.out), attrs.inplace
        if key not in self.known:
            func = self.mod.functions[gv]
            assert isinstance(func, Func)
            self.known[key] = _read(func, attrs)
        return self.known[key]

    def block(self, body: Expr) -> Expr:
        """A block, and those in it."""
        old, result = chain(body)
        new: list[Binding] = []
        parts_of: dict[Var, Tuple] = {}
        for var, value in old:
            value = _with_parts(with_blocks(value, self.block), parts_of)
            results = self._results(var, value, new)
            if results is None:
                new.append((var, value))
            elif isinstance(var.ty, TupleType):
                parts_of[var] = Tuple(tuple(results), ty=var.ty)
        return with_bindings(body, old, new, _with_parts(result, parts_of))

    def _results(self, var: Var, value: Expr, out: list[Binding]) -> list[Expr] | None:
        """The variables of what a call gives, bound in `out`, the last of one alone to `var`; None where it stays."""
        if not isinstance(value, Call) or value.op is not CALL_TIR:
            return None
        gv, given = value.args
        attrs = value.attrs
        assert isinstance(gv, GlobalVar)
        assert isinstance(attrs, CallTirAttrs)
        func, args = self.mod.functions[gv], given.fields if isinstance(given, Tuple) else ()
        assert isinstance(func, Func)
        types = [t for t in (*(a.ty for a in args), *attrs.own) if isinstance(t, TensorType)]
        if program_fault(func, len(args), attrs) or len(types) < len(args) + len(attrs.own):
            return None
        dims = program_dims(func, attrs.dims, [t.shape for t in types])
        if isinstance(dims, str) or not _fits(func, dims, types):
            return None
        reading = self.reading(value)
        if isinstance(reading, str):
            return None
        values = dict(zip(reading.stages.dims, [dims[p] for p in func.params if isinstance(p, DimVar)], strict=True))
        return _bound(reading, values, args, value, var, out)


def _fits(func: Func, dims: Mapping[DimVar, Dim], types: Sequence[TensorType]) -> bool:
    """Whether tensors of these types are shown to have the extents of the program's buffers."""
    buffers = [p for p in func.params if isinstance(p, Buffer)]
    pairs = [p for b, t in zip(buffers, types, strict=True) for p in zip(b.shape, t.shape, strict=True)]
    return all(prove_equal(substitute(wanted, dims), got) for wanted, got in pairs)


def _read(func: Func, attrs: CallTirAttrs) -> _Reading | str:
    buffers = [p for p in func.params if isinstance(p, Buffer)]
    if not all(_stores_all(func, buffers[arg]) for arg in attrs.begins):
        return "it stores to a part of an argument alone, in place"
    if attrs.inplace:
        func = with_copies(func, len(buffers) - len(attrs.own), attrs.inplace, func.name)
    stages = read_back(func, len(attrs.out))
    if isinstance(stages, str):
        return stages
    found = portions(stages)
    return found if isinstance(found, str) else _Reading(stages, found)


def _stores_all(func: Func, buffer: Buffer) -> bool:
    """Whether every element of `buffer` is shown to be stored, whatever is read before."""
    zero = const(0, buffer.dtype)
    return stores_all(rewrite_loads(func.body, lambda load: zero if load.buffer is buffer else None), buffer)


def _bound(
    reading: _Reading, dims: Mapping[DimVar, Dim], args: Sequence[Expr], call: Call, var: Var, out: list[Binding]
) -> list[Expr]:
    """Binds what the program computes of `args`, call by call, the last result to `var` where it is the only one; the
    results."""
    stages = reading.stages
    known: dict[Tensor, Expr] = dict(zip(stages.inputs, args, strict=True))
    for portion in reading.portions:
        outputs = portion.part.outputs
        types = [TensorType(tuple(substitute(d, dims) for d in t.shape), t.dtype) for t in outputs]
        ty: Type = types[0] if len(types) == 1 else TupleType(tuple(types))
        attrs = CallTeAttrs(portion.text, tuple(substitute(d, dims) for d in portion.dims))
        made = Call(call_te, (tuple_of([known[t] for t in portion.part.inputs]),), attrs, ty=ty, span=call.span)
        items = [var if (t,) == stages.outputs else Var(t.name, ty=u, span=call.span)
                 for t, u in zip(outputs, types, strict=True)]  # fmt: skip
        known |= zip(outputs, items, strict=True)
        if len(items) == 1:
            out.append((items[0], made))
            continue
        whole = Var(stages.name, ty=ty, span=call.span)
        out.append((whole, made))
        out += [(v, TupleGetItem(whole, n, ty=v.ty, span=call.span)) for n, v in enumerate(items)]
    return [known[t] for t in stages.outputs]


def unread(mod: Module) -> dict[str, str]:
    """The tensor programs that `mod` (typed) calls and that are no tensor expressions, by name: why."""
    programs = _Programs(mod)
    found: dict[str, str] = {}
    for _, func in mod.graph_functions():
        for node in post_order([func.body]):
            if isinstance(node, Call) and node.op is CALL_TIR and isinstance(gv := node.args[0], GlobalVar):
                reading = programs.reading(node)
                found |= {gv.name: reading} if isinstance(reading, str) else {}
    return found


def _with_parts(e: Expr, parts_of: dict[Var, Tuple]) -> Expr:
    """`e` with tuples in place of the variables that were bound to them."""
    if not parts_of:
        return e

    def step(node: Expr) -> Expr | None:
        if isinstance(node, Var):
            return parts_of.get(node)
        if isinstance(node, TupleGetItem) and isinstance(node.value, Tuple):
            return node.value.fields[node.index]
        return None

    return transform(e, step)

"""Operators as tensor programs: every call of one becomes a call of the loops that compute it.

    nn.relu(%x)      =>      call_tir(@relu, (%x,))
                             kernel @relu(data, out, n) { for i in 0..n { out[i] = max(data[i], 0f); } }

A primitive function, which fusion has made, becomes one program, too. An operator that has no compute, or more to do
than to give a value, stays; so do `skip` and what works on other things than tensors. Sums are formed in order of their
index, so that they round otherwise than the compiler's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.infer.builder import Builder
from legato.ir.atoms import is_primitive
from legato.ir.expr import Call, Expr, Function, Tuple, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.ir.types import TensorType, TupleType, Type
from legato.ops.call_te import CallTeAttrs
from legato.te.access import CLAMP, clamp
from legato.te.calls import Programs
from legato.te.graph import computed
from legato.te.tensor import Tensor, placeholder
from legato.transform._external import is_own
from legato.transform.pass_ import Pass

__all__ = ["Legalize"]

_KEPT: Final = frozenset({"call_tir"})
_NAMED: Final = 4  # operators that the name of a group has at most


@dataclass(frozen=True, slots=True)
class Legalize(Pass):
    """Typed module → module whose operators are calls of tensor programs.

    skip: names of operators that stay. groups: only primitive functions become programs, operators stay.
    """

    name = "legalize"
    rounds = True
    skip: frozenset[str] = frozenset()
    groups: bool = False

    def __call__(self, mod: Module) -> Module:
        functions = dict(mod.functions)
        programs = Programs(functions)
        for gv, func in ((gv, f) for gv, f in mod.functions.items() if is_own(f)):
            functions[gv] = self._function(func, programs)
        return mod.with_functions(functions)

    def _function(self, func: Function, programs: Programs) -> Function:
        def step(node: Expr) -> Expr | None:
            return self._call(node, programs) if isinstance(node, Call) else None

        body = transform(func.body, step, lambda node: not is_primitive(node))
        return func if body is func.body else replace(func, body=body)

    def _call(self, call: Call, programs: Programs) -> Expr | None:
        """What takes the place of a call; None where it stays."""
        if is_primitive(call.op):
            assert isinstance(call.op, Function)
            return _program(call, call.op.params, call.op.body, _hint(call.op.body), programs)
        if self.groups or not isinstance(call.op, Op) or not self._is_legal(call.op):
            return None
        params = tuple(Var(n.lstrip("*"), ty=a.ty) for n, a in zip(call.op.args, call.args, strict=True))
        body = Call(call.op, params, call.attrs, ty=call.ty)
        return _program(call, params, body, _name(call).rpartition(".")[2], programs)

    def _is_legal(self, op: Op) -> bool:
        return op.compute is not None and not op.stateful and op.name not in self.skip | _KEPT


def _program(call: Call, params: Sequence[Var], body: Expr, hint: str, programs: Programs) -> Expr | None:
    """The call of the program that computes `body`; None where something in it is no tensor."""
    out = _tensors(call.ty)
    if not out or any(_tensors(p.ty) is None for p in params):
        return None
    inputs: list[Tensor] = []
    values: dict[Var, Any] = {}
    for p in params:
        types = _tensors(p.ty) or []
        leaves = [
            placeholder(p.name if len(types) == 1 else f"{p.name}{n}", t.shape, t.dtype) for n, t in enumerate(types)
        ]
        values[p] = tuple(leaves) if isinstance(p.ty, TupleType) else leaves[0]
        inputs += leaves
    found = computed(body, values)
    outputs = [t for t in (found if isinstance(found, tuple) else (found,)) if isinstance(t, Tensor)]
    if isinstance(call.op, Function) and CLAMP in call.op.attrs:
        clamp(outputs)
    for n, t in enumerate(outputs):
        if t.stage is not None:
            t.name = "out" if len(outputs) == 1 else f"out{n}"
    operators = tuple(_operators(body))
    made = programs.call(hint, (e for a in call.args for e in _leaves(a)), inputs, outputs, out, operators)
    return Builder().tuple_([made]) if isinstance(call.ty, TupleType) and len(outputs) == 1 else made


def _tensors(ty: Type | None) -> list[TensorType] | None:
    """The tensors of a tensor or of a tuple of them; None for anything else."""
    fields = ty.fields if isinstance(ty, TupleType) else (ty,)
    found = [f for f in fields if isinstance(f, TensorType)]
    return found if len(found) == len(fields) else None


def _leaves(arg: Expr) -> Sequence[Expr]:
    if not isinstance(arg.ty, TupleType):
        return (arg,)
    return arg.fields if isinstance(arg, Tuple) else [Builder().get(arg, n) for n in range(len(arg.ty.fields))]


def _hint(body: Expr) -> str:
    """What the program of a group is called like: after its operators, the first of them if they are many."""
    names = [name.rpartition(".")[2] for name in _operators(body)]
    return "_".join(["fused", *names[:_NAMED]])


def _operators(body: Expr) -> Iterator[str]:
    return (_name(n) for n in post_order(body) if isinstance(n, Call) and isinstance(n.op, Op))


def _name(call: Call) -> str:
    """What an operator is called, or the tensor program that one is made of."""
    assert isinstance(call.op, Op)
    return call.attrs.name if isinstance(call.attrs, CallTeAttrs) else call.op.name

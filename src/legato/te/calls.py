"""Tensor expressions as calls of tensor programs: each program once, whatever calls it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.arith.simplify import simplify
from legato.ir.call_tir import call_tir, program_dims
from legato.ir.expr import Call, Expr, GlobalVar
from legato.ir.module import GlobalFunc
from legato.ir.types import TensorType
from legato.te.programs import program
from legato.te.tensor import Tensor
from legato.tir.equal import program_key
from legato.tir.stmt import Func

__all__ = ["Programs"]


class Programs:
    """The tensor programs of a module whose functions are `functions`, to which programs are added."""

    def __init__(self, functions: dict[GlobalVar, GlobalFunc]) -> None:
        self._functions = functions
        self._taken = {gv.name for gv in functions}
        self._known = {program_key(f): gv for gv, f in functions.items() if isinstance(f, Func)}

    def free_name(self, hint: str) -> str:
        """`hint`, or that with a number."""
        name, count = hint, 1
        while name in self._taken:
            name, count = f"{hint}{count}", count + 1
        return name

    def add(self, func: Func, hint: str) -> GlobalVar:
        """The global variable of `func`, or of an equal program; called like `hint`."""
        known = self._known.get(program_key(func))
        if known is not None:
            return known
        gv = GlobalVar(self.free_name(hint))
        self.put(gv, replace(func, name=gv.name))
        return gv

    def put(self, gv: GlobalVar, func: GlobalFunc) -> None:
        """`func` as the function of `gv`, in place of another one if there is one."""
        old = self._functions.get(gv)
        if isinstance(old, Func) and self._known.get(key := program_key(old)) == gv:
            del self._known[key]
        if isinstance(func, Func):
            self._known.setdefault(program_key(func), gv)
        self._taken.add(gv.name)
        self._functions[gv] = func

    def call(
        self, hint: str, args: Iterable[Expr], inputs: Sequence[Tensor], outputs: Sequence[Tensor],
        out: Sequence[TensorType] | None = None, operators: Sequence[str] = (),
    ) -> Call:  # fmt: skip
        """The call, on `args`, of the program that computes `outputs` from `inputs`.

        out: the types of its results, where these are known otherwise than from the tensors.
        """
        func, dims = program(hint, inputs, outputs)
        gv = self.add(func, hint)
        types = out or [TensorType(tuple(simplify(d) for d in t.shape), t.dtype) for t in outputs]
        shapes = [*(t.shape for t in inputs), *(t.shape for t in types)]
        stated = () if _are_told(func, shapes, dims) else dims
        return call_tir(gv, list(args), types, stated, operators=operators)


def _are_told(func: Func, shapes: Sequence[Sequence[Dim]], dims: Sequence[DimVar]) -> bool:
    """Whether the shapes of inputs and outputs tell the dims of `func`."""
    found = program_dims(func, (), shapes)
    return not isinstance(found, str) and [found[p] for p in func.params if isinstance(p, DimVar)] == list(dims)

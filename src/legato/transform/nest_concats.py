"""A concatenation of many tensors becomes one of concatenations of few, so that its kernel stays short.

concatenate((%a0, …, %a99))      =>      concatenate((concatenate((%a0, …, %a31)), concatenate((%a32, …)), …))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from legato.arith.expr import const
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.base.node import transform
from legato.ir.contents import called_operators
from legato.ir.expr import Call, Expr, Function, Tuple
from legato.ir.module import Module
from legato.ir.types import TensorType, TupleType
from legato.ops.join import concatenate
from legato.transform.pass_ import FunctionPass

__all__ = ["NestConcats"]


@dataclass(frozen=True, slots=True)
class NestConcats(FunctionPass):
    """Module → module whose concatenations are of `most` tensors; those of more become some of `each` at most.

    CompileError where `each` leaves no room for two, or is more than `most`.
    """

    name = "nest-concats"
    most: int = 64
    each: int = 32

    def check_options(self) -> None:
        if not 2 <= self.each <= self.most:
            raise CompileError(f"concatenations of {self.each}, {self.most} at most", hint="each is 2 up to most")

    def function(self, func: Function, mod: Module) -> Function:
        if concatenate not in called_operators(func):
            return func
        body = transform(func.body, self._nested)
        return func if body is func.body else replace(func, body=body)

    def _nested(self, node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op is not concatenate or not isinstance(node.args[0], Tuple):
            return None
        parts, each = node.args[0].fields, self.each
        if len(parts) <= self.most:
            return None
        while len(parts) > each:
            groups = [parts[n : n + each] for n in range(0, len(parts), each)]
            parts = tuple(g[0] if len(g) == 1 else _joined(node, g) for g in groups)
        return replace(_joined(node, parts), ty=node.ty)


def _joined(call: Call, parts: Sequence[Expr]) -> Call:
    """The concatenation of some operands of `call`."""
    types = [p.ty for p in parts]
    assert isinstance(call.ty, TensorType)
    shape, axis = list(call.ty.shape), call.attrs.axis % call.ty.rank
    shape[axis] = simplify(sum((t.shape[axis] for t in types if isinstance(t, TensorType)), const(0)))
    data = Tuple(tuple(parts), ty=TupleType(tuple(t for t in types if t is not None)), span=call.span)
    return replace(call, args=(data,), ty=TensorType(tuple(shape), call.ty.dtype))

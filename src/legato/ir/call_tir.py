"""`call_tir`: the operator that calls a tensor program in destination-passing style.

call_tir(@kernel, (x, w), n)        args: inputs of the kernel in order; the trailing dims are its index parameters
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.base.span import Span
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call, Expr, GlobalVar, tuple_of
from legato.ir.op import Op, Relation
from legato.ir.types import Dim, TensorType, TupleType, Type

__all__ = ["CALL_TIR", "CallTirAttrs", "call_tir"]


@dataclass(frozen=True, slots=True)
class CallTirAttrs(Attrs):
    """out: the types of the outputs (allocated by the caller); dims: the values of the kernel's index parameters;
    operators: the names of those that the kernel was made of, for people."""

    out: tuple[TensorType, ...]
    dims: tuple[Dim, ...] = ()
    operators: tuple[str, ...] = ()

    @property
    def out_type(self) -> Type:
        """The call's type: one tensor, or a tuple."""
        return self.out[0] if len(self.out) == 1 else TupleType(self.out)


def _type(relation: Relation, kernel: Type, args: Type, attrs: CallTirAttrs) -> Type:
    return attrs.out_type


def _reference(*args: Any) -> Any:
    raise InternalError("call_tir is evaluated by the interpreter itself: it needs the module")


CALL_TIR = Op(
    name="call_tir",
    args=("kernel", "args"),
    attrs=CallTirAttrs,
    type_rel=_type,
    reference=_reference,
    doc="Calls a tensor program of the module; the outputs are allocated by the caller.",
)


def call_tir(
    kernel: GlobalVar,
    args: Sequence[Expr],
    out: Sequence[TensorType],
    dims: Sequence[Dim] = (),
    *,
    operators: Sequence[str] = (),
    span: Span | None = None,
) -> Call:
    """The call of `kernel` on `args`, typed as far as these are."""
    attrs = CallTirAttrs(tuple(out), tuple(dims), tuple(operators))
    return Call(CALL_TIR, (kernel, tuple_of(args)), attrs, ty=attrs.out_type, span=span)

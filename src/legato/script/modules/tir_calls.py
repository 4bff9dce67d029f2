"""Calls of tensor programs from the graph: `R.call_tir(cls.kernel, (x, w), out_sinfo=R.Tensor((n, 4), "float32"))`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from legato.arith.expr import Expr as Dim
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.ir.call_tir import call_tir
from legato.ir.expr import Expr, GlobalVar, Shape
from legato.ir.types import TensorType, Type
from legato.script.modules import scalars
from legato.script.modules.types import type_of

if TYPE_CHECKING:
    from legato.script.modules.graph import GraphReader

__all__ = ["TensorCall", "call_tir_form"]


@dataclass(frozen=True, slots=True)
class TensorCall:
    """A way to call tensor programs; `rule` gets the reader and what is written."""

    name: str
    rule: Callable[..., Expr]

    def apply(self, reader: GraphReader, args: Sequence[Any], keywords: dict[str, Any]) -> Expr:
        """The call."""
        return self.rule(reader, *args, **keywords)


def call_tir_form(
    reader: GraphReader, kernel: Any, args: Any, out_sinfo: Any = None, tir_vars: Any = None, *, out_ty: Any = None
) -> Expr:
    """The call of `kernel` on the tensors `args`; outputs of type `out_sinfo` are allocated, and are its result."""
    if not isinstance(kernel, GlobalVar):
        raise TypeCheckError(f"{reader.described(kernel)} is no tensor program of the module", hint="cls.name")
    given = args if isinstance(args, tuple | list) else (args,)
    form = out_ty if out_sinfo is None else out_sinfo
    if form is None:
        raise TypeCheckError("R.call_tir is not told what it gives", hint='out_sinfo=R.Tensor((n, 4), "float32")')
    forms = form if isinstance(form, tuple | list) else (form,)
    out = [_tensor(type_of(f, reader.dim)) for f in forms]
    return call_tir(kernel, [reader.expr(a) for a in given], out, _dims(tir_vars), span=reader.b.span)


def _tensor(ty: Type) -> TensorType:
    if not isinstance(ty, TensorType):
        raise TypeCheckError("outputs of a tensor program are tensors of known rank and dtype")
    return ty


def _dims(given: Any) -> list[Dim]:
    values = () if given is None else given.dims if isinstance(given, Shape) else given
    values = values if isinstance(values, tuple | list) else (values,)
    return [scalars.as_index(d, "an argument of tir_vars") for d in values]

"""Annotations: operators that say something of a value and leave it what it is.

annotation.compiler_end(exp(annotation.compiler_begin(%x, compiler="c")), compiler="c")      means      exp(%x)
stop_gradient(%x)      means      %x, which gradients do not flow through
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from legato.base.dataclass import dataclass
from legato.infer.holes import Hole, NotYet
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call, Expr
from legato.ir.op import Fusion, Op, Relation, Sample
from legato.ir.types import Type
from legato.ops._gradients import no_gradient
from legato.ops._rules import tensor
from legato.te.tensor import compute

if TYPE_CHECKING:
    from legato.infer.builder import Builder

__all__ = ["CompilerAttrs"]


@dataclass(frozen=True, slots=True)
class CompilerAttrs(Attrs):
    """compiler: the name of the code generator."""

    compiler: str = "default"


def _same(relation: Relation, data: Type, attrs: CompilerAttrs | None = None) -> Type:
    if isinstance(data, Hole):
        raise NotYet
    return data


def _itself(data: Any, attrs: CompilerAttrs | None = None) -> Any:
    return data


def _expand(b: Builder, data: Expr, attrs: CompilerAttrs | None = None) -> Expr:
    return data


def _through(b: Builder, call: Call, dy: Expr) -> list[Expr]:
    return [dy]


def _annotation(name: str, doc: str) -> Op:
    return Op(
        name=f"annotation.{name}",
        args=("data",),
        attrs=CompilerAttrs,
        type_rel=_same,
        reference=_itself,
        expand=_expand,
        grad=_through,
        storage=True,
        samples=(Sample((((2, 3), "float32"),), {"compiler": "c"}, exact=True),),
        doc=doc,
    )


compiler_begin = _annotation("compiler_begin", "A value that goes into a region for another code generator.")
compiler_end = _annotation("compiler_end", "A value that comes out of a region for another code generator.")

stop_gradient = Op(
    name="stop_gradient",
    args=("data",),
    type_rel=_same,
    reference=_itself,
    expand=_expand,
    grad=no_gradient,
    storage=True,
    samples=(Sample((((2, 3), "float32"),), exact=True), Sample((((3,), "int64"),), exact=True)),
    doc="data itself, a constant for differentiation: no gradient flows through it.",
)

stop_fusion = Op(
    name="annotation.stop_fusion",
    args=("data",),
    type_rel=lambda relation, data: tensor(relation, data, "data"),
    reference=_itself,
    compute=lambda data, out_type: compute(out_type.shape, lambda *i: data[i], "stop_fusion"),
    grad=_through,
    fusion=Fusion.OPAQUE,
    storage=True,
    samples=(Sample((((2, 3), "float32"),), exact=True), Sample((((), "int64"),), exact=True)),
    doc="data itself: what computes it and what reads it are never one kernel.",
)

checkpoint = Op(
    name="annotation.checkpoint",
    args=("data",),
    type_rel=_same,
    reference=_itself,
    expand=_expand,
    grad=_through,
    storage=True,
    samples=(Sample((((2, 3), "float32"),), exact=True), Sample((((3,), "int64"),), exact=True)),
    doc="""data itself, which the original's gradient kept and computed again what it is made of.

Here memory is weighed for the whole program: the pass Rematerialize decides what is computed again.""",
)

"""Annotations: where regions that another code generator is to compile begin and end. What they mark stays what it is.

annotation.compiler_end(exp(annotation.compiler_begin(%x, compiler="c")), compiler="c")      means      exp(%x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from legato.base.dataclass import dataclass
from legato.infer.holes import Hole, NotYet
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Type

if TYPE_CHECKING:
    from legato.infer.builder import Builder

__all__ = ["CompilerAttrs"]


@dataclass(frozen=True, slots=True)
class CompilerAttrs(Attrs):
    """compiler: the name of the code generator."""

    compiler: str = "default"


def _same(relation: Relation, data: Type, attrs: CompilerAttrs) -> Type:
    if isinstance(data, Hole):
        raise NotYet
    return data


def _itself(data: Any, attrs: CompilerAttrs) -> Any:
    return data


def _expand(b: Builder, data: Expr, attrs: CompilerAttrs) -> Expr:
    return data


def _annotation(name: str, doc: str) -> Op:
    return Op(
        name=f"annotation.{name}",
        args=("data",),
        attrs=CompilerAttrs,
        type_rel=_same,
        reference=_itself,
        expand=_expand,
        samples=(Sample((((2, 3), "float32"),), {"compiler": "c"}, exact=True),),
        doc=doc,
    )


compiler_begin = _annotation("compiler_begin", "A value that goes into a region for another code generator.")
compiler_end = _annotation("compiler_end", "A value that comes out of a region for another code generator.")

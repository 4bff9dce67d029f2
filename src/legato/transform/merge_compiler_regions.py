"""Regions of one code generator that follow each other become one.

end(exp(begin(end(tanh(begin(%x))))))      =>      end(exp(tanh(begin(%x))))

Not where a way from one to the other leads through something else, which would have to be computed in the middle of the
region; nor out of a branch, a function or a let that the other is not in.
"""

from __future__ import annotations

from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.ir.expr import Call, Expr, Function
from legato.ir.module import Module
from legato.ir.scope import operands, post_order
from legato.ir.visit import with_operands
from legato.ops.annotation import compiler_end
from legato.transform._compiler_regions import Regions, is_begin, is_end
from legato.transform.pass_ import FunctionPass

__all__ = ["MergeCompilerRegions"]


@dataclass(frozen=True, slots=True)
class MergeCompilerRegions(FunctionPass):
    """Module → module with fewer and larger regions. CompileError where annotations do not fit each other."""

    name = "merge-compiler-regions"

    def function(self, func: Function, mod: Module) -> Function:
        if not any(is_end(node) for node in post_order(func.body)):
            return func
        regions = Regions(func)
        merged = False
        for node in regions.order:
            region = None if is_begin(node) or is_end(node) else regions.region(node)
            for operand in operands(node) if region is not None else ():
                source = _joint(operand)
                other = None if source is None else regions.region(source)
                here = regions.region(node)
                if other is not None and here is not None and regions.compiler[other] == regions.compiler[here]:
                    merged |= regions.merge(other, here)
        return replace(func, body=_joined(func.body, regions)) if merged else func


def _joint(operand: Expr) -> Expr | None:
    """What another region gives directly to the one that has this operand."""
    if not is_begin(operand):
        return None
    assert isinstance(operand, Call)
    end = operand.args[0]
    return end.args[0] if isinstance(end, Call) and end.op is compiler_end else None


def _joined(root: Expr, regions: Regions) -> Expr:
    """`root` without the annotations inside of regions."""
    new: dict[int, Expr] = {}
    for node in regions.order:
        region = None if is_begin(node) or is_end(node) else regions.region(node)
        seen = new
        if region is not None:
            seen = dict[int, Expr]()
            for operand in operands(node):
                source = _joint(operand)
                inside = source is not None and regions.region(source) == region
                seen[id(operand)] = new[id(source if inside else operand)]
        new[id(node)] = with_operands(node, seen)
    return new[id(root)]

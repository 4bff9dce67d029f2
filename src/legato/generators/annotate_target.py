"""What a code generator can compile is marked: its operands by `compiler_begin`, its result by `compiler_end`.

exp(tanh(%x))      =>      tanh(%x) and exp(…), each between annotation.compiler_begin and annotation.compiler_end

Marked are calls of operators that a target takes, and calls of functions that a pattern has cut out for it: these have
the attribute Composite="NAME.…". The first target that takes a call gets it. What touches cells, may fail or may not
end stays unmarked, and so does what is computed from that, because the order of effects is the program's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.kinds import require, require_sequence
from legato.ir.effects import Effects
from legato.ir.expr import Call, Expr, Function, Tuple, TupleGetItem
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.ir.types import TensorType, TupleType, walk
from legato.ir.visit import with_operands
from legato.ops.annotation import CompilerAttrs, compiler_begin, compiler_end
from legato.transform._external import COMPOSITE, is_closed
from legato.transform.pass_ import FunctionPass

__all__ = ["AnnotateTarget", "Supports"]

Supports = Callable[[Call], bool]


@dataclass(frozen=True, slots=True)
class AnnotateTarget(FunctionPass):
    """Module → module with regions of one call each. `targets`: names, each with the calls of operators that it takes.

    with_projections: a field of what a marked call gives belongs to its region.
    """

    name = "annotate-target"
    targets: tuple[tuple[str, Supports], ...] = ()
    with_projections: bool = True

    def check_options(self) -> None:
        for pair in require_sequence(self.targets, "targets", "pairs of a name and a function"):
            is_pair = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and callable(pair[1])
            require(is_pair, pair, "targets", "pairs of a name and a function")

    def function(self, func: Function, mod: Module) -> Function:
        order = list(post_order(func.body, lambda node: not is_closed(node)))
        chosen = self._chosen(order, Effects(func, mod))
        return replace(func, body=_annotated(func.body, order, chosen)) if chosen else func

    def _chosen(self, order: list[Expr], effects: Effects) -> dict[int, str]:
        """The target of every node that is to be marked, by id."""
        marked = {id(a) for n in order if isinstance(n, Call) and n.op is compiler_end for a in n.args}
        found: dict[int, str] = {}
        for node in order:
            if id(node) in marked or effects.inside(node):
                continue
            if isinstance(node, Call):
                target = self._target(node)
                if target is not None and not any(map(_is_begun, node.args)):
                    found[id(node)] = target
            elif isinstance(node, TupleGetItem) and self.with_projections and id(node.value) in found:
                found[id(node)] = found[id(node.value)]
        return found

    def _target(self, call: Call) -> str | None:
        if not all(map(_is_data, (call, *call.args))):
            return None
        if isinstance(call.op, Function):
            prefix = str(call.op.attrs.get(COMPOSITE, "")).partition(".")[0]
            return next((name for name, _ in self.targets if name == prefix), None)
        if not isinstance(call.op, Op) or call.op.stateful or call.op in (compiler_begin, compiler_end):
            return None
        return next((name for name, supports in self.targets if supports(call)), None)


def _is_begun(arg: Expr) -> bool:
    return isinstance(arg, Call) and arg.op is compiler_begin


def _is_data(e: Expr) -> bool:
    """Whether an expression is a tensor, or a tuple of such: what a generator takes and gives."""
    return e.ty is not None and all(isinstance(part, TensorType | TupleType) for part in walk(e.ty))


def _annotated(root: Expr, order: list[Expr], chosen: Mapping[int, str]) -> Expr:
    """`root` with marks. `inner` has what is marked as its own region sees it: without the mark behind it."""
    inner: dict[int, Expr] = {}
    new: dict[int, Expr] = {}
    for node in order:
        target = chosen.get(id(node))
        if target is None:
            new[id(node)] = with_operands(node, new)
            continue
        if isinstance(node, TupleGetItem):
            made: Expr = replace(node, value=inner[id(node.value)])
        else:
            assert isinstance(node, Call)
            made = replace(node, args=tuple(_begun(a, target, new) for a in node.args))
        inner[id(node)] = made
        new[id(node)] = Call(compiler_end, (made,), CompilerAttrs(target), ty=node.ty, span=node.span)
    return new[id(root)]


def _begun(arg: Expr, target: str, new: Mapping[int, Expr]) -> Expr:
    """An operand, marked; of a tuple that is written there, the fields."""
    if isinstance(arg, Tuple):  # nests as shallowly as types do
        return replace(arg, fields=tuple(_begun(f, target, new) for f in arg.fields))
    return Call(compiler_begin, (new[id(arg)],), CompilerAttrs(target), ty=arg.ty, span=arg.span)

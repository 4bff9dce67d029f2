"""Pure bindings that follow each other become dataflow blocks.

    let %a = exp(%x);                            let %gv = dataflow { let %a1 = exp(%x); let %b1 = add(%a1, %y);
    let %b = add(%a, %y);              =>                             output(%b1) };
    ref_write(%r, %b)                            let %b = %gv.0;
                                                 ref_write(%r, %b)

Blocks hold no binding that touches a cell, may not end, chooses, is a function, or brings dims. What a block computes
and something behind it uses is its output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.ir.atoms import is_operand
from legato.ir.effects import Effect, Effects, brought_dims
from legato.ir.expr import Dataflow, Expr, Function, If, Match, TupleGetItem, Var
from legato.ir.let import Binding, chain
from legato.ir.module import Module
from legato.ir.types import TupleType
from legato.ir.visit import free_vars, substitute
from legato.transform._blocks import with_bindings, with_blocks
from legato.transform.pass_ import FunctionPass
from legato.transform.to_a_normal import ToANormal

__all__ = ["ToDataflow"]


@dataclass(frozen=True, slots=True)
class ToDataflow(FunctionPass):
    """Module → module in A-normal form but for dataflow blocks, each of at least `min_size` computations."""

    name = "to-dataflow"
    min_size: int = 2

    def prepared(self, mod: Module) -> Module:
        """Straight-line blocks."""
        return ToANormal()(mod) if not any(_has_block(f) for _, f in mod.graph_functions()) else mod

    def function(self, func: Function, mod: Module) -> Function:
        if _has_block(func):
            return func
        body = _Blocks(Effects(func, mod), self.min_size).block(func.body)
        return func if body is func.body else replace(func, body=body)


def _has_block(func: Function) -> bool:
    return any(isinstance(n, Dataflow) for n in post_order([func.body]))


class _Blocks:
    def __init__(self, effects: Effects, min_size: int) -> None:
        self.effects, self.min_size = effects, min_size

    def block(self, body: Expr) -> Expr:
        """A straight-line block, with those inside of its bindings."""
        old, result = chain(body)
        bindings = [(var, with_blocks(value, self.block)) for var, value in old]
        last = {v: n for n, (_, value) in enumerate(bindings) for v in free_vars(value)}
        last |= dict.fromkeys(free_vars(result), len(bindings))
        new = [b for start, run in self._runs(bindings) for b in self._joined(run, start + len(run), last)]
        return with_bindings(body, old, new, result)

    def _runs(self, bindings: Sequence[Binding]) -> Iterator[tuple[int, list[Binding]]]:
        """The bindings in order, with the position of the first: pure ones that follow each other together, every other
        one on its own."""
        run: list[Binding] = []
        for n, binding in enumerate(bindings):
            if self._is_pure(binding[1]):
                run.append(binding)
                continue
            yield n - len(run), run
            yield n, [binding]
            run = []
        yield len(bindings) - len(run), run

    def _is_pure(self, value: Expr) -> bool:
        if isinstance(value, Function | If | Match) or brought_dims(value):
            return False
        return not self.effects.possible or not self.effects.of(value) & (Effect.CELLS | Effect.LOOPS)

    def _joined(self, run: list[Binding], end: int, last: Mapping[Var, int]) -> list[Binding]:
        """A run, which ends at `end`, as a block and what takes its outputs out of it; itself where it is too short.

        last: where each variable is used last."""
        computing = [v for _, v in run if not isinstance(v, TupleGetItem) and not is_operand(v)]
        if len(computing) < self.min_size:
            return run
        inner = {var: Var(var.name, ty=var.ty) for var, _ in run}
        outputs = [var for var, _ in run if last.get(var, 0) >= end]
        renamed: dict[Var, Expr] = {**inner}
        own = tuple((inner[var], substitute(value, renamed)) for var, value in run)
        types = tuple(t for t in (v.ty for v in outputs) if t is not None)
        whole = Dataflow(own, tuple(inner[v] for v in outputs), ty=TupleType(types), span=run[0][1].span)
        name = Var("gv", ty=whole.ty)
        return [(name, whole), *((v, TupleGetItem(name, n, ty=v.ty)) for n, v in enumerate(outputs))]

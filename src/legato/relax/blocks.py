"""Function bodies as Relax has them: blocks of bindings, then a result. Views of the language's nodes.

    let %gv = dataflow { let %a = exp(%x); output(%a) };         SeqExpr([DataflowBlock([VarBinding(a, exp(x))], [a]),
    let %b = tanh(%gv.0);                                  ⇒              BindingBlock([VarBinding(b, tanh(a))])],
    %b                                                                   b)

Outputs of a dataflow block are variables that what follows names. `seq_of` gives the view of an expression, `to_expr`
the expression of a view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.infer.builder import Builder
from legato.ir import expr as ir
from legato.ir.expr import Dataflow, Expr, Tuple, TupleGetItem, Var
from legato.ir.let import chain, lets
from legato.ir.types import Type
from legato.ir.visit import substitute

__all__ = ["Binding", "BindingBlock", "DataflowBlock", "MatchCast", "SeqExpr", "VarBinding", "dataflow", "outputs_of",
           "seq_of"]  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class Binding:
    """A variable and what is bound to it."""

    var: Var
    value: Expr

    @property
    def bound(self) -> Expr:
        """The expression that is bound."""
        return self.value


@dataclass(frozen=True, eq=False, slots=True)
class VarBinding(Binding):
    """`var = value`."""


@dataclass(frozen=True, eq=False, slots=True)
class MatchCast(Binding):
    """`var = value`, checked when it runs to have the type `ty`, whose dims that are new it binds."""

    ty: Type

    @property
    def struct_info(self) -> Type:
        """`ty`, as older versions call it."""
        return self.ty

    @property
    def bound(self) -> Expr:
        return Builder().match_cast(self.value, self.ty)


@dataclass(frozen=True, eq=False, slots=True)
class BindingBlock:
    """Bindings in order."""

    bindings: tuple[Binding, ...]


@dataclass(frozen=True, eq=False, slots=True)
class DataflowBlock(BindingBlock):
    """Pure bindings in order; `outputs`, in order, are those of their variables that are known behind it."""

    outputs: tuple[Var, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class SeqExpr:
    """Blocks, and the result behind them."""

    blocks: tuple[BindingBlock, ...]
    body: Expr

    def to_expr(self) -> Expr:
        """This as an expression of the language."""
        bound: list[tuple[Var, Expr]] = []
        fields: dict[Var, Expr] = {}
        for block in self.blocks:
            own = [(b.var, b.bound) for b in block.bindings]
            if not isinstance(block, DataflowBlock):
                bound += own
                continue
            whole = dataflow(own, block.outputs)
            name = Var("gv", ty=whole.ty)
            bound.append((name, whole))
            fields |= outputs_of(name, block.outputs)
        return substitute(lets(bound, self.body), fields)


def dataflow(own: Sequence[tuple[Var, Expr]], outputs: Iterable[Var]) -> Dataflow:
    """A block as one expression; inside, its outputs have other variables than what follows knows them by."""
    inner: dict[Var, Var] = {v: Var(v.name, ty=v.ty) for v in outputs}
    values = substitute(Tuple(tuple(e for _, e in own)), dict[Var, Expr](inner))  # at once: shared nodes stay shared
    pairs = list(zip((inner.get(v, v) for v, _ in own), values.children(), strict=True))
    return Builder().dataflow(pairs, list(inner.values()))


def outputs_of(block: Var, outputs: Iterable[Var]) -> dict[Var, Expr]:
    """What the outputs of a block are behind it, where `block` stands for it."""
    return {v: Builder().get(block, n) for n, v in enumerate(outputs)}


def seq_of(expr: Expr) -> SeqExpr:
    """The view of an expression: of its let-bound values and dataflow blocks."""
    bindings, result = chain(expr)
    rows = [_row(var, value) for var, value in bindings]
    parts = _opened(
        [*(e for row in rows for _, e in row.bound), result], {r.var: Tuple(r.outputs) for r in rows if r.is_block}
    )
    values = iter(parts)
    blocks: list[BindingBlock] = []
    for row in rows:
        own = tuple(_binding(v, next(values)) for v, _ in row.bound)
        if row.is_block:
            blocks.append(DataflowBlock(own, tuple(dict.fromkeys(row.outputs))))
        elif blocks and not isinstance(blocks[-1], DataflowBlock):
            blocks[-1] = BindingBlock(blocks[-1].bindings + own)
        else:
            blocks.append(BindingBlock(own))
    return SeqExpr(tuple(blocks), next(values))


@dataclass(frozen=True, slots=True)
class _Row:
    """A let: what it binds, or what the dataflow block that is its value does; that block's outputs are variables."""

    var: Var
    bound: tuple[tuple[Var, Expr], ...]
    outputs: tuple[Var, ...] = ()
    is_block: bool = False


def _row(var: Var, value: Expr) -> _Row:
    if not isinstance(value, Dataflow):
        return _Row(var, ((var, value),))
    own = {v for v, _ in value.bindings}
    named = [o if isinstance(o, Var) and o in own else Var("gv", ty=o.ty) for o in value.outputs]
    odd = [(n, o) for n, o in zip(named, value.outputs, strict=True) if n is not o]
    return _Row(var, (*value.bindings, *odd), tuple(named), is_block=True)


def _opened(parts: Sequence[Expr], blocks: Mapping[Var, Tuple]) -> tuple[Expr, ...]:
    """`parts`, where what blocks give is what their outputs are."""

    def step(node: Expr) -> Expr | None:
        if isinstance(node, Var):
            return blocks.get(node)
        if isinstance(node, TupleGetItem) and isinstance(node.value, Tuple) and node.value in made:
            return node.value.fields[node.index]
        return None

    made = set(blocks.values())
    whole: Expr = Tuple(tuple(parts))
    return transform(whole, step).children() if blocks else tuple(parts)


def _binding(var: Var, value: Expr) -> Binding:
    if isinstance(value, ir.MatchCast):
        return MatchCast(var, value.value, value.target)
    return VarBinding(var, value)

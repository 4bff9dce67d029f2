"""What rules for elements store, and over which axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from legato.arith.expr import Expr, Var, const
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute
from legato.base.dataclass import dataclass
from legato.lower.access import extent_of, is_unit, lie_together
from legato.lower.rules.nest import unfused
from legato.lower.rules.pieces import pieces
from legato.te.tensor import Axis, Stage, Tensor
from legato.tir.stmt import Stmt, Store

__all__ = ["Elements", "Env"]

Env = Mapping[Var, Expr]


@dataclass(frozen=True, slots=True)
class Elements:
    """`body`, to be stored to `root` at `index`, over `axes`: those of more than one place, as they lie in memory."""

    root: Tensor
    index: tuple[Expr, ...]
    axes: tuple[Axis, ...]
    body: Expr

    @staticmethod
    def of(root: Tensor, body: Expr) -> Elements:
        """All of `root`, whose elements are `body` over the axes of its stage."""
        assert isinstance(root.stage, Stage)
        axes = [root.stage.axes[d] for d in root.layout.order]
        units: dict[Var, Expr] = {a.var: const(0) for a in axes if is_unit(a.extent)}
        index = tuple(units.get(a.var, a.var) for a in root.stage.axes)
        long = tuple(a for a in axes if a.var not in units)
        return Elements(root, index, long, substitute(body, units))

    def store(self, env: Env, value: Expr | None = None) -> Stmt:
        """Stores `value`, or the body, where `env` says."""
        value = self.body if value is None else value
        return Store(self.root, tuple(substitute(i, env) for i in self.index), substitute(value, env))

    @property
    def ranges(self) -> int:
        """Ranges of the last axis between which conditions on it change."""
        inner = self.axes[-1] if self.axes else None
        return 1 if inner is None or extent_of(inner.extent) is None else len(pieces(inner, self.body))

    def parts(self, most: int) -> list[Elements]:
        """At most so many parts, along all axes but the last, between which conditions on these change."""
        for axis in self.axes[:-1]:
            cut = [] if extent_of(axis.extent) is None else pieces(axis, self.body)
            if 1 < len(cut) <= most:
                parts = [self._part(axis, *piece) for piece in cut]
                return [found for part in parts for found in part.parts(most // len(cut))]
        return [self]

    def _part(self, axis: Axis, lo: int, hi: int, body: Expr) -> Elements:
        part = Axis(Var(axis.var.name, lo=0), const(hi - lo))
        at: dict[Var, Expr] = {axis.var: const(lo) if hi - lo == 1 else simplify(part.var + lo)}
        axes = tuple(part if a is axis else a for a in self.axes if a is not axis or hi - lo > 1)
        return Elements(self.root, tuple(substitute(i, at) for i in self.index), axes, substitute(body, at))

    def merged(self) -> Elements:
        """The same over fewer axes: those that lie together in all memory that is read and written are one."""
        groups: list[list[Axis]] = []
        for axis in self.axes:
            known = extent_of(axis.extent) is not None
            if groups and known and lie_together((self.root, self.index), [self.body], groups[-1][-1], axis):
                groups[-1].append(axis)
            else:
                groups.append([axis])
        env, axes = dict[Var, Expr](), list[Axis]()
        for group in groups:
            extents = [a.extent for a in group]
            axes.append(Axis(Var(group[-1].var.name, lo=0), simplify(math.prod(extents, start=const(1)))))
            env.update(zip((a.var for a in group), unfused(axes[-1].var, extents), strict=True))
        index = tuple(substitute(i, env) for i in self.index)
        return replace(self, index=index, axes=tuple(axes), body=substitute(self.body, env))

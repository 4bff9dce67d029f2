"""What reverse and forward mode make of a run of straight-line code, and of the companions of its tensors.

Reverse    a companion is a cell that gathers the cotangent; a run appends to the tape what reads the cells of its
           results and adds to those of its operands
Forward    a companion is a tangent, computed after the run
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from legato.infer.builder import Builder
from legato.ir.expr import Call, Constructor, Expr, Function, Var
from legato.ir.let import Binding, lets
from legato.ir.types import UNIT, FuncType, RefType, TensorType, Type
from legato.transform._gradient.cotangents import Cotangent, made
from legato.transform._gradient.nodes import Leaf
from legato.transform._gradient.straight import Cotangents, active_vars, pull_back, push_forward

__all__ = ["Forward", "Mode", "Reverse"]


class Mode(Protocol):
    """How companions are made."""

    extra: Var | None  # what every function of the module takes beside its parameters

    def companion_type(self, ty: TensorType) -> Type:
        """The type of the companion of a tensor."""

    def constant(self, b: Builder, primal: Expr) -> Expr:
        """The companion of a tensor that depends on nothing."""

    def close(self, b: Builder, run: Sequence[Binding], inputs: Mapping[Var, Leaf], results: Sequence[Leaf]) -> None:
        """Ends a run whose bindings are emitted: gives companions to those of `results`, the tensors used elsewhere,
        that depend on one of `inputs`, its operands that have companions."""


class Reverse:
    """Cotangents, gathered in cells; the tape is a list in a cell."""

    def __init__(self, step: Constructor, tape: Type) -> None:
        self._step = step
        self._tape = tape
        self.extra: Var | None = Var("tape", ty=RefType(tape))

    def companion_type(self, ty: TensorType) -> Type:
        return RefType(ty)

    def constant(self, b: Builder, primal: Expr) -> Expr:
        return b.let("c", b.ref(made(b, None, primal)))

    def close(self, b: Builder, run: Sequence[Binding], inputs: Mapping[Var, Leaf], results: Sequence[Leaf]) -> None:
        active = active_vars(run, inputs)
        gathered = [leaf for leaf in results if leaf.primal in active]
        for leaf in gathered:
            leaf.companion = self.constant(b, leaf.primal)
        if gathered:
            self._append(b, self._backward(b, run, inputs, gathered, active))

    def _backward(
        self, b: Builder, run: Sequence[Binding], inputs: Mapping[Var, Leaf], results: Sequence[Leaf], active: set[Var]
    ) -> Function:
        """The function that adds to the cells of `inputs` what those of `results` hold by then."""
        with b.bindings() as bound:
            found: Cotangents = {}
            for leaf in results:
                assert isinstance(leaf.primal, Var)
                assert leaf.companion is not None
                found[leaf.primal] = b.let("d", b.read(leaf.companion))
            pull_back(b, run, found, active)
            for var, leaf in inputs.items():
                self.gather(b, leaf, found.get(var))
            unit = b.tuple_([])
        return Function((), lets(bound, unit), UNIT, ty=FuncType((), UNIT))

    @staticmethod
    def gather(b: Builder, leaf: Leaf, dy: Cotangent) -> None:
        """Adds to the cell of a tensor."""
        if dy is not None:
            assert isinstance(dy, Expr)
            assert leaf.companion is not None
            old = b.let("d", b.read(leaf.companion))
            b.let("u", b.write(leaf.companion, b.let("d", b.add(old, dy))))

    def _append(self, b: Builder, backward: Function) -> None:
        assert self.extra is not None
        rest = b.let("rest", b.read(self.extra))
        step = b.let("back", backward)
        longer = b.let("steps", Call(self._step, (step, rest), ty=self._tape))
        b.let("u", b.write(self.extra, longer))


class Forward:
    """Tangents."""

    extra: Var | None = None

    def companion_type(self, ty: TensorType) -> Type:
        return ty

    def constant(self, b: Builder, primal: Expr) -> Expr:
        return made(b, None, primal)

    def close(self, b: Builder, run: Sequence[Binding], inputs: Mapping[Var, Leaf], results: Sequence[Leaf]) -> None:
        found: Cotangents = {var: leaf.companion for var, leaf in inputs.items()}
        push_forward(b, run, found)
        for leaf in results:
            assert isinstance(leaf.primal, Var)
            tangent = found.get(leaf.primal)
            assert not isinstance(tangent, tuple)
            leaf.companion = tangent

"""What a type relation talks to: one call of an operator, asked once, backed by the solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato.arith.simplify import simplify
from legato.base.errors import TypeCheckError
from legato.base.span import Span
from legato.infer.holes import NotYet, show
from legato.infer.site import Scope, Site
from legato.infer.solver import Solver
from legato.ir.kinds import tensor_fault
from legato.ir.op import Op
from legato.ir.types import Dim, TensorType, TupleType, Type

__all__ = ["Asker", "ask"]

ValueOf = Callable[[int], tuple[Dim, ...] | None]


class Asker:
    """One question to a type relation; implements `ir.op.Relation`. `types` may have filled holes."""

    __slots__ = ("_op", "_scope", "_solver", "_span", "_types", "_value", "made")

    def __init__(
        self, solver: Solver, op: Op, span: Span | None, types: Sequence[Type], scope: Scope, value: ValueOf
    ) -> None:
        self._solver, self._op, self._span = solver, op, span
        self._types, self._scope, self._value = types, scope, value
        self.made: list[Dim] = []

    def _site(self, what: str) -> Site:
        return Site(f"{self._op.name}: {what}", self._span, self._scope)

    def same(self, a: Dim, b: Dim, what: str) -> Dim:
        """Requires a == b and returns the better known of both; `what` names it in the message."""
        if a is b:
            return a
        try:
            return self._solver.same(a, b, self._site(what))
        except TypeCheckError as error:
            raise self._explain(error) from None

    def unify(self, a: Type, b: Type, what: str) -> Type:
        """Requires two types to be equal; fills holes."""
        try:
            return self._solver.zonk(self._solver.unify(a, b, self._site(what)))
        except TypeCheckError as error:
            raise self._explain(error) from None

    def fresh(self, name: str, hi: int | None = None) -> Dim:
        """A new dim for a data-dependent extent."""
        new = self._solver.existential(name, hi, self._scope)
        self.made.append(new)
        return new

    def value(self, arg: int) -> tuple[Dim, ...] | None:
        """The symbolic value (flattened) of argument `arg` if it is a known small integer tensor."""
        return self._value(arg)

    def fail(self, message: str, hint: str | None = None, details: Sequence[str] = ()) -> TypeCheckError:
        """An error at this call, to be raised by the relation."""
        return TypeCheckError(
            f"{self._op.name}: {message}", span=self._span, hint=hint, details=(*self._arguments(), *details)
        )

    def _arguments(self) -> list[str]:
        names = [name.lstrip("*") for name in self._op.args]
        width = max(map(len, names), default=0)
        pairs = zip(names, self._types, strict=True)
        shown = [f"{name:<{width}} : {show(self._solver.zonk(ty))}" for name, ty in pairs]
        return [*shown, *self._solver.reasons(self._types, self._site(""))]

    def _explain(self, error: TypeCheckError) -> TypeCheckError:
        details = tuple(dict.fromkeys((*error.details, *self._arguments())))
        return TypeCheckError(error.message, span=error.span, hint=error.hint, details=details)


def ask(asker: Asker, op: Op, span: Span | None, types: Sequence[Type], attrs: Any) -> Type | None:
    """The result type of a call of `op`, its dims in normal form, or None if too little is known yet."""
    if len(types) != len(op.args):
        names = ", ".join(op.args) or "none"
        raise TypeCheckError(f"{op.name}: got {len(types)} arguments, wanted {len(op.args)} ({names})", span=span)
    op.require_computed(asker, attrs, types, "computes with no {}")
    try:
        found = op.type_rel(asker, *types, *op.tail(attrs))
    except NotYet:
        return None
    if found is None:
        return None
    if not isinstance(found, Type):
        raise asker.fail(f"its relation gives {found!r}, wanted a type", hint="TensorType(shape, dtype)")
    op.require_computed(asker, attrs, (found,), "gives no {}")
    found = _normal(found)
    fault = tensor_fault(found)
    if fault is not None:
        raise asker.fail(f"the result: {fault}")
    return found


def _normal(ty: Type) -> Type:
    """`ty` with its dims simplified; the same object where they are so already."""
    if isinstance(ty, TensorType):
        shape = tuple([simplify(d) for d in ty.shape])
        return ty if shape == ty.shape else TensorType(shape, ty.dtype)
    if isinstance(ty, TupleType):
        fields = tuple(_normal(f) for f in ty.fields)
        return ty if all(a is b for a, b in zip(fields, ty.fields, strict=True)) else TupleType(fields)
    return ty

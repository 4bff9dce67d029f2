"""What a function demands of its callers: the equalities of dims that its body needs and could not decide.

def @add(%x: Tensor[(n, 4), float32], %y: Tensor[(m, 4), float32]) { %x + %y }         demands n = m

A call that says what the dims are is held to that. Where they provably differ, the call is a mistake; where that is not
known, the caller demands it in turn. A call of a function that is still being typed, recursively, or that is not known,
as of a parameter, is left to the check that every function makes when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from legato.arith.expr import Var
from legato.arith.simplify import simplify
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.base.span import Span
from legato.infer.replace import replace_dim
from legato.infer.site import Scope, Site
from legato.infer.solver import Solver
from legato.ir.constraint import Constraint, demanded, sides
from legato.ir.types import Dim, Type, TypeVar

__all__ = ["Demands", "KnownCall"]

_LIMIT: Final = 32  # equalities of a function from its calls: more are left to the functions called


@dataclass(frozen=True, slots=True)
class KnownCall:
    """A call of a function that is known: what messages call it, its scope, and the values of its type parameters."""

    name: str
    callee: Scope
    params: tuple[TypeVar | Var, ...]
    args: tuple[Type | Dim, ...]
    caller: Scope
    span: Span | None


class Demands:
    """The calls of known functions, in the order in which they were typed: so callees come first."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._calls: list[KnownCall] = []

    def note(self, call: KnownCall) -> None:
        """Keeps a call, to be looked at when the dims in it are known."""
        self._calls.append(call)

    def pass_on(self) -> list[TypeCheckError]:
        """Holds the noted calls to what the functions demand. Returns the errors, one for each call that is wrong."""
        errors: list[TypeCheckError] = []
        room: dict[int, int] = {}
        seen: set[object] = set()
        for call in self._calls:
            values = self._values(call)
            key = (id(call.callee), id(call.caller), *values.items())  # a loop calls with the same dims again and again
            if key in seen:
                continue
            seen.add(key)
            found, fault = self._asked(call, values)
            if fault is not None:
                errors.append(fault)
                continue
            left = room.setdefault(id(call.caller), max(0, _LIMIT - call.caller.given))
            for c in found[:left]:
                call.caller.constraints[c.a, c.b] = c
                room[id(call.caller)] -= 1
        self._calls.clear()
        return errors

    def _values(self, call: KnownCall) -> dict[Var, Dim]:
        """The dim parameters of the function called: what they are there."""
        if len(call.args) != len(call.params):
            return {}
        pairs = zip(call.params, call.args, strict=True)
        return {p: self._solver.dim(a) for p, a in pairs if isinstance(p, Var) and isinstance(a, Dim)}

    def _asked(self, call: KnownCall, values: Mapping[Var, Dim]) -> tuple[list[Constraint], TypeCheckError | None]:
        """What the call asks of its caller that this does not check yet; the error if it can never hold.

        Left out is what depends on dims that are new in the function called, which only it can check.
        """
        dims = call.caller.dims
        trial = Scope(dims)
        for c in call.callee.constraints.values():
            a, b = (replace_dim(self._solver.dim(d), values) for d in (c.a, c.b))
            if any(v not in dims for v in variables(a, b)):
                continue
            try:
                self._solver.same(a, b, Site(c.what, call.span, trial))
            except TypeCheckError:
                return [], self._fault(call, c, values)
        known = call.caller.constraints
        return [c for (a, b), c in trial.constraints.items() if (a, b) not in known and (b, a) not in known], None

    def _fault(self, call: KnownCall, c: Constraint, values: Mapping[Var, Dim]) -> TypeCheckError:
        a, b, otherwise = demanded(self._solver.dim(c.a), self._solver.dim(c.b))
        names = sides(a, b, [p for p in call.params if isinstance(p, Var)])
        here = [str(simplify(replace_dim(d, values))) for d in (a, b)]
        got = [name if name == value else f"{name} = {value}" for name, value in zip(names, here, strict=True)]
        where = "" if c.span is None else f" at {c.span}"
        message = f"call of {call.name}: the dims differ, {got[0]} and {got[1]}"
        wanted = f"wanted : {' == '.join(names)}{otherwise}, for {c.what}{where}"
        return TypeCheckError(message, span=call.span, details=[wanted])

"""What an expression being written may use: variables, nodes to share, functions to call, dims, type variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from legato.arith.expr import Var as DimVar
from legato.ir.expr import Expr, Var
from legato.ir.types import FuncType, Type, TypeVar

__all__ = ["Callee", "Scope"]


@dataclass(eq=False, slots=True)
class Callee:
    """A function that may be called, at any instance of its type."""

    expr: Expr
    ty: FuncType
    pure: bool = True
    fuel: int | None = None  # the parameter that bounds its recursion
    calls: int = 1 << 30  # how often it may still be called: within its own body, rarely
    fuel_left: Expr | None = None  # within its own body: what it has to pass on as fuel
    smaller: list[Var] | None = None  # within its own body: what its first argument may be

    @property
    def types(self) -> list[TypeVar]:
        """Its type variables."""
        return [p for p in self.ty.type_params if isinstance(p, TypeVar)]

    @property
    def dims(self) -> list[DimVar]:
        """Its dims."""
        return [p for p in self.ty.type_params if isinstance(p, DimVar)]

    @property
    def is_inside(self) -> bool:
        """True within its own body, where it is called at its own type only."""
        return self.fuel_left is not None or self.smaller is not None


@dataclass(eq=False, slots=True)
class Scope:
    """Grows while something is written, and shrinks to a mark behind it."""

    vars: list[Var] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)  # of the variables
    shared: list[tuple[Expr, Type, bool]] = field(default_factory=list)  # and whether they have no effects
    callees: list[Callee] = field(default_factory=list)
    dims: list[DimVar] = field(default_factory=list)
    type_vars: list[TypeVar] = field(default_factory=list)

    def bind(self, var: Var, ty: Type) -> None:
        """Brings a variable into scope."""
        self.vars.append(var)
        self.types.append(ty)

    def of(self, ty: Type) -> Sequence[Var]:
        """The variables of a type, the latest first."""
        return [v for v, t in zip(reversed(self.vars), reversed(self.types), strict=True) if t == ty]

    def mark(self) -> tuple[int, ...]:
        """Where everything ends now."""
        return tuple(map(len, (self.vars, self.shared, self.callees, self.dims, self.type_vars)))

    def release(self, mark: tuple[int, ...]) -> None:
        """Forgets what came since."""
        v, s, c, d, t = mark
        del self.vars[v:], self.types[v:], self.shared[s:], self.callees[c:], self.dims[d:], self.type_vars[t:]

"""Instances of functions: at which types, and with which closures as arguments, a function is to be had.

Two calls want the same instance where their keys are equal. A key has the types that the type variables stand for and
the closures that are known, dims by number: dims stay parameters, so one instance serves every size. The values that
closures hold become arguments.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from legato.arith.expr import Const, fresh
from legato.arith.expr import Var as DimVar
from legato.base.dataclass import dataclass
from legato.infer.replace import replace_vars
from legato.ir.expr import Call, Expr, GlobalVar, Var
from legato.ir.types import Dim, FuncType, Type, map_dims
from legato.transform._types import split

__all__ = ["Held", "Key", "Request", "Requests", "held_types"]

MAX_NESTING: Final = 3  # closures that hold closures that …: what is deeper is a value
MAX_HELD: Final = 8  # closures of one key: others are values, or what doubles in every round would grow without end


@dataclass(frozen=True, slots=True)
class Held:
    """A closure of a key: what it calls, at which types, and what it holds; None for what is no known closure.

    Type parameters of the closure's own are not among the types: it is called at several.
    """

    gv: GlobalVar
    type_args: tuple[Type | Dim, ...]
    held: tuple[Held | None, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """What an instance is made for: the type arguments, the closures; and how many dims these number."""

    gv: GlobalVar
    type_args: tuple[Type | Dim, ...]
    closures: tuple[Held | None, ...]
    dims: int = 0

    @property
    def is_plain(self) -> bool:
        """True if the instance is the function itself."""
        return not any(isinstance(a, Type) for a in self.type_args) and not any(self.closures)


@dataclass(slots=True)
class Request:
    """An instance that a call wants: its key, the arguments, and the dims that the key numbers."""

    key: Key
    args: list[Expr]
    dims: list[Dim]


class Requests:
    """Makes requests; those of one object have the same numbers for dims."""

    def __init__(self) -> None:
        self._pool: list[DimVar] = []

    def number(self, n: int) -> DimVar:
        """Number n as a dim."""
        while n >= len(self._pool):
            self._pool.append(fresh(f"d{len(self._pool)}"))
        return self._pool[n]

    def request(
        self, callee: GlobalVar, type_args: Sequence[Type | Dim], args: Sequence[Expr], closures: Mapping[Var, Call]
    ) -> Request:
        """The instance for a call of `callee`; `closures` are the calls that the closures bound to variables make."""
        dims: list[Dim] = []
        known: dict[Dim, DimVar] = {}
        passed: list[Expr] = []
        count = itertools.count()

        def new(d: Dim) -> DimVar:
            dims.append(d)
            return self.number(len(dims) - 1)

        def dim(d: Dim) -> Dim:
            if isinstance(d, Const):
                return d
            if d not in known:
                known[d] = new(d)
            return known[d]

        def held(arg: Expr, depth: int) -> Held | None:
            call = closures.get(arg) if isinstance(arg, Var) and depth else None
            if call is None or next(count) >= MAX_HELD:
                passed.append(arg)
                return None
            assert isinstance(call.op, GlobalVar)
            assert isinstance(arg.ty, FuncType)
            inner = call.args[: len(call.args) - len(arg.ty.params)]
            outer = call.type_args[: len(call.type_args) - len(arg.ty.type_params)]
            own = tuple(map_dims(a, dim) if isinstance(a, Type) else dim(a) for a in outer)
            return Held(call.op, own, tuple(held(a, depth - 1) for a in inner))

        types = {n: map_dims(a, dim) for n, a in enumerate(type_args) if isinstance(a, Type)}
        found = tuple(held(a, MAX_NESTING) for a in args)
        # a dim is shared with types and closures; otherwise each parameter has its own
        own = tuple(types[n] if isinstance(a, Type) else known.get(a) or new(a) for n, a in enumerate(type_args))
        return Request(Key(callee, own, found, len(dims)), passed, dims)


def held_types(held: Held) -> list[Type]:
    """The types of what a closure holds, over the dims of its key."""
    assert isinstance(held.gv.ty, FuncType)
    stands = split(held.gv.ty.type_params[: len(held.type_args)], held.type_args)
    return [replace_vars(p, *stands) for p in held.gv.ty.params[: len(held.held)]]

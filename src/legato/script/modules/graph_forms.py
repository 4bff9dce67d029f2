"""What the names of `R` stand for that say how a graph function is built: records for the reader of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from legato.arith.expr import Var as DimVar
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.infer.holes import has_holes
from legato.ir.expr import Var
from legato.ir.types import FuncType, Type, TypeVar
from legato.script.modules import options
from legato.script.modules.types import TypeVarForm

__all__ = ["Dataflows", "Declared", "FunctionAttributes", "LetForm", "Options", "Outputs", "Partial", "Sequences"]


@dataclass(frozen=True, slots=True)
class Dataflows:
    """`R.dataflow()`."""


@dataclass(frozen=True, slots=True)
class Sequences:
    """`R.seq()`."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """`R.output(…)`."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class FunctionAttributes:
    """`R.func_attr({…})`."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LetForm:
    """`R.let(value)`: what is assigned it is bound, in a function of the form "graph"."""

    value: Any


@dataclass(frozen=True, slots=True)
class Partial:
    """`R.partial(value)`: what a match looks at that has no case for some values."""

    value: Any


@dataclass(frozen=True, slots=True)
class Options:
    """What `@R.function(…)` says.

    attrs: attributes (private, pure). is_graph: an assignment names a node; `R.let` binds. is_let: of a function inside
    of such a function, that it is bound. name: what it is called, if not as in the script. type_params: those that come
    first. bounds: (least, largest) of dims, by name. constants: arrays that `R.meta` names.
    """

    attrs: Mapping[str, Any] = field(default_factory=dict)
    is_graph: bool = False
    is_let: bool = False
    name: str | None = None
    type_params: tuple[str | TypeVarForm, ...] = ()
    bounds: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Any] | None = None

    @staticmethod
    def of(
        *, private: Any = False, pure: Any = True, form: str = "let", let: bool = False, name: str | None = None,
        type_params: Any = (), bounds: Any = None,
    ) -> Options:  # fmt: skip
        """The options that the keywords of the decorator stand for."""
        if form not in ("let", "graph"):
            raise TypeCheckError(f"a function of form {form!r}", hint='"let", or "graph": an assignment names a node')
        attrs = ({"private": True} if private else {}) | ({} if pure else {"pure": False})
        called = None if name is None else options.name(name, "the name of a function")
        listed = options.sequence(type_params, "type_params")
        return Options(attrs, form == "graph", bool(let), called, listed, options.bounds(bounds))


@dataclass(frozen=True, slots=True)
class Declared:
    """The head of a function: its parameters, result type, and the dims and type variables that these are the first to
    name."""

    params: tuple[Var, ...]
    ret: Type | None
    type_params: tuple[TypeVar | DimVar, ...]

    @property
    def ty(self) -> FuncType | None:
        """The function's type, where the annotations tell it all."""
        types = [p.ty for p in self.params]
        if self.ret is None or has_holes(self.ret) or any(t is None or has_holes(t) for t in types):
            return None
        return FuncType(tuple(t for t in types if t is not None), self.ret, self.type_params)

"""What the names of `T` stand for: records that tell the reader of a tensor program what was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from legato.arith.expr import Expr
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import UnsupportedError
from legato.tir.buffer import Layout, Scope
from legato.tir.stmt import LoopKind

__all__ = ["Allocation", "Attributes", "Axes", "BlockForm", "Bounded", "BufferForm", "CheckForm", "Domain",
           "Guarded", "Handle", "InitForm", "LetForm", "LetMark", "Loops", "MetaVar", "NewVar", "Regions",
           "ScalarType", "Viewed"]  # fmt: skip


class Handle:
    """`T.handle`: a parameter that `T.match_buffer` says more of."""

    def __call__(self, *_: Any) -> Any:
        raise UnsupportedError("T.handle is no value; it annotates a parameter", hint="def f(x: T.handle): …")


@dataclass(frozen=True, slots=True)
class BufferForm:
    """`T.Buffer(shape, dtype)`: the annotation of a parameter. Dims are integers, expressions, or names of new ones."""

    shape: tuple[Any, ...]
    dtype: DType
    scope: Scope = Scope.GLOBAL
    layout: Layout | None = None


@dataclass(frozen=True, slots=True)
class Viewed:
    """`T.match_buffer(param, shape, dtype)`: what a handle points to."""

    param: Any
    form: BufferForm


@dataclass(frozen=True, slots=True)
class Allocation:
    """`T.alloc_buffer(shape, dtype, scope=)`."""

    form: BufferForm


@dataclass(frozen=True, slots=True)
class NewVar:
    """`T.int64()`: a dim, named by what it is assigned to."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class Bounded:
    """`T.bounded(lo, hi)`: the annotation of an index parameter; both included, None where nothing is known."""

    lo: int | None
    hi: int | None


@dataclass(frozen=True, slots=True)
class MetaVar:
    """`T.meta_var(value)`: a name of the script for an expression; the program has none."""

    value: Any


@dataclass(frozen=True, slots=True)
class LetForm:
    """`T.let(value, bounds=(lo, hi))`: a variable of the program, also for a literal."""

    value: Any
    bounds: tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class LetMark:
    """`T.let`, `T.let[dtype]`: the annotation of what `LetForm` makes."""

    dtype: DType | None = None


@dataclass(frozen=True, slots=True)
class CheckForm:
    """`T.check(condition, code, message)`."""

    cond: Any
    code: int
    message: str


@dataclass(frozen=True, slots=True)
class Loops:
    """`T.grid(…)`, `T.parallel(…)`, `range(…)`: begins and ends of loops, from outermost to innermost."""

    begins: tuple[Any, ...]
    ends: tuple[Any, ...]
    kind: LoopKind = LoopKind.SERIAL
    step: Any = 1
    bounds: tuple[int | None, int | None] = (0, None)  # of the variable, from 0


@dataclass(frozen=True, slots=True)
class BlockForm:
    """`T.sblock(name)`."""

    name: str


@dataclass(frozen=True, slots=True)
class InitForm:
    """`T.init()`: what a reduction begins with."""


@dataclass(frozen=True, slots=True)
class Domain:
    """One axis of a block: its kind ("S" or "R"), where it runs from and to, and the value that it has."""

    kind: str
    begin: Any
    end: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Axes:
    """`T.axis.remap(kinds, values)`: axes whose domains are those of the loops that they are."""

    kinds: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Regions:
    """`T.reads(…)`, `T.writes(…)`: what a block says that it touches."""

    is_write: bool
    regions: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Guarded:
    """`T.where(condition)`: what a block runs under."""

    cond: Any


@dataclass(frozen=True, slots=True)
class Attributes:
    """`T.func_attr({…})`, `T.sblock_attr({…})`."""

    of_function: bool
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScalarType:
    """`T.int64`, `T.float32`: called with a value, a cast; with none, a new dim; as an annotation, a scalar."""

    dtype: DType

    def __call__(self, value: Any = None) -> Expr | NewVar:
        from legato.tir.scalars import as_type

        return NewVar(self.dtype) if value is None else as_type(value, self.dtype)

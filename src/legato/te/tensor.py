"""Tensor expressions: what each element of a tensor is. Operators describe themselves in this language.

    y = compute((n, m), lambda i, j: x[i, j] * w[j])                            one stage without reduction
    c = reduce("sum", (n, m), (k,), lambda i, j, r: a[i, r] * b[r, j])          one stage with a reduction
    t = loops((out_spec, …), lambda outs: stmt)                                 a stage given as a loop program

A tensor is a buffer that remembers the stage that computes it; inputs have none. A DAG of stages is what `lower` turns
into loop nests. Everything is in logical indices: layouts are decided later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato.arith.expr import Expr, ExprLike, Op, Var, expr
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import InternalError
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.stmt import Stmt

__all__ = ["COMBINERS", "Axis", "Loops", "Reduction", "Stage", "Tensor", "compute", "loops", "placeholder", "reduce"]

COMBINERS = {"sum": Op.ADD, "prod": Op.MUL, "max": Op.MAX, "min": Op.MIN}


@dataclass(frozen=True, slots=True)
class Axis:
    """An iteration variable over [0, extent)."""

    var: Var
    extent: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Reduction:
    """How a body is combined over `axes`: sum, prod, max or min (NaN wins). `init` None: the combiner's identity."""

    combiner: str
    axes: tuple[Axis, ...]
    init: Expr | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Stage:
    """out[axes] = body, or the reduction of body."""

    axes: tuple[Axis, ...]
    body: Expr
    reduction: Reduction | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Loops:
    """A stage written as a loop program that stores all of `outputs`; reads `inputs`."""

    body: Stmt
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


class Tensor(Buffer):
    """A buffer with the stage that computes it (None: an input)."""

    __slots__ = ("stage",)
    stage: Stage | Loops | None

    def __init__(self, name: str, shape: Sequence[ExprLike], dtype: DType, stage: Stage | Loops | None = None) -> None:
        super().__init__(name, tuple(expr(d) for d in shape), dtype)
        self.stage = stage

    def __getitem__(self, indices: Any) -> Load:
        """The element at `indices` (index expressions or ints; `()` for rank 0)."""
        if not isinstance(indices, tuple):
            indices = (indices,)
        return Load(self, tuple(expr(i) for i in indices))


def placeholder(name: str, shape: Sequence[ExprLike], dtype: DType | str) -> Tensor:
    """An input tensor."""
    return Tensor(name, shape, dt.dtype(dtype))


def _axes(prefix: str, extents: Sequence[ExprLike]) -> tuple[Axis, ...]:
    return tuple(Axis(Var(f"{prefix}{n}", dt.index, 0), expr(e)) for n, e in enumerate(extents))


def compute(shape: Sequence[ExprLike], f: Callable[..., Expr], name: str = "t") -> Tensor:
    """The tensor whose element at (i, j, …) is `f(i, j, …)`."""
    axes = _axes("i", shape)
    body = f(*(a.var for a in axes))
    return Tensor(name, shape, body.dtype, Stage(axes, body))


def reduce(
    combiner: str,
    shape: Sequence[ExprLike],
    extents: Sequence[ExprLike],
    f: Callable[..., Expr],
    name: str = "r",
    init: Expr | None = None,
) -> Tensor:
    """The tensor whose element at (i, …) is the `combiner` of `f(i, …, r, …)` over all r in `extents`.

    An empty reduction gives `init`, or the combiner's identity (0, 1, the smallest, the largest value).
    """
    if combiner not in COMBINERS:
        raise InternalError(f"no combiner {combiner!r}; one of {tuple(COMBINERS)}")
    axes, red = _axes("i", shape), _axes("r", extents)
    body = f(*(a.var for a in axes), *(a.var for a in red))
    return Tensor(name, shape, body.dtype, Stage(axes, body, Reduction(combiner, red, init)))


def loops(
    specs: Sequence[tuple[Sequence[ExprLike], DType]],
    inputs: Sequence[Tensor],
    f: Callable[..., Stmt],
    name: str = "x",
) -> tuple[Tensor, ...]:
    """Tensors of the given (shape, dtype), all stored by the loop program `f(*outputs)`."""
    outs = tuple(Tensor(f"{name}{n}", shape, dtype) for n, (shape, dtype) in enumerate(specs))
    stage = Loops(f(*outs), tuple(inputs), outs)
    for out in outs:
        out.stage = stage
    return outs

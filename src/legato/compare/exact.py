"""The interpreter on flat lists of arrays, as executables take and return them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from legato.base.errors import CompileError
from legato.interp import Observer, evaluate
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.types import ShapeType, TupleType, Type
from legato.runtime.leaves import flat

__all__ = ["interpret"]

Array = np.ndarray[Any, Any]


def interpret(
    mod: Module,
    inputs: Sequence[Array],
    *,
    float64: bool,
    observe: Observer | None = None,
    packed: Mapping[str, object] | None = None,
) -> list[Array]:
    """The outputs of @main on the leaves of its arguments; CompileError where @main is a loop-level function."""
    main = mod["main"]
    if not isinstance(main, Function):
        raise CompileError("@main is a loop-level function", hint="the interpreter evaluates graph functions")
    leaves = iter(inputs)
    args = [_packed(p.ty, leaves) for p in main.params]
    with np.errstate(all="ignore"):  # NaN and infinity are values like others here
        return list(flat(evaluate(mod, args, float64=float64, observe=observe, packed=packed)))


def _packed(ty: Type | None, leaves: Iterator[Array]) -> Any:
    if isinstance(ty, TupleType):
        return tuple(_packed(f, leaves) for f in ty.fields)
    if isinstance(ty, ShapeType):
        return tuple(int(next(leaves)) for _ in ty.dims or ())
    return next(leaves)

"""Types as annotations: `x: Tensor[("n", 784), "float32"]`.

Tensor[(1, "n", "2*n+1"), "float32"]     a tensor; text names symbolic dims, one per function and name
Tensor[(), "int32"]                      a scalar; also bool, int (int32), float (float32), np.float64, …
tuple[A, B]                              a tuple
Callable[[A, B], C]                      a function
relay.TensorType((1, 784), "int8")       any type of the language, as it is
"""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Sequence
from typing import Any, Final, Self

import numpy as np

from legato.arith.expr import Const, Var, fresh
from legato.arith.parser import parse as parse_dim
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import CompileError, TypeCheckError
from legato.ir.types import Dim, FuncType, TensorType, TupleType, Type, scalar_type
from legato.script.values import describe, is_foreign

__all__ = ["SCALARS", "Dims", "Subscripted", "Tensor", "subscript", "type_of"]

SCALARS: Final[dict[type, DType]] = {bool: dt.bool_, int: dt.int32, float: dt.float32}


@dataclass(frozen=True, slots=True, init=False)
class Tensor:
    """The type of a tensor, as an annotation: `Tensor[(1, 784), "float32"]`; the dtype is float32 where it is left out.

    A dim is a number, a dim variable, or text: the name of a symbolic dim or arithmetic over such names. A name means
    one dim everywhere in a function's annotations.
    """

    shape: tuple[Any, ...]
    dtype: Any

    def __init__(self, shape: Any = (), dtype: Any = "float32") -> None:
        object.__setattr__(self, "shape", tuple(shape) if isinstance(shape, list | tuple) else (shape,))
        object.__setattr__(self, "dtype", dtype)

    def __class_getitem__(cls, index: Any) -> Self:
        if isinstance(index, tuple) and len(index) == 2 and isinstance(index[0], tuple | list):
            return cls(*index)
        return cls(index)

    def __or__(self, other: object) -> object:
        raise TypeCheckError("a tensor's type has no alternatives", hint="write one function for each")


@dataclass(frozen=True, slots=True)
class Subscripted:
    """`tuple[A, B]` or `Callable[[A], B]`, read from source."""

    base: object
    index: Any


class Dims:
    """The symbolic dims of one function, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Var] = {}

    def dim(self, value: Any) -> Dim | int:
        """A dim as it is written in an annotation. TypeCheckError for what is none."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Dim):
            return value
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            hint = 'use a number, or text such as "n" for a symbolic dim'
            raise TypeCheckError(f"{_shown(value)} is not a dim", hint=hint)
        return int(value)

    def _named(self, name: str) -> Var:
        if name not in self.by_name:
            self.by_name[name] = fresh(name)
        return self.by_name[name]

    def _text(self, text: str) -> Dim:
        if text.isidentifier():
            return self._named(text)
        if text == "?":
            return fresh("d")
        names = "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
        known = {n: self._named(n) for n in names if n.isidentifier() and n not in ("min", "max")}
        try:
            return parse_dim(text, known)
        except CompileError as error:
            raise TypeCheckError(f"{text!r} is not a dim: {error.message}", hint=error.hint) from error


def subscript(base: object, index: Any) -> Any:
    """`base[index]` in an annotation that is read."""
    return Tensor.__class_getitem__(index) if base is Tensor else Subscripted(base, index)


def type_of(written: Any, dims: Dims) -> Type:
    """The type that an annotation stands for. TypeCheckError where it stands for none."""
    if isinstance(written, Type):
        return written
    if isinstance(written, Tensor):
        shape = tuple(Const(d) if isinstance(d, int) else d for d in map(dims.dim, written.shape))
        return TensorType(shape, _dtype(written.dtype))
    if isinstance(written, types.GenericAlias) or typing.get_origin(written) is not None:
        return _generic(typing.get_origin(written), typing.get_args(written), dims)
    if isinstance(written, Subscripted):
        index = written.index
        return _generic(written.base, index if isinstance(index, tuple | list) else (index,), dims)
    if isinstance(written, type) and written in SCALARS:
        return scalar_type(SCALARS[written])
    if isinstance(written, type) and issubclass(written, np.generic):
        return scalar_type(dt.dtype(np.dtype(written)))
    hint = 'write Tensor[(1, "n"), "float32"], bool, int, float, tuple[…] or Callable[[…], …]'
    raise TypeCheckError(f"{_shown(written)} is not a type of Relay", hint=hint)


def _dtype(written: Any) -> DType:
    if is_foreign(written):
        raise TypeCheckError(f"{_shown(written)} is not a dtype")
    try:
        return dt.dtype(written)
    except TypeError as error:
        raise TypeCheckError(f"{_shown(written)} is not a dtype") from error


def _shown(written: Any) -> str:
    return describe(written) if is_foreign(written) and not isinstance(written, type) else repr(written)


def _generic(base: object, args: Sequence[Any], dims: Dims) -> Type:
    if base in (tuple, typing.Tuple):  # noqa: UP006  # what a program may have written
        return TupleType(() if args == ((),) else tuple(type_of(a, dims) for a in args))
    if base in (collections.abc.Callable, typing.Callable) and len(args) == 2 and args[0] is not ...:
        params, result = args
        return FuncType(tuple(type_of(p, dims) for p in params), type_of(result, dims))
    raise TypeCheckError(f"{base!r} with {len(args)} parts is not a type of Relay", hint="tuple[…] or Callable[[…], …]")

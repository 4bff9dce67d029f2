"""Types, dims, attributes and arrays as parts of a script."""

from __future__ import annotations

import base64
from collections.abc import Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from legato.arith.expr import Const
from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.errors import UnsupportedError
from legato.ir.constraint import Constraint
from legato.ir.types import (
    FuncType,
    GlobalTypeVar,
    Kind,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)
from legato.script.modules.print_lines import HINT, Names, quoted
from legato.script.modules.print_scalars import scalar_texts, tuple_text

__all__ = ["Arrays", "Values"]

_INLINE: Final = 16  # elements of a constant that are written as numbers


class Arrays:
    """What constants of a module look like. collected: where arrays go that are not written out; None: none do."""

    def __init__(self, collected: MutableMapping[str, np.ndarray[Any, Any]] | None = None) -> None:
        self._collected = collected
        self._names: dict[int, str] = {}  # by id of an array that is collected

    def constant(self, data: np.ndarray[Any, Any]) -> str:
        """The constant that holds an array: `R.const(…)`, or `R.meta(name)` where that is collected."""
        if self._collected is None or data.size <= _INLINE:
            return f"R.const({self._written(data)})"
        name = self._names.get(id(data))
        if name is None:
            name = next(n for i in range(len(self._collected), -1, -1) if (n := f"c{i}") not in self._collected)
            self._collected[name] = data
            self._names[id(data)] = name
        return f'R.meta("{name}")'

    @staticmethod
    def _written(data: np.ndarray[Any, Any]) -> str:
        """An array: as numbers where they are few and give back the same bits, else as its bytes."""
        dtype = dt.dtype(data.dtype)
        is_short = data.size <= _INLINE or dtype.is_string
        numbers = data.tolist() if is_short and data.size + (data.ndim < 2) > 0 else None
        if numbers is not None and (not dtype.is_float or bool(np.isfinite(data.astype(np.float64)).all())):
            return f'{numbers!r}, "{dtype}"'
        text = base64.b64encode(data.tobytes()).decode()
        return f'R.array("{text}", {data.shape!r}, "{dtype}"), "{dtype}"'


class Values:
    """The texts of one function of a module.

    bounds: (least, largest) of the dims that were named, by name, where that is not (0, None). dims: those that were
    named, in order.
    """

    def __init__(self, names: Names, arrays: Arrays) -> None:
        self.names = names
        self.arrays = arrays
        self.bounds: dict[str, tuple[int | None, int | None]] = {}
        self.dims: dict[DimVar, None] = {}
        self.bound: set[DimVar] = set()  # those that something in the text binds
        self.own: set[DimVar] = set()  # those that types of functions bind

    def dim(self, d: Dim) -> str:
        """A dim."""
        return scalar_texts([d], self.dim_name)[0]

    def dim_name(self, v: Any) -> str:
        """A variable of a dim. UnsupportedError for one that nothing binds."""
        if isinstance(v, DimVar) and v not in self.dims:
            if v not in self.bound:
                raise UnsupportedError(f"nothing in the function says what the dim {v.name} is", hint=HINT)
            self.dims[v] = None
            if (v.lo, v.hi) != (0, None):
                self.bounds[self.names(v)] = (v.lo, v.hi)
        return self.names(v)

    def parameters(self, given: Sequence[TypeVar | DimVar]) -> str:
        """Type parameters, as `type_params=` takes them."""
        return tuple_text([quoted(self.dim_name(p)) if isinstance(p, DimVar) else self.type(p) for p in given])

    def type(self, ty: Type, *, in_head: bool = False) -> str:
        """An annotation; dims are strings where nothing has been called so yet: in the head of a function."""
        of = partial(self.type, in_head=in_head)

        def dim(d: Dim) -> str:
            is_text = not isinstance(d, Const) and (in_head or not self.own.isdisjoint(variables(d)))
            return f'"{self.dim(d)}"' if is_text else self.dim(d)

        match ty:
            case TensorType(shape, dtype):
                return f'R.Tensor({tuple_text([dim(d) for d in shape])}, "{dtype}")'
            case TupleType(members):
                return f"R.Tuple({', '.join(map(of, members))})"
            case ShapeType(dims):
                return "R.Shape()" if dims is None else f"R.Shape([{', '.join(map(dim, dims))}])"
            case FuncType(params, ret, bound):
                self.own.update(b for b in bound if isinstance(b, DimVar))
                self.bound |= self.own
                own = f", type_params={self.parameters(bound)}" if bound else ""
                return f"R.Callable({tuple_text([of(p) for p in params])}, {of(ret)}{own})"
            case RefType(value):
                return f"R.Ref({of(value)})"
            case TypeVar(kind=kind):
                return f'R.TypeVar("{self.names(ty)}"{"" if kind is Kind.TYPE else f", {kind.value!r}"})'
            case GlobalTypeVar(name):
                return f"R.Data({quoted(name)})"
            case TypeCall(GlobalTypeVar(name), args):
                return f"R.Data({quoted(name)}, {tuple_text([of(a) for a in args])})"
        raise UnsupportedError(f"a script has no text for the type {ty}", hint=HINT)

    def value(self, value: Any, *, exact: bool = False) -> str:
        """An attribute's value; `exact`: a dim that is a number is written as a dim."""
        match value:
            case Const() if exact and value.dtype == dt.index:
                return f"T.index({value.value})"
            case str():
                return quoted(value)
            case None | bool() | int():
                return repr(value)
            case float():
                return repr(value) if np.isfinite(value) else f"-R.{str(value)[1:]}" if value < 0 else f"R.{value}"
            case dt.DType(name):
                return f'R.dtype("{name}")'
            case tuple() | list():
                return tuple_text([self.value(v, exact=exact) for v in value])
            case Mapping():
                return f"{{{', '.join(f'{self.value(k)}: {self.value(v)}' for k, v in value.items())}}}"
            case Dim():
                return self.dim(value)
            case Type():
                return f"R.type({self.type(value)})"
            case Constraint(a, b, what):
                return f"R.constraint({self.dim(a)}, {self.dim(b)}, {quoted(what)})"
            case np.ndarray():
                return f"R.array({self.arrays.constant(value)})"
        raise UnsupportedError(f"a script has no text for an attribute that is a {type(value).__name__}", hint=HINT)

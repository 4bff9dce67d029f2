"""Tensors of a method that is traced, and parameters of a model.

A Tensor stands for a value of the function that the method becomes. Operators on it (`nn.op`, and those of Python) add
bindings to that function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from legato.base import dtype as dt
from legato.base.arrays import as_array
from legato.base.errors import TypeCheckError
from legato.ir.expr import Expr, TupleGetItem, Var, constant
from legato.ir.types import TensorType, TupleType, Type, tensor_type
from legato.relax.expr import as_expr
from legato.relax.frontend.nn.scope import as_shape, current, shown
from legato.relax.frontend.nn.torch_arrays import from_torch
from legato.relax.op import _functions as functions
from legato.runtime.ndarray import NDArray, array

__all__ = ["Parameter", "Tensor", "call_of", "emit", "expr_of", "get_default_dtype", "set_default_dtype", "wrap_nested"]

_default = "float32"


def get_default_dtype() -> str:
    """The dtype of parameters that are not told one."""
    return _default


def set_default_dtype(dtype: str) -> None:
    """Sets it."""
    global _default
    _default = dt.dtype(dtype).name


class Tensor:
    """A value of the function that is traced: a tensor."""

    __array_ufunc__ = None  # arrays leave operators to this class

    def __init__(self, *, _expr: Expr) -> None:
        if not isinstance(_expr.ty, TensorType):
            raise TypeCheckError(f"a tensor of an expression of type {_expr.ty}", span=_expr.span)
        self._value = _expr

    @property
    def _expr(self) -> Expr:
        return self._value

    @property
    def _ty(self) -> TensorType:
        assert isinstance(self._value.ty, TensorType)
        return self._value.ty

    @staticmethod
    def from_const(data: Any) -> Tensor:
        """A constant, of an array or a number."""
        return Tensor(_expr=as_expr(data))

    @staticmethod
    def from_scalar(data: float, dtype: str) -> Tensor:
        """A constant of rank 0. TypeCheckError where `dtype` does not hold the number."""
        kind = dt.dtype(dtype)
        whole = isinstance(data, int) and kind.is_int and kind.min <= data <= kind.max
        if not (whole or kind.is_float or (kind.is_bool and isinstance(data, bool))):
            raise TypeCheckError(f"{data!r} is no {kind}")
        return Tensor(_expr=constant(data, kind))

    @staticmethod
    def from_ty(ty: Type, name: str = "tensor") -> Tensor:
        """A variable of a type, which stands for what an operator shall give."""
        return Tensor(_expr=Var(name, ty=ty))

    from_struct_info = from_ty

    @staticmethod
    def placeholder(shape: Sequence[Any], dtype: str, name: str = "tensor") -> Tensor:
        """A variable of a shape and dtype, which stands for what an operator shall give."""
        return Tensor.from_ty(_type_of(shape, dtype), name)

    @property
    def shape(self) -> list[Any]:
        """The extents: integers, and dims."""
        return [shown(d) for d in self._ty.shape]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._ty.rank

    @property
    def dtype(self) -> str:
        """Element type."""
        return self._ty.dtype.name

    def __repr__(self) -> str:
        return f'{type(self).__name__}([{", ".join(map(str, self.shape))}], "{self.dtype}")'

    def __bool__(self) -> NoReturn:
        raise TypeCheckError("whether a tensor is true is known when the program runs",
                             hint="nn.op.where chooses elements; `is not None` asks whether there is one")  # fmt: skip

    # ------------------------------------------------------------------ operators

    def __add__(self, other: Any) -> Tensor:
        return _one("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _one("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _one("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _one("subtract", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _one("multiply", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _one("multiply", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _one("divide", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _one("divide", other, self)

    def __neg__(self) -> Tensor:
        return _one("negative", self)

    def __lt__(self, other: Any) -> Tensor:
        return _one("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _one("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _one("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _one("greater_equal", self, other)

    def astype(self, dtype: str) -> Tensor:
        """The elements in another dtype."""
        return _one("astype", self, dtype)

    def maximum(self, other: Any) -> Tensor:
        """The larger of both, element by element."""
        return _one("maximum", self, other)

    def minimum(self, other: Any) -> Tensor:
        """The smaller of both, element by element."""
        return _one("minimum", self, other)

    def reshape(self, *shape: Any) -> Tensor:
        """The elements in another shape, of which one extent may be -1; extents, or a list of them."""
        return _one("reshape", self, _listed(shape))

    def permute_dims(self, *axes: Any) -> Tensor:
        """The axes in another order: `axes`, or a list of them; reversed where none are given."""
        return _one("permute_dims", self, _listed(axes) or None)

    def repeat(self, repeats: int, axis: int | None = None) -> Tensor:
        """Each element `repeats` times, along `axis` or in a row."""
        return _one("repeat", self, repeats, axis)


class Parameter(Tensor):
    """A tensor that a model keeps, such as a weight; `data` is None or its elements."""

    def __init__(self, shape: Sequence[Any], dtype: str | None = None) -> None:
        super().__init__(_expr=Var("param", ty=_type_of(shape, dtype or get_default_dtype())))
        self._data: NDArray | None = None

    @property
    def _expr(self) -> Expr:
        found = current("a parameter").values.get(id(self))
        if found is None:
            hint = "an attribute, an element of nn.ModuleList or nn.ParameterList; lists of Python are not seen"
            raise TypeCheckError(f"{self!r} is no parameter of the model, or the spec's param_mode is none", hint=hint)
        return found

    @property
    def data(self) -> NDArray | None:
        """Its elements, or None."""
        return self._data

    @data.setter
    def data(self, data: Any) -> None:
        """TypeCheckError where it does not fit."""
        found = self.fitting(data)
        self._data = None if found is None else array(found)

    def fitting(self, data: Any) -> np.ndarray[Any, Any] | None:
        """`data` as an array, or None. TypeCheckError where it is of another shape or dtype than this."""
        if data is None:
            return None
        what = "a parameter's data"
        given = as_array(from_torch(data, what, TypeCheckError), what, TypeCheckError)
        extents = zip(self.shape, given.shape, strict=False)
        if given.ndim != self.ndim or any(isinstance(w, int) and w != g for w, g in extents):
            raise TypeCheckError(f"data of shape {list(given.shape)} for {self!r}")
        if dt.dtype(given.dtype).name != self.dtype:
            raise TypeCheckError(f"data of {given.dtype} for {self!r}", hint="convert it, or the model: m.to(dtype)")
        return given

    def to(self, dtype: str | None = None) -> None:
        """Another dtype, where one is given. TypeCheckError where data of this one is there."""
        if dtype is None or dt.dtype(dtype).name == self.dtype:
            return
        if self._data is not None:
            raise TypeCheckError(f"{self!r} has data: its dtype stays", hint="m.to(dtype), then the data")
        self._value = Var("param", ty=TensorType(self._ty.shape, dt.dtype(dtype)))


def _type_of(shape: Sequence[Any], dtype: str) -> TensorType:
    return tensor_type(as_shape(shape), dt.dtype(dtype))


def _listed(given: tuple[Any, ...]) -> Any:
    return given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given


# ---------------------------------------------------------------------- bindings


def expr_of(value: Any) -> Any:
    """Tensors as expressions, in lists and tuples, too; anything else as it is."""
    if isinstance(value, Tensor):
        return value._expr
    if isinstance(value, list | tuple):
        return type(value)(expr_of(v) for v in value)
    return value


def wrap_nested(expr: Expr, name: str) -> Any:
    """Binds an expression to a variable called like `name`: the Tensor, or a tuple of those, that stands for it."""
    builder = current().builder
    return _wrapped(builder.emit(expr, name), name)


def _wrapped(value: Expr, name: str) -> Any:
    if not isinstance(value.ty, TupleType):
        return Tensor(_expr=value)
    builder = current().builder
    parts = [builder.emit(TupleGetItem(value, i), f"{name}_{i}") for i in range(len(value.ty.fields))]
    return tuple(_wrapped(p, p.name) for p in parts)


def emit(operator: str, name: str, *args: Any, **keywords: Any) -> Tensor:
    """Binds a call of Relax's operator that gives one tensor: the Tensor that stands for it, called like `name`."""
    made = call_of(operator, *args, **keywords)
    return Tensor(_expr=current().builder.emit(made, name))


def _one(operator: str, *args: Any) -> Tensor:
    return emit(operator, operator, *args)


def call_of(operator: str, *args: Any, **keywords: Any) -> Expr:
    """A call of Relax's operator; NumPy's arrays and numbers are constants."""
    named = {k: expr_of(v) for k, v in keywords.items()}
    return functions.function(operator)(*map(expr_of, args), **named)

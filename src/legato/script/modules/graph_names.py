"""`R`: the names of graph functions in scripts. `from legato.script import relax as R`

    @R.function
    def main(x: R.Tensor(("n", 784), "float32"), w: R.Tensor((784, 10), "float32")) -> R.Tensor(("n", 10), "float32"):
        with R.dataflow():
            y = R.nn.relu(R.matmul(x, w))
            R.output(y)
        return y

Operators have Relax's names and parameters; `R.op` has the language's own (`R.op.nn.dense(x, w)`).
"""

from __future__ import annotations

import math
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import numpy as np

from legato.base import dtype as dt
from legato.base.errors import TypeCheckError
from legato.base.strings import is_text
from legato.ir import expr as ir
from legato.ir.types import Kind
from legato.script.modules import options, values
from legato.script.modules.evaluate import Namespace
from legato.script.modules.forms import ScalarType
from legato.script.modules.graph_forms import Dataflows, FunctionAttributes, LetForm, Outputs, Partial, Sequences
from legato.script.modules.module import function as function
from legato.script.modules.operators import OPERATORS, OpForm
from legato.script.modules.packed_calls import (
    assert_form,
    call_dps_packed_form,
    call_packed_form,
    call_pure_packed_form,
    print_form,
)
from legato.script.modules.tir_calls import call_tir_form, call_tir_inplace_form
from legato.script.modules.types import (
    AnyForm,
    CallableForm,
    DataForm,
    DataTypeForm,
    PrimForm,
    RefForm,
    ShapeForm,
    TensorForm,
    TupleForm,
    TypeVarForm,
)
from legato.script.modules.values import ReaderCall

if TYPE_CHECKING:
    from typing import Any

SCRIPT_NAME: Final = "R"
_sequence: Final = tuple  # Python's: `tuple` is that of the graph here

# ---------------------------------------------------------------------- annotations


def Tensor(shape: Any = None, dtype: Any = None, ndim: int | None = None, **odd: Any) -> TensorForm:
    """A tensor: `R.Tensor(("n", 4), "float32")`, `R.Tensor("float32", ndim=2)`; without a dtype, inferred."""
    if isinstance(shape, str):
        shape, dtype = None, shape
    if odd.pop("vdevice", None) is not None or odd:
        raise TypeCheckError("R.Tensor takes a shape, a dtype and ndim")
    extents = shape.dims if isinstance(shape, ir.Shape) else shape
    kind = None if dtype is None else dtype.dtype if isinstance(dtype, ScalarType) else dt.dtype(dtype)
    return TensorForm(None if extents is None else _sequence(extents), kind, ndim if ndim != -1 else None)


def Tuple(*fields: Any) -> TupleForm:
    """A tuple."""
    if len(fields) == 1 and isinstance(fields[0], _sequence | list):
        fields = _sequence(fields[0])
    return TupleForm(_sequence(fields))


def Shape(values: Any = None, ndim: int = -1) -> ShapeForm:
    """A shape as a value."""
    return ShapeForm(None if values is None else _sequence(values), None if ndim == -1 else ndim)


def Prim(dtype: Any = None, value: Any = None) -> PrimForm:
    """A scalar."""
    if value is not None:
        raise TypeCheckError("R.Prim takes a dtype; a value that is known is a dim: R.Shape([n])")
    return PrimForm(dt.dtype(dtype or "int64"))


def Callable(
    params: Any = None, ret: Any = None, purity: bool = True, *, type_params: Any = ()
) -> CallableForm | AnyForm:
    """A function; without parameters, any. type_params: dims by name and type variables that each of its calls has
    anew. (Purity is inferred.)"""
    return AnyForm() if params is None else CallableForm(_sequence(params), ret, _sequence(type_params))


def Ref(value: Any) -> RefForm:
    """A cell that holds a `value`."""
    return RefForm(value)


def TypeVar(name: str, kind: str = "Type") -> TypeVarForm:
    """A type variable of the function, or of the data type."""
    if kind not in {k.value for k in Kind}:
        raise TypeCheckError(f"a type variable of kind {kind!r}", hint=f"one of {', '.join(k.value for k in Kind)}")
    return TypeVarForm(options.name(name, "a type variable"), Kind(kind))


def Data(name: str, args: Any = None) -> DataForm:
    """A data type of the module, applied to types where it takes some."""
    return DataForm(options.name(name, "a data type"), None if args is None else _sequence(args))


def data_type(
    constructors: Any, type_params: Any = (), *, name: str | None = None, names: Any = None, bounds: Any = None,
    extern: bool = False,
) -> DataTypeForm:  # fmt: skip
    """The definition of a data type, in a module's class: `List = R.data_type({"Nil": (), "Cons": (…)}, (…))`.

    constructors: by their names, the types of what each holds. name, names: what it and constructors are called, by
    their names here, where that is no name of Python.
    """
    if not isinstance(constructors, dict):
        raise TypeCheckError('R.data_type takes a dictionary: {"Nil": (), "Cons": (…)}')
    held = {options.name(key, "a constructor"): options.sequence(types, key) for key, types in constructors.items()}
    variables = options.sequence(type_params, "type_params")
    if not all(isinstance(v, TypeVarForm) for v in variables):
        raise TypeCheckError('type_params of a data type: wanted (R.TypeVar("A"), …)')
    called = None if name is None else options.name(name, "the name of a data type")
    return DataTypeForm(held, variables, called, options.words(names, "names"), options.bounds(bounds), bool(extern))


Object = AnyForm()

# ---------------------------------------------------------------------- statements


def dataflow() -> Dataflows:
    """A block of pure bindings."""
    return Dataflows()


def output(*results: Any) -> Outputs:
    """The results of a dataflow block."""
    return Outputs(results)


def func_attr(attrs: Any) -> FunctionAttributes:
    """Attributes of the function."""
    return FunctionAttributes(dict(attrs))


def let(value: Any) -> LetForm:
    """What is assigned this is bound, where assignments name nodes: in a function of the form "graph"."""
    return LetForm(value)


def partial(value: Any) -> Partial:
    """What a match looks at that has no case for some values: `match R.partial(x):`."""
    return Partial(value)


def seq() -> Sequences:
    """A block of bindings with one result, which `as` names: `with R.seq() as x:`."""
    return Sequences()


# `R.match_cast(value, type)`: checked when it runs to have a type; dims that are new in it are bound.
match_cast = ReaderCall("match_cast", values.match_cast)
call_tir = ReaderCall("call_tir", call_tir_form)
call_tir_inplace = ReaderCall("call_tir_inplace", call_tir_inplace_form)
call_packed = ReaderCall("call_packed", call_packed_form)
call_pure_packed = ReaderCall("call_pure_packed", call_pure_packed_form)
call_dps_packed = ReaderCall("call_dps_packed", call_dps_packed_form)
print = ReaderCall("print", print_form)
assert_op = ReaderCall("assert_op", assert_form)

# ---------------------------------------------------------------------- values


def const(value: Any, dtype: Any = None) -> ir.Expr:
    """A constant: a number, a list of numbers, or an array. Floats are float32, integers int32."""
    if isinstance(value, ir.Constant):
        return value
    data = np.asarray(value)
    if is_text(data) and not isinstance(value, np.ndarray):
        data = np.asarray(value, object)  # NumPy's text ends before a \0
    if dtype is None and not isinstance(value, np.ndarray | np.generic):
        dtype = {"f": "float32", "i": "int32"}.get(data.dtype.kind)
    return ir.constant(data, None if dtype is None else dt.dtype(dtype))


def prim_value(value: Any) -> ir.Expr:
    """A scalar: int64, float64 or bool."""
    return ir.constant(np.asarray(value))


def array(data: Any, shape: Any = None, dtype: Any = None) -> np.ndarray[Any, Any]:
    """An array: the one of a constant, or that of the bytes that a text has in base 64."""
    if isinstance(data, ir.Constant):
        return data.data
    return values.decoded(data, _sequence(shape), dt.dtype(dtype))


def dtype(name: str) -> dt.DType:
    """A dtype, as an attribute has it."""
    return dt.dtype(name)


ref = ReaderCall("ref", values.ref)  # a new cell
ref_read = ReaderCall("ref_read", values.ref_read)  # what a cell holds
ref_write = ReaderCall("ref_write", values.ref_write)  # sets a cell
shape = ReaderCall("shape", values.shape)  # dims as a value
tuple = ReaderCall("tuple", values.tuple_)  # a tuple of values
meta = ReaderCall("meta", values.meta)  # a constant whose array is beside the text: `parse(text, constants=…)`
type = ReaderCall("type", values.type_)  # a type, as an attribute has it
constraint = ReaderCall("constraint", values.constraint)  # an equality of dims that is checked when the program runs
inf: Final = math.inf
nan: Final = math.nan


# ---------------------------------------------------------------------- operators


class _Names(Namespace):
    """`R.nn`: the operators whose names begin so."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> OpForm:
        if f"{self._prefix}.{name}" not in OPERATORS:
            close = get_close_matches(f"{self._prefix}.{name}", OPERATORS, 1)
            hint = f"did you mean R.{close[0]}?" if close else None
            raise TypeCheckError(f"R.{self._prefix} has no {name}", hint=hint)
        return OpForm(f"{self._prefix}.{name}")


class _Exact(Namespace):
    """`R.op`: the language's operators, with their own attributes."""

    def __getattr__(self, name: str) -> OpForm:
        if name.startswith("_"):
            raise AttributeError(name)
        return OpForm(name, exact=True)

    def __getitem__(self, name: str) -> OpForm:
        return OpForm(options.name(name, "an operator"), exact=True)


nn, image, vision, op = _Names("nn"), _Names("image"), _Names("vision"), _Exact()
_FORMS: Final = (
    "Any", "Callable", "Data", "Object", "Prim", "Ref", "Shape", "Tensor", "Tuple", "TypeVar", "array", "assert_op",
    "call_dps_packed", "call_packed", "call_pure_packed", "call_tir", "call_tir_inplace", "const", "constraint",
    "data_type", "dataflow", "dtype", "func_attr", "function", "image", "inf", "let", "match_cast", "meta", "nan",
    "nn", "op", "output", "partial", "prim_value", "print", "ref", "ref_read", "ref_write", "seq", "shape", "tuple",
    "type", "vision",
)  # fmt: skip
__all__ = [*_FORMS, *(name for name in OPERATORS if "." not in name)]


def __getattr__(name: str) -> Any:
    if name == "Any":  # what annotations of this file need under its name
        return Object
    if name in OPERATORS and "." not in name:
        return OpForm(name)
    raise AttributeError(f"R has no {name}")

"""Operator functions, made from the operators' records: `function("nn.conv2d")(data, weight, padding=(1, 1))`.

A function builds the call, with its type where that is known. An ill-typed call is built too, without a type: as in
Relay, type inference reports it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from inspect import Parameter, Signature
from typing import Any, Final

import numpy as np

from legato.arith.expr import Const
from legato.base.errors import TypeCheckError, UnsupportedError
from legato.infer.builder import Builder
from legato.ir._relay_ops import BROADCAST
from legato.ir.attrs import make_attrs, pack_args
from legato.ir.expr import Call, Constant, Expr, Tuple, constant
from legato.ir.op import Op
from legato.ir.types import TensorType
from legato.ops import table
from legato.relay.expr import TupleWrapper
from legato.relay.op._signatures import RENAMED, RESULTS, SIGNATURES
from legato.relay.op.computed import PREFIX, dynamic, with_tensors

__all__ = ["function", "names", "namespace"]

_LISTED: Final = frozenset({"shape", "newshape", "reps", "begin", "end", "axes", "size", "output_size"})
_WINDOW: Final = frozenset({"strides", "dilation", "kernel_size", "pool_size", "output_padding"})
_SCALAR_TYPES: Final[Mapping[str, Callable[[int], Any]]] = {"float": float, "bool": bool}  # scale_h=2, is_ascend=1
# Arguments that take the dtype of the result, where it is not said that of another argument.
_SCALARS: Final = {
    "full": ("fill_value", "fill_value"),
    "nn.pad": ("pad_value", "data"),
    "sparse_to_dense": ("default_value", "sparse_values"),
}


def names(prefix: str = "") -> tuple[str, ...]:
    """The operators directly below `prefix` ("nn." for those of nn; "" for those of relay itself), without it."""
    below = (name.removeprefix(prefix) for name in table() if name.startswith(prefix))
    return tuple(name for name in below if "." not in name)


@cache
def function(name: str) -> Callable[..., Any]:
    """The function that builds calls of operator `name`; KeyError if there is none."""
    record = table()[name]
    signature = _signature(record)

    def build(*args: Any, **keywords: Any) -> Any:
        try:
            bound = signature.bind(*args, **keywords)
        except TypeError as error:
            raise TypeCheckError(f"relay.{name}{signature}: {error}") from error
        bound.apply_defaults()
        return _build(record, {RENAMED.get((name, k), k): v for k, v in bound.arguments.items()})

    build.__name__, build.__qualname__ = name.rpartition(".")[2], f"relay.{name}"
    build.__doc__ = record.doc
    build.__signature__ = signature  # type: ignore[attr-defined]  # what inspect reads
    return build


def namespace(prefix: str, own: Mapping[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose functions are the operators below `prefix`, beside its `own`."""

    def get(name: str) -> Any:
        if not name.startswith("_"):
            try:
                return function(BROADCAST.get(prefix + name, prefix + name))
            except KeyError:
                pass
        raise AttributeError(f"there is no operator relay.{prefix}{name}")

    return get, lambda: sorted({*own, *names(prefix)})


def _signature(record: Op) -> Signature:
    text = SIGNATURES.get(record.name)
    if text is not None:
        return Signature([_parameter(*p) for p in _parse(text)])
    required = [(a.lstrip("*"), MISSING) for a in record.args]
    own = [(f.name, f.default) for f in fields(record.attrs)] if record.attrs is not None else []
    return Signature([_parameter(*p) for p in (*required, *sorted(own, key=lambda p: p[1] is not MISSING))])


def _parse(text: str) -> list[tuple[str, Any]]:
    definition = ast.parse(f"def f({text}): ...").body[0]
    assert isinstance(definition, ast.FunctionDef)
    listed, defaults = definition.args.args, definition.args.defaults
    values = [MISSING] * (len(listed) - len(defaults)) + [ast.literal_eval(d) for d in defaults]
    return [(a.arg, value) for a, value in zip(listed, values, strict=True)]


def _parameter(name: str, default: Any) -> Parameter:
    empty = Parameter.empty if default is MISSING else default
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=empty)


# ------------------------------------------------------------------ calls


def _build(record: Op, given: Mapping[str, Any]) -> Any:
    record = dynamic(record, given)
    given = with_tensors(record, given) if record.name.startswith(PREFIX) else given
    argument_names = [a.lstrip("*") for a in record.args]
    args = _arguments(record, [given[a] for a in argument_names if a in given], given)
    attrs = _attributes(record, {k: v for k, v in given.items() if k not in argument_names})
    call = typed_call(record, args, make_attrs(record, attrs))
    return _result(record, call, attrs)


def typed_call(record: Op, args: Sequence[Expr], attrs: Any) -> Call:
    """The call of an operator, typed where its arguments are and its relation agrees."""
    packed = pack_args(record, args)
    builder = Builder()
    exprs = tuple(builder.tuple_(e.fields) if isinstance(e, Tuple) and e.ty is None else e for e in packed)
    try:
        return builder.call_op(record, exprs, attrs)
    except TypeCheckError:
        return Call(record, exprs, attrs)  # inference says what is wrong, with the whole program at hand


def _arguments(record: Op, values: Sequence[Any], given: Mapping[str, Any]) -> list[Expr]:
    if record.args and record.args[-1].startswith("*") and isinstance(values[-1], list | tuple):
        if not values[-1] and len(values) == 1:
            raise TypeCheckError(f"relay.{record.name}: there is nothing in its list of arguments")
        values = [*values[:-1], *values[-1]]
    exprs = Builder().operands([v.astuple() if isinstance(v, TupleWrapper) else v for v in values])
    if record.name in ("nn.conv2d", "qnn.conv2d"):
        exprs[1] = _one_for_each_result(exprs[1], given)
    scalar = _SCALARS.get(record.name.removeprefix(PREFIX))
    if scalar is not None:
        at, like = map(record.args.index, scalar)
        exprs[at] = _scalar(exprs[at], given.get("dtype") or _dtype(exprs[like]))
    return exprs


def _one_for_each_result(weight: Expr, given: Mapping[str, Any]) -> Expr:
    """Weights of convolutions channel by channel, (channels, results of each, …), as (results, 1, …): the same data."""
    layout, groups, ty = given["kernel_layout"] or "OIHW", given["groups"], weight.ty
    if not isinstance(ty, TensorType) or groups == 1 or layout not in ("OIHW", "HWOI"):
        return weight
    at = layout.index("O")
    channels, each = (d.value if isinstance(d, Const) else 0 for d in ty.shape[at : at + 2])
    if channels != groups or each < 2:
        return weight
    return function("reshape")(weight, (*ty.shape[:at], channels * each, 1, *ty.shape[at + 2 :]))  # type: ignore[no-any-return]


def _dtype(e: Expr) -> Any:
    return e.ty.dtype if isinstance(e.ty, TensorType) else None


def _scalar(e: Expr, dtype: Any) -> Expr:
    """`e` in `dtype` if that is known: Relay converts these silently, so they are converted in the open here."""
    if dtype is None or _dtype(e) == dtype or e.ty is None:
        return e
    return constant(e.data, dtype, e.span) if isinstance(e, Constant) else function("cast")(e, dtype)


def _attributes(record: Op, given: Mapping[str, Any]) -> dict[str, Any]:
    if record.name == "arange":
        given = _range(given)
    if record.attrs is None:
        return dict(given)
    of = {f.name: f for f in fields(record.attrs)}
    strides = of["strides"].default if "strides" in of and record.name.startswith(("nn.", "qnn.")) else ()
    rank = len(strides) if isinstance(strides, tuple) else 0
    found: dict[str, Any] = {}
    for name, value in given.items():
        value = _number(record, name, value)
        if name not in of:
            found[name] = value  # make_attrs says what is wrong with it
        elif not _means_default(value, of[name].default):
            found[name] = _formed(value, of[name], rank)
    return found


def _means_default(value: Any, default: Any) -> bool:
    """Whether a value says to take the record's own default: None, or "" where the record has None."""
    return (value is None and default is not MISSING) or (default is None and isinstance(value, str) and not value)


def _formed(value: Any, field: Field[Any], rank: int) -> Any:
    """A value in the form that a field of the record has; `rank`: the number of dims that a window slides along."""
    if rank and field.name == "padding":
        return _padding(value, rank)
    if isinstance(value, int):
        if rank and field.name in _WINDOW:
            return (value,) * rank
        if field.name in _LISTED and "tuple" in str(field.type):
            return (value,)
        return _SCALAR_TYPES.get(str(field.type), int)(value) if not isinstance(value, bool) else value
    return (value,) if field.name in _LISTED and "tuple" in str(field.type) and not _is_listed(value) else value


def _is_listed(value: Any) -> bool:
    return value is None or isinstance(value, list | tuple | np.ndarray)


def _padding(value: Any, rank: int) -> tuple[Any, ...]:
    """Padding before all dims, then behind all: of one number, or one per dim, or both."""
    listed = tuple(value) if np.iterable(value) else (value,) * rank
    return listed * 2 if len(listed) == rank else listed * 2 * rank if len(listed) == 1 else listed


def _number(record: Op, name: str, value: Any) -> Any:
    """An attribute that may be written as a constant expression."""
    if isinstance(value, list | tuple):
        return tuple(_number(record, name, v) for v in value)
    if isinstance(value, Constant):
        return tuple(value.data.tolist()) if value.data.ndim else value.data.item()
    if isinstance(value, Expr):
        raise UnsupportedError(
            f"relay.{record.name}: {name} is computed when the program runs",
            hint="give numbers or dims (relay.ShapeVar); where a shape is meant, a tensor of integers of known shape",
        )
    return value


def _range(given: Mapping[str, Any]) -> dict[str, Any]:
    """arange(stop) is arange(0, stop)."""
    start, stop, step = given["start"], given["stop"], given["step"]
    if stop is None:
        start, stop = 0, start
    return {"start": start, "stop": stop, "step": 1 if step is None else step, "dtype": given["dtype"]}


def _result(record: Op, call: Call, attrs: Mapping[str, Any]) -> Any:
    size = RESULTS.get(record.name)
    if record.name == "split":
        parts = attrs["indices_or_sections"]
        size = len(parts) + 1 if isinstance(parts, tuple) else int(parts)
    elif record.name.removeprefix(PREFIX) == "topk" and attrs["ret_type"] == "both":
        size = 2
    elif record.name == "meshgrid":
        size = len(call.args[0].fields) if isinstance(call.args[0], Tuple) else None
    elif record.name == "unique":
        size = 5 if attrs["return_counts"] else 4
    if record.name == "nn.dropout":
        return TupleWrapper(call, 2)[0]
    return call if size is None else TupleWrapper(call, size)

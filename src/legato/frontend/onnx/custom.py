"""Converters of a caller's own, `custom={"domain::Op": function}`: which there are, and whether what they give fits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from legato.arith.expr import Const
from legato.base.errors import ImportModelError
from legato.base.spelling import ELLIPSIS, option, written
from legato.frontend.onnx.census import domain_of
from legato.frontend.onnx.control import CONTROL
from legato.frontend.onnx.inputs import check_declared, declared_shape
from legato.frontend.onnx.proto import NodeProto, ValueInfoProto
from legato.frontend.onnx.signature import find, signature
from legato.ir.expr import Expr
from legato.ir.types import TensorType

__all__ = ["Custom", "converters", "require_fit", "require_known"]

Custom = Mapping[str, Callable[..., Any]]
_NEWEST = 1 << 30  # of operator sets


def converters(
    custom: Mapping[str, object] | None, known: Collection[tuple[str, str]]
) -> dict[tuple[str, str], Callable[..., Any]]:
    """`custom` by domain and operator. ImportModelError for what is no function, and for a name that neither the model
    has, whose operators are `known`, nor anybody else."""
    found: dict[tuple[str, str], Callable[..., Any]] = {}
    for name, function in (custom or {}).items():
        if not isinstance(name, str):
            raise ImportModelError(f"custom names the operator {name!r}", hint='a string: custom={"domain::Op": …}')
        where, key = option("custom", name), _operator_key(name)
        if not callable(function) or not _says_what_it_takes(function):
            hint = "the first parameter is a builder, then the inputs; those by keyword alone are the attributes"
            raise ImportModelError(f"{where} is {function!r}, wanted a function", hint=hint)
        if key not in known and not _is_of_others(key, known):
            raise ImportModelError(f"{where}: the model has no such operator", hint=_similar(name, known))
        if found.setdefault(key, function) is not function:
            raise ImportModelError(f"{where}: this operator has two converters")
    return found


def _says_what_it_takes(function: Callable[..., Any]) -> bool:
    """False for some that are written in C."""
    try:
        inspect.signature(function)
    except ValueError:
        return False
    return True


def _is_of_others(key: tuple[str, str], known: Collection[tuple[str, str]]) -> bool:
    """Whether Legato has an operator that the model only does not happen to use."""
    if any((domain, operator.lower()) == (key[0], key[1].lower()) for domain, operator in known):
        return False
    return key in CONTROL or find(*key, _NEWEST) is not None


def _operator_key(name: str) -> tuple[str, str]:
    domain, separator, operator = name.rpartition("::")
    return (domain_of(domain), operator) if separator else ("", name)


def _similar(name: str, known: Collection[tuple[str, str]]) -> str | None:
    from difflib import get_close_matches  # only for mistakes

    names = {f"{domain}::{operator}" if domain else operator: operator for domain, operator in sorted(known)}
    last = name.replace("::", ".").rpartition(".")[2]
    close = get_close_matches(name, names, 1) or [full for full, own in names.items() if own == last]
    return f"did you mean {written('custom', close[0], ELLIPSIS)}?" if close else None


def require_known(operator: str, attributes: Collection[str], function: Callable[..., Any]) -> None:
    """ImportModelError where a node has attributes that `function`, the caller's converter of its operator, does not
    take, or takes for something else."""
    schema = signature(function)
    unknown = [name for name in attributes if name not in schema.attributes]
    if unknown and not schema.is_open:
        takes = f"the converter of {operator} takes {', '.join(schema.attributes) or 'no attributes'}"
        hint = "attributes are its parameters by keyword alone; **rest takes all others"
        raise ImportModelError(f"{takes}, the node has {', '.join(unknown)}", hint=hint)
    others = inspect.signature(function).parameters.values()
    taken = [p.name for p in others if p.kind is p.POSITIONAL_OR_KEYWORD and p.name in attributes]
    if taken:
        message = f"the converter of {operator} calls the builder or an input {taken[0]}, as an attribute is called"
        raise ImportModelError(message, hint="a stroke behind these keeps them apart: def convert(b, x, /, **rest)")


def require_fit(
    node: NodeProto, values: Sequence[Expr | None], declared: Mapping[str, ValueInfoProto], *, sizes: bool
) -> None:
    """ImportModelError where what a converter of the caller's gives is not what the model says: `declared` by name.
    `sizes`: extents are held against it, too, as nobody has changed them."""
    wanted = max((n + 1 for n, name in enumerate(node.output) if name), default=0)
    if len(values) < wanted:
        got = f"the converter of {node.op_type} gives {len(values)} of {wanted} outputs"
        raise ImportModelError(got, hint="a tuple of expressions; None stands for one that is left out")
    for name, value in zip(node.output, values, strict=False):
        if value is None or not name:
            continue
        if value.ty is None:
            raise ImportModelError(f"{name!r}: the converter of {node.op_type} gives {value!r}, which has no type",
                                   hint="calls that the builder makes have one")  # fmt: skip
        if name in declared:
            check_declared(declared[name], value.ty)
            _require_shape(declared[name], value, sizes)


def _require_shape(value: ValueInfoProto, made: Expr, sizes: bool) -> None:
    stated = declared_shape(value)
    if stated is None or not isinstance(made.ty, TensorType):
        return
    pairs = zip(made.ty.shape, stated, strict=False)
    is_other = any(isinstance(d, Const) and n not in (None, d.value) for d, n in pairs)
    if len(stated) != made.ty.rank or (sizes and is_other):
        shown = ", ".join("?" if n is None else str(n) for n in stated)
        raise ImportModelError(f"{value.name!r} is declared with the shape ({shown}), but is {made.ty}")

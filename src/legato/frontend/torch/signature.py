"""Converters: one typed Python function per operator of PyTorch, found by looking through `operators`.

    @aten("add.Tensor", "add.Scalar")
    def add(b: Emitter, self: Value, other: Value, *, alpha: Number = 1) -> Expr: ...

The decorator names the overloads, `"add"` those that no other converter names; an operator outside of ATen is named
with its namespace (`"prims::convert_element_type"`). Parameters after the emitter have the names of the operator's
schema and get what the node gives: tensors as expressions, integers as Python's or as dims, lists as tuples, dtypes as
Legato's, None as it is. A parameter of the schema that a converter lacks must have its default in every node, except
those of `PLACEMENT`, which say where and how results lie in memory. The result is an expression or a dim, or a tuple of
these where the schema has several.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Final, TypeVar

import torch

from legato.base.errors import ImportModelError, InternalError, UnsupportedError
from legato.base.spelling import ELLIPSIS, option, written

__all__ = ["PLACEMENT", "Converter", "arguments", "aten", "find", "overload_name", "require_known", "table"]

Converter = Callable[..., Any]
F = TypeVar("F", bound=Converter)
PLACEMENT: Final = frozenset({"layout", "device", "pin_memory", "memory_format", "non_blocking"})
_MARK: Final = "torch_operators"


def aten(*names: str) -> Callable[[F], F]:
    """Says which operators, or overloads of them, a function converts."""

    def mark(function: F) -> F:
        setattr(function, _MARK, tuple(name if "::" in name else f"aten::{name}" for name in names))
        return function

    return mark


@cache
def table() -> Mapping[str, Converter]:
    """The converters by "namespace::operator" and "namespace::operator.overload"."""
    found: dict[str, Converter] = {}
    for module in _modules():
        for function in vars(module).values():
            if not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            for name in getattr(function, _MARK, ()):
                if found.setdefault(name, function) is not function:
                    raise InternalError(f"PyTorch's operator {name} is converted twice")
    return found


def _modules() -> Iterator[ModuleType]:
    package = import_module("legato.frontend.torch.operators")
    for info in iter_modules(package.__path__):
        yield import_module(f"{package.__name__}.{info.name}")


def overload_name(operator: Any) -> str:
    """ "aten::add.Tensor" of an OpOverload; "aten::relu.default"."""
    return f"{operator.namespace}::{operator._opname}.{operator._overloadname}"


def find(operator: Any, custom: Mapping[str, Converter] | None = None) -> Converter | None:
    """The converter of an OpOverload, the caller's before Legato's own."""
    whole = overload_name(operator)
    plain = whole.rpartition(".")[0]
    for known in (custom or {}, table()):
        if (function := known.get(whole) or known.get(plain)) is not None:
            return function
    return None


def require_known(custom: Mapping[Any, object]) -> None:
    """ImportModelError for what is no function, and for a name, "namespace::operator" or with an overload, that is no
    operator of PyTorch at the moment: a converter by that name would never be asked."""
    if not custom:
        return  # PyTorch has thousands to look through
    registered = torch._C._dispatch_get_all_op_names()
    whole = {name if "." in name else f"{name}.default" for name in registered}
    plain = {name.partition(".")[0] for name in registered}
    for name, function in custom.items():
        if not isinstance(name, str):
            hint = 'a string: custom={"namespace::operator": …}'
            raise ImportModelError(f"custom names the operator {name!r}", hint=hint)
        where = option("custom", name)
        if not callable(function):
            hint = "the first parameter is a builder, then the operator's, by their names"
            raise ImportModelError(f"{where} is {function!r}, wanted a function", hint=hint)
        if name not in whole and name not in plain:
            close = get_close_matches(name, whole if "." in name else plain, 3)
            near = " or ".join(written("custom", other, ELLIPSIS) for other in close)
            hint = f"did you mean {near}?" if near else "import the library that declares it first"
            raise ImportModelError(f"{where}: PyTorch has no such operator", hint=hint)


@cache
def _parameters(function: Converter) -> tuple[frozenset[str], bool]:
    """The names of the parameters after the emitter, and whether there are any others by keyword."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    names = frozenset(p.name for p in parameters if p.kind is not p.VAR_KEYWORD)
    return names, any(p.kind is p.VAR_KEYWORD for p in parameters)


def arguments(function: Converter, schema: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What a node gives a converter, by the names of the schema; UnsupportedError for what the converter does not know
    where it is no default."""
    names, open_ended = _parameters(function)
    given: dict[str, Any] = {}
    for n, parameter in enumerate(schema.arguments):
        name = parameter.name
        if n < len(args):
            value = args[n]
        elif name in kwargs:
            value = kwargs[name]
        elif parameter.has_default_value():
            value = parameter.default_value
            value = tuple(value) if isinstance(value, list) else value
        else:
            raise UnsupportedError(f"no value of its parameter {name}")
        if name in names or open_ended:
            given[name] = value
        elif name not in PLACEMENT and not _is_default(parameter, value):
            raise UnsupportedError(f"{name}={value!r}")
    return given


def _is_default(parameter: Any, value: Any) -> bool:
    if not parameter.has_default_value():
        return value is None
    default = parameter.default_value
    default = tuple(default) if isinstance(default, list) else default
    return type(value) is type(default) and bool(value == default)

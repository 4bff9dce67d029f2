"""Converters: one typed Python function per ONNX operator and version, found by looking through `operators`.

    def leaky_relu(b: Emitter, x: Expr, *, alpha: float = 0.01) -> Expr:
        return b.nn.leaky_relu(x, alpha=alpha)

The name is the operator's, in lower case; underscores do not count, a trailing one avoids a Python word (`max_`). A
number at the end is the operator set since which the function holds (`softmax_13`; none: the first). Parameters after
the emitter are the inputs: with a default of None an optional one, `*xs` any number. Keyword-only parameters are the
attributes, their annotations and defaults the schema; one of type `bool` is 0 or 1 in files, and `**rest` takes any
other. The result is one expression, or a tuple of several.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, InternalError, UnsupportedError
from legato.base.hints import unaliased
from legato.frontend.onnx.initializers import Elements
from legato.frontend.onnx.proto import AttributeProto, TypeProto
from legato.frontend.onnx.tensors import Array

__all__ = ["Converter", "Signature", "find", "is_on", "signature", "table"]

Converter = Callable[..., Any]
_VERSIONED = re.compile(r"(.*?)(?:_(\d+))?$")
_DEFINED = re.compile(r"^(?:def )?([a-z]\w*)", re.MULTILINE)
_KINDS = {AttributeProto.FLOAT: "a number", AttributeProto.INT: "an integer", AttributeProto.STRING: "a string",
          AttributeProto.TENSOR: "a tensor", AttributeProto.FLOATS: "numbers", AttributeProto.INTS: "integers",
          AttributeProto.STRINGS: "strings"}  # fmt: skip

_NATURAL = {AttributeProto.FLOAT: float, AttributeProto.INT: int, AttributeProto.STRING: str,
            AttributeProto.TENSOR: unaliased(Array), AttributeProto.FLOATS: tuple[float, ...],
            AttributeProto.INTS: tuple[int, ...], AttributeProto.STRINGS: tuple[str, ...]}  # fmt: skip


Versions = tuple[tuple[int, "Converter"], ...]


@cache
def table() -> Mapping[tuple[str, str], Versions]:
    """The converters of every operator, newest first, with the operator set each holds from; keys: domain and name.

    A module's `DOMAIN` says whose operators it has ("" is ONNX's own). Names are without case and underscores.
    """
    found: dict[tuple[str, str], Versions] = {}
    for module in _modules():
        for key, versions in _converters(module).items():
            found[key] = _merged(found.get(key, ()), versions, key[1])
    return found


def _merged(a: Versions, b: Versions, name: str) -> Versions:
    """The versions of an operator from two files."""
    found = sorted((*a, *b), key=lambda version: -version[0])
    if len({since for since, _ in found}) < len(found):
        raise InternalError(f"ONNX operator {name} is defined in two files")
    return tuple(found)


@cache
def _modules() -> Mapping[str, Path]:
    """The files of converters by the names of their modules."""
    package = import_module("legato.frontend.onnx.operators")
    folders = [Path(path) for path in package.__path__]
    return {f"{package.__name__}.{i.name}": folders[0] / f"{i.name}.py" for i in iter_modules(package.__path__)}


@cache
def _converters(module: str) -> Mapping[tuple[str, str], Versions]:
    """The converters in one file."""
    found: dict[tuple[str, str], dict[int, Converter]] = {}
    known = import_module(module)
    for name, value in vars(known).items():
        if not inspect.isfunction(value) or name.startswith("_") or value.__module__ != module:
            continue
        match = _VERSIONED.match(name)
        assert match is not None  # it matches everything
        key = (getattr(known, "DOMAIN", ""), match[1].replace("_", ""))
        if found.setdefault(key, {}).setdefault(int(match[2] or 1), value) is not value:
            raise InternalError(f"ONNX operator {name} is defined twice")
    return {key: tuple(sorted(versions.items(), reverse=True)) for key, versions in found.items()}


@cache
def _names(module: str) -> frozenset[str] | None:
    """What is defined in a file, as operators are named; None where its text is not at hand. Nothing is imported."""
    try:
        text = _modules()[module].read_text(encoding="utf-8")
    except OSError:
        return None
    return frozenset(re.sub(r"_\d+$", "", name).replace("_", "") for name in _DEFINED.findall(text))


def find(domain: str, operator: str, opset: int) -> Converter | None:
    """The converter of an operator as of operator set `opset`. Only files that define such a name are imported."""
    key = (domain, operator.lower())
    versions: Versions = ()
    for module in _modules():
        names = _names(module)
        if names is None or key[1] in names:
            versions = _merged(versions, _converters(module).get(key, ()), key[1])
    return next((function for since, function in versions if since <= opset), None)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a converter takes. `attributes`: annotation and default (`inspect.Parameter.empty`: required) by name;
    `is_open`: it takes others, too."""

    inputs: tuple[str, ...]
    required: int
    variadic: bool
    attributes: Mapping[str, tuple[Any, Any]]
    is_open: bool = False

    def arrange(self, inputs: Sequence[Any], operator: str) -> Sequence[Any]:
        """`inputs` (None: left out) checked against the parameters."""
        given = list(inputs)
        while given and given[-1] is None:
            given.pop()
        if len(given) > len(self.inputs) and not self.variadic:
            raise ImportModelError(f"{operator} has {len(given)} inputs, wanted at most {len(self.inputs)}")
        missing = [name for n, name in enumerate(self.inputs[: self.required]) if n >= len(given) or given[n] is None]
        if missing or (self.variadic and None in given[len(self.inputs) :]):
            raise ImportModelError(f"{operator} lacks its input {', '.join(missing)}")
        return given

    def convert(self, given: Mapping[str, AttributeProto], operator: str, elements: Elements) -> dict[str, Any]:
        """The attributes as keyword arguments.

        UnsupportedError for one that the operator's converter does not know, ImportModelError for a wrong kind.
        """
        unknown = [name for name in given if name not in self.attributes]
        if unknown and not self.is_open:
            raise UnsupportedError(f"attribute {', '.join(unknown)}")
        empty = inspect.Parameter.empty
        absent = [name for name, (_, default) in self.attributes.items() if default is empty and name not in given]
        if absent:
            raise ImportModelError(f"{operator} lacks its attribute {', '.join(absent)}")
        hints = {name: self.attributes[name][0] if name in self.attributes else Any for name in given}
        return {name: _value(proto, hints[name], operator, elements) for name, proto in given.items()}


@cache
def signature(function: Converter) -> Signature:
    """The signature of a converter."""
    parameters = list(inspect.signature(function).parameters.items())[1:]
    inputs: list[str] = []
    required, variadic, is_open, attributes = 0, False, False, dict[str, tuple[Any, Any]]()
    for name, parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY:
            attributes[name] = (_attribute_type(function, parameter), parameter.default)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            variadic = True
        elif parameter.kind is parameter.VAR_KEYWORD:
            is_open = True
        else:
            inputs.append(name)
            required += parameter.default is parameter.empty
    return Signature(tuple(inputs), required, variadic, attributes, is_open)


def _attribute_type(function: Converter, parameter: inspect.Parameter) -> Any:
    """The annotation of an attribute without its None; where there is none, the type of the default, or Any."""
    if parameter.annotation is parameter.empty:
        plain = parameter.default is parameter.empty or parameter.default is None
        return Any if plain else type(parameter.default)
    holder = types.SimpleNamespace(__annotations__={"hint": parameter.annotation})
    try:
        hint = unaliased(typing.get_type_hints(holder, globalns=getattr(function, "__globals__", {}))["hint"])
    except NameError as error:
        name = getattr(function, "__name__", "the converter")
        raise ImportModelError(f"{name}: the annotation of {parameter.name} means nothing: {error}") from None
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (arg for arg in typing.get_args(hint) if arg is not type(None))
    return hint


def _value(proto: AttributeProto, wanted: Any, operator: str, elements: Elements) -> Any:
    if wanted in (Any, tuple):
        wanted = _NATURAL.get(proto.type, Any)
    item = typing.get_args(wanted)[0] if typing.get_origin(wanted) is tuple else None
    found: Any = None
    if proto.type == AttributeProto.INT and wanted is bool:
        found = is_on(proto.i, f"attribute {proto.name} of {operator}")
    elif proto.type == AttributeProto.INT and wanted in (int, float):
        found = wanted(proto.i)
    elif proto.type == AttributeProto.FLOAT and wanted is float:
        found = proto.f
    elif proto.type == AttributeProto.STRING and wanted is str:
        found = _text(proto.s)
    elif proto.type == AttributeProto.TENSOR and typing.get_origin(wanted) is np.ndarray:
        found = elements.of(proto.t, f"attribute {proto.name} of {operator}")
    elif proto.type == AttributeProto.SPARSE_TENSOR and typing.get_origin(wanted) is np.ndarray:
        found = elements.of(proto.sparse_tensor, f"attribute {proto.name} of {operator}")
    elif proto.type == AttributeProto.TYPE_PROTO and wanted is TypeProto:
        found = proto.tp
    elif proto.type == AttributeProto.INTS and item in (int, float):
        found = tuple(item(i) for i in proto.ints)
    elif proto.type == AttributeProto.FLOATS and item is float:
        found = tuple(proto.floats)
    elif proto.type == AttributeProto.STRINGS and item is str:
        found = tuple(_text(s) for s in proto.strings)
    else:
        kind = _KINDS.get(proto.type, f"of kind {proto.type}")
        raise ImportModelError(f"attribute {proto.name} of {operator} is {kind}, wanted {_shown(wanted)}")
    return found


def is_on(number: int, what: str) -> bool:
    """An attribute that is on or off, which `what` names. Of other numbers than 1 and 0 the standard says nothing, and
    ONNX Runtime takes some for on, some for off, and refuses some."""
    if number not in (0, 1):
        raise ImportModelError(f"{what} is {number}, wanted 0 or 1", hint="write 1 if it is meant to be on, else 0")
    return number == 1


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _shown(wanted: Any) -> str:
    if typing.get_origin(wanted) is tuple:
        return f"several {typing.get_args(wanted)[0].__name__}"
    return "a tensor" if typing.get_origin(wanted) is np.ndarray else getattr(wanted, "__name__", str(wanted))

"""Operators of all of ONNX's domains, at each operator set that changed one: converters take what schemas have."""

from __future__ import annotations

import inspect
import re
import typing
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs, helper

from legato.frontend.onnx.control import CONTROL
from legato.frontend.onnx.signature import find, signature

# What no converter takes, by operator, and why.
ABSENT = {
    "Gradient": "what takes gradients is legato.grad",
}
# Attributes that a converter does not know, or that it must have though the schema has no default, or another one.
ATTRIBUTES = {
    ("RegexFullMatch", "pattern"): "the standard says nothing of a node without a pattern",
    ("CategoryMapper", "cats_int64s"): "there is nothing to map without",
    ("CategoryMapper", "cats_strings"): "there is nothing to map without",
    ("LabelEncoder", "classes_strings"): "there is nothing to map without, in version 1",
    ("SVMClassifier", "coefficients"): "there is no machine without",
    ("SVMClassifier", "rho"): "there is no machine without",
    ("LpPool", "kernel_shape"): "operator set 1 says nothing of windows without extents",
    ("GridSample", "mode"): "bilinear and bicubic are called linear and cubic since operator set 20",
    ("RNN", "activations"): "as many as there are directions",
    ("Reshape", "shape"): "operator set 1 says nothing of a reshape without a shape",
}
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
SCHEMAS = sorted(
    (s for s in defs.get_all_schemas_with_history() if s.domain in DOMAINS and ("", s.name) not in CONTROL),
    key=lambda s: (s.name, s.since_version),
)
KINDS = {int: "INT", float: "FLOAT INT", str: "STRING", bool: "INT", onnx.TypeProto: "TYPE_PROTO"}


@pytest.mark.parametrize("name", sorted({s.name for s in SCHEMAS}))
def test_converters_take_what_schemas_have(name: str) -> None:
    wrong = [f"{s.since_version}: {w}" for s in SCHEMAS if s.name == name for w in differences(s)]
    if name in ABSENT:
        assert wrong, f"{name} has converters, and is said to be absent: {ABSENT[name]}"
    else:
        assert not wrong, "\n".join(wrong)


def test_exceptions_are_needed() -> None:
    found = {(s.name, a) for s in SCHEMAS for a in s.attributes}
    assert set(ATTRIBUTES) <= found
    assert set(ABSENT) <= {s.name for s in SCHEMAS}


def differences(schema: Any) -> list[str]:
    """What the schema has and the converter has not."""
    converter = find(schema.domain, schema.name, schema.since_version)
    if converter is None:  # the schema's body, if it has one, stands for it
        return [] if schema.has_function or schema.has_context_dependent_function else ["no converter"]
    known, found = signature(converter), []
    if schema.max_input > len(known.inputs) and not known.variadic:
        found.append(f"{schema.max_input} inputs")
    if schema.min_input < known.required:
        found.append(f"as few as {schema.min_input} inputs")
    for name, attribute in schema.attributes.items():
        if (schema.name, name) in ATTRIBUTES or (name == "consumed_inputs" and schema.since_version < 6):
            continue
        if name not in known.attributes:
            found.append(f"attribute {name}")
            continue
        annotation, default = known.attributes[name]
        found += _differences_of_attribute(name, attribute, annotation, default)
    return found


def _differences_of_attribute(name: str, attribute: Any, annotation: Any, default: Any) -> list[str]:
    kind = str(attribute.type).rpartition(".")[2]
    if kind not in _kinds(annotation):
        return [f"attribute {name} is {kind}, the converter's {annotation}"]
    if default is inspect.Parameter.empty:
        return [] if attribute.required else [f"attribute {name} may be left out"]
    if not attribute.default_value.name:
        return []
    stated = helper.get_attribute_value(attribute.default_value)
    stated = stated.decode() if isinstance(stated, bytes) else stated
    return [] if _equal(stated, default) else [f"attribute {name} is {stated!r} by default, not {default!r}"]


def _kinds(annotation: Any) -> str:
    if typing.get_origin(annotation) is tuple:
        return " ".join(f"{kind}S" for kind in KINDS[typing.get_args(annotation)[0]].split())
    return "TENSOR SPARSE_TENSOR" if typing.get_origin(annotation) is np.ndarray else KINDS[annotation]


def _equal(stated: Any, default: Any) -> bool:
    if stated == "foward":  # a slip of GRU's first schema
        return bool(default == "forward")
    if isinstance(stated, float):
        return default is not None and bool(np.float32(stated) == np.float32(default))
    stated = tuple(stated) if isinstance(stated, list) else stated
    return bool(stated == default) or (isinstance(stated, str) and re.sub(r"\W", "", stated) == default)

"""Operators that ONNX's standard defines by a function of others, and for which there is no converter.

The functions are those of the installed `onnx` package. It is shown the node's attributes and the types of its inputs,
and no more of a file; its answer is expanded as a function of the model is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from legato.arith.expr import Const
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.frames import Value
from legato.frontend.onnx.proto import AttributeProto, FunctionProto, NodeProto, TypeProto
from legato.frontend.onnx.reader import MAX_OPSET
from legato.frontend.onnx.tensors import element_code
from legato.ir.expr import Expr
from legato.ir.types import TensorType

__all__ = ["schema_function"]

_MOST = (1 << 31) - 1  # what the package takes for the version of operators


def schema_function(
    domain: str,
    node: NodeProto,
    opsets: Mapping[str, int],
    attributes: Mapping[str, AttributeProto],
    inputs: Sequence[Value],
) -> FunctionProto | None:
    """The function that defines the operator of a node as of the operator sets of its model; None where none does.

    Its `overload` tells it from those of other nodes of the operator.
    """
    schema = _schema(domain, node.op_type, opsets.get(domain, 0))
    if schema is None or schema.deprecated:
        return None
    if not schema.has_function and not schema.has_context_dependent_function:
        return None
    _check(schema, node, attributes, inputs)
    text = schema.function_body.SerializeToString() if schema.has_function else _made(schema, node, attributes, inputs)
    found: FunctionProto = FunctionProto.FromString(text)
    given = {attribute.name for attribute in found.attribute_proto}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.name and name not in given:
            found.attribute_proto.append(AttributeProto.FromString(attribute.default_value.SerializeToString()))
    if all(entry.domain for entry in found.opset_import):  # those of a preview do not say which operators they are of
        found.opset_import.add(domain="", version=opsets.get("", MAX_OPSET))
    found.overload = sha256(found.SerializeToString()).hexdigest()
    return found


def _schema(domain: str, operator: str, opset: int) -> Any:
    """What the onnx package knows of an operator; None where it knows none."""
    if not 0 < opset <= _MOST:
        return None
    try:
        from onnx import defs
    except ImportError:
        hint = "install the onnx package: the standard defines the operator by a function of others, which is in it"
        raise UnsupportedError("no such operator in Legato", hint=hint) from None
    try:
        return defs.get_schema(operator, opset, domain)
    except defs.SchemaError:
        return None


def _check(schema: Any, node: NodeProto, attributes: Mapping[str, AttributeProto], inputs: Sequence[Value]) -> None:
    """The functions believe what they are given: that it is as the schema says is seen to here."""
    for name, attribute in attributes.items():
        if name not in schema.attributes:
            raise UnsupportedError(f"attribute {name}")
        if attribute.type != schema.attributes[name].type.value:
            raise ImportModelError(f"attribute {name} of {node.op_type} is of kind {attribute.type}, wanted "
                                   f"{schema.attributes[name].type.value}")  # fmt: skip
    absent = [name for name, attribute in schema.attributes.items() if attribute.required and name not in attributes]
    if absent:
        raise ImportModelError(f"{node.op_type} lacks its attribute {', '.join(absent)}")
    if not schema.min_input <= len(inputs) <= schema.max_input or not len(node.output) <= schema.max_output:
        got = f"{node.op_type} has {len(inputs)} inputs and {len(node.output)} outputs"
        wanted = f"{schema.min_input} to {schema.max_input}, and at most {schema.max_output}"
        raise ImportModelError(f"{got}, wanted {wanted}")


def _made(schema: Any, node: NodeProto, attributes: Mapping[str, AttributeProto], inputs: Sequence[Value]) -> bytes:
    """The function that the package makes for a node of its attributes and of the types of its inputs."""
    shown = NodeProto(op_type=node.op_type, domain=node.domain)
    shown.input.extend("" if value is None else f"input_{n}" for n, value in enumerate(inputs))
    shown.output.extend(node.output)
    shown.attribute.extend(attributes.values())
    types = [_type(value).SerializeToString() for value in inputs]
    try:
        return bytes(schema.get_context_dependent_function(shown.SerializeToString(), types))
    except Exception as error:  # of the package, whose classes of errors are many
        raise ImportModelError(f"the standard has no function for this form of {node.op_type}: {error}") from None


def _type(value: Value) -> TypeProto:
    """The type of an input; nothing is said of one that is left out, or that is no tensor."""
    found = TypeProto()
    if isinstance(value, Expr) and isinstance(value.ty, TensorType):
        found.tensor_type.elem_type = element_code(value.ty.dtype)
        found.tensor_type.shape.SetInParent()
        for d in value.ty.shape:
            dim = found.tensor_type.shape.dim.add()
            if isinstance(d, Const):
                dim.dim_value = int(d.value)
    return found

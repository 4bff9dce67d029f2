"""The types of a graph's inputs: dims from the file, overridden by the caller's `shapes`.

A dimension that the file names (`dim_param`) is a dim variable, the same wherever the name is the same. Exporters also
write "", "?" or -1: these dims are all different. In `shapes` a number fixes a dim, a text names it ("h", or with its
range "h:32..960", either end may be left out), None leaves it as the file has it. What is said of a named dim of the
file holds wherever the file uses that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from legato.arith.expr import Const, Var, const
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, UnsupportedError
from legato.base.spelling import ELLIPSIS, option, written
from legato.frontend.onnx.containers import is_list, is_option, list_type, option_type
from legato.frontend.onnx.proto import TensorShapeProto, TypeProto, ValueInfoProto
from legato.frontend.onnx.tensors import MAX_ELEMENTS, element_count, element_type, type_name
from legato.ir.types import Dim, TensorType, TupleType, Type, TypeCall

__all__ = [
    "Constants",
    "DimLike",
    "Dims",
    "Shapes",
    "check_declared",
    "check_size",
    "contained_type",
    "declared_extents",
    "declared_name",
    "declared_rank",
    "declared_shape",
    "input_types",
    "value_type",
]

DimLike = int | str | None
Shapes = Mapping[str, Sequence[DimLike | Sequence[DimLike]]]  # of a sequence, a shape for each element
Constants = Mapping[str, ArrayLike]

_UNNAMED = ("", "?", "-1", "None")
_TENSORS = "export the model with tensors, or sequences of them, in its place"
_RANGED = re.compile(r"\s*([^:]+?)\s*(?::\s*(\d*)\s*\.\.\s*(\d*)\s*)?")


class Dims:
    """The dim variables of one import, by name."""

    def __init__(self) -> None:
        self._known: dict[str, Dim] = {}

    def named(self, name: str) -> Dim:
        """The dim called `name`, made where it is new."""
        if name not in self._known:
            self._known[name] = Var(_identifier(name), lo=0)
        return self._known[name]

    def fresh(self, hint: str) -> Dim:
        """A dim unlike any other."""
        return Var(_identifier(hint), lo=0)

    def given(self, value: int | str, where: str) -> Dim:
        """The dim that an item of `shapes` says."""
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ImportModelError(f"{where}: got {value!r}, wanted a number, a name or None")
        if isinstance(value, int):
            if value < 0:
                raise ImportModelError(f"{where}: got {value}, wanted a number of elements, a name or None")
            return const(value)
        match = _RANGED.fullmatch(value)
        if match is None:
            raise ImportModelError(f"{where}: got {value!r}, wanted a name, or a name and its range as in 'h:32..960'")
        name, lo, hi = match.groups()
        if lo is None:
            return self.named(name)
        return self._ranged(name, int(lo or 0), int(hi) if hi else None, where)

    def _ranged(self, name: str, lo: int, hi: int | None, where: str) -> Dim:
        known = self._known.setdefault(name, Var(_identifier(name), lo=lo, hi=hi))
        if not isinstance(known, Var) or (known.lo, known.hi) != (lo, hi):
            raise ImportModelError(f"{where}: dim {name!r} is given twice, with different ranges",
                                   hint="give the range where the name comes first")  # fmt: skip
        return known

    def bind(self, name: str, dim: Dim, where: str) -> None:
        """Says that the file's dim `name` is `dim`."""
        if self._known.setdefault(name, dim) is not dim:
            raise ImportModelError(f"{where}: dim {name!r} of the model is both {self._known[name]} and {dim}")


def _identifier(name: str) -> str:
    text = re.sub(r"\W+", "_", name).strip("_") or "d"
    return f"d{text}" if text[0].isdigit() else text


def input_types(
    values: Sequence[ValueInfoProto],
    shapes: Shapes | None,
    dims: Dims,
    note: Callable[[str, UnsupportedError], None] | None = None,
) -> dict[str, Type]:
    """The type of each input by name.

    ImportModelError where an input has no type, or `shapes` does not fit; UnsupportedError for inputs that are not
    tensors or have no rank, and for element types that Legato does not have; `note` gets it, with the input's name, and
    such inputs have no type then.
    """
    shapes = shapes or {}
    unknown = [name for name in shapes if name not in {value.name for value in values}]
    if unknown:
        hint = "it has " + ", ".join(value.name for value in values)
        raise ImportModelError(f"{option('shapes')}: the model has no input {', '.join(map(repr, unknown))}", hint=hint)
    tensors = [value for value in values if value.type.WhichOneof("value") in (None, "tensor_type")]
    overrides = {v.name: _overrides(v, shapes[v.name], dims) for v in tensors if v.name in shapes}
    found: dict[str, Type] = {}
    for value in values:
        try:
            if value in tensors or value.name not in shapes:
                found[value.name] = value_type(value, dims, overrides.get(value.name))
            else:
                found[value.name] = _elements(value, shapes[value.name], dims)
        except UnsupportedError as error:
            if note is None:
                raise
            note(value.name, error)
    return found


def contained_type(proto: TypeProto, what: str, dims: Dims) -> Type:
    """The type that the file declares for a value; of what a sequence holds any shape must be declared."""
    kind = proto.WhichOneof("value")
    if kind == "sequence_type":
        return list_type(contained_type(proto.sequence_type.elem_type, what, dims))
    if kind == "optional_type":
        return option_type(contained_type(proto.optional_type.elem_type, what, dims))
    if kind != "tensor_type":
        named = (kind or "value").removesuffix("_type").replace("_", " ")
        raise UnsupportedError(f"{what} is a {named}, not a tensor", hint=_TENSORS)
    if not proto.tensor_type.HasField("shape"):
        hint = f"give a shape for each element of a sequence: {written('shapes', 'xs', [(2, 3), (2, 3)])}"
        raise UnsupportedError(f"{what}: the shape of its elements is not declared", hint=hint)
    dtype = element_type(proto.tensor_type.elem_type, what)
    return TensorType(tuple(_own(d, "d", dims) for d in proto.tensor_type.shape.dim), dtype)


def _elements(value: ValueInfoProto, items: object, dims: Dims) -> TupleType:
    """A sequence of known length: `items` are the shapes of its elements."""
    where = option("shapes", value.name)
    if value.type.WhichOneof("value") != "sequence_type":
        raise ImportModelError(f"{where}: the input is no tensor and no sequence")
    if isinstance(items, str) or not isinstance(items, Sequence) or any(isinstance(i, str) for i in items):
        raise ImportModelError(f"{where}: got {items!r}, wanted a shape for each element of the sequence")
    dtype = element_type(value.type.sequence_type.elem_type.tensor_type.elem_type, where)
    fields: list[Type] = []
    for n, shape in enumerate(items):
        if not isinstance(shape, Sequence):
            raise ImportModelError(f"{where}[{n}]: got {shape!r}, wanted a shape")
        own = [dims.fresh(f"{value.name}_{n}") if d is None else dims.given(d, f"{where}[{n}]") for d in shape]
        fields.append(TensorType(tuple(own), dtype))
    return TupleType(tuple(fields))


def _overrides(value: ValueInfoProto, items: Sequence[Any], dims: Dims) -> list[Dim | None]:
    where = option("shapes", value.name)
    if isinstance(items, str) or not isinstance(items, Sequence):
        raise ImportModelError(f"{where}: got {items!r}, wanted one item per dimension")
    declared = _declared(value)
    if declared is not None and len(declared) != len(items):
        raise ImportModelError(f"{where}: got {len(items)} dimensions, but the model's input has {len(declared)}")
    found = [None if item is None else dims.given(item, f"{where}[{axis}]") for axis, item in enumerate(items)]
    for axis, (dim, own) in enumerate(zip(found, declared or (), strict=False)):
        if dim is not None and own.dim_param not in _UNNAMED:
            dims.bind(own.dim_param, dim, f"{where}[{axis}]")
    return found


def _declared(value: ValueInfoProto) -> Sequence[TensorShapeProto.Dimension] | None:
    tensor = value.type.tensor_type
    return tuple(tensor.shape.dim) if tensor.HasField("shape") else None


def value_type(value: ValueInfoProto, dims: Dims, overrides: Sequence[Dim | None] | None = None) -> Type:
    """The type of a value as the file declares it, with `overrides` in place of its dims."""
    what = f"input {value.name!r}"
    kind = value.type.WhichOneof("value")
    if kind is None:
        raise ImportModelError(f"{what} has no type")
    if kind in ("sequence_type", "optional_type"):
        return contained_type(value.type, what, dims)
    if kind != "tensor_type":
        named = kind.removesuffix("_type").replace("_", " ")
        raise UnsupportedError(f"{what} is a {named}, not a tensor", hint=_TENSORS)
    dtype = element_type(value.type.tensor_type.elem_type, what)
    declared = _declared(value)
    if declared is None and overrides is None:
        hint = f"give one: {written('shapes', value.name, (1, 'n', ELLIPSIS))}"
        raise UnsupportedError(f"{what} has no shape", hint=hint)
    own = [_own(dim, f"{value.name}_{axis}", dims) for axis, dim in enumerate(declared or ())]
    given = overrides or [None] * len(own)
    shape = tuple(
        (own[axis] if axis < len(own) else dims.fresh(f"{value.name}_{axis}")) if dim is None else dim
        for axis, dim in enumerate(given)
    )
    ty = TensorType(shape, dtype)
    check_size(ty, what)
    return ty


def _own(dim: TensorShapeProto.Dimension, hint: str, dims: Dims) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return const(dim.dim_value)
    if dim.dim_param in _UNNAMED:
        return dims.fresh(hint)
    return dims.named(dim.dim_param)


def declared_rank(value: ValueInfoProto) -> int | None:
    """The rank that a value is declared to have; None if nothing is said of it."""
    found = _declared(value)
    return None if found is None else len(found)


def declared_extents(value: ValueInfoProto) -> Sequence[int]:
    """The extents that a value is declared to have, those that are no numbers 0; none if nothing is said of them.

    ImportModelError where they are absurdly large.
    """
    found = [max(dim.dim_value, 0) for dim in _declared(value) or ()]
    check_size(TensorType(tuple(const(max(d, 1)) for d in found), dt.int64), f"value {value.name!r}")
    return found


def declared_shape(value: ValueInfoProto) -> tuple[int | None, ...] | None:
    """The extents that a value is declared to have, None for those that are no numbers; None if nothing is said."""
    found = _declared(value)
    if found is None:
        return None
    return tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in found)


def declared_name(value: ValueInfoProto, axis: int) -> str | None:
    """What the file calls a dim of a value; None where it has no name there."""
    found = _declared(value) or ()
    named = axis < len(found) and found[axis].dim_param not in _UNNAMED
    return _identifier(found[axis].dim_param) if named else None


def check_declared(value: ValueInfoProto, ty: Type | None) -> None:
    """ImportModelError where a value is declared with another element type than that of its type `ty`, as a tensor
    where it is a sequence, or the other way round. What is said of extents is not held against it: many a file lies.
    """
    proto, is_sequence = value.type, False
    while (kind := proto.WhichOneof("value")) in ("sequence_type", "optional_type"):
        is_sequence = is_sequence or kind == "sequence_type"
        proto = proto.sequence_type.elem_type if kind == "sequence_type" else proto.optional_type.elem_type
    if kind not in (None, "tensor_type"):
        named = str(kind).removesuffix("_type")
        raise UnsupportedError(f"{value.name!r} is declared as a {named}", hint=_TENSORS)
    if ty is None or (kind is None and not is_sequence):
        return
    code, tensor = proto.tensor_type.elem_type, _contained(ty)
    if kind and is_sequence != _is_sequence(ty):
        declared = "a sequence" if is_sequence else "a tensor"
        raise ImportModelError(f"{value.name!r} is declared as {declared}, but is {ty}")
    if tensor is not None and code and element_type(code, f"{value.name!r}") != tensor.dtype:
        raise ImportModelError(f"{value.name!r} is declared as {type_name(code)}, but is {tensor.dtype}")


def _is_sequence(ty: Type) -> bool:
    """Whether `ty` is a sequence, or an optional one."""
    while isinstance(ty, TypeCall) and is_option(ty):
        ty = ty.args[0]
    return isinstance(ty, TupleType) or is_list(ty)


def _contained(ty: Type) -> TensorType | None:
    """The tensors that sequences and optional values hold; None where nothing, or a cell, is in them."""
    while not isinstance(ty, TensorType):
        parts = ty.fields if isinstance(ty, TupleType) else ty.args if isinstance(ty, TypeCall) else ()
        if not parts:
            return None
        ty = parts[0]
    return ty


def check_size(ty: TensorType, what: str) -> None:
    """ImportModelError where the known dims of `ty` alone make it absurdly large."""
    literals = [int(d.value) for d in ty.shape if isinstance(d, Const)]
    if ty.is_static:
        element_count(literals, what)
        return
    product = 1
    for d in literals:
        product *= max(d, 1)
    if product > MAX_ELEMENTS:
        raise ImportModelError(f"{what}: shape {ty} has more than {MAX_ELEMENTS} elements")

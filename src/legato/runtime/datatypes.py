"""The data types of a compiled program: constructors, what their fields are, and how those lie in an object.

    field = TensorField | number of a data type | tuple of fields

A cell is what a constructor with fields makes: an object whose payload holds the parts of its fields, tuples taken
apart, 8 bytes each. Those that are objects of their own (values of data types, tensors that are no scalars) come first,
as handles; scalars follow, each in the first bytes of its word, and then the dims that the value has of its own. A
constructor without such parts is no object, but an odd handle, `tag << 1 | 1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.base.dtype import BY_NAME
from legato.runtime.reader import Reader
from legato.runtime.size import Size, names, show
from legato.runtime.values import Data

__all__ = ["MAX_DEPTH", "Cell", "ConstructorInfo", "DataInfo", "Field", "ObjectInfo", "TensorField", "data_types",
           "faults", "object_infos", "parts_of", "without_sizes"]  # fmt: skip

MAX_DEPTH: Final = 100  # of tuples in a field, or in a result: types have no more
MAX_TAGS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class TensorField:
    """A tensor in an object; its shape consists of sizes over the dims of the function and of its constructor. So does
    `value`, what the element of an int64 scalar is; None: any number."""

    dtype: str
    shape: tuple[Size, ...]
    value: Size | None = None

    @property
    def sizes(self) -> tuple[Size, ...]:
        """What it tells: its extents, or the one that is its value."""
        return self.shape if self.value is None else (self.value,)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(show, self.shape))}]"


Field = TensorField | int | tuple["Field", ...]


def without_sizes(field: Field) -> object:
    """`field` with ranks for shapes: equal for what programs hold that were compiled for different sizes."""
    if isinstance(field, tuple):
        return tuple(without_sizes(f) for f in field)
    return field if isinstance(field, int) else (field.dtype, len(field.shape), field.value is None)


@dataclass(frozen=True, slots=True)
class ConstructorInfo:
    """A constructor: its tag is its position in the data type. Called with the fields, it makes a value.

    `dims` are those that each value has of its own.
    """

    name: str
    tag: int
    fields: tuple[Field, ...]
    dims: tuple[str, ...] = ()

    @property
    def name_hint(self) -> str:
        """`name`, as Relay calls it."""
        return self.name

    def __call__(self, *fields: Any) -> Data:
        """The value with these fields: arrays, tuples, values of data types."""
        if len(fields) != len(self.fields):
            raise TypeError(f"{self.name} takes {len(self.fields)} fields, got {len(fields)}")
        return Data(self, fields)


@dataclass(frozen=True, slots=True)
class DataInfo:
    """A data type, its type arguments filled in: `name` is its text."""

    name: str
    constructors: tuple[ConstructorInfo, ...]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An input or output that is a value of data type `data`, a number in the function's list; or an output that is a
    tensor whose shape is known when it is there. `type` is its text."""

    name: str
    data: int | TensorField
    type: str

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(frozen=True, slots=True)
class Cell:
    """How the parts of a constructor lie in its payload: `order[i]` is that in word i; the handles come first."""

    parts: tuple[TensorField | int, ...]
    order: tuple[int, ...]
    pointers: int

    @staticmethod
    def of(fields: Sequence[Field]) -> Cell:
        """The cell of a constructor with these fields."""
        parts = tuple(parts_of(tuple(fields)))
        boxed = [i for i, part in enumerate(parts) if _is_boxed(part)]
        return Cell(parts, (*boxed, *(i for i, part in enumerate(parts) if not _is_boxed(part))), len(boxed))


def _is_boxed(part: TensorField | int) -> bool:
    return isinstance(part, int) or bool(part.shape)


def parts_of(field: Field) -> Iterator[TensorField | int]:
    """The tensors and data types in a field, tuples taken apart."""
    stack = [field]
    while stack:
        part = stack.pop()
        if isinstance(part, tuple):
            stack += reversed(part)
        else:
            yield part


# ---------------------------------------------------------------------------------------------------- files


def data_types(data: Reader) -> tuple[DataInfo, ...]:
    """The data types that JSON describes."""
    return tuple(
        DataInfo(t["name"].text(), tuple(map(_constructor, t["constructors"].list()))) for t in data.list()
    )  # fmt: skip


def _constructor(data: Reader) -> ConstructorInfo:
    fields = tuple(_field(f, MAX_DEPTH) for f in data["fields"].list())
    dims = tuple(d.text() for d in data["dims"].list())
    return ConstructorInfo(data["name"].text(), data["tag"].int(), fields, dims)


def object_infos(data: Reader) -> tuple[ObjectInfo, ...]:
    """The inputs or outputs that JSON describes."""
    return tuple(ObjectInfo(o["name"].text(), _content(o["data"]), o["type"].text()) for o in data.list())


def _content(data: Reader) -> int | TensorField:
    found = _field(data, 0)
    assert not isinstance(found, tuple)
    return found


def _field(data: Reader, depth: int) -> Field:
    if isinstance(data.value, dict):
        value = None if data["value"].value is None else data["value"].size()
        return TensorField(data["dtype"].text(), tuple(s.size() for s in data["shape"].list()), value)
    if isinstance(data.value, list) and depth:
        return tuple(_field(part, depth - 1) for part in data.list())
    return data.int()


def faults(types: Sequence[DataInfo], objects: Sequence[ObjectInfo], dims: Sequence[str]) -> Iterator[str]:
    """What is inconsistent in the data types of a function with these dims, and in what is of them."""
    for obj in objects:
        if isinstance(obj.data, TensorField):
            yield from _tensor_faults(repr(obj.name), obj.data, dims)
        elif obj.data >= len(types):
            yield f"{obj.name!r} is of data type {obj.data}, of {len(types)}"
    for ty in types:
        if len(ty.constructors) > MAX_TAGS:
            yield f"data type {ty.name!r} has {len(ty.constructors)} constructors"
        for tag, constructor in enumerate(ty.constructors):
            if constructor.tag != tag:
                yield f"constructor {constructor.name!r} of {ty.name!r} has tag {constructor.tag}, and position {tag}"
            yield from _cell_faults(constructor, len(types), dims)


def _cell_faults(constructor: ConstructorInfo, types: int, dims: Sequence[str]) -> Iterator[str]:
    parts = list(parts_of(constructor.fields))
    if len(parts) + len(constructor.dims) >= MAX_TAGS:
        yield f"constructor {constructor.name!r} has {len(parts)} parts"
    plain = {size for part in parts if isinstance(part, TensorField) for size in part.sizes if isinstance(size, str)}
    yield from (f"no field of {constructor.name!r} tells dim {d!r}" for d in constructor.dims if d not in plain)
    for part in parts:
        if not isinstance(part, int):
            yield from _tensor_faults(f"a field of {constructor.name!r}", part, (*dims, *constructor.dims))
        elif part >= types:
            yield f"a field of {constructor.name!r} is of data type {part}, of {types}"


def _tensor_faults(what: str, tensor: TensorField, dims: Sequence[str]) -> Iterator[str]:
    if tensor.dtype not in BY_NAME:
        yield f"{what} has unknown dtype {tensor.dtype!r}"
    if tensor.value is not None and str(tensor) != "int64[]":
        yield f"{what} is an extent, but {tensor}"
    for name in (n for size in tensor.sizes for n in names(size) if n not in dims):
        yield f"{what} mentions unknown dim {name!r}"

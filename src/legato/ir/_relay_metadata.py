"""The metadata section as Apache TVM wrote it: a graph of nodes, and arrays in base64.

    {"root": 1, "nodes": [node, …], "b64ndarrays": [text, …], "attrs": {…}}

Node 0 is null, the root a Map from keys ("relay.Constant", "tir.SizeVar") to Arrays; `meta[key][i]` is entry i of one.
A node has "type_key" and, by kind: "attrs" (whose values are texts: numbers, or numbers of other nodes), "data" and
"keys" (Array and Map), "repr_str" (String). Read are constants, integers, floats, strings, arrays, maps from strings,
variables of dims and arithmetic over them, devices; other kinds are refused by name.

An array is a header of little-endian fields (magic, reserved, device, rank, dtype code, bits, lanes, extents, number of
bytes) and the elements, row-major.
"""

from __future__ import annotations

import binascii
import math
import struct
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from legato.arith.expr import Expr as DimExpr
from legato.arith.expr import Op, binary, const, fresh
from legato.base import dtype as dt
from legato.base.device import Device, as_device
from legato.base.errors import CompileError
from legato.base.limits import MAX_NUMBER
from legato.ir._json_checks import Bad, items, mapping, pick, text

__all__ = ["NodeGraph", "NodeValues", "arrays_of", "is_node_graph", "is_params", "number_in"]

Array = np.ndarray[Any, Any]
Json = Any

_MAGIC: Final = 0xDD5E40F096B4A13F
_LIST: Final = 0xF7E58D4F05049CB7
_HEADER: Final = struct.Struct("<QQiiiBBH")
_CODES: Final = {(0, 8): dt.int8, (0, 16): dt.int16, (0, 32): dt.int32, (0, 64): dt.int64, (1, 1): dt.bool_,
                 (1, 8): dt.uint8, (1, 16): dt.uint16, (1, 32): dt.uint32, (1, 64): dt.uint64, (2, 16): dt.float16,
                 (2, 32): dt.float32, (2, 64): dt.float64, (4, 16): dt.bfloat16, (6, 8): dt.bool_}  # fmt: skip
_MAX_DEPTH: Final = 100
_MAX_PARTS: Final = 1 << 16  # of one value, each counted as often as it occurs
_ARITHMETIC: Final = {"tir.Add": Op.ADD, "tir.Sub": Op.SUB, "tir.Mul": Op.MUL, "tir.FloorDiv": Op.FLOORDIV,
                      "tir.FloorMod": Op.FLOORMOD, "tir.Min": Op.MIN, "tir.Max": Op.MAX}  # fmt: skip


def is_node_graph(section: Json) -> bool:
    """True if a metadata section is of the form that TVM wrote."""
    return isinstance(section, dict) and "nodes" in section and "root" in section


class _Value(NamedTuple):
    """What a node means; parts are counted as often as they occur, and `height` is how deep they nest."""

    value: Any
    size: int = 1
    height: int = 0


class NodeValues:
    """The values that nodes mean. Every access raises `Bad` for what is damaged or cannot be read."""

    def __init__(self, section: Mapping[str, Json]) -> None:
        self.nodes = [mapping(node) for node in items(section["nodes"])]
        self._arrays = items(section.get("b64ndarrays", []))
        self._values: dict[int, _Value] = {}

    def node(self, index: Json) -> Mapping[str, Json]:
        """The node of that number."""
        return pick(index, self.nodes, "a node")

    def value(self, index: Json) -> Any:
        """What a node means: an array, a dim, or an attribute value. The same object each time."""
        return self._value(index, 0).value

    def _value(self, index: Json, depth: int) -> _Value:
        node = self.node(index)
        found = self._values.get(index)
        if found is None and depth <= _MAX_DEPTH:
            found = self._values[index] = self._read(node, depth)
        if found is None or found.height > _MAX_DEPTH:
            raise Bad(f"nodes are nested more than {_MAX_DEPTH} deep")
        if found.size > _MAX_PARTS:
            raise Bad(f"a value has more than {_MAX_PARTS} parts")
        return found

    def _read(self, node: Mapping[str, Json], depth: int) -> _Value:
        kind = text(node.get("type_key"))
        short = kind.rpartition(".")[2]
        if kind == "":
            return _Value(None)
        if short == "Constant":
            return _Value(self._array(number_in(node, "data")))
        if short in ("IntImm", "FloatImm"):
            return _Value(_scalar(node, short))
        if short == "String":
            return _Value(text(node.get("repr_str")))
        if short == "Array":
            return self._several(items(node.get("data", [])), depth)
        if short == "VirtualDevice":
            return _Value(self._device(node, depth))
        if short in ("Map", "StrMap"):
            members = self._several(items(node.get("data", [])), depth)
            return members._replace(value=_pairs(node, members.value))
        return self._dim(node, kind, depth)

    def _several(self, entries: list[Json], depth: int) -> _Value:
        parts = [self._value(entry, depth + 1) for entry in entries]
        return _over(tuple(part.value for part in parts), parts)

    def _device(self, node: Mapping[str, Json], depth: int) -> str:
        """A device as text; "" for one of no kind, by which TVM says nothing."""
        attrs = mapping(node.get("attrs"))
        if attrs.get("device_type_int") == "-1":
            return ""
        index = 0 if attrs.get("virtual_device_id") == "-1" else number_in(node, "virtual_device_id")
        scope = text(self._value(number_in(node, "memory_scope"), depth + 1).value or "")
        try:
            return str(Device(as_device(number_in(node, "device_type_int")).kind, index, scope))
        except CompileError as error:
            raise Bad(error.message) from None

    def _dim(self, node: Mapping[str, Json], kind: str, depth: int) -> _Value:
        if kind in ("tir.Var", "tir.SizeVar"):
            return _Value(fresh(text(mapping(node.get("attrs")).get("name"))))
        if kind == "tir.Any":
            return _Value(fresh("d"))
        if kind not in _ARITHMETIC:
            raise Bad(f"a node of kind {kind!r} cannot be read")
        parts = [self._value(number_in(node, name), depth + 1) for name in ("a", "b")]
        operands = [const(p.value) if type(p.value) is int else p.value for p in parts]
        if not all(isinstance(v, DimExpr) for v in operands):
            raise Bad(f"{kind} of what is no dim")
        return _over(binary(_ARITHMETIC[kind], *operands), parts)

    def _array(self, index: int) -> Array:
        try:
            raw = b64decode("".join(text(pick(index, self._arrays, "an array")).split()), validate=True)
        except (binascii.Error, ValueError):
            raise Bad(f"array {index} is damaged") from None
        found, size = array_at(raw, 0, f"array {index}")
        if size != len(raw):
            raise Bad(f"array {index} has {len(raw)} bytes, expected {size}")
        return found


def array_at(raw: bytes, start: int, what: str) -> tuple[Array, int]:
    """The array that begins at a place of `raw`, and where it ends; `Bad`, which names it `what`, for a damaged one."""
    try:
        header = _HEADER.unpack_from(raw, start)
        shape = struct.unpack_from(f"<{_rank(header[4])}q", raw, start + _HEADER.size)
        begin = start + _HEADER.size + 8 * len(shape) + 8
        (count,) = struct.unpack_from("<q", raw, begin - 8)
    except (ValueError, struct.error):
        raise Bad(f"{what} is damaged") from None
    dtype = _CODES.get(header[5:7])
    if header[0] != _MAGIC or dtype is None or header[7] != 1 or min(shape, default=0) < 0:
        raise Bad(f"{what} is no array of a known dtype")
    if count != math.prod(shape) * dtype.bytes or begin + count > len(raw):
        raise Bad(f"{what} has {min(count, len(raw) - begin)} bytes, expected {dtype}{list(shape)}")
    data = raw[begin : begin + count]
    if dtype.is_bool and data.strip(b"\x00\x01"):
        raise Bad(f"{what} of bool has a byte that is neither 0 nor 1")
    try:
        return np.frombuffer(data, dtype.numpy).reshape(shape), begin + count
    except ValueError:
        raise Bad(f"{what} has the shape {shape}, which is too large") from None


def arrays_of(raw: bytes) -> dict[str, Array]:
    """The named arrays of TVM's `save_param_dict`: a magic number, names, arrays. `Bad` for a damaged text.

    u64 magic, u64 0, u64 count, (u64 length, bytes) per name, u64 count, arrays
    """
    try:
        _, _, count = struct.unpack_from("<QQQ", raw)
        place, names = 24, list[str]()
        for _ in range(count):
            (length,) = struct.unpack_from("<Q", raw, place)
            if place + 8 + length > len(raw):
                raise Bad("a name is longer than what is left")
            names.append(raw[place + 8 : place + 8 + length].decode())
            place += 8 + length
        if struct.unpack_from("<Q", raw, place) != (count,):
            raise Bad(f"there are {count} names, and another number of arrays")
        place += 8
    except (struct.error, UnicodeDecodeError):
        raise Bad("the names are damaged") from None
    found: dict[str, Array] = {}
    for name in names:
        found[name], place = array_at(raw, place, f"array {name!r:.60}")
    if place != len(raw) or len(found) != len(names):
        raise Bad("a name occurs twice, or something follows the last array")
    return found


def is_params(raw: bytes) -> bool:
    """Whether these bytes are those of TVM's `save_param_dict`."""
    return raw[:8] == struct.pack("<Q", _LIST)


class NodeGraph(NodeValues):
    """The values in a section, by key and number."""

    def __init__(self, section: Mapping[str, Json]) -> None:
        super().__init__(section)
        root = self.node(section["root"])
        self._roots = _pairs(root, items(root.get("data")))

    def count(self, key: str) -> int:
        """How many entries `meta[key]` has."""
        return len(items(self.node(self._roots[key]).get("data", []))) if key in self._roots else 0

    def get(self, key: str, index: int) -> Any:
        """The value of `meta[key][index]`."""
        return self.value(items(self.node(self._roots[key]).get("data"))[index])


def _over(value: Any, parts: Sequence[_Value]) -> _Value:
    """A value with these parts."""
    return _Value(value, 1 + sum(p.size for p in parts), 1 + max((p.height for p in parts), default=0))


def _pairs(node: Mapping[str, Json], values: Sequence[Any]) -> dict[str, Any]:
    """A map from strings."""
    keys = items(node.get("keys"), len(values))
    return dict(zip(map(text, keys), values, strict=True))


def _rank(value: int) -> int:
    if not 0 <= value <= 64:
        raise ValueError(value)
    return value


def number_in(node: Mapping[str, Json], name: str) -> int:
    """An attribute that is the number of a node or array."""
    value = mapping(node.get("attrs")).get(name)
    if type(value) is not str or not value.isascii() or not value.isdigit() or len(value) > 10:
        raise Bad(f"{node['type_key']} has no {name}")
    return int(value)


def _scalar(node: Mapping[str, Json], kind: str) -> float:
    value = text(mapping(node.get("attrs")).get("value"))
    read: Callable[[str], float] = int if kind == "IntImm" else float
    try:
        return read(value if len(value) <= MAX_NUMBER else "")
    except ValueError:
        raise Bad(f"{value[:MAX_NUMBER]!r} is no number") from None

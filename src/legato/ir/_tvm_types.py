"""Types and data types in the JSON of Apache TVM (`tvm_json`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from legato.arith.expr import Expr as Dim
from legato.arith.expr import const, fresh
from legato.base import dtype as dt
from legato.base.errors import LegatoError
from legato.base.span import Span
from legato.ir._json_checks import Bad, items, mapping, text
from legato.ir._relay_metadata import NodeValues, number_in
from legato.ir._tvm_attrs import reference
from legato.ir._tvm_shared import Shared
from legato.ir.expr import Constructor
from legato.ir.types import (
    FuncType,
    GlobalTypeVar,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    TypeVar,
)

__all__ = ["Node", "TypeReader", "kind_of"]

Node = Mapping[str, Any]
_MAX_DEPTH: Final = 100  # of spans in spans


def kind_of(node: Node) -> str:
    """What a node is, without the namespace that versions put before it: "Call", "TensorType"; "tir.Var" keeps it."""
    kind = text(node.get("type_key"))
    return kind if kind.startswith("tir.") else kind.rpartition(".")[2]


class TypeReader:
    """Reads types, and what else all nodes have: names, lists and spans. `Bad` for what is damaged."""

    def __init__(self, values: NodeValues) -> None:
        self.values = values
        self.data: dict[str, TypeData] = {}
        self.constructors: dict[int, Constructor] = {}
        self._headers: dict[str, GlobalTypeVar] = {}
        self._vars: dict[int, TypeVar] = {}
        self._spans: dict[int, Span | None] = {}
        self._shared = Shared("types")

    # ------------------------------------------------------------------ parts of nodes

    def part(self, node: Node, name: str) -> int | None:
        """The number of the node that an attribute refers to; None for null."""
        index = number_in(node, name)
        return None if kind_of(self.values.node(index)) == "" else index

    def several(self, node: Node, name: str) -> list[int]:
        """The numbers of the nodes in the array that an attribute refers to; none for null."""
        index = self.part(node, name)
        return [] if index is None else self.elements(index)

    def elements(self, index: int) -> list[int]:
        """The numbers of the nodes in an array."""
        node = self.values.node(index)
        if kind_of(node) != "Array":
            raise Bad(f"node {index} is no array")
        return [self._number(n) for n in items(node.get("data", []))]

    def pairs(self, node: Node, name: str) -> list[tuple[str | int, int]]:
        """Keys (texts, or numbers of nodes) and values (numbers of nodes) of the map that an attribute refers to."""
        index = self.part(node, name)
        if index is None:
            return []
        found = self.values.node(index)
        if kind_of(found) not in ("Map", "StrMap"):
            raise Bad(f"node {index} is no map")
        data = [self._number(n) for n in items(found.get("data", []))]
        if "keys" in found:
            return list(zip(map(text, items(found["keys"], len(data))), data, strict=True))
        if len(data) % 2:
            raise Bad(f"map {index} has a key without a value")
        return list(zip(data[::2], data[1::2], strict=True))

    def _number(self, value: Any) -> int:
        self.values.node(value)
        return int(value)

    def name(self, node: Node, field: str = "name_hint") -> str:
        """A name: a text, or the number of a node that is one."""
        raw = text(mapping(node.get("attrs")).get(field))
        number = reference(raw)
        value = raw if number is None else self.values.value(number)
        if not isinstance(value, str) or not value:
            raise Bad(f"{node['type_key']} has no {field}")
        return value

    def span(self, node: Node) -> Span | None:
        """The place of a node in a source; None where it has none."""
        index = reference(str(mapping(node.get("attrs", {})).get("span", "0")))
        if index is None:
            return None
        if index not in self._spans:
            self._spans[index] = self._span(self.values.node(index))
        return self._spans[index]

    def _span(self, node: Node) -> Span | None:
        for _ in range(_MAX_DEPTH):  # spans of spans, of which the first counts
            if kind_of(node) != "SequentialSpan":
                break
            first = self.several(node, "spans")[:1]
            if not first:
                return None
            node = self.values.node(first[0])
        if kind_of(node) != "Span":
            return None
        source = self.values.node(number_in(node, "source_name"))
        places = [number_in(node, name) for name in ("line", "column", "end_line", "end_column")]
        return Span(text(source.get("repr_str", "")), *places)

    # ------------------------------------------------------------------ types

    def type(self, index: int | None) -> Type | None:
        """The type of that node; None for null, and for one that is left to inference. Each `?` is a dim of its own."""
        return None if index is None else self._shared.read(index, lambda: self._type(index))

    def _type(self, index: int) -> Type | None:
        node = self.values.node(index)
        match kind_of(node):
            case "TensorType":
                return self._tensor(node)
            case "TupleType":
                return TupleType(self._types(node, "fields"))
            case "FuncType":
                bound = tuple(self.type_var(n) for n in self.several(node, "type_params"))
                args = self._types(node, "arg_types")
                return FuncType(args, self._required(self.part(node, "ret_type")), bound)
            case "RefType" | "RelayRefType":
                return RefType(self._required(self.part(node, "value")))
            case "TypeVar":
                return self.type_var(index)
            case "GlobalTypeVar":
                return self.header(index)
            case "TypeCall":
                func = self._required(self.part(node, "func"))
                args = self._types(node, "args")
                return TypeCall(func, args) if args else func
            case "IncompleteType":
                return None
            case kind:
                raise Bad(f"a type of kind {kind!r} cannot be read")

    def _types(self, node: Node, name: str) -> tuple[Type, ...]:
        return tuple([self._required(n) for n in self.several(node, name)])

    def _required(self, index: int | None) -> Type:
        found = self.type(index)
        if found is None:
            raise Bad("a type has a part that is not known")
        return found

    def _tensor(self, node: Node) -> TensorType:
        name = text(mapping(node.get("attrs")).get("dtype"))
        try:
            dtype = dt.dtype(name)
        except LegatoError as error:
            raise Bad(str(error)) from None
        return TensorType(tuple(self._dim(n) for n in self.several(node, "shape")), dtype)

    def _dim(self, index: int) -> Dim:
        if kind_of(self.values.node(index)) == "tir.Any":
            self._shared.opened += 1
            return fresh("d")
        value = self.values.value(index)
        found = const(value) if type(value) is int else value
        if not isinstance(found, Dim) or (type(value) is int and value < 0):
            raise Bad(f"node {index} is no dim")
        return found

    def type_var(self, index: int) -> TypeVar:
        """The type variable of that node."""
        if index not in self._vars:
            node = self.values.node(index)
            if kind_of(node) != "TypeVar" or mapping(node.get("attrs")).get("kind") != "0":
                raise Bad(f"node {index} is no variable for types")
            self._vars[index] = TypeVar(self.name(node))
        return self._vars[index]

    def header(self, index: int) -> GlobalTypeVar:
        """The name of a data type; the same for all nodes of that name."""
        node = self.values.node(index)
        if kind_of(node) != "GlobalTypeVar":
            raise Bad(f"node {index} is no name of a data type")
        name = self.name(node)
        return self._headers.setdefault(name, GlobalTypeVar(name))

    # ------------------------------------------------------------------ data types

    def define(self, index: int) -> None:
        """Reads the definition of a data type."""
        node = self.values.node(index)
        if kind_of(node) != "TypeData":
            raise Bad(f"node {index} is no data type")
        header = self.header(number_in(node, "header"))
        if header.name in self.data:
            raise Bad(f"data type {header.name} is defined twice")
        bound = tuple(self.type_var(n) for n in self.several(node, "type_vars"))
        made = []
        for tag, n in enumerate(self.several(node, "constructors")):
            found = self.values.node(n)
            if kind_of(found) != "Constructor" or n in self.constructors:
                raise Bad(f"node {n} is no constructor of {header.name}")
            made.append(Constructor(self.name(found), self._types(found, "inputs"), header, tag))
            self.constructors[n] = made[-1]
        self.data[header.name] = TypeData(header, bound, tuple(made))

    def constructor(self, index: int) -> Constructor:
        """The constructor of that node: one of a data type that was defined, by its place there or by its name."""
        if index not in self.constructors:
            node = self.values.node(index)
            header, name = self.header(number_in(node, "belong_to")), self.name(node)
            data = self.data.get(header.name)
            found = next((c for c in data.constructors if c.name == name), None) if data is not None else None
            if found is None:
                raise Bad(f"constructor {name} of {header.name} is not defined")
            self.constructors[index] = found
        return self.constructors[index]

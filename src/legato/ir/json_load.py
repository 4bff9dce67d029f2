"""Modules from JSON; the form is described in `json_format`. Everything is checked: a text from a stranger is safe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from legato.base.errors import CompileError, ParseError, TypeCheckError
from legato.base.limits import MAX_TEXT
from legato.ir._json_checks import Bad, entry_of, flag, items, load, mapping, number, pick, shown, text, wrong
from legato.ir._own_ops import Ops, op_table
from legato.ir._relay_metadata import is_node_graph
from legato.ir.attrs import make_attrs
from legato.ir.clauses import Clause, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from legato.ir.expr import Constructor, Expr, Function, GlobalVar, Var
from legato.ir.json_format import FORMAT, VERSION
from legato.ir.json_load_tables import LoadTables, kind_of
from legato.ir.json_nodes import CLASSES, FIELDS
from legato.ir.module import GlobalFunc, Module
from legato.ir.op import Op
from legato.ir.types import GlobalTypeVar, Type, TypeData, TypeVar
from legato.ir.verify import verify
from legato.tir.parser import parse_func

__all__ = ["load_json"]

Array = np.ndarray[Any, Any]
Json = Any

_TABLES: Final = ("sources", "spans", "dims", "data", "types", "arrays", "nodes", "functions")
_OPTIONAL: Final = frozenset({"type?", "binders", "attrs", "record"})  # fields that are left out where empty


def load_json(
    source: str,
    *,
    ops: Ops,
    name: str = "<json>",
    tensors: Mapping[str, Array] | None = None,
) -> Module:
    """The module that `save_json` wrote, with its types, spans and sharing, or one of TVM's (`tvm_json`), untyped;
    it is well-formed (`ir.verify`).

    ops are the operators that it may use, name names the text in errors, tensors are the arrays that it only names.
    ParseError, with the entry, for a text of another form or version; VerifyError for a module that is ill-formed.
    Linear in the length of the text.
    """
    if len(source) > MAX_TEXT:
        message = f"{name} has {len(source)} characters, more than the limit of {MAX_TEXT}"
        raise ParseError(message, hint="keep the weights in a file beside it")
    try:
        value = load(source)
        if is_node_graph(value):
            from legato.ir.tvm_json import module_of  # on use: hardly a file is one of TVM's

            module = module_of(value, ops)
        else:
            module = _Loader(op_table(ops), tensors).module(_header(value))
    except Bad as error:
        raise ParseError(f"{name}: {error}") from None
    verify(module)
    return module


def _header(value: Json) -> Mapping[str, Json]:
    if type(value) is not dict or value.get("legato") != FORMAT:
        raise Bad('this is no module: it does not begin with {"legato": "module"')
    if value.get("version") != VERSION or type(value["version"]) is not int:
        raise Bad(f"version {shown(value.get('version'))} cannot be read, only version {VERSION}")
    return entry_of(value, ("legato", "version", *_TABLES, "attrs", "constants"))


class _Loader:
    def __init__(self, ops: Mapping[str, Op], tensors: Mapping[str, Array] | None) -> None:
        self._ops = ops
        self._tables = tables = LoadTables(tensors)
        self._nodes: list[Expr] = []
        self._uids: list[int] = []
        self._globals: dict[str, int] = {}
        self._definitions: list[Json] = []
        self._types: list[TypeData] = []
        self._functions: dict[GlobalVar, GlobalFunc] = {}
        self._codecs: Mapping[str, Callable[[Json], Any]] = {
            "node": self._ref, "nodes": lambda v: tuple(map(self._ref, items(v))),
            "var": self._var_ref, "vars": lambda v: tuple(map(self._var_ref, items(v))),
            "type": tables.type, "type?": lambda v: None if v is None else tables.type(v),
            "dims": tables.shape_of, "array": tables.array, "flag": flag,
            "index": lambda v: number(v, 1 << 31, "an index"),
            "bindings": lambda v: tuple(self._binding(pair) for pair in items(v)),
            "clauses": lambda v: tuple(self._clause(pair) for pair in items(v)),
        }  # fmt: skip
        self._kinds: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], Callable[[Any], Expr]]] = {
            "var": (("var", "name"), ("ty", "span"), self._var), "global": (("name",), ("ty", "span"), self._global),
            "op": (("name",), (), self._op), "constructor": (("of",), (), lambda e: self._constructor(e["of"])),
        }  # fmt: skip

    def module(self, entries: Mapping[str, Json]) -> Module:
        """The module of all tables."""
        tables = self._tables
        add: Mapping[str, Callable[[Json], None]] = {
            "sources": tables.add_source, "spans": tables.add_span, "dims": tables.add_dim, "data": self._add_data,
            "types": tables.add_type, "arrays": tables.add_array, "nodes": self._add_node,
            "functions": self._add_function,
        }  # fmt: skip
        for name in _TABLES:
            if name == "nodes":
                _read_all("data", self._definitions, self._define)
            _read_all(name, entries[name], add[name])
        facts: dict[str, Mapping[str, Any]] = {}
        for name, read_value in (("attrs", tables.value), ("constants", tables.array)):
            try:
                facts[name] = {key: read_value(v) for key, v in mapping(entries[name]).items()}
            except Bad as error:
                raise _at(name, error) from None
        return Module(self._functions, {d.header: d for d in self._types}, facts["attrs"], facts["constants"])

    # ------------------------------------------------------------------ data types

    def _add_data(self, entry: Json) -> None:
        """Reads the name of a data type: types may refer to it before it is defined."""
        entry = entry_of(entry, ("name", "kind", "extern", "variables", "constructors"))
        self._tables.data.append(GlobalTypeVar(text(entry["name"]), kind_of(entry["kind"])))
        self._definitions.append(entry)

    def _define(self, entry: Mapping[str, Json]) -> None:
        """Reads the rest of the next data type."""
        header = self._tables.data[len(self._types)]
        variables = [self._tables.type(v) for v in items(entry["variables"])]
        bound = tuple(v for v in variables if isinstance(v, TypeVar))
        if len(bound) != len(variables):
            raise wrong("type variables", entry["variables"])
        constructors = []
        for tag, each in enumerate(items(entry["constructors"])):
            name, inputs, span = items(each, 3)
            types = tuple(self._tables.type(t) for t in items(inputs))
            constructors.append(Constructor(text(name), types, header, tag, span=self._tables.span(span)))
        self._types.append(TypeData(header, bound, tuple(constructors), flag(entry["extern"])))

    # ------------------------------------------------------------------ functions

    def _add_function(self, entry: Json) -> None:
        entry = entry_of(entry, ("global",), ("body", "program"))
        gv = self._ref(entry["global"])
        if not isinstance(gv, GlobalVar) or gv in self._functions:
            raise wrong("a function that is not defined yet", entry["global"])
        if ("body" in entry) == ("program" in entry):
            raise Bad('expected "body" or "program"')
        if "program" in entry:
            self._functions[gv] = parse_func(text(entry["program"]), f"@{gv.name}")
            return
        func = self._ref(entry["body"])
        if not isinstance(func, Function):
            raise wrong("a function", entry["body"])
        self._functions[gv] = func

    # ------------------------------------------------------------------ nodes

    def _ref(self, value: Json) -> Expr:
        return pick(value, self._nodes, "a node")

    def _var_ref(self, value: Json) -> Var:
        found = self._ref(value)
        if not isinstance(found, Var):
            raise wrong("the number of a variable", value)
        return found

    def _add_node(self, entry: Json) -> None:
        kind = entry.get("node") if type(entry) is dict else None
        if type(kind) is str and kind in FIELDS:
            self._nodes.append(self._plain(kind, entry))
        elif type(kind) is str and kind in self._kinds:
            names, optional, make = self._kinds[kind]
            self._nodes.append(make(entry_of(entry, ("node", *names), optional)))
        else:
            raise wrong("a node", entry)

    def _typed(self, entry: Mapping[str, Json]) -> dict[str, Any]:
        """The type and the span of a node."""
        ty: Type | None = self._tables.type(entry["ty"]) if "ty" in entry else None
        return {"ty": ty, "span": self._tables.span(entry.get("span"))}

    def _plain(self, kind: str, entry: Mapping[str, Json]) -> Expr:
        fields = FIELDS[kind]
        required = [name for name, codec in fields if codec not in _OPTIONAL]
        entry_of(entry, ("node", *required), ("ty", "span", *(name for name, codec in fields if codec in _OPTIONAL)))
        values: dict[str, Any] = {}
        for name, codec in fields:
            if codec == "record":
                values[name] = self._record(values["op"], entry.get(name))
            elif codec == "binders":
                read = self._tables.variables if kind == "function" else self._tables.arguments
                values[name] = read(entry.get(name, []))
            elif codec == "attrs":
                values[name] = self._tables.values(entry.get(name, {}))
            else:
                values[name] = self._codecs[codec](entry.get(name))
        return CLASSES[kind](**values, **self._typed(entry))

    def _record(self, callee: Expr, value: Json) -> Any:
        """The attributes of a call of `callee`."""
        if not isinstance(callee, Op):
            if value is not None:
                raise Bad("only operators take attributes")
            return None
        try:
            return make_attrs(callee, {} if value is None else self._tables.values(value))
        except TypeCheckError as error:
            raise Bad("; ".join((error.message, *error.details))) from None

    def _var(self, entry: Mapping[str, Json]) -> Var:
        which = number(entry["var"], len(self._uids) + 1, "a variable")
        if which < len(self._uids):
            return Var(text(entry["name"]), uid=self._uids[which], **self._typed(entry))
        made = Var(text(entry["name"]), **self._typed(entry))
        self._uids.append(made.uid)
        return made

    def _global(self, entry: Mapping[str, Json]) -> GlobalVar:
        name = text(entry["name"])
        if name in self._globals:
            return GlobalVar(name, uid=self._globals[name], **self._typed(entry))
        made = GlobalVar(name, **self._typed(entry))
        self._globals[name] = made.uid
        return made

    def _op(self, entry: Mapping[str, Json]) -> Op:
        found = self._ops.get(text(entry["name"]))
        if found is None:
            raise Bad(f"unknown operator {entry['name']!r}")
        return found

    def _constructor(self, value: Json) -> Constructor:
        data, tag = items(value, 2)
        return pick(tag, pick(data, self._types, "a data type").constructors, "a constructor")

    def _binding(self, value: Json) -> tuple[Var, Expr]:
        var, node = items(value, 2)
        return self._var_ref(var), self._ref(node)

    def _clause(self, value: Json) -> Clause:
        parts, body = items(value, 2)
        done: list[Pattern] = []  # read from the end: the parts of a pattern are made before it
        for part in reversed(items(parts)):
            done.append(self._pattern(part, done))
        if len(done) != 1:
            raise wrong("one pattern", parts)
        return Clause(done[0], self._ref(body))

    def _pattern(self, part: Json, done: list[Pattern]) -> Pattern:
        match part:
            case ["_"]:
                return PatternWildcard()
            case ["var", var]:
                return PatternVar(self._var_ref(var))
            case ["tuple", count]:
                return PatternTuple(_take(done, count))
            case ["constructor", data, tag, count]:
                return PatternConstructor(self._constructor([data, tag]), _take(done, count))
            case _:
                raise wrong("a part of a pattern", part)


def _read_all(name: str, entries: Json, read: Callable[[Json], None]) -> None:
    """Reads the entries of a table in order."""
    try:
        listed = items(entries)
    except Bad as error:
        raise _at(name, error) from None
    for i, entry in enumerate(listed):
        try:
            read(entry)
        except (Bad, CompileError) as error:
            raise _at(f"{name}[{i}]", error) from None


def _at(place: str, error: Bad | CompileError) -> Bad:
    """The error, with the place of what is wrong."""
    return Bad(f"{place}: {error.message if isinstance(error, CompileError) else error}")


def _take(done: list[Pattern], count: Json) -> tuple[Pattern, ...]:
    """The last `count` patterns, latest first; they are removed."""
    n = number(count, len(done) + 1, "a number of parts")
    return tuple(done.pop() for _ in range(n))

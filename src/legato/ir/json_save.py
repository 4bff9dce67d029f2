"""Modules to JSON; the form is described in `json_format`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from legato.base.errors import CompileError
from legato.base.limits import MAX_TEXT
from legato.ir.clauses import Clause, Pattern, PatternConstructor, PatternTuple, PatternVar
from legato.ir.expr import Constructor, Expr, Function, GlobalVar, Var
from legato.ir.json_format import FORMAT, VERSION
from legato.ir.json_nodes import FIELDS, KINDS
from legato.ir.json_save_tables import SaveTables
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.ir.types import TypeData
from legato.tir.printer import show as show_tir

__all__ = ["save_json"]

Array = np.ndarray[Any, Any]
Json = Any


def save_json(module: Module, *, tensors: dict[str, Array] | None = None) -> str:
    """`module` as JSON text, with everything in it: types, spans, sharing, constants. `json_load` reads it.

    tensors: a dictionary that receives the arrays of more than 1 KB by name, for a side file; None: they are in the
    text, in base64. CompileError for what has no JSON form: an attribute of a class of its own, a type nested more
    than 100 deep, names that the module does not define, more than 2**28 characters. Linear in the module's size.
    """
    text = _Saver(module, tensors).text()
    if len(text) > MAX_TEXT:
        raise CompileError(
            f"the module's JSON would have {len(text)} characters, more than the limit of {MAX_TEXT}",
            hint="pass tensors={}, or save to a file: large constants then lie in a side file",
        )
    return text


class _Saver:
    def __init__(self, module: Module, tensors: dict[str, Array] | None) -> None:
        self._module = module
        self._data = {header: i for i, header in enumerate(module.types)}
        self._tables = SaveTables(self._data, tensors)
        self._constructors = {
            id(c): [self._data[header], c.tag] for header, data in module.types.items() for c in data.constructors
        }
        self._nodes: list[Json] = []
        self._node: dict[int, int] = {}  # by identity; the module keeps them alive
        self._vars: dict[Var, int] = {}
        self._codecs: Mapping[str, Callable[[Any], Json]] = {
            "node": self._ref, "var": self._ref,
            "nodes": self._refs, "vars": self._refs,
            "type": self._tables.type, "type?": lambda t: None if t is None else self._tables.type(t),
            "dims": lambda dims: [self._tables.dim(d) for d in dims],
            "array": self._tables.array, "index": int, "flag": bool,
            "binders": self._tables.binders,
            "attrs": lambda attrs: self._tables.values(attrs, "a function"),
            "bindings": lambda pairs: [[self._ref(var), self._ref(value)] for var, value in pairs],
            "clauses": lambda clauses: [self._clause(c) for c in clauses],
        }  # fmt: skip

    def text(self) -> str:
        """The JSON text; one entry of a table a line."""
        module, tables = self._module, self._tables
        data = [self._type_data(d) for d in module.types.values()]
        functions = [self._function(gv, f) for gv, f in module.functions.items()]
        attrs = tables.values(module.attrs, "the module")
        constants = {name: tables.array(array) for name, array in module.constants.items()}
        lines = {
            "sources": tables.sources, "spans": tables.spans, "dims": tables.dims, "types": tables.types,
            "arrays": tables.arrays, "data": data, "nodes": self._nodes, "functions": functions,
        }  # fmt: skip
        parts = [f'{{"legato": "{FORMAT}", "version": {VERSION}']
        parts += [f'"{name}": {_lines(entries)}' for name, entries in lines.items()]
        parts += [f'"attrs": {_dumps(attrs)}', f'"constants": {_dumps(constants)}']
        return ",\n".join(parts) + "}\n"

    def _type_data(self, data: TypeData) -> Json:
        tables = self._tables
        return {
            "name": data.header.name,
            "kind": data.header.kind.value,
            "extern": data.extern,
            "variables": [tables.type(v) for v in data.type_vars],
            "constructors": [
                [c.name, [tables.type(t) for t in c.inputs], tables.span(c.span)] for c in data.constructors
            ],
        }

    def _function(self, gv: GlobalVar, func: Any) -> Json:
        if isinstance(func, Function):
            for node in post_order(func):
                self._ref(node)
            return {"global": self._ref(gv), "body": self._ref(func)}
        return {"global": self._ref(gv), "program": show_tir(func)}

    # ------------------------------------------------------------------ nodes

    def _refs(self, nodes: tuple[Expr, ...]) -> Json:
        return [self._ref(node) for node in nodes]

    def _ref(self, node: Expr) -> int:
        """The number of a node, whose operands have theirs."""
        found = self._node.get(id(node))
        if found is None:
            entry = self._entry(node)
            if not isinstance(node, Op | Constructor):  # found by name, with all that they have
                if node.ty is not None:
                    entry["ty"] = self._tables.type(node.ty)
                if node.span is not None:
                    entry["span"] = self._tables.span(node.span)
            found = self._node[id(node)] = len(self._nodes)
            self._nodes.append(entry)
        return found

    def _entry(self, node: Expr) -> dict[str, Json]:
        match node:
            case Var(name):
                return {"node": "var", "var": self._vars.setdefault(node, len(self._vars)), "name": name}
            case GlobalVar(name):
                if node not in self._module.functions:
                    raise CompileError(f"function @{name} is not defined in the module", span=node.span)
                return {"node": "global", "name": name}
            case Op(name=name):
                return {"node": "op", "name": name}
            case Constructor():
                return {"node": "constructor", "of": self._constructor(node)}
            case _ if type(node) in KINDS:
                return self._plain(node)
            case _:
                raise CompileError(f"{node!r} has no JSON form", span=node.span)

    def _plain(self, node: Expr) -> dict[str, Json]:
        kind = KINDS[type(node)]
        entry: dict[str, Json] = {"node": kind}
        for name, codec in FIELDS[kind]:
            value = getattr(node, name)
            made = self._record(node, value) if codec == "record" else self._codecs[codec](value)
            if made not in (None, [], {}) or codec in ("nodes", "vars", "dims", "clauses", "bindings"):
                entry[name] = made
        return entry

    def _record(self, node: Any, attrs: Any) -> Json:
        """The attributes of a call: every field of the operator's record."""
        if attrs is None:
            return None
        where = node.op.name if isinstance(node.op, Op) else "a call"
        return self._tables.values({f.name: getattr(attrs, f.name) for f in fields(attrs)}, where)

    def _constructor(self, node: Constructor) -> Json:
        found = self._constructors.get(id(node))
        if found is None:
            raise CompileError(f"constructor {node.name} of {node.belongs_to.name} is not one of the module's")
        return found

    def _clause(self, clause: Clause) -> Json:
        parts: list[Json] = []
        todo: list[Pattern] = [clause.pattern]
        while todo:
            top = todo.pop()
            match top:
                case PatternVar(var):
                    parts.append(["var", self._ref(var)])
                case PatternConstructor(constructor, patterns):
                    parts.append(["constructor", *self._constructor(constructor), len(patterns)])
                case PatternTuple(patterns):
                    parts.append(["tuple", len(patterns)])
                case _:
                    parts.append(["_"])
            todo += reversed(top.children())
        return [parts, self._ref(clause.body)]


def _dumps(value: Json) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _lines(entries: list[Json]) -> str:
    return "[\n" + ",\n".join(map(_dumps, entries)) + "\n]" if entries else "[]"

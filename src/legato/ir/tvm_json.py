"""Modules in the JSON of Apache TVM (`tvm.ir.save_json`, versions 0.10 to 0.19), which is read and not written.

    {"root": 1, "nodes": [node, …], "b64ndarrays": [text, …], "attrs": {"tvm_version": "0.18.0"}}

Nodes are described in `_relay_metadata`, with more kinds here: expressions, patterns, types, data types, the module. A
node is one object, so what is shared there is shared here. Types are those that the program states; what inference had
found is left to inference. Devices, targets and executors, which say how the original ran a program, are passed over.

Read from strangers: nodes are visited iteratively, and what is damaged, cyclic or not known is a ParseError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from legato.arith.expr import Var as DimVar
from legato.base.errors import CompileError
from legato.ir._dims import free_dims
from legato.ir._json_checks import Bad, mapping, text
from legato.ir._own_ops import Ops, op_table
from legato.ir._relay_metadata import NodeValues, number_in
from legato.ir._relay_ops import RENAMED
from legato.ir._text_calls import adapted_call
from legato.ir._tvm_attrs import read_attrs
from legato.ir._tvm_shared import Shared
from legato.ir._tvm_types import Node, TypeReader, kind_of
from legato.ir.clauses import Clause, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from legato.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import Type
from legato.ir.visit import free_vars

__all__ = ["module_of"]

# The parts of an expression that are expressions themselves, by its kind: a name is one, a name with * a list of them.
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "Call": ("op", "*args"), "Let": ("value", "body"), "If": ("cond", "true_branch", "false_branch"),
    "Tuple": ("*fields",), "TupleGetItem": ("tuple_value",), "RefCreate": ("value",), "RefRead": ("ref",),
    "RefWrite": ("ref", "value"), "Function": ("body",), "Match": ("data", "*clauses"), "Clause": ("rhs",),
    "Var": (), "GlobalVar": (), "Op": (), "Constructor": (), "Constant": (),
}  # fmt: skip
# Attributes of modules and functions that say how the original ran a program.
_OF_RUNS: Final = frozenset(
    ("Executor", "Runtime", "Target", "VirtualDevice", "WorkspaceMemoryPools", "ConstantMemoryPools")
)


def module_of(value: Any, ops: Ops) -> Module:
    """The module that `tvm.ir.save_json` wrote as this JSON value, without types; an expression becomes its @main.

    `Bad` for what is damaged, and for what cannot be read; the caller verifies the module.
    """
    return _Loader(NodeValues(value), op_table(ops)).root(value["root"])


class _Loader:
    def __init__(self, values: NodeValues, ops: Mapping[str, Op]) -> None:
        self._values = values
        self._ops = ops
        self._types = TypeReader(values)
        self._shared = Shared("patterns")
        self._made: dict[int, Expr] = {}
        self._clauses: dict[int, Clause] = {}
        self._vars: dict[int, Var] = {}  # by their identity in the original, which is a node
        self._globals: dict[str, GlobalVar] = {}
        self._bound: set[DimVar] = set()  # dims of the functions that are being read
        self._own: dict[int, tuple[DimVar, ...]] = {}  # those that a function binds
        self._build: Mapping[str, Callable[[int, Node], Expr]] = {
            "Call": self._call, "Let": self._let, "Tuple": self._tuple, "Function": self._function,
            "Match": self._match, "Var": lambda i, n: self._var(i), "GlobalVar": self._global, "Op": self._operator,
            "Constructor": lambda i, n: self._types.constructor(i), "Constant": self._constant,
            "TupleGetItem": lambda i, n: TupleGetItem(self._part(n, "tuple_value"), number_in(n, "index")),
            "If": lambda i, n: If(*(self._part(n, p) for p in ("cond", "true_branch", "false_branch"))),
            "RefCreate": lambda i, n: RefCreate(self._part(n, "value")),
            "RefRead": lambda i, n: RefRead(self._part(n, "ref")),
            "RefWrite": lambda i, n: RefWrite(self._part(n, "ref"), self._part(n, "value")),
        }  # fmt: skip

    def root(self, index: Any) -> Module:
        """The module of the node that the JSON is of."""
        node = self._values.node(index)
        if kind_of(node) == "IRModule":
            return self._module(node)
        expr = self._expr(index)
        func = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
        return Module({GlobalVar("main"): func})

    def _module(self, node: Node) -> Module:
        for _, index in self._types.pairs(node, "type_definitions"):
            self._types.define(index)
        functions = {}
        for key, index in self._types.pairs(node, "functions"):
            gv = self._global(0, self._values.node(key)) if isinstance(key, int) else GlobalVar(key)
            kind = kind_of(self._values.node(index))
            if kind != "Function":
                raise Bad(f"@{gv.name} is a {kind}, which cannot be read: only functions of the graph are")
            if gv in functions:
                raise Bad(f"@{gv.name} is defined twice")
            func = self._expr(index)
            assert isinstance(func, Function)
            functions[gv] = func
        types = {data.header: data for data in self._types.data.values()}
        return Module(functions, types, self._attributes(node))

    def _attributes(self, node: Node) -> dict[str, Any]:
        """The attributes of a module or function by name, less those of runs."""
        index = self._types.part(node, "attrs") if "attrs" in mapping(node.get("attrs", {})) else None
        if index is None:
            return {}
        pairs = self._types.pairs(self._values.node(index), "__dict__")
        named = {text(key): value for key, value in pairs if kind_of(self._values.node(value)) not in _OF_RUNS}
        found = {key: self._values.value(value) for key, value in named.items()}
        return {key: value for key, value in found.items() if value is not None}

    # ------------------------------------------------------------------ expressions

    def _expr(self, root: int) -> Expr:
        """The expression of that node. Iteratively: its parts first."""
        todo: list[tuple[int, bool]] = [(root, False)]
        open_nodes: set[int] = set()
        while todo:
            index, are_parts_made = todo.pop()
            if are_parts_made:
                self._finish(index)
                open_nodes.discard(index)
            elif index not in self._made and index not in self._clauses:
                if index in open_nodes:
                    raise Bad(f"node {index} is a part of itself")
                open_nodes.add(index)
                todo.append((index, True))
                todo += [(n, False) for n in reversed(self._enter(index))]
        if root not in self._made:
            raise Bad(f"node {root} is no expression")
        return self._made[root]

    def _enter(self, index: int) -> list[int]:
        """The parts of an expression, which are read before it; the dims of a function are bound from here on."""
        node = self._values.node(index)
        kind = kind_of(node)
        if kind not in _PARTS:
            raise Bad(f"an expression of kind {text(node.get('type_key'))!r} cannot be read")
        if kind == "Function":
            types = [self._var(n).ty for n in self._types.several(node, "params")]
            dims = dict.fromkeys(d for ty in types if ty is not None for d in free_dims(ty))
            self._own[index] = tuple(d for d in dims if d not in self._bound)
            self._bound.update(self._own[index])
        found: list[int] = []
        for part in _PARTS[kind]:
            found += self._types.several(node, part[1:]) if part[0] == "*" else [number_in(node, part)]
        return found

    def _finish(self, index: int) -> None:
        node = self._values.node(index)
        kind = kind_of(node)
        if kind == "Clause":
            self._clauses[index] = Clause(self._pattern(number_in(node, "lhs")), self._part(node, "rhs"))
            return
        try:
            self._made[index] = self._build[kind](index, node)
        except CompileError as error:
            raise Bad("; ".join((error.message, *error.details))) from None

    def _part(self, node: Node, name: str) -> Expr:
        found = self._made.get(number_in(node, name))
        if found is None:
            raise Bad(f"{node['type_key']}: {name} is no expression")
        return found

    def _list(self, node: Node, name: str) -> tuple[Expr, ...]:
        found = [self._made.get(n) for n in self._types.several(node, name)]
        if None in found:
            raise Bad(f"{node['type_key']}: {name} has what is no expression")
        return tuple(e for e in found if e is not None)

    def _var(self, index: int) -> Var:
        node = self._values.node(index)
        if kind_of(node) != "Var":
            raise Bad(f"node {index} is no variable")
        vid = number_in(node, "vid")
        if vid not in self._vars:
            ty = self._types.type(self._types.part(node, "type_annotation"))
            name = self._types.name(self._values.node(vid))
            self._vars[vid] = Var(name, ty=ty, span=self._types.span(node))
        return self._vars[vid]

    def _global(self, index: int, node: Node) -> GlobalVar:
        if kind_of(node) != "GlobalVar":
            raise Bad(f"a function is called by a {kind_of(node)}")
        name = self._types.name(node)
        return self._globals.setdefault(name, GlobalVar(name))

    def _operator(self, index: int, node: Node) -> Op:
        name = text(node.get("repr_str"))
        op = self._ops.get(name) or self._ops.get(RENAMED.get(name, ""))
        if op is None:
            raise Bad(f"there is no operator {name!r}")
        return op

    def _constant(self, index: int, node: Node) -> Constant:
        return constant(self._values.value(index), span=self._types.span(node))

    def _call(self, index: int, node: Node) -> Call:
        op, args, span = self._part(node, "op"), self._list(node, "args"), self._types.span(node)
        attrs = self._types.part(node, "attrs")
        if not isinstance(op, Op):
            if attrs is not None:
                raise Bad("a call of what is no operator has attributes")
            return Call(op, args, span=span)
        name = text(self._values.node(number_in(node, "op")).get("repr_str"))
        given = {} if attrs is None else read_attrs(op, name, self._values.node(attrs), self._values)
        return adapted_call(name, op, list(args), given, self._ops, span=span)

    def _let(self, index: int, node: Node) -> Let:
        var = self._var(number_in(node, "var"))
        return Let(var, self._part(node, "value"), self._part(node, "body"), span=self._types.span(node))

    def _tuple(self, index: int, node: Node) -> Tuple:
        return Tuple(self._list(node, "fields"), span=self._types.span(node))

    def _function(self, index: int, node: Node) -> Function:
        own = self._own.pop(index)
        self._bound.difference_update(own)
        params = tuple(self._var(n) for n in self._types.several(node, "params"))
        bound = tuple(self._types.type_var(n) for n in self._types.several(node, "type_params"))
        ret: Type | None = self._types.type(self._types.part(node, "ret_type"))
        body = self._part(node, "body")
        return Function(params, body, ret, (*bound, *own), self._attributes(node), span=self._types.span(node))

    def _match(self, index: int, node: Node) -> Match:
        clauses = [self._clauses.get(n) for n in self._types.several(node, "clauses")]
        if None in clauses:
            raise Bad("a match has what is no clause")
        complete = mapping(node.get("attrs")).get("complete") != "0"
        made = tuple(c for c in clauses if c is not None)
        return Match(self._part(node, "data"), made, complete, span=self._types.span(node))

    def _pattern(self, index: int) -> Pattern:
        return self._shared.read(index, lambda: self._read_pattern(index))

    def _read_pattern(self, index: int) -> Pattern:
        node = self._values.node(index)
        match kind_of(node):
            case "PatternWildcard":
                return PatternWildcard()
            case "PatternVar":
                return PatternVar(self._var(number_in(node, "var")))
            case "PatternTuple":
                return PatternTuple(self._patterns(node))
            case "PatternConstructor":
                constructor = self._types.constructor(number_in(node, "constructor"))
                return PatternConstructor(constructor, self._patterns(node))
            case kind:
                raise Bad(f"a pattern of kind {kind!r} cannot be read")

    def _patterns(self, node: Node) -> tuple[Pattern, ...]:
        return tuple([self._pattern(n) for n in self._types.several(node, "patterns")])

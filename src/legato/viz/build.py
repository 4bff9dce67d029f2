"""From a module to its graph. Walks are iterative: depth is bounded by memory only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from legato.ir._literals import scalar_text
from legato.ir._metadata import Metadata
from legato.ir._print_types import TypePrinter
from legato.ir.atoms import is_primitive
from legato.ir.call_tir import CALL_TIR
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple, PatternVar
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
)
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import Placement, Scope, operands, pattern_vars, place
from legato.ir.types import TensorType, TupleType, Type
from legato.lower.kernel_names import operators_of
from legato.viz.graph import Cluster, Graph, Node

__all__ = ["graph_of", "short_type"]

_CALLEES: Final = (Op, GlobalVar, Constructor)
_NAMES: Final[Mapping[type[Expr], tuple[str, str]]] = {
    If: ("if", "if"),
    Match: ("match", "match"),
    Tuple: ("tuple", "tuple"),
    Dataflow: ("tuple", "outputs"),
    RefCreate: ("reference", "ref"),
    RefRead: ("reference", "ref_read"),
    RefWrite: ("reference", "ref_write"),
    MatchCast: ("cast", "match_cast"),
}  # fmt: skip


def graph_of(mod: Module, lines: Mapping[int, int] | None = None) -> Graph:
    """The graph of `mod`, typed or not; `lines`: of its text, by id of the node (see `printer.show_with_lines`)."""
    nodes: list[Node] = []
    clusters: list[Cluster] = []
    for gv, func in mod.graph_functions():
        _Builder(gv.name, func, nodes, clusters, lines or {}).build()
    programs = tuple(gv.name for gv, func in mod.functions.items() if not isinstance(func, Function))
    return Graph(tuple(nodes), tuple(clusters), programs)


def short_type(ty: Type | None) -> str:
    """`float32[n, 4]`, as signatures of compiled programs have it (types nest shallowly)."""
    match ty:
        case None:
            return ""
        case TensorType(shape, dtype):
            return f"{dtype}[{', '.join(map(str, shape))}]" if shape else str(dtype)
        case TupleType(fields):
            return f"({', '.join(map(short_type, fields))}{',' if len(fields) == 1 else ''})"
        case _:
            return str(ty)


class _Builder:
    """Appends the nodes and clusters of one function of the module."""

    def __init__(
        self, name: str, root: Function, nodes: list[Node], clusters: list[Cluster], lines: Mapping[int, int]
    ) -> None:
        self.name, self.root, self.nodes, self.clusters, self.lines = name, root, nodes, clusters, lines
        self.placement: Placement = place(root)
        uses = self.placement.uses
        # A group that is called in one place is shown there, in the place of its call.
        self.groups: dict[int, Call] = {
            id(node.op): node
            for node in self.placement.order
            if isinstance(node, Call) and is_primitive(node.op) and uses[id(node.op)] == 1
        }
        self.scopes: dict[Scope, int] = {self.placement.root: -1}
        self.inside: dict[int, int] = {}  # clusters by id of the group or function
        self.values: dict[Var, Expr] = {}  # what lets and calls of groups bind
        self.known: dict[Var, int] = {}  # parameters, and parts of matched values, as nodes
        self.matched: dict[Var, Match] = {}
        self.index: dict[int, int] = {}
        self.recursive: dict[int, list[Var]] = {}  # names of values in these values, by id of the value
        self.types = TypePrinter()

    def build(self) -> None:
        """All of them: what is around comes first, then values in the order of evaluation."""
        for node in reversed(self.placement.order):
            self._scope(node)
        for node in self._order():
            made = self._visit(node)
            if made is not None:
                self.index[id(node)] = made
                for var in self.recursive.pop(id(node), ()):  # behind the closure its name means the closure
                    self.index[id(var)] = made
        for key, cluster in self.inside.items():
            found = self.index[key]
            if self.clusters[cluster].kind == "closure":  # the function is a node of its own
                (found,) = self.nodes[found].inputs
            self.clusters[cluster] = replace(self.clusters[cluster], result=found)

    # ------------------------------------------------------------------ scopes

    def _scope(self, node: Expr) -> None:
        """The clusters of the scopes that a node opens, and what these bind."""
        opened = self.placement.inner.get(id(node))
        if opened is None:
            return
        own = self.scopes[self.placement.of[id(node)]]
        match node:
            case Function():
                self.scopes[opened[0]] = self.inside[id(node)] = self._function(node, own)
            case If():
                for scope, label in zip(opened, ("then", "else"), strict=True):
                    self.scopes[scope] = self._cluster(Cluster("branch", label, own))
            case Match(_, clauses):
                for scope, clause in zip(opened, clauses, strict=True):
                    self.scopes[scope] = self._cluster(Cluster("clause", _pattern(clause.pattern), own))
                    self.matched.update(dict.fromkeys(pattern_vars(clause.pattern), node))
            case Let(var, value):
                self.scopes[opened[0]] = own
                self.values[var] = value
            case Dataflow(bindings):
                self.scopes[opened[0]] = own
                self.values.update(bindings)

    def _cluster(self, cluster: Cluster) -> int:
        self.clusters.append(cluster)
        return len(self.clusters) - 1

    def _function(self, func: Function, own: int) -> int:
        call = self.groups.get(id(func))
        detail = ", ".join(self._attributes(func.attrs, "a function"))
        if call is not None:
            self.values.update(zip(func.params, call.args, strict=False))
            names = operators_of(func)
            made = Cluster("group", " + ".join(names) or "group", own, short_type(call.ty), detail)
            found = replace(made, span=_text(func.span or call.span), line=self._line(func), operators=names)
            return self._cluster(found)
        is_root = func is self.root
        made = Cluster("function" if is_root else "closure", f"@{self.name}" if is_root else "fn", own)
        ty = short_type(func.ret_type or func.body.ty)
        number = self._cluster(replace(made, type=ty, detail=detail, span=_text(func.span), line=self._line(func)))
        for param in func.params:
            self.nodes.append(
                Node("parameter", f"%{param.name}", short_type(param.ty), span=_text(param.span), cluster=number,
                     line=self._line(func))
            )  # fmt: skip
            self.known[param] = len(self.nodes) - 1
        return number

    # ------------------------------------------------------------------ values

    def _kids(self, node: Expr) -> tuple[Expr, ...]:
        """The operands, arguments of a group before the group."""
        if isinstance(node, Call) and id(node.op) in self.groups:
            return (*node.args, node.op)
        if isinstance(node, Call) and node.op is CALL_TIR and isinstance(node.args[1], Tuple):
            return node.args[1].fields
        return operands(node)

    def _order(self) -> Iterator[Expr]:
        seen: set[int] = set()
        stack: list[tuple[Expr, bool]] = [(self.root, False)]
        while stack:
            node, done = stack.pop()
            if done:
                yield node
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack += [(kid, False) for kid in reversed(self._kids(node)) if id(kid) not in seen]

    def _visit(self, node: Expr) -> int | None:
        """The number of what computes `node`, made unless it is there; None for what no value needs a node of."""
        match node:
            case Var():
                return self._var(node)
            case Let(_, _, body):
                return self._use(body)
            case Function() if node is self.root or id(node) in self.groups:
                return self._use(node.body)
            case Call(op) if id(op) in self.groups:
                return self.index[id(op)]
            case _ if isinstance(node, _CALLEES):
                return None
            case _:
                return self._add(node, *self._told(node))

    def _var(self, var: Var) -> int:
        if var in self.known:
            return self.known[var]
        value = self.values.get(var)
        if value is not None and (isinstance(value, _CALLEES) or id(value) in self.index):
            return self._use(value)
        if value is not None:
            self.recursive.setdefault(id(value), []).append(var)
            return self._add(var, "recursion", f"%{var.name}", "", (), self.inside.get(id(value), -1))
        match = self.matched.get(var)
        kind, inputs = ("parameter", ()) if match is None else ("pattern", (self._use(match.data),))
        found = self._add(var, kind, f"%{var.name}", "", inputs)
        if match is not None:
            self.known[var] = found
        return found

    def _use(self, node: Expr) -> int:
        """The number of an operand: functions and operators that are values become nodes here."""
        if id(node) not in self.index:
            name = f"@{node.name}" if isinstance(node, GlobalVar) else str(getattr(node, "name", "?"))
            self.index[id(node)] = self._add(node, "global", name, "", ())
        return self.index[id(node)]

    def _add(self, node: Expr, kind: str, label: str, detail: str, inputs: tuple[int, ...], cluster: int = -1) -> int:
        """The number of a new node, in `cluster`, or where the node is evaluated."""
        if cluster < 0:
            cluster = self.scopes.get(self.placement.of.get(id(node), self.placement.root), -1)
        if cluster < 0:
            cluster = self.inside[id(self.root)]
        data = node.data if isinstance(node, Constant) else None
        made = Node(kind, label, short_type(node.ty), detail, _text(node.span), inputs, cluster, self._line(node))
        self.nodes.append(made if data is None else replace(made, data=data))
        return len(self.nodes) - 1

    def _told(self, node: Expr) -> tuple[str, str, str, tuple[int, ...]]:
        """Kind, label, detail and inputs of a node."""
        match node:
            case Constant(data):
                literal = None if data.ndim else scalar_text(data)
                return "constant", literal or "constant", "", ()
            case Shape(dims):
                return "shape", f"shape[{', '.join(map(str, dims))}]", "", ()
            case Call():
                return self._call(node)
            case Function(params):
                label = f"fn ({', '.join(f'%{p.name}' for p in params)})"
                return "function", label, "", (self._use(node.body),)
            case TupleGetItem(value, index):
                return "field", f".{index}", "", (self._use(value),)
            case MatchCast(value, target):
                return "cast", "match_cast", short_type(target), (self._use(value),)
            case Dataflow(_, outputs):
                return *_NAMES[Dataflow], "", tuple(map(self._use, outputs))
            case _:
                return *_NAMES[type(node)], "", tuple(map(self._use, operands(node)))

    def _call(self, node: Call) -> tuple[str, str, str, tuple[int, ...]]:
        callee = node.op
        if callee is CALL_TIR and isinstance(node.args[1], Tuple):
            kernel, args = node.args
            return (
                "kernel",
                f"@{getattr(kernel, 'name', '?')}",
                ", ".join(node.attrs.operators),
                tuple(map(self._use, args.children())),
            )
        defaults = callee.text_defaults if isinstance(callee, Op) else None
        detail = ", ".join(self._attributes(node.attrs, "a call", defaults))
        inputs = tuple(map(self._use, node.args))
        match callee:
            case Op(name):
                return "operator", name, detail, inputs
            case GlobalVar(name):
                return "call", f"@{name}", detail, inputs
            case Constructor(name):
                return "construct", name, detail, inputs
            case _:
                return "call", "call", detail, (self._use(callee), *inputs)

    def _attributes(self, attrs: object, where: str, defaults: Mapping[str, object] | None = None) -> list[str]:
        return self.types.attrs(attrs, Metadata(), where, defaults)

    def _line(self, node: Expr) -> int:
        return self.lines.get(id(node), -1)


def _pattern(pattern: Pattern) -> str:
    """A pattern as text (patterns nest shallowly)."""
    match pattern:
        case PatternVar(var):
            return f"%{var.name}"
        case PatternConstructor(constructor, parts):
            return f"{constructor.name}({', '.join(map(_pattern, parts))})" if parts else constructor.name
        case PatternTuple(parts):
            return f"({', '.join(map(_pattern, parts))})"
        case _:
            return "_"


def _text(span: object) -> str:
    return "" if span is None else str(span)

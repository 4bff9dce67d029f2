"""Expressions as text.

A block is a list of statements and a result. Every node that computes gets a graph binding `%0 = …;`, in the block of
the scope where all of its uses meet (`ir.scope`) and in evaluation order; so sharing survives, and nesting in the text
is the nesting of scopes. Written in place instead are: what is used once as the result of a block or the value of a
let; tuples, projections and constructors without arguments used once, of plain operands; and leaves.

The walk is one depth-first pass over an explicit stack of steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from enum import Enum, auto
from functools import cached_property, partial
from typing import Any, Final

from legato.arith.expr import Const
from legato.arith.expr import Expr as DimExpr
from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.ir._dims import free_dims, parameters
from legato.ir._doc import Block, Pieces
from legato.ir._literals import scalar_text
from legato.ir._metadata import Metadata
from legato.ir._names import Names, bare, sigil
from legato.ir._print_types import TypePrinter
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple, PatternVar
from legato.ir.constraint import Constraint
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
from legato.ir.op import Op
from legato.ir.scope import Scope, operands, pattern_vars, place
from legato.ir.types import Dim, TensorType, Type, TypeVar

__all__ = ["Context", "ExprPrinter", "used_dims"]

_LEAVES: Final = (Var, GlobalVar, Constant, Constructor, Op, Shape)
_NESTED: Final = (Let, Function, If, Match, Dataflow)


@dataclass(slots=True)
class Context:
    """What the expressions of one text share. A constructor's name is qualified by its type's where `ambiguous`."""

    metadata: Metadata = field(default_factory=Metadata)
    ambiguous: frozenset[str] = frozenset()  # names of several constructors
    constructors: frozenset[str] = frozenset()
    type_names: frozenset[str] = frozenset()
    types: bool = False  # as comments
    spans: bool = False
    annotate: Callable[[Expr], str] | None = None  # a further comment, or ""
    mark: Callable[[Expr], str] | None = None  # what stands before the text of a function, and of what computes

    def constructor(self, node: Constructor) -> str:
        """The name of a constructor."""
        qualified = node.name in self.ambiguous
        return bare(f"{node.belongs_to.name}.{node.name}" if qualified else node.name)

    def operator(self, node: Op) -> str:
        """The name of an operator; `&name` where a constructor has it too."""
        return ("&" if node.name in self.constructors else "") + bare(node.name)

    def comment(self, node: Expr, types: TypePrinter) -> str:
        """What is said of a node behind it; empty if nothing is."""
        parts = []
        if self.types and node.ty is not None:
            parts.append(f"ty={types.type(node.ty)}")
        if self.spans and node.span is not None:
            parts.append(f"span={node.span}")
        if self.annotate is not None:
            parts.append(self.annotate(node))
        text = " ".join(filter(None, parts))
        return f" /* {_EDGES.sub(_apart, text)} */" if text else ""


_EDGES: Final = re.compile(r"/(?=\*)|\*(?=/)")  # what would begin or end a comment


def _apart(found: re.Match[str]) -> str:
    return f"{found.group()} "


class _Role(Enum):
    """What an expression is to the text around it."""

    RESULT = auto()  # the last line of a block
    VALUE = auto()  # the right-hand side of a let
    OPERAND = auto()


# (False, node, role) visits a node; (True, node, role) writes a plain one, whose operands are written by then.
Step = Callable[[], None] | tuple[bool, Expr, _Role]


class ExprPrinter:
    """Prints one expression with everything in it."""

    def __init__(self, root: Expr, context: Context) -> None:
        self._root = root
        self._context = context
        self._types = TypePrinter(context.type_names)
        self._names = Names()
        self._locals: dict[Var, str] = {}
        self._place = place(root)
        self._home = Block()  # where free variables are declared
        self._blocks: dict[Scope, Block] = {self._place.root: self._home}
        self._done: dict[int, Pieces] = {}
        self._simple: set[int] = set()  # nodes whose text is a name or a literal
        self._count = 0
        self._free: list[Pieces] = []
        self._steps: list[Step] = []
        self._told: set[DimVar] = set()  # dims that the text so far has named where they come from

    def function(self, keyword: str) -> Pieces:
        """The root, a function, as `keyword[params](…) -> T { … }`."""
        root = self._root
        assert isinstance(root, Function)
        self._told.update(p for p in parameters(root) if isinstance(p, DimVar))
        self._home = self._open(root)
        self._signature(root)
        self._run()
        listed = parameters(root)
        body = tuple(d for d in self._types.unbound() if d not in listed)
        head = self._types.binders(listed, body)
        self._home.lines[:0] = self._free
        mark = "" if self._context.mark is None else self._context.mark(root)
        return [f"{mark}{keyword}{head}", *self._done[id(root)]]

    def statements(self) -> Pieces:
        """The root as the content of a block: statements and the result, one a line."""
        self._visit(self._root, _Role.RESULT)
        self._run()
        lines: list[Pieces] = [[f"free_dim {self._types.binder(d)};"] for d in self._types.unbound()]
        lines += [*self._free, *self._home.lines]
        out: Pieces = []
        for line in lines:
            out += [*line, "\n"]
        return out + self._done[id(self._root)]

    def _run(self) -> None:
        while self._steps:
            step = self._steps.pop()
            if not isinstance(step, tuple):
                step()
                continue
            ready, node, role = step
            if ready:
                self._bind(node, self._inline(node, role), [self._plain(node)])
            else:
                self._visit(node, role)

    # ------------------------------------------------------------------ the walk

    def _visit(self, node: Expr, role: _Role) -> None:
        if id(node) in self._done:
            return
        if isinstance(node, _LEAVES) or (isinstance(node, Tuple) and not node.fields):
            self._simple.add(id(node))
            self._done[id(node)] = [self._leaf(node)]
            return
        if not isinstance(node, _NESTED):
            self._steps.append((True, node, role))
            for kid in operands(node):
                if isinstance(kid, _LEAVES):
                    self._visit(kid, _Role.OPERAND)
            self._steps += [(False, k, _Role.OPERAND) for k in reversed(operands(node)) if not isinstance(k, _LEAVES)]
            return
        after = partial(self._bind, node, self._inline(node, role))
        match node:
            case Let():
                self._let(node, after, joins=role is _Role.RESULT and self._place.uses[id(node)] == 1)
            case Function():
                self._open(node)
                self._steps.append(partial(self._closure, node, self._types.enter(node.type_params), after))
                self._signature(node)
            case If():
                self._if(node, after)
            case Match():
                self._match(node, after)
            case Dataflow():
                self._dataflow(node, after)

    def _inline(self, node: Expr, role: _Role) -> bool:
        """True if a node is written where it is used."""
        if self._place.uses[id(node)] > 1:
            return False
        if role is not _Role.OPERAND:
            return True
        small = isinstance(node, Tuple | TupleGetItem) or (isinstance(node, Call) and _is_nullary(node))
        return small and all(id(kid) in self._simple for kid in operands(node))

    def _open(self, node: Expr, slot: int = 0, block: Block | None = None) -> Block:
        """The block of scope `slot` of `node`, made unless given."""
        block = block or Block()
        self._blocks[self._place.inner[id(node)][slot]] = block
        return block

    def _result(self, block: Block, node: Expr) -> list[Step]:
        """The steps (last first) that make `node` the result of a block."""
        return [lambda: block.lines.append(self._done[id(node)]), (False, node, _Role.RESULT)]

    def _bind(self, node: Expr, inline: bool, pieces: Pieces) -> None:
        """Notes the text of a node: in place, or as a graph binding in the block where its uses meet."""
        comment = self._context.comment(node, self._types)
        if comment:
            pieces = [*pieces, comment]
        if self._context.mark is not None:
            pieces = [self._context.mark(node), *pieces]
        if not inline:
            name = f"%{self._count}"
            self._count += 1
            line = [f"{name}{self._own_dims(node)} = ", *pieces, ";"]
            self._blocks[self._place.of[id(node)]].lines.append(line)
            self._simple.add(id(node))
            pieces = [name]
        self._done[id(node)] = pieces

    @cached_property
    def _wanted(self) -> frozenset[DimVar]:
        """The dims that the text uses; asked for where there are dims."""
        return frozenset(used_dims(self._place.order))

    def _own_dims(self, node: Expr) -> str:
        """The type of a node behind its name, where it has dims of its own that the text uses elsewhere."""
        if isinstance(node, MatchCast):
            self._tell(node.target)  # which the text states in any case
            return ""
        return f": {self._types.type(node.ty)}" if node.ty is not None and self._tell(node.ty) else ""

    def _tell(self, ty: Type | None) -> bool:
        """Notes that a type stands where its dims come from; True if the text uses some that it had not named."""
        if ty is None or (isinstance(ty, TensorType) and ty.is_static):
            return False
        new = self._wanted.intersection(free_dims(ty)).difference(self._told)
        self._told |= new
        return bool(new)

    def _text(self, node: Expr) -> str:
        """The text of an operand."""
        return "".join(str(piece) for piece in self._done[id(node)])

    # ------------------------------------------------------------------ nodes that open scopes

    def _let(self, node: Let, after: Callable[[Pieces], None], joins: bool) -> None:
        """A let; one that `joins` continues the block that it is the result of."""
        block = self._open(node, 0, self._blocks[self._place.of[id(node)]] if joins else None)
        head = f"let {self._bound(node.var)} = "

        def line() -> None:
            block.lines.append([head, *self._done[id(node.value)], ";"])
            self._tell(node.var.ty)

        def join() -> None:
            self._done[id(node)] = self._done[id(node.body)]

        if joins:
            self._steps += [join, (False, node.body, _Role.RESULT)]
        else:
            self._steps += [lambda: after([block]), *self._result(block, node.body)]
        self._steps += [line, (False, node.value, _Role.VALUE)]

    def _signature(self, node: Function) -> None:
        """Schedules `(params) -> T { body }`, which becomes the text of the node."""
        params = [self._bound(p) for p in node.params]
        for param in node.params:
            self._tell(param.ty)
        params += self._types.attrs(node.attrs, self._context.metadata, "a function")
        ret = "" if node.ret_type is None else f" -> {self._types.type(node.ret_type)}"
        block = self._blocks[self._place.inner[id(node)][0]]

        def finish() -> None:
            self._done[id(node)] = [f"({', '.join(params)}){ret} ", block]

        self._steps += [finish, *self._result(block, node.body)]

    def _closure(
        self, node: Function, outer: dict[DimVar | TypeVar, str | None], after: Callable[[Pieces], None]
    ) -> None:
        head = self._types.binders(node.type_params)
        self._types.leave(outer)
        after([f"fn {head}", *self._done[id(node)]])

    def _if(self, node: If, after: Callable[[Pieces], None]) -> None:
        then, orelse = self._open(node, 0), self._open(node, 1)
        self._steps += [
            lambda: after([f"if ({self._text(node.cond)}) ", then, " else ", orelse]),
            *self._result(orelse, node.orelse),
            *self._result(then, node.then),
            (False, node.cond, _Role.OPERAND),
        ]

    def _match(self, node: Match, after: Callable[[Pieces], None]) -> None:
        outer = Block()
        steps: list[Step] = []
        for slot, clause in enumerate(node.clauses):
            for var in pattern_vars(clause.pattern):
                self._name(var)
                self._tell(var.ty)
            block = self._open(node, slot, Block(optional_braces=True))
            outer.lines.append([f"{self._pattern(clause.pattern)} => ", block, ","])
            steps += reversed(self._result(block, clause.body))
        word = "match" if node.complete else "match?"
        self._steps.append(lambda: after([f"{word} ({self._text(node.data)}) ", outer]))
        self._steps += reversed(steps)
        self._steps.append((False, node.data, _Role.OPERAND))

    def _dataflow(self, node: Dataflow, after: Callable[[Pieces], None]) -> None:
        block = self._open(node)
        for var, _ in node.bindings:
            self._name(var)

        def line(var: Var, value: Expr) -> None:
            block.lines.append([f"let {self._bound(var)} = ", *self._done[id(value)], ";"])
            self._tell(var.ty)

        def finish() -> None:
            block.lines.append([f"output({', '.join(map(self._text, node.outputs))})"])
            after(["dataflow ", block])

        self._steps.append(finish)
        self._steps += [(False, kid, _Role.OPERAND) for kid in reversed(node.outputs)]
        for var, value in reversed(node.bindings):
            self._steps += [partial(line, var, value), (False, value, _Role.VALUE)]

    # ------------------------------------------------------------------ variables and patterns

    def _name(self, var: Var) -> str:
        found = self._locals.get(var)
        if found is None:
            found = self._locals[var] = sigil("%", self._names.unique(var.name))
        return found

    def _bound(self, var: Var) -> str:
        """A variable where it is bound: with its type."""
        return self._name(var) if var.ty is None else f"{self._name(var)}: {self._types.type(var.ty)}"

    def _pattern(self, pattern: Pattern) -> str:
        match pattern:
            case PatternVar(var):
                return self._bound(var)
            case PatternConstructor(constructor, ()):
                return self._context.constructor(constructor)
            case PatternConstructor(constructor, patterns):
                return f"{self._context.constructor(constructor)}({', '.join(map(self._pattern, patterns))})"
            case PatternTuple(patterns):
                return _tuple([self._pattern(p) for p in patterns])
            case _:
                return "_"

    # ------------------------------------------------------------------ leaves and plain nodes

    def _leaf(self, node: Expr) -> str:
        match node:
            case Var():
                if node not in self._locals:
                    self._free.append([f"free_var {self._bound(node)};"])
                return self._locals[node]
            case GlobalVar(name):
                return sigil("@", name)
            case Op():
                return self._context.operator(node)
            case Constructor():
                name = self._context.constructor(node)
                return f"&{name}" if not node.inputs else name
            case Shape(dims):
                return f"shape[{', '.join(map(self._types.dim, dims))}]"
            case Constant(data):
                text = None if data.ndim else scalar_text(data)
                return self._context.metadata.refer(node, data) if text is None else text
            case _:
                return "()"

    def _plain(self, node: Expr) -> str:
        match node:
            case Call():
                return self._call(node)
            case Tuple(members):
                return _tuple([self._text(m) for m in members])
            case TupleGetItem(value, index):
                text = self._text(value)
                return f"({text}).{index}" if isinstance(value, Constant) else f"{text}.{index}"  # 0.0 is a number
            case RefCreate(value):
                return f"ref({self._text(value)})"
            case RefRead(ref):
                return f"ref_read({self._text(ref)})"
            case RefWrite(ref, value):
                return f"ref_write({self._text(ref)}, {self._text(value)})"
            case MatchCast(value, target):
                return f"match_cast({self._text(value)}, {self._types.type(target)})"
            case _:
                raise InternalError(f"{node!r} has no text form")

    def _call(self, node: Call) -> str:
        callee = node.op
        if isinstance(callee, Constructor) and _is_nullary(node):
            return self._context.constructor(callee)
        where, defaults = (callee.name, callee.text_defaults) if isinstance(callee, Op) else ("a call", None)
        args = [self._text(a) for a in node.args]
        args += self._types.attrs(node.attrs, self._context.metadata, where, defaults)
        return f"{self._text(callee)}{self._type_args(node.type_args)}({', '.join(args)})"

    def _type_args(self, args: tuple[Type | Dim, ...]) -> str:
        if not args:
            return ""
        texts = [
            self._types.type(a) if isinstance(a, Type)
            else self._types.dim(a) if isinstance(a, Const | DimVar)
            else f"dim[{self._types.dim(a)}]"
            for a in args
        ]  # fmt: skip
        return f"[{', '.join(texts)}]"


def used_dims(nodes: Sequence[Expr]) -> Iterator[DimVar]:
    """The dims in the text of nodes, but for the types of let variables, which are those of their values."""
    for node in nodes:
        match node:
            case Call(_, _, attrs, type_args):
                yield from _dims_in((type_args, attrs))
            case Shape(dims):
                yield from variables(*dims)
            case MatchCast(_, target):
                yield from free_dims(target)
            case Function(params, attrs=attrs):
                yield from _dims_in(tuple(p.ty for p in params))
                yield from _dims_in(attrs)
            case Match(_, clauses):
                yield from _dims_in(tuple(v.ty for c in clauses for v in pattern_vars(c.pattern)))


def _dims_in(value: Any) -> Iterator[DimVar]:
    """The dims in what stands in brackets or as an attribute."""
    todo = [value]
    while todo:
        match todo.pop():
            case DimExpr() as dim:
                yield from variables(dim)
            case Type() as ty:
                yield from free_dims(ty)
            case Constraint(a, b):
                yield from variables(a, b)
            case tuple() | list() as items:
                todo += items
            case Mapping() as items:
                todo += items.values()
            case record if is_dataclass(record):
                todo += [getattr(record, f.name) for f in fields(record)]


def _is_nullary(node: Call) -> bool:
    """True for a constructor that takes nothing and is given nothing: its name alone is the call."""
    return isinstance(node.op, Constructor) and not (node.op.inputs or node.args or node.type_args)


def _tuple(items: list[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"

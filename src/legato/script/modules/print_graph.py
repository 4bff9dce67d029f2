"""Graph functions as `@R.function`: what `graph` reads back is alpha-equal.

    @R.function                                     @R.function(form="graph")
    def main(x: R.Tensor(("n", 4), "float32")):     def main(x: R.Tensor(("n", 4), "float32")):
        y = R.nn.relu(x)         a let                  v = R.nn.relu(x)          a node that is used twice has a name
        return R.add(y, y)                              y = R.let(R.add(v, v))    a let
                                                        return y

Nodes are written where all of their uses meet (`ir.scope`), those that are used once and nest little in place. The walk
is one depth-first pass over a stack of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from legato.arith.expr import Var as DimVar
from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
from legato.ir._dims import free_dims
from legato.ir._print_exprs import used_dims
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
from legato.ir.op import Op
from legato.ir.scope import Scope, operands, pattern_vars, place
from legato.ir.types import TensorType, Type, TypeData, TypeVar
from legato.script.modules.let_form import MOST_NESTED, is_let_form, let_values, nesting, outputs_by_name, results
from legato.script.modules.print_calls import call_text, operator_text
from legato.script.modules.print_lines import HINT, Lines, Names, quoted
from legato.script.modules.print_scalars import tuple_text
from legato.script.modules.print_values import Arrays, Values

__all__ = ["Known", "KnownType", "show_graph"]

_LEAVES: Final = (Var, GlobalVar, Constant, Constructor, Op, Shape)
_VALUES: Final = (Var, Constant, Shape)  # leaves that the script knows as values: an assignment binds them

Block = list[Any]  # lines, heads of functions, and blocks inside, which are indented
Head = tuple[str, list[str], str]  # `def f`, parameters, ` -> type:`
Sink = Callable[[str], str]  # the line that gives the result of a block
_OUTPUT: Final[Sink] = "R.output({})".format


@dataclass(frozen=True, slots=True)
class KnownType:
    """A data type, with the names that it and its constructors have in the script."""

    data: TypeData
    name: str
    constructors: Mapping[str, str]  # by their own names


@dataclass(frozen=True, slots=True)
class Known:
    """What a script knows of a module: the names in it of functions, and data types, by their own names."""

    functions: Mapping[str, str]
    types: Mapping[str, KnownType]


def show_graph(name: str, func: Function, lines: Lines, known: Known, arrays: Arrays) -> None:
    """Writes a typed function of a module.

    UnsupportedError for what nests too deeply, and names that mean nothing.
    """
    _Printer(func, known, arrays).function(name, lines)


class _Printer:
    """Prints one function of the module."""

    def __init__(self, func: Function, known: Known, arrays: Arrays) -> None:
        self.func = func
        self.known = known
        self.names = Names()
        self.place = place(func)
        self.outputs = outputs_by_name(self.place)
        self.values = Values(self.names, arrays)
        self.stated = {id(e) for node in self.place.order for e in (*let_values(node), *results(node))}
        self.blocks: dict[Scope, Block] = {}
        self.done: dict[int, str] = {}
        self.depth: dict[int, int] = {}
        self.steps: list[Callable[[], None]] = []
        self.inner: set[DimVar] = set()  # dims of local functions
        self.names_module = False
        self.read = {node for node in self.place.order if isinstance(node, Var)}
        self.values.bound |= set(_bound(self.place.order))  # dims that parameters and casts bind
        self.wanted = frozenset(used_dims(self.place.order)) - self.values.bound  # those that values have first
        self.is_let = is_let_form(self.place, self.wanted.difference(_of_patterns(self.place.order)))

    def function(self, name: str, lines: Lines) -> None:
        """The function with its decorator."""
        written = self.known.functions.get(name, name)
        body, head = self._function(self.func, written)
        while self.steps:
            self.steps.pop()()
        options = [] if self.is_let else ['form="graph"']
        options += [*([] if written == name else [f"name={quoted(name)}"]), *self._options(self.func)]
        if self.values.bounds:
            options.append(f"bounds={self.values.bounds!r}")
        lines.add(f"@R.function({', '.join(options)})" if options else "@R.function")
        lines.listed(head[0], head[1], head[2])
        told = self.inner | self.values.own  # where they are bound
        for v in (d for d in self.values.dims if d not in told):
            lines.add(f"{self.names(v)} = T.int64()", lines.depth + 1)
        if self.names_module:
            lines.add("cls = Module", lines.depth + 1)
        todo: list[tuple[Any, int]] = [(body, lines.depth)]
        while todo:
            item, depth = todo.pop()
            if isinstance(item, str):
                lines.add(item, depth)
            elif isinstance(item, tuple):
                lines.listed(item[0], item[1], item[2], depth)
            else:
                todo += [(i, depth + 1) for i in reversed(item)]

    def _options(self, func: Function) -> list[str]:
        """Type parameters, where they are not the dims of the parameters in their order."""
        named = tuple(dict.fromkeys(v for p in func.params if p.ty is not None for v in free_dims(p.ty)))
        usual = named == func.type_params or not func.type_params
        return [] if usual else [f"type_params={self.values.parameters(func.type_params)}"]

    def _function(self, func: Function, name: str) -> tuple[Block, Head]:
        """Schedules the body of a function; the block that it will be in, and what stands above it."""
        for d in func.type_params:
            if isinstance(d, DimVar):
                self.values.dim(d)
        of = partial(self.values.type, in_head=True)
        params = [f"{self.names(p)}{'' if p.ty is None else f': {of(p.ty)}'}" for p in func.params]
        ret = ""
        if func.ret_type is not None and self._is_told(func.ret_type, func.body.ty):
            ret = f" -> {of(func.ret_type)}"
        block = self._open(func, 0)
        if func.attrs:
            block.append(f"R.func_attr({self.values.value(dict(func.attrs))})")
        self._emit(func.body, block, "return {}".format)
        return block, (f"def {name}", params, f"{ret}:")

    def _is_told(self, ret: Type, body: Type | None) -> bool:
        """Whether the script says the result's type: its dims are bound, or it hides those of the body, which would be
        inferred, behind dims of its own."""
        unbound = set(free_dims(ret)) - self.values.bound
        if unbound and (body is None or not unbound.isdisjoint(free_dims(body))):
            return False
        self.values.bound.update(unbound)
        return True

    # ------------------------------------------------------------------ blocks

    def _open(self, node: Expr, slot: int, block: Block | None = None) -> Block:
        made: Block = [] if block is None else block
        self.blocks[self.place.inner[id(node)][slot]] = made
        return made

    def _emit(self, node: Expr, block: Block, sink: Sink) -> None:
        """Schedules `node` as the result of a block."""
        if self.place.uses[id(node)] == 1:
            if isinstance(node, Let):
                self._open(node, 0, block)
                self.steps.append(partial(self._emit, node.body, block, sink))
                self._bind(node.var, node.value, block)
                return
            if isinstance(node, If | Match) and sink is not _OUTPUT:
                self._choice(node, block, sink)
                return
        self.steps += [lambda: block.append(sink(self.done[id(node)])), partial(self._visit, node)]

    def _bind(self, var: Var, value: Expr, block: Block) -> None:
        """Schedules a let."""
        name = self.names(var)
        if self.place.uses[id(value)] == 1:
            if isinstance(value, Function):
                self._local(value, name, block, is_let=True)
                return
            if isinstance(value, Dataflow) and (var in self.outputs or self.is_let):
                self._dataflow(value, name, block, self.outputs.get(var))
                return
            if self.is_let and isinstance(value, If | Match):
                self._choice(value, block, f"{name} = {{}}".format)
                return

        def line() -> None:
            is_new = self._states(var.ty)
            stated = self._annotation(var.ty) if is_new or var.ty not in (None, value.ty) else ""
            text = self.done[id(value)]
            if var.name == "_" and var not in self.read and not stated and isinstance(value, Call | RefWrite):
                block.append(text)  # for its effects
                return
            is_plain = self.is_let and (operands(value) or isinstance(value, _VALUES))
            block.append(f"{name}{stated} = {text if is_plain else f'R.let({text})'}")

        self.steps += [line, partial(self._visit, value)]

    def _local(self, func: Function, name: str, block: Block, *, is_let: bool) -> None:
        """Schedules a function inside the function."""

        def finish() -> None:
            options = [*(["let=True"] if is_let and not self.is_let else []), *self._options(func)]
            block.extend([f"@R.function({', '.join(options)})" if options else "@R.function", head, body])

        self.steps.append(finish)
        self.inner |= {d for d in func.type_params if isinstance(d, DimVar)}
        body, head = self._function(func, name)

    def _choice(self, node: If | Match, block: Block, sink: Sink) -> None:
        """Schedules an if or a match whose branches give their results to `sink`."""
        ends = results(node)
        bodies = [self._open(node, slot) for slot in range(len(ends))]
        subject = node.cond if isinstance(node, If) else node.data

        def finish() -> None:
            text = self.done[id(subject)]
            if isinstance(node, If):
                block.extend([f"if {text}:", bodies[0], "else:", bodies[1]])
                return
            cases = [part for head, body in zip(heads, bodies, strict=True) for part in (f"case {head}:", body)]
            block.extend([f"match {text if node.complete else f'R.partial({text})'}:", cases])

        heads = [] if isinstance(node, If) else [self._pattern(c.pattern) for c in node.clauses]
        for body, clause in zip(bodies, node.clauses if isinstance(node, Match) else (), strict=False):
            new = [v for v in pattern_vars(clause.pattern) if self._states(v.ty)]
            body += [f"{self.names(v)}{self._annotation(v.ty)}" for v in new]
        self.steps.append(finish)
        self.steps += [
            partial(self._emit, *ends_)
            for ends_ in zip(reversed(ends), reversed(bodies), [sink] * len(ends), strict=True)
        ]
        self.steps.append(partial(self._visit, subject))

    def _dataflow(self, node: Dataflow, name: str, block: Block, outputs: Sequence[Var] | None) -> None:
        """Schedules a dataflow block, called `name`, or of which `outputs` are all that is named behind it."""
        body = self._open(node, 0)

        def output() -> None:
            body.append(f"R.output({', '.join(self.done[id(o)] for o in node.outputs)})")
            block.extend([f"with R.dataflow(){'' if outputs else f' as {name}'}:", body])

        self.steps.append(output)
        self.steps += [partial(self._visit, o) for o in reversed(node.outputs)]
        self.steps += [partial(self._bind, v, e, body) for v, e in reversed(node.bindings)]

    # ------------------------------------------------------------------ nodes

    def _visit(self, node: Expr) -> None:
        if id(node) in self.done:
            return
        if isinstance(node, _LEAVES):
            self.done[id(node)], self.depth[id(node)] = self._leaf(node), 0
            return
        home = self.blocks[self.place.of[id(node)]]
        if isinstance(node, Function | If | Match | Dataflow | Let):
            self._nested(node, self.names.new("v"), home)
            return
        self.steps.append(partial(self._plain, node, home))
        self.steps += [partial(self._visit, k) for k in reversed(operands(node)) if not _is_called(k, node)]

    def _nested(self, node: Expr, name: str, home: Block) -> None:
        """Schedules a node that opens blocks; it gets a name."""
        self.done[id(node)], self.depth[id(node)] = name, 0
        if self._states(node.ty):
            self.steps.append(lambda: home.append(f"{name}{self._annotation(node.ty)} = {name}"))
        match node:
            case Function():
                self._local(node, name, home, is_let=False)
            case If() | Match():
                self._choice(node, home, f"{name} = {{}}".format)
            case Dataflow():
                self._dataflow(node, name, home, None)
            case Let():
                block = self._open(node, 0)
                self.steps.append(lambda: home.extend([f"with R.seq() as {name}:", block]))
                self.steps.append(partial(self._emit, node.body, block, _OUTPUT))
                self._bind(node.var, node.value, block)

    def _plain(self, node: Expr, home: Block) -> None:
        text, depth = self._text(node), nesting(node, self.depth)
        is_used_once = self.place.uses[id(node)] == 1
        in_place = is_used_once and (depth <= MOST_NESTED or id(node) in self.stated)
        stated = not (is_used_once and id(node) in self.stated) and self._states(node.ty)
        if not self.is_let and (stated or not in_place):
            name = self.names.new("v")
            home.append(f"{name}{self._annotation(node.ty) if stated else ''} = {text}")
            text, depth = name, 0
        self.done[id(node)], self.depth[id(node)] = text, depth

    # ------------------------------------------------------------------ text

    def _states(self, ty: Type | None) -> bool:
        """Whether a type has dims that come from data, which the text uses and has not seen yet: it has, then."""
        if ty is None or not self.wanted or (isinstance(ty, TensorType) and ty.is_static):
            return False
        new = self.wanted.intersection(free_dims(ty)) - self.values.bound
        self.values.bound |= new
        return bool(new)

    def _annotation(self, ty: Type | None) -> str:
        return "" if ty is None else f": {self.values.type(ty)}"

    def _leaf(self, node: Expr) -> str:
        match node:
            case Var():
                if node not in self.names:
                    raise UnsupportedError(f"%{node.name} is bound nowhere", hint=HINT)
                return self.names(node)
            case GlobalVar(name):
                if name not in self.known.functions:
                    raise UnsupportedError(f"@{name} is a function of a module", hint="print the module")
                self.names_module = True
                return f"cls.{self.known.functions[name]}"
            case Constructor(name, _, belongs_to):
                data = self.known.types.get(belongs_to.name)
                if data is None:
                    raise UnsupportedError(f"{belongs_to.name} is a data type of a module", hint="print the module")
                self.names_module = True
                return f"cls.{data.name}.{data.constructors[name]}"
            case Shape(dims):
                return f"R.shape([{', '.join(map(self.values.dim, dims))}])"
            case Constant(data):
                return self.values.arrays.constant(data)
            case Op():
                return operator_text(node)
        raise UnsupportedError(f"a script has no text for {type(node).__name__}", hint=HINT)

    def _text(self, node: Expr) -> str:
        done = self.done
        match node:
            case Tuple(members):
                text = tuple_text([done[id(m)] for m in members])
                return text if any(not isinstance(m, Op) for m in members) else f"R.tuple{text}"
            case TupleGetItem(value, index):
                outputs = self.outputs.get(value) if isinstance(value, Var) else None
                if outputs:
                    return self.names(outputs[index])
                text = done[id(value)]
                return f"R.tuple{text}[{index}]" if text.startswith("(") else f"{text}[{index}]"
            case MatchCast(value, target):
                return f"R.match_cast({done[id(value)]}, {self.values.type(target)})"
            case RefCreate(value):
                return f"R.ref({done[id(value)]})"
            case RefRead(ref):
                return f"R.ref_read({done[id(ref)]})"
            case RefWrite(ref, value):
                return f"R.ref_write({done[id(ref)]}, {done[id(value)]})"
            case Call():
                return call_text(node, lambda e: done[id(e)], self.values, self._variables)
        raise UnsupportedError(f"a script has no text for {type(node).__name__}", hint=HINT)

    def _variables(self, constructor: Constructor) -> tuple[TypeVar, ...]:
        """The type variables of the data type of a constructor."""
        return self.known.types[constructor.belongs_to.name].data.type_vars

    def _pattern(self, pattern: Pattern) -> str:
        """A pattern of a match; its dims that are new are those of its variables."""
        match pattern:
            case PatternVar(var):
                return self.names(var)
            case PatternConstructor(constructor, parts):
                return f"{self._leaf(constructor)}({', '.join(map(self._pattern, parts))})"
            case PatternTuple(parts):
                return tuple_text(list(map(self._pattern, parts)))
            case _:
                return "_"


def _is_called(operand: Expr, node: Expr) -> bool:
    """Whether it is the operator of a call, which that writes itself."""
    return isinstance(operand, Op) and isinstance(node, Call) and operand is node.op


def _of_patterns(order: Sequence[Expr]) -> Iterator[DimVar]:
    """The dims of parts of values: of variables of patterns."""
    for node in order:
        for clause in node.clauses if isinstance(node, Match) else ():
            yield from (d for v in pattern_vars(clause.pattern) if v.ty is not None for d in free_dims(v.ty))


def _bound(order: Sequence[Expr]) -> Iterator[DimVar]:
    for node in order:
        if isinstance(node, Function):
            yield from (d for d in node.type_params if isinstance(d, DimVar))
            yield from (d for p in node.params if p.ty is not None for d in free_dims(p.ty))
        elif isinstance(node, MatchCast):
            yield from free_dims(node.target)

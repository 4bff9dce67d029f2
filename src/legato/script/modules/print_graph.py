"""Graph functions as `@R.function`: what `graph` reads back is alpha-equal.

    @R.function(form="graph")
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        v = R.op.nn.relu(x)                  a node that is used twice has a name
        y = R.let(R.op.add(v, v))            a let
        return y

Nodes are written where all of their uses meet (`ir.scope`), those that are used once and nest little in place. The walk
is one depth-first pass over a stack of its own.
"""

from __future__ import annotations

import base64
import keyword
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import partial
from typing import Any, Final

import numpy as np

from legato.arith.expr import Const
from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.base.errors import UnsupportedError
from legato.ir import sugar
from legato.ir._dims import free_dims
from legato.ir._own_ops import op_table
from legato.ir.call_tir import CALL_TIR
from legato.ir.constraint import Constraint
from legato.ir.expr import (
    Call,
    Constant,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    MatchCast,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
)
from legato.ir.op import Op
from legato.ir.scope import Scope, operands, place
from legato.ir.types import FuncType, ShapeType, TensorType, TupleType, Type
from legato.script.modules.print_lines import Lines, Names
from legato.script.modules.print_scalars import scalar_texts, tuple_text

__all__ = ["show_graph"]

_LEAVES: Final = (Var, GlobalVar, Constant, Op, Shape)
_MOST: Final = 3  # calls that nest in one line
_INLINE: Final = 16  # elements of a constant that are written as numbers
_HINT: Final = "str(module) is the text of any program"

Block = list[Any]  # lines, and blocks inside, which are indented
Sink = Callable[[str], str]  # the line that gives the result of a block


def show_graph(name: str, func: Function, lines: Lines, globals_: Mapping[str, str]) -> None:
    """Writes a typed function. globals_: the names in the script of the module's functions.

    UnsupportedError for data types, cells, matches, and functions of any type.
    """
    _Printer(func, globals_).function(name, lines)


class _Printer:
    """Prints one function of the module."""

    def __init__(self, func: Function, globals_: Mapping[str, str]) -> None:
        self.func = func
        self.globals = globals_
        self.names = Names()
        self.place = place(func)
        self.blocks: dict[Scope, Block] = {}
        self.done: dict[int, str] = {}
        self.depth: dict[int, int] = {}
        self.bounds: dict[str, tuple[int | None, int | None]] = {}
        self.dims: dict[DimVar, None] = {}
        self.steps: list[Callable[[], None]] = []
        self.inner: set[DimVar] = set()  # dims of local functions
        self.bound = set(_bound(self.place.order))  # dims that parameters and casts bind

    def function(self, name: str, lines: Lines) -> None:
        """The function with its decorator."""
        written = self.globals[name]
        body, head = self._function(self.func, written)
        while self.steps:
            self.steps.pop()()
        options = ['form="graph"', *([] if written == name else [f"name={name!r}"]), *self._options(self.func)]
        if self.bounds:
            options.append(f"bounds={self.bounds!r}")
        lines.add(f"@R.function({', '.join(options)})")
        lines.add(head)
        for v in (d for d in self.dims if d not in self.inner):
            lines.add(f"{self.names(v)} = T.int64()", lines.depth + 1)
        if self.globals:
            lines.add("cls = Module", lines.depth + 1)
        todo: list[tuple[Any, int]] = [(body, lines.depth)]
        while todo:
            item, depth = todo.pop()
            if isinstance(item, str):
                lines.add(item, depth)
            else:
                todo += [(i, depth + 1) for i in reversed(item)]

    def _options(self, func: Function) -> list[str]:
        """Type parameters, where they are not the dims of the parameters in their order."""
        if not all(isinstance(p, DimVar) for p in func.type_params):
            raise UnsupportedError("a script has no type parameters but dims", hint=_HINT)
        named = tuple(dict.fromkeys(v for p in func.params if p.ty is not None for v in free_dims(p.ty)))
        usual = named == func.type_params or not func.type_params
        return [] if usual else [f"dims={tuple_text([repr(self._dim_name(p)) for p in func.type_params])}"]

    def _function(self, func: Function, name: str) -> tuple[Block, str]:
        """Schedules the body of a function; the block that it will be in, and the line above it."""
        for d in func.type_params:
            if isinstance(d, DimVar):
                self.dim(d)
        params = [f"{self.names(p)}{'' if p.ty is None else f': {self.type(p.ty, quoted=True)}'}" for p in func.params]
        ret = ""
        if func.ret_type is not None and self.bound.issuperset(free_dims(func.ret_type)):
            ret = f" -> {self.type(func.ret_type, quoted=True)}"
        block = self._open(func, 0)
        if func.attrs:
            block.append(f"R.func_attr({self.value(dict(func.attrs))})")
        self._emit(func.body, block, "return {}".format)
        return block, f"def {name}({', '.join(params)}){ret}:"

    # ------------------------------------------------------------------ the walk

    def _open(self, node: Expr, slot: int, block: Block | None = None) -> Block:
        made: Block = [] if block is None else block
        self.blocks[self.place.inner[id(node)][slot]] = made
        return made

    def _emit(self, node: Expr, block: Block, sink: Sink) -> None:
        """Schedules `node` as the result of a block."""
        if isinstance(node, Let) and self.place.uses[id(node)] == 1:
            self._open(node, 0, block)
            self.steps.append(partial(self._emit, node.body, block, sink))
            self._bind(node.var, node.value, block)
            return
        self.steps += [lambda: block.append(sink(self.done[id(node)])), partial(self._visit, node)]

    def _bind(self, var: Var, value: Expr, block: Block) -> None:
        """Schedules a let."""
        if isinstance(value, Function) and self.place.uses[id(value)] == 1:
            self._local(value, self.names(var), block, is_let=True)
            return

        def line() -> None:
            same = var.ty is None or var.ty == value.ty
            block.append(
                f"{self.names(var)}{'' if same else f': {self.type(var.ty)}'} = R.let({self.done[id(value)]})"  # type: ignore[arg-type]
            )

        self.steps += [line, partial(self._visit, value)]

    def _local(self, func: Function, name: str, block: Block, *, is_let: bool = False) -> None:
        def finish() -> None:
            options = [*(["let=True"] if is_let else []), *self._options(func)]
            block.extend([f"@R.function({', '.join(options)})" if options else "@R.function", head, body])

        self.steps.append(finish)
        self.inner |= {d for d in func.type_params if isinstance(d, DimVar)}
        body, head = self._function(func, name)

    def _visit(self, node: Expr) -> None:
        if id(node) in self.done:
            return
        if isinstance(node, _LEAVES):
            self.done[id(node)], self.depth[id(node)] = self._leaf(node), 0
            return
        home = self.blocks[self.place.of[id(node)]]
        match node:
            case Function() | If() | Dataflow() | Let():
                name = self.names.new("v")
                self._nested(node, name, home)
                return
            case Call() | Tuple() | TupleGetItem() | MatchCast():
                kids = operands(node)
                self.steps.append(partial(self._plain, node, home))
                self.steps += [partial(self._visit, k) for k in reversed(kids) if not isinstance(k, Op)]
            case _:
                raise UnsupportedError(f"a script has no text for {type(node).__name__}", hint=_HINT)

    def _nested(self, node: Expr, name: str, home: Block) -> None:
        """Schedules a node that opens blocks; it gets a name."""
        assign = f"{name} = {{}}".format

        def finish(parts: Block) -> None:
            home.extend(parts)

        self.done[id(node)], self.depth[id(node)] = name, 0
        match node:
            case Function():
                self._local(node, name, home)
            case If():
                then, orelse = self._open(node, 0), self._open(node, 1)
                self.steps += [
                    lambda: finish([f"if {self.done[id(node.cond)]}:", then, "else:", orelse]),
                    partial(self._emit, node.orelse, orelse, assign),
                    partial(self._emit, node.then, then, assign),
                    partial(self._visit, node.cond),
                ]
            case Dataflow():
                block = self._open(node, 0)

                def output() -> None:
                    block.append(f"R.output({', '.join(self.done[id(o)] for o in node.outputs)})")
                    finish([f"with R.dataflow() as {name}:", block])

                self.steps.append(output)
                self.steps += [partial(self._visit, o) for o in reversed(node.outputs)]
                self.steps += [partial(self._bind, v, e, block) for v, e in reversed(node.bindings)]
            case Let():
                block = self._open(node, 0)
                self.steps.append(partial(finish, [f"with R.seq() as {name}:", block]))
                self.steps.append(partial(self._emit, node.body, block, "R.output({})".format))
                self._bind(node.var, node.value, block)

    def _plain(self, node: Expr, home: Block) -> None:
        text = self._text(node)
        depth = 1 + max((self.depth.get(id(k), 0) for k in operands(node)), default=0)
        if self.place.uses[id(node)] > 1 or depth > _MOST:
            name = self.names.new("v")
            home.append(f"{name} = {text}")
            text, depth = name, 0
        self.done[id(node)], self.depth[id(node)] = text, depth

    # ------------------------------------------------------------------ text

    def _leaf(self, node: Expr) -> str:
        match node:
            case Var():
                if node not in self.names:
                    raise UnsupportedError(f"%{node.name} is bound nowhere", hint=_HINT)
                return self.names(node)
            case GlobalVar(name):
                if name not in self.globals:
                    raise UnsupportedError(f"@{name} is a function of a module", hint="print the module")
                return f"cls.{self.globals[name]}"
            case Shape(dims):
                return f"R.shape([{', '.join(map(self.dim, dims))}])"
            case Constant(data):
                return f"R.const({_array(data)})"
            case _:
                raise UnsupportedError("an operator that is a value has no text in a script", hint=_HINT)

    def _text(self, node: Expr) -> str:
        match node:
            case Tuple(members):
                return f"R.tuple({', '.join(self.done[id(m)] for m in members)})"
            case TupleGetItem(value, index):
                return f"{self.done[id(value)]}[{index}]"
            case MatchCast(value, target):
                return f"R.match_cast({self.done[id(value)]}, {self.type(target)})"
            case Call():
                return self._call(node)
        raise UnsupportedError(f"a script has no text for {type(node).__name__}", hint=_HINT)

    def _call(self, node: Call) -> str:
        args = [self.done[id(a)] for a in node.args]
        op = node.op
        if not isinstance(op, Op):
            return f"{self.done[id(op)]}({', '.join(args)})"
        if op is CALL_TIR:
            out = [self.type(t) for t in node.attrs.out]
            args.append(f"out_sinfo=[{', '.join(out)}]")
            if node.attrs.dims:
                args.append(f"tir_vars=[{', '.join(map(self.dim, node.attrs.dims))}]")
            if node.attrs.operators:
                args.append(f"operators={node.attrs.operators!r}")
            return f"R.call_tir({', '.join(args)})"
        if (sugar.operators().get(op.name) or op_table({}).get(op.name)) is not op:
            raise UnsupportedError(f"the operator {op.name} is none of the package", hint=_HINT)
        for f in () if op.attrs is None else fields(op.attrs):
            value = getattr(node.attrs, f.name)
            default = f.default if f.default is not MISSING else MISSING
            if type(default) is not type(value) or repr(default) != repr(value):
                args.append(f"{f.name}={self.value(value)}")
        parts = op.name.split(".")
        plain = all(p.isidentifier() and not keyword.iskeyword(p) and not p.startswith("_") for p in parts)
        return f"R.op{f'.{op.name}' if plain else f'[{op.name!r}]'}({', '.join(args)})"

    def dim(self, d: Dim) -> str:
        """A dim."""
        return scalar_texts([d], self._dim_name)[0]

    def _dim_name(self, v: Any) -> str:
        if isinstance(v, DimVar) and v not in self.bound:
            raise UnsupportedError(f"the dim {v.name} comes from data, and a script has no name for it", hint=_HINT)
        if isinstance(v, DimVar) and v not in self.dims:
            self.dims[v] = None
            if (v.lo, v.hi) != (0, None):
                self.bounds[self.names(v)] = (v.lo, v.hi)
        return self.names(v)

    def type(self, ty: Type, *, quoted: bool = False) -> str:
        """An annotation; dims are strings where Python looks at it."""
        of = partial(self.type, quoted=quoted)

        def dim(d: Dim) -> str:
            return self.dim(d) if isinstance(d, Const) or not quoted else f'"{self.dim(d)}"'

        match ty:
            case TensorType(shape, dtype):
                return f'R.Tensor({tuple_text([dim(d) for d in shape])}, "{dtype}")'
            case TupleType(members):
                return f"R.Tuple({', '.join(map(of, members))})"
            case ShapeType(dims):
                return "R.Shape()" if dims is None else f"R.Shape([{', '.join(map(dim, dims))}])"
            case FuncType(params, ret, bound) if all(isinstance(b, DimVar) for b in bound):
                self.bound.update(b for b in bound if isinstance(b, DimVar))
                self.inner.update(b for b in bound if isinstance(b, DimVar))
                own = f", dims={tuple_text([repr(self._dim_name(b)) for b in bound])}" if bound else ""
                return f"R.Callable({tuple_text([of(p) for p in params])}, {of(ret)}{own})"
        raise UnsupportedError(f"a script has no text for the type {ty}", hint=_HINT)

    def value(self, value: Any) -> str:
        """An attribute's value."""
        match value:
            case None | bool() | int() | str():
                return repr(value)
            case float():
                return repr(value) if np.isfinite(value) else f"-R.{str(value)[1:]}" if value < 0 else f"R.{value}"
            case dt.DType(name):
                return f'R.dtype("{name}")'
            case tuple() | list():
                return tuple_text([self.value(v) for v in value])
            case Mapping():
                return f"{{{', '.join(f'{k!r}: {self.value(v)}' for k, v in value.items())}}}"
            case Dim():
                return self.dim(value)
            case Type():
                return f"R.type({self.type(value)})"
            case Constraint(a, b, what):
                return f"R.constraint({self.dim(a)}, {self.dim(b)}, {what!r})"
            case np.ndarray():
                return f"R.array(R.const({_array(value)}))"
        raise UnsupportedError(f"a script has no text for an attribute that is a {type(value).__name__}", hint=_HINT)


def _bound(order: list[Expr]) -> Iterator[DimVar]:
    for node in order:
        if isinstance(node, Function):
            yield from (d for d in node.type_params if isinstance(d, DimVar))
            yield from (d for p in node.params if p.ty is not None for d in free_dims(p.ty))
        elif isinstance(node, MatchCast):
            yield from free_dims(node.target)


def _array(data: np.ndarray[Any, Any]) -> str:
    """An array: as numbers where they are few and give back the same bits, else as its bytes."""
    dtype = dt.dtype(data.dtype)
    numbers = data.tolist() if data.size <= _INLINE and data.size + (data.ndim < 2) > 0 else None
    if numbers is not None and (not dtype.is_float or bool(np.isfinite(data.astype(np.float64)).all())):
        return f'{numbers!r}, "{dtype}"'
    text = base64.b64encode(data.tobytes()).decode()
    return f'R.array("{text}", {data.shape!r}, "{dtype}"), "{dtype}"'

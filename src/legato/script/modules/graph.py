"""`@R.function`: a Python function read as a function of the graph.

    @R.function
    def main(x: R.Tensor(("n", 784), "float32")) -> R.Tensor(("n", 784), "float32"):
        with R.dataflow():
            y = R.nn.relu(x)                          let %gv = dataflow { let %y = nn.relu(%x); output(%y) };
            R.output(y)                       ⇒       %gv.0
        return y

An assignment binds what it computes. A dataflow block is a `Dataflow` node, whose outputs are the only names of it that
are known behind it. A name in a shape and the same name assigned `T.int64()` are one dim.
"""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, cast

import numpy as np

from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.base.errors import TypeCheckError, UnsupportedError
from legato.infer.builder import Builder
from legato.infer.holes import dim_vars, has_holes
from legato.ir._own_ops import operator_named
from legato.ir.clauses import Clause
from legato.ir.expr import Call, Constructor, Expr, Function, GlobalVar, Match, Tuple, TupleGetItem, Var, constant
from legato.ir.let import lets
from legato.ir.scope import operands, pattern_vars
from legato.ir.types import TensorType, Type, TypeVar, free_type_vars
from legato.script.modules.evaluate import Consequence, Evaluator, Outer, raise_all
from legato.script.modules.forms import NewVar
from legato.script.modules.graph_forms import (
    Dataflows,
    Declared,
    FunctionAttributes,
    LetForm,
    Options,
    Outputs,
    Partial,
    Sequences,
)
from legato.script.modules.names import Members
from legato.script.modules.operators import OPERATORS, OpForm
from legato.script.modules.patterns import read_pattern
from legato.script.modules.statements import assigned, given, returns
from legato.script.modules.types import DataForm, TypeVarForm, type_of, type_parameters, unnamed
from legato.script.modules.values import ReaderCall
from legato.script.source import Source
from legato.tir import scalars

__all__ = ["GraphReader", "declared", "graph_function"]


def declared(reader: GraphReader, node: ast.FunctionDef, options: Options) -> Declared:
    """The head of a function. CompileError where its annotations are none."""
    given = node.args
    reader.bounds = {**reader.bounds, **options.bounds}
    listed = type_parameters(options.type_params, reader.new_dim, reader.named_type)
    reader.names |= {v.name: v for v in listed if isinstance(v, DimVar)}
    if given.vararg or given.kwarg or given.kwonlyargs or given.defaults:
        raise reader.error(node, "parameters of a graph function have no defaults, and no stars")
    params = []
    for arg in (*given.posonlyargs, *given.args):
        ty = None if arg.annotation is None else _annotation(reader, arg.annotation)
        params.append(Var(arg.arg, ty=ty, span=reader.source.span(arg)))
    ret = None if node.returns is None else _annotation(reader, node.returns)
    own = {*reader.dims.maps[0].values(), *reader.type_vars.maps[0].values()}
    found = dict.fromkeys((*listed, *(v for p in params if p.ty is not None for v in _variables(p.ty))))
    return Declared(tuple(params), ret, tuple(v for v in found if v in own))


def _variables(ty: Type) -> Iterator[TypeVar | DimVar]:
    yield from dim_vars(ty)
    yield from free_type_vars(ty)


def _annotation(reader: GraphReader, node: ast.expr) -> Type | None:
    with reader.at(node):
        ty = reader.type(reader.value(node))
    return None if has_holes(ty) else ty


def graph_function(
    source: Source, node: ast.FunctionDef, outer: Outer, scope: Mapping[str, Any] | None = None,
    options: Options | None = None, members: Members | None = None,
) -> Function:  # fmt: skip
    """The function, untyped or typed in parts, that a function of a script says; `scope`: names that it may use."""
    reader = GraphReader(source, outer, members=members)
    reader.names |= scope or {}
    with reader.at(node):
        return reader.function(node, options or Options())


class GraphReader(Evaluator):
    """Reads one function, and the functions in it."""

    def __init__(
        self, source: Source, outer: Outer, builder: Builder | None = None, members: Members | None = None
    ) -> None:
        super().__init__(source, outer)
        self.members = members or Members({})
        self.b = builder or Builder(types=tuple(self.members.types.values()))
        self.type_vars: ChainMap[str, TypeVar] = ChainMap()  # of functions, innermost first
        self.outputs: list[tuple[str, Any]] | None = None  # of the dataflow block that is open
        self.attrs: dict[str, Any] = {}
        self.options = Options()
        self.parts: set[str] = set()  # names of variables of the pattern whose case is open

    def function(self, node: ast.FunctionDef, options: Options, head: Declared | None = None) -> Function:
        """A function of the module, or one inside of a function, whose head has been read."""
        self.options = options
        head = head or declared(self, node, options)
        self.names |= {p.name: p for p in head.params}
        for p in head.params:
            if p.ty is not None:
                self.b.var(p.name, p.ty)  # its dims are in scope
        self.attrs = dict(options.attrs)
        with self.b.bindings() as bound:
            result = self.body(node.body)
        raise_all(self.faults)
        if result is None:
            raise self.error(node, f"{node.name} returns nothing", "return … at its end")
        span = self.source.span(node)
        return Function(head.params, lets(bound, result), head.ret, head.type_params, self.attrs, span=span)

    # ------------------------------------------------------------------ values

    def type(self, form: Any) -> Type:
        """The type that an annotation stands for."""
        return type_of(form, self.dim, self.named_type)

    def named_type(self, form: TypeVarForm | DataForm) -> Type:
        """The type variable of a name, made on first sight, or the data type of the module that is called so."""
        if isinstance(form, DataForm):
            header = self.members.headers.get(form.name)
            return unnamed(form) if header is None else header
        return self.type_vars.setdefault(form.name, TypeVar(form.name, form.kind))

    def binary(self, op: str, a: Any, b: Any) -> Any:
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            return scalars.binary(op, a, b)
        name = _OPERATORS.get(op)
        if name is None:
            hint = f"{', '.join(_OPERATORS)} have one; others are functions: R.…"
            raise UnsupportedError(f"`{op}` of tensors has no meaning in a script", hint=hint)
        return OPERATORS[name](self.b, a, b)

    def unary(self, op: str, a: Any) -> Any:
        if isinstance(a, Dim):
            return scalars.unary(op, a)
        if op != "-":
            return super().unary(op, a)
        return OPERATORS["negative"](self.b, a)

    def item(self, value: Any, index: Any) -> Any:
        if isinstance(value, Expr) and isinstance(index, int):
            if self.options.is_graph and isinstance(value, Tuple) and 0 <= index < len(value.fields):
                return TupleGetItem(value, index, ty=value.fields[index].ty, span=self.b.span)
            return self.b.get(value, index)
        return super().item(value, index)

    def member(self, value: Any, name: str) -> Any:
        if isinstance(value, Expr):
            if name == "shape" and isinstance(value.ty, TensorType):
                return value.ty.shape
            if name == "dtype" and isinstance(value.ty, TensorType):
                return str(value.ty.dtype)
            if name == "astype":
                return lambda dtype: OPERATORS["astype"](self.b, value, dtype)
            raise TypeCheckError(f"a tensor has no {name}")
        return super().member(value, name)

    def call(self, function: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        if isinstance(function, OpForm):
            return function.apply(self.b, args, keywords)
        if isinstance(function, ReaderCall):
            return function.apply(self, args, keywords)
        if isinstance(function, Expr):
            type_args = keywords.pop("type_args", ())
            if keywords:
                raise TypeCheckError(f"a function of the graph takes no names, got {', '.join(keywords)}")
            return self._applied(function, [self.expr(a) if isinstance(a, OpForm) else a for a in args], type_args)
        return super().call(function, args, keywords)

    def _applied(self, function: Expr, args: Sequence[Any], type_args: Sequence[Any]) -> Expr:
        """A call of a function; type_args: of its type parameters, where the arguments do not tell them."""
        if not type_args:
            return self.b.call(function, *args)
        given = [self.type(t) if _is_type(t) else self.dim(t) for t in type_args]
        return Call(function, tuple(self.b.operands(args)), None, tuple(given), span=self.b.span)

    def value(self, node: ast.expr) -> Any:
        with self.b.at(self.source.span(node)):
            return super().value(node)

    def described(self, value: Any) -> str:
        return f"a tensor of {value.ty}" if isinstance(value, Expr) else super().described(value)

    def expr(self, value: Any) -> Expr:
        """A value as an expression of the graph."""
        if isinstance(value, Expr):
            return value
        if isinstance(value, tuple | list):
            return self.b.tuple_([self.expr(v) for v in value])
        if isinstance(value, OpForm) and value.exact:
            return operator_named(value.name)
        if isinstance(value, bool | int | float | np.ndarray | np.generic):
            return constant(np.asarray(value), None, self.b.span)
        raise TypeCheckError(f"{self.described(value)} is no value of the graph")

    # ------------------------------------------------------------------ statements

    def body(self, stmts: Sequence[ast.stmt]) -> Expr | None:
        """The result of statements, whose bindings go to the open body; None where nothing is returned."""
        for n, s in enumerate(stmts):
            with self.keeping(s), self.b.at(self.source.span(s)):
                if isinstance(s, ast.Return):
                    if n + 1 < len(stmts):
                        raise self.error(stmts[n + 1], "nothing is reached behind a return")
                    return self.b.tuple_([]) if s.value is None else self.expr(self.value(s.value))
                if isinstance(s, ast.If | ast.Match):
                    rest = stmts[n + 1 :]
                    result = self._if(s, rest) if isinstance(s, ast.If) else self._match(s, rest)
                    if result is not None:
                        return result
                else:
                    self._statement(s)
        return None

    def _statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Assign(targets=[target]):
                self._assign(target, self.value(s.value))
            case ast.AnnAssign(value=value) if value is not None:
                self._annotated(s.target, s.annotation, self.value(value))
            case ast.With(items=[ast.withitem(context_expr=context, optional_vars=target)]):
                form = self.value(context)
                if not isinstance(form, Dataflows | Sequences):
                    raise self.error(context, "a graph function has no such block", "with R.dataflow():")
                if target is not None and not isinstance(target, ast.Name):
                    raise self.error(target, "a block has one name")
                block = self._seq if isinstance(form, Sequences) else self._dataflow
                block(s, None if target is None else target.id)
            case ast.FunctionDef():
                self._local(s)
            case ast.Expr():
                self._expression(s.value)
            case ast.AnnAssign(target=ast.Name(id=name), value=None) if name in self.parts:
                pass  # states the type of a variable of a pattern, where that is read
            case ast.Pass():
                pass
            case ast.For() | ast.While():
                hint = "a function that calls itself, with an if"
                raise self.error(s, "a graph function has no loops", hint, kind=UnsupportedError)
            case _:
                raise self.error(s, f"{type(s).__name__} has no meaning in a graph function", kind=UnsupportedError)

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value)
        elif isinstance(target, ast.Name):
            self._bind(target.id, value)
        else:
            raise self.error(target, "nothing can be assigned to this: tensors do not change", kind=UnsupportedError)

    def _unpack(self, target: ast.Tuple | ast.List, value: Any) -> None:
        count = len(target.elts)
        if isinstance(value, Expr):
            whole = self._named("_", value)
            value = [self.b.get(whole, i) for i in range(count)]
        if not isinstance(value, tuple | list) or len(value) != count:
            raise TypeCheckError(f"{count} names for {self.described(value)}")
        for t, v in zip(target.elts, value, strict=True):
            self._assign(t, v)

    def _bind(self, name: str, value: Any) -> None:
        match value:
            case NewVar():
                if not isinstance(self.names.get(name), Dim):
                    self.dim(name)
            case LetForm(value=given):
                self.names[name] = self.b.let(name, self.expr(given))
            case Expr() if not isinstance(value, GlobalVar | Constructor) or self.options.is_graph:
                self.names[name] = self._named(name, value)
            case tuple() | list() if any(isinstance(v, Expr) for v in value):
                self.names[name] = self._named(name, self.expr(value))
            case _:
                self.names[name] = value

    def _named(self, name: str, value: Expr) -> Expr:
        return value if self.options.is_graph else self.b.let(name, value)

    def _annotated(self, target: ast.expr, annotation: ast.expr, value: Any) -> None:
        if not isinstance(target, ast.Name):
            raise self.error(target, "an annotation is of a name")
        ty = _annotation(self, annotation)
        made = self.expr(value.value if isinstance(value, LetForm) else value)
        if ty is not None and operands(made) and self.b.has_new_dims(ty):
            made = made.with_type(ty)  # the dims of the value are called so
        ty = ty or made.ty
        if self.options.is_graph and not isinstance(value, LetForm):
            if ty is not None:
                self.b.var(target.id, ty)  # its dims are in scope
            self.names[target.id] = made.with_type(ty)
        else:
            self.names[target.id] = self.b.let(self.b.var(target.id, ty), made)

    def _expression(self, node: ast.expr) -> None:
        value = self.value(node)
        match value:
            case Outputs(values=values):
                if self.outputs is None:
                    raise TypeCheckError("R.output stands in a dataflow block")
                given = node.args if isinstance(node, ast.Call) else []
                names = [a.id if isinstance(a, ast.Name) else "" for a in given]
                self.outputs += zip(names, values, strict=False)
            case FunctionAttributes(values=values):
                self.attrs |= values
            case str() | None:
                pass  # a docstring
            case Expr():
                self.b.let("_", value)
            case _:
                raise TypeCheckError(f"{self.described(value)} is computed and not used")

    def _seq(self, s: ast.With, name: str | None) -> None:
        """Bindings and a result, as one value."""
        if name is None:
            raise self.error(s, "the value of R.seq() has a name", "with R.seq() as x:")
        outer, self.outputs = self.outputs, []
        try:
            with self.scope(), self.b.bindings() as bound:
                if self.body(s.body) is not None or len(self.outputs) != 1:
                    raise self.error(s, "R.seq() has one result: R.output(…) at its end")
                ((_, result),) = self.outputs
        finally:
            self.outputs = outer
        if self.faults:
            raise Consequence("the block is wrong")
        self.names[name] = self._named(name, lets(bound, self.expr(result)))

    def _dataflow(self, s: ast.With, whole: str | None) -> None:
        outer = self.outputs
        if outer is not None and whole is None:
            raise self.error(s, "a dataflow block is inside another one")
        self.outputs = []
        try:
            with self.scope(), self.b.bindings() as bound:
                if self.body(s.body) is not None:
                    raise self.error(s, "a dataflow block returns nothing: R.output names its results")
                outputs = self.outputs
        finally:
            self.outputs = outer
        if self.faults:
            raise Consequence("the block is wrong")
        if not outputs:
            raise self.error(s, "the dataflow block has no R.output")
        if whole is not None:
            made = self.b.dataflow(bound, [self.expr(v) for _, v in outputs])
            self.names[whole] = self._named(whole, made)
            return
        for name, value in outputs:
            if not name or not isinstance(value, Expr):
                raise self.error(s, "R.output names variables of the block")
        block = self.b.let("gv", self.b.dataflow(bound, [v for _, v in outputs]))
        for i, (name, _) in enumerate(outputs):
            self.names[name] = self.b.get(block, i)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names bound inside are forgotten; dims are not."""
        own = cast("dict[str, DimVar]", self.dims.maps[0])
        known = len(own)
        with super().scope():
            yield
        self.names |= {name: own[name] for name in islice(reversed(own), len(own) - known)}

    # ------------------------------------------------------------------ branches, functions

    def _if(self, s: ast.If, rest: Sequence[ast.stmt]) -> Expr | None:
        """A choice; its value where both branches return."""
        cond = self.value(s.test)
        if isinstance(cond, bool):
            return self.body(s.body if cond else s.orelse)
        if not s.orelse:
            raise self.error(s, "an if has an else: both give the values that are used behind it")
        return self._choice(s, [s.body, s.orelse], lambda ends: self.b.if_(self.expr(cond), *ends), rest)

    def _match(self, s: ast.Match, rest: Sequence[ast.stmt]) -> Expr | None:
        """A choice by what a value of a data type is; its value where all cases return."""
        subject = self.value(s.subject)
        complete = not isinstance(subject, Partial)
        data = self.expr(subject.value if isinstance(subject, Partial) else subject)
        patterns = [read_pattern(self, case, data.ty) for case in s.cases]

        def made(ends: Sequence[Expr]) -> Expr:
            clauses = tuple(Clause(p, e) for p, e in zip(patterns, ends, strict=True))
            return Match(data, clauses, complete, span=self.b.span)

        bound = [list(pattern_vars(p)) for p in patterns]
        return self._choice(s, [case.body for case in s.cases], made, rest, bound)

    def _choice(
        self, s: ast.stmt, bodies: Sequence[Sequence[ast.stmt]], made: Callable[[Sequence[Expr]], Expr],
        rest: Sequence[ast.stmt], bound: Sequence[Sequence[Var]] = ((), ()),
    ) -> Expr | None:  # fmt: skip
        """The value of a choice that returns. One that does not assigns the names that all of its branches do; a match
        with one case, those of its last statement."""
        names = given(bodies)
        returned = [returns(b) for b in bodies]
        if any(returned) and not all(returned):
            raise self.error(s, "one branch returns, the other does not")
        if all(returned) and rest:
            raise self.error(rest[0], "nothing is reached behind a return")
        if not any(returned) and not names and any(map(assigned, bodies)):
            raise self.error(s, "the branches assign no name in common")
        wanted = [] if all(returned) else names
        found = made([self._branch(body, wanted, own) for body, own in zip(bodies, bound, strict=True)])
        if all(returned):
            return found
        self._results(names, found)
        return None

    def _branch(self, stmts: Sequence[ast.stmt], names: Sequence[str], own: Sequence[Var] = ()) -> Expr:
        with self.scope(), self.b.bindings() as bound:
            self.names |= {v.name: v for v in own}
            outer, self.parts = self.parts, {v.name for v in own}
            result = self.body(stmts)
            self.parts = outer
            if self.faults:
                raise Consequence("the branch is wrong")
            if result is None:
                values = [self.expr(self.names[n]) for n in names]
                result = values[0] if len(values) == 1 else self.b.tuple_(values)
                if (
                    bound and bound[-1][0] is result and not self.options.is_graph
                ):  # the last assignment gives the value
                    result = bound.pop()[1]
        return lets(bound, result)

    def _results(self, names: Sequence[str], made: Expr) -> None:
        if len(names) == 1:
            self.names[names[0]] = self._named(names[0], made)
            return
        if not names:
            self.b.let("_", made)
            return
        whole = self._named("_", made)
        for i, n in enumerate(names):
            self.names[n] = self._named(n, self.b.get(whole, i))

    def _local(self, node: ast.FunctionDef) -> None:
        """A function inside a function, which may call itself."""
        options = replace(self._options(node), constants=self.options.constants)
        inner = GraphReader(self.source, self.outer, self.b, self.members)
        inner.names, inner.dims, inner.bounds = self.names.new_child(), self.dims.new_child(), self.bounds
        inner.type_vars = self.type_vars.new_child()
        head = declared(inner, node, options)
        if self.options.is_graph and not options.is_let:
            self.names[node.name] = inner.function(node, options, head)
            return
        var = Var(node.name, ty=head.ty, span=self.source.span(node))
        inner.names |= {node.name: var}
        made = inner.function(node, options, head)
        self.names[node.name] = self.b.let(var, made)

    def _options(self, node: ast.FunctionDef) -> Options:
        """What the decorator of a function inside a function says; its form is that of the function around it."""
        mark = node.decorator_list[0] if node.decorator_list else None
        given = {k.arg: self.value(k.value) for k in mark.keywords if k.arg} if isinstance(mark, ast.Call) else {}
        return replace(Options.of(**given), is_graph=self.options.is_graph)


def _is_type(form: Any) -> bool:
    return not isinstance(form, int | str | Dim)


_OPERATORS: dict[str, str] = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide", "%": "mod", "**": "power",
    "@": "matmul", "==": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater",
    ">=": "greater_equal",
}  # fmt: skip

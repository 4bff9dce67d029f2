"""The builder: writes programs whose nodes are typed at birth.

    b = Builder()
    x = b.var("x", (n, 3, 224, 224))
    y = b.nn.relu(b.nn.conv2d(x, weight, padding=(1, 1)))        operators by their names, dots included
    f = b.function([x], y)

Python numbers and NumPy arrays become constants; a Python number takes the dtype of the other operand. A node whose
arguments are not typed yet (an un-annotated weight) stays untyped until `function` or `infer` finds its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from legato.arith.expr import ExprLike
from legato.base import dtype as dt
from legato.base.arrays import as_array
from legato.base.dtype import DType
from legato.base.errors import TypeCheckError
from legato.base.span import Span
from legato.infer.holes import dim_vars, has_holes, is_hole
from legato.infer.infer import infer_function
from legato.infer.solver import Solver
from legato.infer.typer import Typer
from legato.ir import sugar
from legato.ir.attrs import make_attrs, pack_args
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Dataflow,
    Expr,
    Function,
    If,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from legato.ir.let import lets
from legato.ir.op import Op
from legato.ir.types import Dim, FuncType, TensorType, TupleType, Type, TypeData, dims, tensor_type

__all__ = ["Builder"]

E = TypeVar("E", bound=Expr)
Value = Any  # an Expr, a NumPy array or a Python number


class Builder:
    """Builds typed expressions; see the module's example. One builder serves one function at a time."""

    def __init__(self, *, types: Sequence[TypeData] = (), span: Span | None = None) -> None:
        self._solver = Solver()
        self._typer = Typer(self._solver, lambda e: e.ty, types)
        self._types = tuple(types)
        self._lets: list[list[tuple[Var, Expr]]] = [[]]
        self.span = span

    # ------------------------------------------------------------------ operators

    def __getattr__(self, name: str) -> _Names:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Names(self, name)

    def op(self, name: str) -> Callable[..., Expr]:
        """The operator `name` as a function of this builder; TypeCheckError if there is none."""
        record = sugar.operators().get(name)
        if record is None:
            raise TypeCheckError(f"no operator is called {name!r}", span=self.span, hint=_similar(name))
        return lambda *args, **attrs: self.call(record, *args, **attrs)

    def call(self, op: Op | Expr | str, *args: Value, **attrs: Any) -> Expr:
        """The typed call of `op` (an operator, its name, or an expression of function type) on `args`."""
        if isinstance(op, str):
            return self.op(op)(*args, **attrs)
        if isinstance(op, Op):
            exprs = pack_args(op, self.operands(args), self.span)
            typed = tuple(self._packed(e) for e in exprs)
            return self.call_op(op, typed, make_attrs(op, attrs, self.span))
        if attrs:
            raise TypeCheckError(f"a function takes no attributes, got {', '.join(attrs)}", span=self.span)
        return self.apply(op, self.operands(args))

    def call_op(self, op: Op, args: Sequence[Expr], attrs: Any = None) -> Call:
        """The typed call of `op` with its attribute record."""
        node = Call(op, tuple(args), attrs, span=self.span)
        types = [a.ty for a in args]
        known = [t for t in types if t is not None]
        if len(known) != len(types) or any(has_holes(t) for t in known):
            return node
        demanded = self._typer.scope.constraints
        before = len(demanded)
        try:
            return node.with_type(self._closed(self._typer.op_call(node, op, known)))
        except TypeCheckError:
            while len(demanded) > before:
                demanded.popitem()  # a call that is none asks for nothing
            raise

    def apply(self, callee: Expr, args: Sequence[Expr]) -> Call:
        """The typed call of a function."""
        node = Call(callee, tuple(args), span=self.span)
        ty = self._typer.constructor_type(callee) if isinstance(callee, Constructor) else callee.ty
        known = [a.ty for a in args if a.ty is not None]
        if ty is None or len(known) != len(args):
            return node
        result, type_args = self._typer.apply(node, ty, known)
        self._solver.run()
        given = [t for t in type_args if isinstance(t, Type) or not isinstance(callee, Constructor)]
        solved = tuple(self._solver.zonk(t) if isinstance(t, Type) else self._solver.dim(t) for t in given)
        if any(has_holes(a) if isinstance(a, Type) else is_hole(a) for a in solved):
            return node  # what it is used for may say more
        return Call(callee, tuple(args), None, solved, ty=self._closed(result), span=self.span)

    def operands(self, args: Sequence[Value]) -> list[Expr]:
        """`args` as expressions; a Python number takes the dtype of the first tensor that can hold it.

        Beside nothing but truth values, which choose between numbers, it has a dtype of its own.
        """
        like = [found for a in args if (found := _dtype_of(a)) is not None]
        return [self._operand(a, like) for a in args]

    def _operand(self, value: Value, like: Sequence[DType] = ()) -> Expr:
        if isinstance(value, Expr):
            return value
        if isinstance(value, list | tuple):
            return self.tuple_(self.operands(value))
        if isinstance(value, bool | int | float):
            return self._number(value, like)
        return constant(as_array(value, "an operand", TypeCheckError), None, self.span)

    def _number(self, value: bool | float, like: Sequence[DType]) -> Constant:
        """A Python number in the first dtype of `like` that can hold it; TypeCheckError where there is none."""
        for dtype in like:
            if _holds(dtype, value):
                return constant(value, dtype, self.span)
        if not all(dtype.is_bool for dtype in like):
            hint = "use cast, or a constant of a dtype of its own"
            raise TypeCheckError(f"{value!r} beside a tensor of {like[0]}", span=self.span, hint=hint)
        return constant(value, None, self.span)

    def _packed(self, e: Expr) -> Expr:
        return self.tuple_(e.fields) if isinstance(e, Tuple) and e.ty is None else e

    def _closed(self, ty: Type | None) -> Type | None:
        """`ty` without holes, or None."""
        if ty is None:
            return None
        self._solver.run()
        ty = self._solver.zonk(ty)
        return None if has_holes(ty) else ty

    # ------------------------------------------------------------------ leaves

    def var(self, name: str, shape: Sequence[ExprLike] | Type | None = None, dtype: DType | str = "float32") -> Var:
        """A variable; `shape` is a shape, a whole type, or None (to be inferred). Its dims are in scope from now on."""
        if shape is None:
            return Var(name, span=self.span)
        ty = shape if isinstance(shape, Type) else tensor_type([self._as_dim(d) for d in shape], dtype)
        self._typer.scope.dims.update(dim_vars(ty))
        return Var(name, ty=ty, span=self.span)

    def has_new_dims(self, ty: Type) -> bool:
        """Whether a type names dims that nothing has named so far: those of a value that data decides."""
        return not self._typer.scope.dims.issuperset(dim_vars(ty))

    @staticmethod
    def _as_dim(d: ExprLike) -> Dim | int:
        return d if isinstance(d, Dim) else int(d)

    def constant(self, value: Any, dtype: DType | str | None = None) -> Constant:
        """`value` as a typed constant."""
        return constant(value, dtype, self.span)

    def shape(self, values: Sequence[ExprLike]) -> Shape:
        """Dims as a value."""
        return self._simple(Shape(dims([self._as_dim(d) for d in values]), span=self.span))

    # ------------------------------------------------------------------ other nodes

    def tuple_(self, fields: Sequence[Value]) -> Tuple:
        """A tuple."""
        return self._simple(Tuple(tuple(self.operands(fields)), span=self.span))

    def get(self, value: Expr, index: int) -> Expr:
        """Field `index` of a tuple; of a tuple expression, the field itself."""
        if isinstance(value, Tuple) and 0 <= index < len(value.fields):
            return value.fields[index]
        return self._simple(TupleGetItem(value, index, span=self.span))

    def ref(self, value: Value) -> RefCreate:
        """A new cell."""
        return self._simple(RefCreate(self._operand(value), span=self.span))

    def read(self, ref: Expr) -> RefRead:
        """The value of a cell."""
        return self._simple(RefRead(ref, span=self.span))

    def write(self, ref: Expr, value: Value) -> RefWrite:
        """Sets a cell."""
        return self._simple(RefWrite(ref, self._operand(value), span=self.span))

    def match_cast(self, value: Expr, target: Type) -> MatchCast:
        """`value` checked to have type `target` when it runs; binds the dims that are new in it."""
        return self._simple(MatchCast(value, target, span=self.span))

    def dataflow(self, bindings: Sequence[tuple[Var, Expr]], outputs: Sequence[Expr]) -> Dataflow:
        """The bindings in order, all of them pure; the value is the tuple of outputs."""
        types = [o.ty for o in outputs]
        known = tuple(t for t in types if t is not None)
        ty = TupleType(known) if len(known) == len(types) else None
        return Dataflow(tuple(bindings), tuple(outputs), ty=ty, span=self.span)

    def _simple(self, node: E) -> E:
        if any(c.ty is None for c in node.children()):
            return node
        return node.with_type(self._closed(self._typer.simple(node)))

    # ------------------------------------------------------------------ binding

    def let(self, name: str | Var, value: Value) -> Var:
        """Binds `value` in the innermost open body and returns its variable."""
        bound = self._operand(value)
        var = Var(name, ty=bound.ty, span=self.span) if isinstance(name, str) else name
        self._lets[-1].append((var, bound))
        self._typer.bound[var] = bound
        return var

    def body(self, make: Expr | Callable[[], Expr]) -> Expr:
        """An expression from `make`, inside the lets that it binds while it runs."""
        if isinstance(make, Expr):
            return make
        with self.bindings() as bound:
            result = self._operand(make())
        return lets(bound, result)

    @contextmanager
    def bindings(self) -> Iterator[list[tuple[Var, Expr]]]:
        """What `let` binds inside, kept for the caller to put around an expression (`ir.let.lets`)."""
        self._lets.append([])
        try:
            yield self._lets[-1]
        finally:
            self._lets.pop()

    def if_(self, cond: Value, then: Expr | Callable[[], Expr], orelse: Expr | Callable[[], Expr]) -> If:
        """`if cond then … else …`; a branch is an expression or a function that builds it."""
        return self._simple(If(self._operand(cond), self.body(then), self.body(orelse), span=self.span))

    def function(
        self,
        params: Sequence[Var],
        body: Expr | Callable[..., Expr],
        *,
        ret_type: Type | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Function:
        """The typed function of `params`. `body` is an expression, or a function of the parameters that builds it.

        Lets that were opened with `let` outside any other body wrap an expression body. Where something in it is not
        typed yet, the whole function is inferred.
        """
        if isinstance(body, Expr):
            made, self._lets[-1] = lets(self._lets[-1], body), []
        else:
            made = self.body(lambda: body(*params))
        func = Function(tuple(params), made, ret_type, attrs=dict(attrs or {}), span=self.span)
        if made.ty is None or ret_type is not None or any(p.ty is None for p in params) or self._typer.pending:
            self._typer.pending.clear()
            func = infer_function(func, types=self._types)
            for c in func.attrs.get("constraints", ()):  # no longer for the function around it, or the next one
                self._typer.scope.constraints.pop((c.a, c.b), None)
            return func
        return self._typed_function(func, made.ty)

    def _typed_function(self, func: Function, ret: Type) -> Function:
        types = tuple(p.ty for p in func.params if p.ty is not None)
        own = tuple(dict.fromkeys(v for ty in types for v in dim_vars(ty)))
        found = tuple(self._typer.scope.constraints.values())
        self._typer.scope.constraints.clear()
        attrs = {**func.attrs, "constraints": found} if found else func.attrs
        ty = FuncType(types, ret, own)
        return Function(func.params, func.body, ret, own, attrs, ty=ty, span=func.span)

    # ------------------------------------------------------------------ questions and context

    def value_of(self, e: Expr) -> tuple[Dim, ...] | None:
        """What a small integer tensor holds (flattened, at most 64 elements) as dims, or None if that is not known."""
        value = self._typer.values.of(e)
        return value if value is not None and all(isinstance(d, Dim) for d in value) else None

    @contextmanager
    def at(self, span: Span | None) -> Iterator[None]:
        """Nodes made inside carry `span`."""
        before, self.span = self.span, span
        try:
            yield
        finally:
            self.span = before


class _Names:
    """`b.nn.conv2d`: an operator's name being spelt, callable where it is complete."""

    __slots__ = ("_builder", "_name")

    def __init__(self, builder: Builder, name: str) -> None:
        self._builder, self._name = builder, name

    def __getattr__(self, name: str) -> _Names:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Names(self._builder, f"{self._name}.{name}")

    def __call__(self, *args: Value, **attrs: Any) -> Expr:
        return self._builder.op(self._name)(*args, **attrs)


def _holds(dtype: DType, value: bool | float) -> bool:
    if dtype.is_float or dtype.is_bool:
        return dtype.is_float or isinstance(value, bool)
    return isinstance(value, int) and dtype.min <= value <= dtype.max


def _dtype_of(value: Value) -> DType | None:
    if isinstance(value, Expr):
        return value.ty.dtype if isinstance(value.ty, TensorType) else None
    return dt.dtype(value.dtype) if isinstance(value, np.ndarray | np.generic) else None


def _similar(name: str) -> str | None:
    from difflib import get_close_matches  # only for the message

    found = get_close_matches(name, list(sugar.operators()), 3)
    return f"did you mean {', '.join(found)}?" if found else None

"""BlockBuilder: modules, written binding by binding.

    bb = relax.BlockBuilder()
    n = te.var("n")
    x, w = relax.Var("x", R.Tensor((n, 784), "float32")), relax.Var("w", R.Tensor((784, 10), "float32"))
    with bb.function("main", [x, w]):
        with bb.dataflow():
            y = bb.emit(relax.op.matmul(x, w))
            out = bb.emit_output(bb.emit_te(relu, y))        relu: from te tensors to te tensors
        bb.emit_func_output(out)
    mod = bb.get()

The module is the language's own, the same that the script of it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, TypeCheckError
from legato.base.node import post_order, rebuild
from legato.infer.builder import Builder
from legato.infer.holes import dim_vars
from legato.infer.infer import infer, infer_function
from legato.ir.expr import Call, Expr, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from legato.ir.let import lets
from legato.ir.module import GlobalFunc, Module
from legato.ir.op import Op
from legato.ir.types import FuncType, Type
from legato.ir.visit import substitute
from legato.relax.blocks import Binding, dataflow, outputs_of
from legato.relax.expr import as_expr, field_of
from legato.relax.te_calls import te_call
from legato.relax.ty import as_type
from legato.te.calls import Programs
from legato.tir.stmt import Func

__all__ = ["BlockBuilder"]


@dataclass(slots=True)
class _Block:
    """A dataflow block that is open: its variables, and those of them that are outputs, in order."""

    own: set[Var] = field(default_factory=set)
    outputs: dict[Var, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Function:
    """A function that is open."""

    name: str
    params: tuple[Var, ...] | None
    attrs: dict[str, Any]
    bound: list[tuple[Var, Expr]]
    fields: dict[Var, Expr] = field(default_factory=dict)  # of dataflow blocks, by the variables that stand for them
    made: GlobalVar | None = None


class BlockBuilder:
    """Builds a module; see the example above. `mod` is what it begins with."""

    def __init__(self, mod: Any = None) -> None:
        given = getattr(mod, "module", mod) or Module()
        self._types, self._attrs = given.types, given.attrs
        self._functions: dict[GlobalVar, GlobalFunc] = dict(given.functions)
        self._programs = Programs(self._functions)
        self._globals: dict[GlobalVar, Type] = {
            gv: f.ty for gv, f in given.graph_functions() if f.ty is not None
        }  # fmt: skip
        self._values: dict[Var, Expr] = {}
        self._hints: dict[str, int] = {}  # how often variables of the open function were called so
        self.count = 0  # of bindings that were made
        self._b = Builder()
        self._open: _Function | None = None
        self._block: _Block | None = None

    # ------------------------------------------------------------------ scopes

    @contextmanager
    def function(
        self, name: str, params: Any = None, attrs: Mapping[str, Any] | None = None, pure: bool = True,
        private: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """The function `name` of the module, of what is emitted inside; `emit_func_output` gives its result.

        CompileError where another one is open, or nothing was given as its result.
        """
        if self._open is not None:
            raise CompileError(f"function {name} inside of {self._open.name}", hint="close that one first")
        found = dict(attrs or {}) | ({"private": True} if private else {}) | ({} if pure else {"pure": False})
        self._hints = {}
        self._b = Builder(types=tuple(self._types.values()))
        try:
            with self._b.bindings() as bound:
                self._open = _Function(name, None, found, bound)
                if params is not None:
                    self._open.params = self._declared(params)
                yield
                if self._open.made is None:
                    raise CompileError(f"function {name} has no result", hint="bb.emit_func_output(…) at its end")
        finally:
            self._open = self._block = None

    def _declared(self, params: Any) -> tuple[Var, ...]:
        listed = tuple(params) if isinstance(params, list | tuple) else getattr(params, "fields", (params,))
        for p in listed:
            if not isinstance(p, Var):
                raise TypeCheckError(f"a parameter is a variable, got {p!r}", hint="make one with relax.Var")
            self._b.var(p.name, p.ty)  # its dims are in scope
        return listed

    @contextmanager
    def dataflow(self) -> Iterator[None]:
        """A block of pure bindings; what `emit_output` gives is known behind it, and nothing else."""
        scope = self._scope("a dataflow block")
        if self._block is not None:
            raise CompileError("a dataflow block inside of another one", hint="close that one first")
        self._block = block = _Block()
        try:
            with self._b.bindings() as bound:
                yield
        finally:
            self._block = None
        if not block.outputs:
            raise CompileError("the dataflow block has no output", hint="bb.emit_output(…) at its end")
        whole = self._b.let("gv", dataflow(bound, block.outputs))
        scope.fields |= outputs_of(whole, block.outputs)

    def _scope(self, what: str) -> _Function:
        if self._open is None:
            raise CompileError(f"{what} outside of a function", hint='with bb.function("main", [x]):')
        if self._open.made is not None:
            raise CompileError(f"{what} behind the result of function {self._open.name}")
        return self._open

    def body(self, make: Callable[[], Any], params: Sequence[Var] | None = None) -> Expr:
        """An expression inside of what `make` emits, which gives its result: of a branch, or of a function of `params`,
        outside of all others."""
        outer, self._open = self._open, _Function("a body", (), {}, [])
        block, self._block = self._block, None
        if params is not None and outer is None:
            self._b = Builder(types=tuple(self._types.values()))
        try:
            self._declared(params or ())
            with self._b.bindings() as bound:
                result = as_expr(make())
            return substitute(lets(bound, result), self._open.fields)
        finally:
            self._open, self._block = outer, block

    def current_block_is_dataflow(self) -> bool:
        """Whether a dataflow block is open."""
        return self._block is not None

    # ------------------------------------------------------------------ bindings

    def emit(self, expr: Any, name_hint: str = "") -> Var:
        """Binds a value; the variable that stands for it."""
        self._scope("a binding")
        value = self.normalize(as_expr(expr))
        return self._bound(name_hint or ("lv" if self._block is not None else "gv"), value)

    def emit_normalized(self, binding: Binding) -> None:
        """Binds the very variable of a binding."""
        self._scope("a binding")
        self._bound(binding.var, binding.bound)

    def _bound(self, name: str | Var, value: Expr) -> Var:
        if isinstance(name, str):
            count = self._hints.setdefault(name, 0)
            self._hints[name] += 1
            name = f"{name}{count or ''}"
        var = self._b.let(name, value)
        self.count += 1
        self._values[var] = value
        if self._block is not None:
            self._block.own.add(var)
        return var

    def match_cast(self, value: Any, ty: Any = None, name_hint: str = "", *, struct_info: Any = None) -> Var:
        """Binds a value that is checked, when it runs, to have a type; dims that are new in it are bound."""
        return self.emit(self._b.match_cast(as_expr(value), as_type(struct_info if ty is None else ty)), name_hint)

    def emit_output(self, output: Any, name_hint: str = "") -> Var:
        """Binds a value that is known behind the dataflow block, too; a variable of the block is that itself."""
        if self._block is None:
            raise CompileError("an output outside of a dataflow block", hint="with bb.dataflow():")
        value = as_expr(output)
        var = value if isinstance(value, Var) and value in self._block.own else self.emit(value, name_hint or "gv")
        self._block.outputs.setdefault(var)
        return var

    def emit_te(self, func: Callable[..., Any], *args: Any, **keywords: Any) -> Var:
        """Binds a call of a function of te tensors, see `call_te`; `name_hint` names the variable."""
        hint = keywords.pop("name_hint", "")
        return self.emit(self.call_te(func, *args, **keywords), hint)

    def call_te(self, func: Callable[..., Any], *args: Any, **keywords: Any) -> Call:
        """The call of the tensor program of what `func` gives for te tensors in place of its arguments.

        `primfunc_name_hint` is what the program is called like; by `primfunc_attrs` nothing is said. Equal programs
        are one.
        """
        name = keywords.pop("primfunc_name_hint", None) or getattr(func, "__name__", "te").strip("<>")
        keywords.pop("primfunc_attrs", None)
        return te_call(self._programs, func, args, keywords, name)

    def normalize(self, expr: Expr) -> Expr:
        """`expr`, typed where the types of what it is made of are known."""
        new: dict[int, Expr] = {}
        for node in post_order([expr], lambda n: n.ty is None):
            made = rebuild(node, new) if node.ty is None else node
            new[id(node)] = self._typed(made) or made
        return new[id(expr)]

    def _typed(self, node: Expr) -> Expr | None:
        match node:
            case GlobalVar():
                return node.with_type(self._globals.get(node, node.ty))
            case Call(ty=None, op=Op() as op):
                return self._b.call_op(op, node.args, node.attrs)
            case Call(ty=None):
                return self._b.apply(node.op, node.args)
            case TupleGetItem(ty=None):
                return field_of(node.value, node.index)
            case Tuple(ty=None):
                return self._b.tuple_(node.fields)
            case If(ty=None):
                return self._b.if_(node.cond, node.then, node.orelse)
        return None

    def lookup_binding(self, var: Var) -> Expr | None:
        """The value that was bound to `var`, or None."""
        return self._values.get(var)

    def get_unique_name(self, name_prefix: str) -> str:
        """`name_prefix`, or that with a number, where a function of the module is called so."""
        return self._programs.free_name(name_prefix)

    # ------------------------------------------------------------------ functions

    def emit_func_output(self, output: Any, params: Any = None) -> GlobalVar:
        """The result of the function, which ends with it; `params`, where they were not given before."""
        scope = self._scope("a result")
        if self._block is not None:
            raise CompileError("the result of a function inside of a dataflow block", hint="close that one first")
        if (params is None) == (scope.params is None):
            raise CompileError(f"the parameters of {scope.name} are given {'twice' if params else 'nowhere'}")
        own = scope.params if scope.params is not None else self._declared(params)
        assert own is not None
        result = substitute(lets(scope.bound, as_expr(output)), scope.fields)
        dims = tuple(dict.fromkeys(v for p in own if p.ty is not None for v in dim_vars(p.ty)))
        func = Function(own, result, None, dims, scope.attrs)
        scope.made = self._define(scope.name, func)
        return scope.made

    def add_func(self, func: GlobalFunc, func_name: str) -> GlobalVar:
        """The global variable of a function that is added; of an equal tensor program that is there already."""
        if isinstance(func, Function):
            return self._define(func_name, func)
        if not isinstance(func, Func):
            raise CompileError(f"a {type(func).__name__} is no function of a module")
        return self._programs.add(func, func_name)

    def update_func(self, gv: GlobalVar, updated_func: GlobalFunc) -> None:
        """Another function in place of that of `gv`. CompileError where there is none."""
        if gv not in self._functions:
            raise CompileError(f"the module has no function @{gv.name}", hint="bb.add_func adds one")
        if not _is_of(self._globals.get(gv), updated_func):
            self._globals.pop(gv, None)  # calls of itself, too, are of another type
        self._programs.put(gv, self._inferred(gv, updated_func))

    def _define(self, name: str, func: Function) -> GlobalVar:
        gv = GlobalVar(self.get_unique_name(name))
        self._programs.put(gv, self._inferred(gv, func))
        return gv

    def _inferred(self, gv: GlobalVar, func: GlobalFunc) -> GlobalFunc:
        """`func` with types, where it names no function that is not typed yet: those are typed with the module."""
        if not isinstance(func, Function):
            return replace(func, name=gv.name)
        named = {n: self._functions.get(n) for n in post_order([func.body]) if isinstance(n, GlobalVar)}
        programs = {n: f for n, f in named.items() if isinstance(f, Func)}
        if any(n not in programs and n not in self._globals for n in named):
            return func
        types = {n: self._globals[n] for n in named if n in self._globals}
        found = infer_function(func, types=tuple(self._types.values()), globals_=types, programs=programs)
        assert found.ty is not None
        self._globals[gv] = found.ty
        return found

    def get(self) -> Module:
        """The module, with types. TypeCheckError for what is wrong in it."""
        return infer(Module(self._functions, self._types, self._attrs))

    def finalize(self) -> Module:
        """The module, with types."""
        return self.get()


def _is_of(ty: Type | None, func: GlobalFunc) -> bool:
    """Whether `ty` is what a function says of its own type."""
    if not isinstance(ty, FuncType) or not isinstance(func, Function):
        return False
    return ty.params == tuple(p.ty for p in func.params) and func.ret_type in (None, ty.ret)

"""A module from decorated functions: each that is called becomes a function of the module, typed by its annotations."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from legato.base.arrays import as_array
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, TypeCheckError
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.expr import Constant, Expr, Function, GlobalVar, Var, constant
from legato.ir.let import lets
from legato.ir.module import Module
from legato.ir.types import FuncType, TensorType, Type
from legato.script.annotations import Dims, type_of
from legato.script.expressions import value
from legato.script.frame import Env, Frame, Keywords
from legato.script.lifting import differ, function_type
from legato.script.prune import pruned
from legato.script.source import Code, Source
from legato.script.statements import Flow, block
from legato.script.values import Bound, Closure, Decorated, Value, is_number

__all__ = ["Header", "Translation", "annotated", "header", "unquoted"]

_NESTED = 50  # inner functions that call each other, inlined


@dataclass(frozen=True, slots=True)
class Header:
    """What a function's annotations and defaults say."""

    names: tuple[str, ...]
    types: tuple[Type | None, ...]
    defaults: Mapping[str, ast.expr]
    result: Type | None

    @property
    def type(self) -> FuncType | None:
        """The function's type, where all of it is annotated."""
        params = tuple(t for t in self.types if t is not None)
        if self.result is None or len(params) != len(self.types):
            return None
        return function_type(params, self.result)


@dataclass(slots=True)
class Translation:
    """A module being made."""

    functions: dict[GlobalVar, Function] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    _vars: dict[int, GlobalVar] = field(default_factory=dict)
    _kept: list[object] = field(default_factory=list)  # what is known by its id
    _constants: dict[int, Constant] = field(default_factory=dict)
    _lifted: set[GlobalVar] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)

    def module(self) -> Module:
        """The typed module. TypeCheckError where its functions do not fit each other."""
        functions = pruned(self.functions, frozenset(self._lifted))
        return self._checked(Module({gv: functions[gv] for gv in sorted(functions, key=lambda gv: gv.name != "main")}))

    def _checked(self, module: Module) -> Module:
        try:
            return infer(module)
        except CompileError as error:
            self.quote(error)
            raise

    def quote(self, error: CompileError) -> None:
        """Fills in the lines that an error points at."""
        for source in self.sources.values():
            source.quote(error)

    # ------------------------------------------------------------------ names

    def define(self, name: str) -> GlobalVar:
        """A new global variable called `name` or nearly so."""
        free, n = name, 0
        while free in self._names:
            n += 1
            free = f"{name}_{n}"
        self._names.add(free)
        return GlobalVar(free)

    def finish(self, gv: GlobalVar, func: Function) -> None:
        """Puts a part of a function into the module as a function of its own."""
        self.functions[gv] = func
        self._lifted.add(gv)

    def constant(self, frame: Frame, data: Any) -> Expr:
        """An array as a constant: the same for the same array."""
        found = self._constants.get(id(data))
        if found is None:
            found = self._constants[id(data)] = constant(as_array(data, "a constant", TypeCheckError), None, frame.span)
            self._kept.append(data)
        return found

    # ------------------------------------------------------------------ functions

    def add(self, function: Decorated, name: str) -> GlobalVar:
        """The global variable of a decorated function, which is translated on first sight."""
        found = self._vars.get(id(function))
        if found is not None:
            return found
        self._kept.append(function)
        return self.translate(function.code, name, key=id(function))

    def translate(
        self,
        code: Code,
        name: str,
        *,
        given: Sequence[Value] = (),
        more: Sequence[Var] = (),
        dims: Dims | None = None,
        key: int | None = None,
    ) -> GlobalVar:
        """Translates a function of the module.

        given: its first arguments, where they are known; more: parameters behind its own; dims: what the names of dims
        mean; key: the id of a decorated function.
        """
        self.sources[code.source.name] = code.source
        gv = self.define(name)
        frame = Frame(self, code, gv.name)
        with frame.at(code.node):
            head = header(frame, code, dims)
            gv = gv.with_type(None if given or more else head.type)
            if key is not None:
                self._vars[key] = gv
            names = head.names[len(given) :]
            env: Env = dict(zip(head.names, given, strict=False))
            for arg, name_, ty in zip(_args(code)[len(given) :], names, head.types[len(given) :], strict=True):
                with frame.at(arg):
                    frame.params.append(frame.builder.var(name_, ty))
                env[name_] = frame.params[-1]
            for weight in more:
                frame.params.append(weight)
                frame.builder.var(weight.name, weight.ty)  # its dims are in scope
            frame.result = head.result
            func = self._function(frame, code, env)
        if key is not None:
            gv = self._vars[key] = gv.with_type(gv.ty or self._type(gv, func))
        self.functions[gv] = func
        return gv

    def _function(self, frame: Frame, code: Code, env: Env) -> Function:
        with frame.builder.bindings() as bound:
            found = frame.expr(_run(frame, code, env), frame.result)
        return Function(tuple(frame.params), lets(bound, found), frame.result, span=frame.span)

    def _type(self, gv: GlobalVar, func: Function) -> Type | None:
        """The type of a function whose result is not annotated."""
        params = tuple(p.ty for p in func.params if p.ty is not None)
        if len(params) != len(func.params):
            return None
        if func.body.ty is not None:
            return function_type(params, func.body.ty)
        checked = self._checked(Module({**self.functions, gv: func}))[gv]
        assert isinstance(checked, Function)
        return checked.ty

    # ------------------------------------------------------------------ calls

    def call(self, frame: Frame, function: Decorated, args: Sequence[Value], keywords: Keywords) -> Value:
        """The call of a decorated function."""
        gv = self.add(function, function.code.name)
        head = header(Frame(self, function.code, gv.name), function.code)
        given = self._arguments(frame, Closure(function.code, {}), head, args, keywords)
        return frame.builder.apply(gv, [frame.expr(g, t) for g, t in zip(given, head.types, strict=True)])

    def function(self, frame: Frame, function: Decorated) -> Expr:
        """A decorated function as a value."""
        return self.add(function, function.code.name)

    def _arguments(
        self, frame: Frame, closure: Closure, head: Header, args: Sequence[Value], keywords: Keywords
    ) -> list[Value]:
        """The arguments of a call in the order of the parameters, with the defaults of those that are left out."""
        code = closure.code
        if len(args) > len(head.names):
            raise frame.wrong(f"{code.name} takes {len(head.names)} arguments, got {len(args)}")
        given = dict(zip(head.names, args, strict=False))
        for name, v in keywords.items():
            if name not in head.names or name in given:
                what = "got twice" if name in given else f"unknown; it has {', '.join(head.names)}"
                raise frame.wrong(f"{code.name}: argument {name!r} is {what}")
            given[name] = v
        own = replace(frame, code=code)
        for name in head.names:
            if name not in given:
                if name not in head.defaults:
                    raise frame.wrong(f"{code.name}: argument {name!r} is missing")
                given[name] = value(own, dict(closure.taken), head.defaults[name])
        return [given[n] for n in head.names]

    def inline(self, frame: Frame, closure: Closure, args: Sequence[Value], keywords: Keywords) -> Value:
        """What a call of an inner function gives, translated where it is called."""
        code = closure.code
        given_functions = any(
            isinstance(v, Closure | Bound) for v in (*closure.taken.values(), *args, *keywords.values())
        )
        again = any(c.node is code.node for c in frame.inlined) and not given_functions  # f(g(x)), where g is such an f
        if again or len(frame.inlined) >= _NESTED:
            hint = "a function that calls itself is decorated with @relay, or annotated"
            raise frame.unsupported(f"{code.name} calls itself", hint)
        self.sources[code.source.name] = code.source
        inner = replace(frame, code=code, inlined=(*frame.inlined, code), result=None)
        head = header(inner, code)
        given = self._arguments(frame, closure, head, args, keywords)
        env: Env = dict(closure.taken)
        for name, ty, v in zip(head.names, head.types, given, strict=True):
            env[name] = frame.bind(name, v if ty is None else _fitted(frame, code, name, v, ty))
        return _run(inner, code, env)

    def closure(self, frame: Frame, closure: Closure | Bound, like: Type | None) -> Expr:
        """An inner function as a function of the language."""
        if isinstance(closure, Bound):
            raise frame.unsupported("a method as a value", "write a lambda that calls it")
        code = closure.code
        inner = replace(frame, code=code, inlined=(*frame.inlined, code), result=None)
        head = header(inner, code)
        types = list(head.types)
        if isinstance(like, FuncType) and len(like.params) == len(types):
            types = [t or w for t, w in zip(types, like.params, strict=True)]
        env: Env = dict(closure.taken)
        params = [frame.builder.var(n, t) for n, t in zip(head.names, types, strict=True)]
        env.update(zip(head.names, params, strict=True))
        known = [t for t in types if t is not None]
        ty = FuncType(tuple(known), head.result) if head.result and len(known) == len(types) else None
        own = Var(code.name, ty=ty, span=frame.span)
        if code.name != "lambda":
            env[code.name] = own
        inner.result = head.result
        with frame.builder.bindings() as bound:
            body = inner.expr(_run(inner, code, env), head.result)
        made = lets(bound, body)
        known_type = FuncType(tuple(known), made.ty) if made.ty is not None and len(known) == len(types) else ty
        func = Function(tuple(params), made, head.result, ty=known_type, span=frame.span)
        return frame.builder.let(own.with_type(known_type), func)


def _run(frame: Frame, code: Code, env: Env) -> Value:
    """The value that the body of a function gives."""
    if isinstance(code.node, ast.Lambda):
        return value(frame, env, code.node.body)

    def ended(f: Frame, e: Env) -> Value:
        raise code.source.unsupported(code.node, f"{code.name} may end without a return", "every path returns a value")

    return block(frame, code.node.body, env, Flow(ended, lambda f, v: v))


def _fitted(frame: Frame, code: Code, name: str, given: Value, ty: Type) -> Value:
    """An argument of an inner function whose parameter is annotated; a number stays one, of the kind that is wanted."""
    if is_number(given) and isinstance(ty, TensorType) and not ty.rank:
        frame.expr(given, ty)  # it fits
        return float(given) if ty.dtype.is_float else given
    found = frame.expr(given, ty)
    if found.ty is not None and differ(found.ty, ty):
        details = [f"got    : {found.ty}", f"wanted : {ty}"]
        raise frame.wrong(f"{code.name}: argument {name!r} has another type", details=details)
    return found


def _args(code: Code) -> list[ast.arg]:
    a = code.node.args
    return [*a.posonlyargs, *a.args, *a.kwonlyargs]


def _untyped(code: Code) -> Header:
    a = code.node.args
    positional = [*a.posonlyargs, *a.args]
    defaults = dict(zip([p.arg for p in positional[len(positional) - len(a.defaults) :]], a.defaults, strict=True))
    defaults |= {p.arg: d for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d is not None}
    names = tuple(p.arg for p in _args(code))
    return Header(names, (None,) * len(names), defaults, None)


def annotated(frame: Frame, node: ast.expr, dims: Dims) -> Type:
    """The type that an annotation stands for; one in quotes is read, too.

    A name that means nothing is text: `Tensor[(n, 784), float32]`, which `from __future__ import annotations` allows,
    has a symbolic dim n.
    """

    known = frame.code.outer

    def outer(name: str) -> Value:
        try:
            return known(name)
        except LookupError:
            return name

    frame = replace(frame, code=replace(frame.code, outer=outer))
    found = value(frame, {}, node)
    if isinstance(found, str):
        found = value(frame, {}, unquoted(found, node))
    return type_of(found, dims)


def unquoted(text: str, node: ast.AST) -> ast.expr:
    """The expression that an annotation is in quotes, in the place of `node`."""
    try:
        found = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise TypeCheckError(f"{text!r} is not a type of Relay: {error}") from error
    return ast.fix_missing_locations(ast.copy_location(found, node))


def header(frame: Frame, code: Code, dims: Dims | None = None) -> Header:
    """The header of a function; its annotations are read as values. `dims`: what the names of dims mean."""
    named, head = dims or Dims(), _untyped(code)
    frame = replace(frame, code=code, builder=Builder())

    def typed(node: ast.expr | None) -> Type | None:
        if node is None:
            return None
        with frame.at(node):
            return annotated(frame, node, named)

    types = tuple(typed(arg.annotation) for arg in _args(code))
    returned = code.node.returns if isinstance(code.node, ast.FunctionDef) else None
    return replace(head, types=types, result=typed(returned))

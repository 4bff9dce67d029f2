"""A part of a function as a function of its own: a loop, or what follows a branch.

What it reads becomes its parameters: variables whose value differs from call to call (those that live across a loop),
and the rest, which each call passes on. Functions made this way are first-order, so they compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.arith.substitute import substitute, variables
from legato.base.errors import TypeCheckError
from legato.infer.holes import dim_vars
from legato.infer.replace import replace_vars
from legato.ir.expr import Expr, Function, GlobalVar, Var
from legato.ir.let import lets
from legato.ir.types import Dim, FuncType, TensorType, Type, walk
from legato.script.frame import Env, Frame
from legato.script.values import Missing, Value, describe, exprs, is_atom, leaves, mapped

__all__ = ["Lifted", "differ", "function_type"]


class Lifted:
    """A part of the function of `frame` that needs `names` of `env`, of which `varying` differ from call to call.

    `repeats`: it is a loop, which calls itself.
    """

    def __init__(
        self, frame: Frame, name: str, env: Env, names: Sequence[str], varying: frozenset[str], *, repeats: bool = False
    ) -> None:
        self.outer, self.span, self.repeats = frame, frame.span, repeats
        self.var: GlobalVar = frame.program.define(f"{frame.name}_{name}")
        self.dims: dict[DimVar, Dim] = {}
        self.params: list[Var] = []
        self.names = [n for n in names if n in env]
        self.varying = varying
        self.env: Env = {}
        self._by_id: dict[int, Var] = {}
        self._positions: dict[str, list[int]] = {}
        self._bound: dict[str, DimVar] = {}
        start = {n: self._start(frame, n, env[n]) if n in varying else env[n] for n in self.names}
        start |= self._binders(frame, env, start)
        for n, value in start.items():
            self.env[n] = self._inside(frame, n, value)
        self.env = {n: mapped(v, lambda e: e, self._dim) for n, v in self.env.items()}
        self.types: dict[str, list[Type | None]] = {n: [e.ty for e in exprs(self.env[n])] for n in self.env}

    # ------------------------------------------------------------------ parameters

    def _start(self, frame: Frame, name: str, value: Value) -> Value:
        """The first value of a variable that changes: all of it as expressions."""
        if isinstance(value, Missing):
            return value
        if isinstance(value, tuple | list):
            return tuple([self._start(frame, name, v) for v in value])
        if value is None or isinstance(value, str):
            raise frame.wrong(f"`{name}` is {value!r} before, and changes: it is no tensor", "give it a tensor before")
        return frame.expr(value)

    def _inside(self, frame: Frame, name: str, value: Value) -> Value:
        """A value as seen inside: its expressions are parameters, each once."""
        positions = self._positions[name] = []
        count = 0

        def param(e: Expr) -> Expr:
            nonlocal count
            count += 1
            if is_atom(e) and not isinstance(e, Var) and name not in self.varying:
                return e
            if name not in self.varying and id(e) in self._by_id:
                return self._by_id[id(e)]
            if e.ty is None:
                hint = "annotate the parameters that it comes from"
                raise frame.wrong(f"the type of `{name}` is not known where a loop or a branch needs it", hint)
            made = Var(
                e.name if isinstance(e, Var) and name not in self.varying else _shown(name),
                ty=self._type(e.ty),
                span=frame.span,
            )
            positions.append(count - 1)
            self.params.append(made)
            if name not in self.varying:
                self._by_id[id(e)] = made
            return made

        return mapped(value, param)

    def _type(self, ty: Type) -> Type:
        for v in dim_vars(ty):
            if v not in self.dims:
                self.dims[v] = fresh(v.name)
        return replace_vars(ty, {}, self.dims)

    def _dim(self, dim: Dim) -> Dim:
        return substitute(dim, self.dims)

    def _binders(self, frame: Frame, env: Env, start: Env) -> Env:
        """Variables whose types bind the dims that are needed and that no parameter's type would bind."""
        needed: dict[DimVar, None] = {}
        plain: set[Dim] = set()
        for value in start.values():
            for part in leaves([value]):
                if isinstance(part, Dim):
                    needed.update(dict.fromkeys(variables(part)))
                elif part.ty is not None:
                    needed.update(dict.fromkeys(dim_vars(part.ty)))
                    plain |= _plain(part.ty)
        found: Env = {}
        for dim in needed:
            if dim in plain:
                continue
            binder = _binder(frame, env, dim)
            if binder is not None and binder.ty is not None:
                name = f".{dim.name}.{len(found)}"
                found[name], self._bound[name] = binder, dim
                plain |= _plain(binder.ty)
        return found

    # ------------------------------------------------------------------ the function

    def frame(self) -> Frame:
        """The frame for what is translated inside."""
        inner = replace(self.outer, builder=type(self.outer.builder)(span=self.span), params=self.params)
        for p in self.params:
            if p.ty is not None:
                inner.builder.var(p.name, p.ty)  # its dims are in scope
        return inner

    def declare(self, result: Type | None) -> None:
        """The type of the result, if it is known before the body is."""
        if result is not None:
            self.var = self.var.with_type(function_type([p.ty for p in self.params if p.ty is not None], result))

    def build(
        self, body: Callable[[Frame, Env], Value], like: Type | None = None, *, result: Type | None = None
    ) -> None:
        """Translates the body; `result` is the type of what it gives, `like` what its numbers are."""
        inner = self.frame()
        with inner.builder.bindings() as bound:
            found = inner.expr(body(inner, dict(self.env)), like)
        made = lets(bound, found)
        func = Function(tuple(self.params), made, result, span=self.span)
        if self.var.ty is None:
            self.declare(made.ty)
        self.outer.program.finish(self.var, func)

    def call(self, frame: Frame, env: Env) -> Expr:
        """A call with the values of `env`, which are there under the same names."""
        args: list[Expr] = []
        for name in self.env:
            value = env.get(name, Missing(f"`{name}` has no value here"))
            if name in self._bound and name not in env:
                value = _binder(frame, env, self._bound[name])
            if name in self.varying:
                self.collect(frame, name, value, self.env[name], args)
            else:
                parts = exprs(value)
                args += [parts[n] for n in self._positions[name]]
        return frame.builder.apply(self.var, args)

    def collect(self, frame: Frame, name: str, value: Value, template: Value, args: list[Expr]) -> None:
        """Collects the expressions of a variable that has changed; its structure and types have to be the same."""
        if isinstance(template, Missing):
            return
        if isinstance(value, Missing):
            raise frame.unsupported(value.why)
        if isinstance(template, tuple):
            if isinstance(value, Expr) or not isinstance(value, tuple | list) or len(value) != len(template):
                value = self._fields(frame, name, value, len(template))
            for v, t in zip(value, template, strict=True):
                self.collect(frame, name, v, t, args)
            return
        if value is None or isinstance(value, str):
            raise frame.wrong(f"`{name}` becomes {value!r}, and was {describe(template)}")
        found = frame.expr(value, template.ty)
        if found.ty is not None and template.ty is not None and differ(found.ty, template.ty):
            raise self._changed(frame, name, template.ty, found)
        args.append(found)

    def _changed(self, frame: Frame, name: str, before: Type, found: Expr) -> TypeCheckError:
        """The error for a variable whose type is not the same in all calls."""
        if not self.repeats:
            details = [f"on one path : {before}", f"on another  : {found.ty}"]
            return frame.wrong(f"`{name}` has two types where paths meet", "give it the same shape and dtype", details)
        details = [f"before : {before}", f"after  : {found.ty}"]
        hint = "a variable that changes keeps its shape and dtype: give it both before"
        with frame.builder.at((found.span if isinstance(found, Var) else None) or frame.span):
            return frame.wrong(f"the type of `{name}` changes", hint, details)

    @staticmethod
    def _fields(frame: Frame, name: str, value: Value, count: int) -> tuple[Expr, ...]:
        if not isinstance(value, Expr) or value.ty is None or len(value.ty.children()) != count:
            raise frame.wrong(f"`{name}` was a tuple of {count} and becomes {describe(value)}")
        bound = frame.bind(name, value)
        return tuple(frame.builder.get(bound, n) for n in range(count))


def function_type(params: Sequence[Type], result: Type) -> FuncType:
    """The type of a function of the module: for all dims of its parameters."""
    return FuncType(tuple(params), result, tuple(dict.fromkeys(v for ty in params for v in dim_vars(ty))))


def _shown(name: str) -> str:
    return name.strip(".").split(".")[0]


def _binder(frame: Frame, env: Env, dim: DimVar) -> Var | None:
    """A variable whose type binds `dim`."""
    for e in (*exprs(list(env.values())), *frame.params):
        if isinstance(e, Var) and e.ty is not None and dim in _plain(e.ty):
            return e
    return None


def _plain(ty: Type) -> set[Dim]:
    """The dim variables that are an extent as they are, so that a value of the type says what they are."""
    return {d for part in walk(ty) if isinstance(part, TensorType) for d in part.shape if isinstance(d, DimVar)}


def differ(a: Type, b: Type) -> bool:
    """Whether two types certainly differ: dims that are not numbers are compared by inference."""
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        if a.dtype != b.dtype or a.rank != b.rank:
            return True
        pairs: list[tuple[Any, Any]] = list(zip(a.shape, b.shape, strict=True))
        return any(not variables(x, y) and x != y for x, y in pairs)
    kids = list(zip(a.children(), b.children(), strict=False))
    return type(a) is not type(b) or len(a.children()) != len(b.children()) or any(differ(x, y) for x, y in kids)

"""Jacobians and Hessians: one direction after the other, each a product with the Jacobian."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf, prod
from typing import Final

import numpy as np

from legato.arith.expr import Const
from legato.arith.simplify import simplify
from legato.autodiff.program import Program, Wrt, as_module, cleaned, is_one, like, main_of, names_of, unrolled
from legato.autodiff.reverse import grad
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.expr import Expr, Function, Tuple, Var, constant, tuple_of
from legato.ir.let import Binding, chain, lets
from legato.ir.module import Module
from legato.ir.types import Dim, FuncType, TensorType, TupleType, Type, dims, tensor_type
from legato.ir.visit import free_vars, rename_bound, substitute
from legato.ops._gradients import extents
from legato.transform._gradient.cotangents import is_continuous
from legato.transform._gradient.first_order import is_straight_line
from legato.transform._gradient.prepared import apart
from legato.transform._gradient.wanted import named
from legato.transform.gradient import Gradient
from legato.transform.pass_ import Pass
from legato.transform.tangent import Tangent
from legato.transform.to_a_normal import ToANormal

__all__ = ["hessian", "jacobian"]

UNROLLED: Final = 8  # so many directions are written one after the other; more of them are a loop


def jacobian(f: Program, wrt: Wrt = None, *, mode: str | None = None) -> Program:
    """The program that computes the Jacobian of `f`: derivatives of each element of the result by each of a parameter.

    wrt:  as for `grad`: one name or position gives one tensor, several of them, or None, a tuple of tensors. Its shape
          is that of the result, and then that of the parameter. Where the result of `f` is a tuple, there is a tuple of
          these for its fields.
    mode: "reverse" goes through the program once for each element of the result, "forward" once for each of the
          parameters; None takes the one with fewer directions, and "reverse" where sizes are not known.

    A few directions are written one after the other and share what does not depend on them; more are a loop.

    CompileError where a parameter or a field of the result is no tensor of floats.
    """
    if mode not in (None, "forward", "reverse"):
        raise CompileError(f"there is no mode {mode!r}", hint='there are "reverse" and "forward"')
    made = _Jacobian(ToANormal()(unrolled(apart(as_module(f)))), wrt)
    if mode is None:
        mode = "forward" if _size(p.ty for p in made.params) < _size(made.outputs) else "reverse"
    blocks = made.forward() if mode == "forward" else made.reverse()
    rows = [block[0] if is_one(wrt) else tuple_of(block) for block in blocks]
    whole = tuple_of(rows) if made.is_tuple else rows[0]
    return like(f, cleaned(made.module(whole)))


def hessian(f: Program, wrt: Wrt = None) -> Program:
    """The program that computes the second derivatives of `f`, whose result is a float scalar: forward over reverse.

    wrt: one name or position gives a tensor, whose shape is that of the parameter twice; several of them, or None, give
         a tuple of tuples: that of the first parameter's gradient by each of them, and so on.
    """
    return jacobian(grad(f, wrt), wrt, mode="forward")


def _size(types: Iterable[Type | None]) -> float:
    """The number of elements of tensors; infinite where that is not known."""
    return sum(prod(ty.static_shape()) if isinstance(ty, TensorType) and ty.is_static else inf for ty in types)


def _require(ty: Type | None, what: str) -> TensorType:
    if not isinstance(ty, TensorType) or not ty.dtype.is_float:
        raise CompileError(f"{what} has type {ty}, wanted a tensor of floats", hint="a Jacobian is one of tensors")
    return ty


def _type(e: Expr) -> TensorType:
    assert isinstance(e.ty, TensorType)
    return e.ty


@dataclass(frozen=True, slots=True)
class _Map:
    """Code that depends linearly on a direction, the variable `seed`, and gives a tuple of tensors."""

    seed: Var
    bindings: Sequence[Binding]
    results: Sequence[Expr]
    unrolls: bool  # whether the code may be there more than once

    @property
    def types(self) -> list[TensorType]:
        """Those of the results."""
        return list(map(_type, self.results))

    def at(self, b: Builder, direction: Expr) -> list[Expr]:
        """The results in a direction."""
        code = substitute(rename_bound(lets(self.bindings, tuple_of(self.results))), {self.seed: direction})
        bindings, results = chain(code)
        for var, value in bindings:
            b.let(var, value)
        return [b.get(results, n) for n in range(len(self.results))]


class _Jacobian:
    """The Jacobian of a module in A-normal form, whose code grows as its parts are asked for."""

    def __init__(self, mod: Module, wrt: Wrt) -> None:
        self._mod, self._main = mod, main_of(mod)
        names = names_of(self._main, wrt) or tuple(p.name for p in self._main.params if is_continuous(p.ty))
        self.params = named(self._main, names)
        for p in self.params:
            _require(p.ty, f"the parameter {p.name!r}")
        self._bindings, self._result = chain(self._main.body)
        ty = self._result.ty
        self.is_tuple = isinstance(ty, TupleType)
        fields = ty.fields if isinstance(ty, TupleType) else (ty,)
        self.outputs = [_require(t, f"field {n} of the result" if self.is_tuple else "the result")
                        for n, t in enumerate(fields)]  # fmt: skip
        self._b = Builder(span=self._main.span)
        self._code: list[Binding] = []
        self._shared = set[Var]()

    def module(self, result: Expr) -> Module:
        """The module that gives this, made of what `forward` or `reverse` gave; in A-normal form."""
        return ToANormal()(infer(self._with(lets(self._code, result))))

    def _with(self, body: Expr) -> Module:
        """The module as it is by now with the old parameters and another body of @main."""
        main = replace(self._main, body=body, ret_type=None, ty=None)
        return self._mod.with_function(self._mod.var("main"), main)

    def forward(self) -> list[list[Expr]]:
        """For each field of the result the derivatives by each parameter."""
        columns = []
        for p in self.params:
            of = self._map(Tangent((p.name,)), self._main.body)
            with self._b.bindings() as code:
                columns.append(_stacked(self._b, p, of, is_last=True))
            self._code += code
        return [list(row) for row in zip(*columns, strict=True)]

    def reverse(self) -> list[list[Expr]]:
        """For each field of the result the derivatives by each parameter."""
        rows = []
        for n in range(len(self.outputs)):
            result = self._b.get(self._result, n) if self.is_tuple else self._result
            of = self._map(Gradient(tuple(p.name for p in self.params), seeded=True), lets(self._bindings, result))
            with self._b.bindings() as code:
                rows.append(_stacked(self._b, of.seed, of, is_last=False))
            self._code += code
        return rows

    def _map(self, differentiate: Pass, body: Expr) -> _Map:
        """What differentiation makes of a body; what does not depend on the direction becomes code before it.

        What is no straight line is not taken apart: cells and calls belong to one direction.
        """
        self._mod = ToANormal()(unrolled(differentiate(self._with(body))))
        main = main_of(self._mod)
        bindings, result = chain(main.body)
        assert isinstance(result, Tuple)
        derivative = result.fields[1]
        seed = main.params[-1]
        results = derivative.fields if isinstance(derivative, Tuple) else (derivative,)
        if not is_straight_line(main):
            return _Map(seed, bindings, results, unrolls=False)
        moving, linear = {seed}, []
        for var, value in bindings:
            if moving.isdisjoint(free_vars(value)):
                self._share(var, value)
            else:
                moving.add(var)
                linear.append((var, value))
        return _Map(seed, linear, results, unrolls=True)

    def _share(self, var: Var, value: Expr) -> None:
        """Makes a binding once: the original ones are in every map."""
        if var not in self._shared:
            self._shared.add(var)
            self._code.append((var, value))


def _stacked(b: Builder, like: Expr, of: _Map, *, is_last: bool) -> list[Expr]:
    """The derivatives in the directions of all elements of a tensor like this, whose dims come first, or last."""
    ty = _type(like)
    count = simplify(_product(ty.shape))
    found = _unrolled(b, ty, count, of, is_last) if _is_short(count, of) else _looped(b, ty, count, of, is_last)
    shapes = [(*t.shape, *ty.shape) if is_last else (*ty.shape, *t.shape) for t in of.types]
    return [
        b.let("j", b.reshape(x, newshape=extents(shape), allowzero=True))
        for x, shape in zip(found, shapes, strict=True)
    ]


def _is_short(count: Dim, of: _Map) -> bool:
    return isinstance(count, Const) and count.value <= (UNROLLED if of.unrolls else 1)


def _product(shape: Sequence[Dim]) -> Dim:
    return prod(shape[1:], start=shape[0]) if shape else dims([1])[0]


def _unrolled(b: Builder, ty: TensorType, count: Dim, of: _Map, is_last: bool) -> list[Expr]:
    assert isinstance(count, Const)
    found = [of.at(b, _unit(b, ty, count, constant(n, "int64"))) for n in range(int(count.value))]
    if len(found) == 1:
        return found[0]
    if not found:
        return [b.let("none", b.zeros(shape=extents((count, *t.shape)), dtype=t.dtype.name)) for t in of.types]
    parts = zip(*found, strict=True)
    return [b.let("rows", b.stack(list(part), axis=-1 if is_last else 0)) for part in parts]


def _unit(b: Builder, ty: TensorType, count: Dim, number: Expr) -> Expr:
    """The direction of one element."""
    on, off = (constant(np.full((), n), ty.dtype) for n in (1, 0))
    if not ty.rank:
        return on
    hot = b.let("unit", b.one_hot(number, on, off, depth=extents((count,))[0]))
    return hot if ty.rank == 1 else b.let("unit", b.reshape(hot, newshape=extents(ty.shape), allowzero=True))


def _looped(b: Builder, ty: TensorType, count: Dim, of: _Map, is_last: bool) -> list[Expr]:
    """A function that calls itself with the next direction, and the rows that it has so far."""
    loop, func = _loop(b, ty, count, of)
    b.let(loop, func)
    none = [b.let("none", b.zeros(shape=extents((count, *t.shape)), dtype=t.dtype.name)) for t in of.types]
    found = b.let("found", b.apply(loop, [constant(0, "int64"), *none]))
    rows: list[Expr] = [b.let("rows", b.get(found, n)) for n in range(len(none))]
    if not is_last:
        return rows
    return [b.let("columns", b.transpose(x, axes=(*range(1, t.rank + 1), 0)))
            for x, t in zip(rows, of.types, strict=True)]  # fmt: skip


def _loop(b: Builder, ty: TensorType, count: Dim, of: _Map) -> tuple[Var, Function]:
    i, one = Var("i", ty=tensor_type((), "int64")), constant(1, "int64")
    rows = [Var("rows", ty=TensorType((count, *t.shape), t.dtype)) for t in of.types]
    result = TupleType(tuple(_type(r) for r in rows))
    loop = Var("loop", ty=FuncType((_type(i), *result.fields), result))

    def step() -> Expr:
        at = b.let("at", b.reshape(i, newshape=(1, 1)))
        longer = list[Expr]()
        for r, x in zip(rows, of.at(b, _unit(b, ty, count, i)), strict=True):
            row = b.let("row", b.expand_dims(x, axis=0))
            longer.append(b.let("rows", b.scatter_nd(r, at, row, mode="update")))
        return b.apply(loop, [b.let("i", b.add(i, one)), *longer])

    def body() -> Expr:
        return b.if_(b.let("more", b.less(i, _number(b, ty, count))), step, tuple_of(rows))

    return loop, Function((i, *rows), b.body(body), result, ty=loop.ty)


def _number(b: Builder, ty: TensorType, count: Dim) -> Expr:
    """The number of elements of a tensor of type `ty`."""
    if isinstance(count, Const):
        return constant(int(count.value), "int64")
    like = b.let("all", b.zeros(shape=extents(ty.shape), dtype=ty.dtype.name))
    return b.let("n", b.ndarray_size(like, dtype="int64"))

"""Gradients and tangents of straight-line functions: straight-line code again, without cells or closures."""

from __future__ import annotations

from collections.abc import Sequence

from legato.infer.builder import Builder
from legato.ir.expr import Expr, Function, Var
from legato.ir.let import chain, lets
from legato.ir.types import TupleType
from legato.transform._gradient.cotangents import Cotangent, is_continuous, made
from legato.transform._gradient.straight import (
    Cotangents,
    active_vars,
    give,
    is_straight,
    of_operand,
    pull_back,
    push_forward,
)
from legato.transform._gradient.wanted import attrs_of

__all__ = ["forward", "is_straight_line", "reverse"]


def is_straight_line(func: Function) -> bool:
    """Whether a function in A-normal form only calls operators."""
    return all(is_straight(value) for _, value in chain(func.body)[0])


def reverse(func: Function, wrt: Sequence[Var], seed: Var | None, has_aux: bool) -> Function:
    """The function that gives (the value of `func`, the gradients of its parameters `wrt`).

    func: straight-line code in A-normal form; has_aux: the first field of its result is what is differentiated.
    seed: the cotangent of the result, a parameter of the new function; None: ones.
    """
    b = Builder(span=func.span)
    bindings, result = chain(func.body)
    active = active_vars(bindings, wrt)
    with b.bindings() as made_:
        for var, value in bindings:
            b.let(var, value)
        output = _first(b, result) if has_aux else result
        found: Cotangents = {}
        give(b, found, active, output, _seed(b, output) if seed is None else _parts(b, seed))
        pull_back(b, bindings, found, active)
        gradients = b.tuple_([made(b, found.get(p), p) for p in wrt])
        whole = b.tuple_([result, gradients])
    params = (*func.params, *(() if seed is None else (seed,)))
    return Function(params, lets(made_, whole), None, func.type_params, attrs_of(func), span=func.span)


def _first(b: Builder, result: Expr) -> Expr:
    first = b.get(result, 0)
    return first if isinstance(first, Var) else b.let("y", first)


def _seed(b: Builder, output: Expr) -> Cotangent:
    """Ones for every float of the result."""
    if isinstance(output.ty, TupleType):
        return tuple(_seed(b, b.get(output, n)) for n in range(len(output.ty.fields)))
    return b.let("dy", b.ones_like(output))


def forward(func: Function, wrt: Sequence[Var], moves: Sequence[Var]) -> Function:
    """The function that gives (the value of `func`, its tangent); what has no floats has zeros.

    func: straight-line code in A-normal form; moves: the tangents of its parameters `wrt`, parameters after the others.
    """
    b = Builder(span=func.span)
    bindings, result = chain(func.body)
    with b.bindings() as made_:
        found: Cotangents = {var: _parts(b, move) for var, move in zip(wrt, moves, strict=True)}
        for binding in bindings:  # each with its tangent: neither is kept for long
            b.let(*binding)
            push_forward(b, [binding], found)
        whole = b.tuple_([result, made(b, of_operand(found, result), result)])
    return Function((*func.params, *moves), lets(made_, whole), None, func.type_params, attrs_of(func), span=func.span)


def _parts(b: Builder, value: Expr) -> Cotangent:
    """A parameter as a cotangent or tangent: nothing where it holds no floats."""
    if not is_continuous(value.ty):
        return None
    if not isinstance(value.ty, TupleType):
        return value
    return tuple(_parts(b, b.let("part", b.get(value, n))) for n in range(len(value.ty.fields)))

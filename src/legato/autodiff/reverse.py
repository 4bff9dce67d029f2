"""Reverse mode: gradients, and products of vectors with the Jacobian."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Const
from legato.autodiff.program import (
    Program,
    Wrt,
    as_module,
    cleaned,
    is_one,
    like,
    main_of,
    names_of,
    unrolled,
    with_result,
)
from legato.base.errors import CompileError
from legato.ir.expr import Expr, Tuple, TupleGetItem
from legato.ir.module import Module
from legato.ir.types import TensorType, TupleType
from legato.transform.gradient import Gradient

__all__ = ["grad", "value_and_grad", "vjp"]


def grad(f: Program, wrt: Wrt = None, *, has_aux: bool = False) -> Program:
    """The program that computes the gradients of `f`, whose result is a float scalar.

    f:       a Module (its @main is meant), a Function, or a decorated function; what comes back is a Module, or a
             Function for a Function.
    wrt:     the parameters, by name or position: the result is the tuple of their gradients, in this order; for one
             name or position, its gradient alone. None: all parameters that hold floats.
    has_aux: the result of `f` is (scalar, other values…), and that of the new program (gradients, other values…).

    CompileError where the result is no scalar or a parameter has no gradient; UnsupportedError for an operator without
    a rule.
    """
    mod = _differentiated(f, wrt, has_aux)
    return like(f, cleaned(unrolled(with_result(mod, lambda fields: _gradients(fields, wrt, has_aux)))))


def value_and_grad(f: Program, wrt: Wrt = None, *, has_aux: bool = False) -> Program:
    """As `grad`, with what `f` gives before the gradients: (value, gradients)."""
    mod = _differentiated(f, wrt, has_aux)
    return like(f, cleaned(unrolled(with_result(mod, lambda fields: Tuple((fields[0], _picked(fields[1], wrt)))))))


def vjp(f: Program, wrt: Wrt = None) -> Program:
    """The program that gives (value, gradients) for a cotangent of the result, `dy`, its last parameter.

    The result of `f` is a tensor or a tuple of tensors, of any shapes.
    """
    mod = as_module(f)
    made = Gradient(names_of(main_of(mod), wrt), seeded=True)(unrolled(mod))
    return like(f, cleaned(unrolled(with_result(made, lambda fields: Tuple((fields[0], _picked(fields[1], wrt)))))))


def _differentiated(f: object, wrt: Wrt, has_aux: bool) -> Module:
    mod = as_module(f)
    main = main_of(mod)
    output = main.body.ty
    if has_aux and isinstance(output, TupleType) and output.fields:
        output = output.fields[0]
    if not isinstance(output, TensorType) or any(not isinstance(d, Const) or d.value != 1 for d in output.shape):
        raise CompileError(
            f"what is differentiated has type {output}, wanted one float", span=main.span,
            hint="sum it up, or use legato.autodiff.vjp, which takes a cotangent",
        )  # fmt: skip
    return Gradient(names_of(main, wrt), has_aux)(unrolled(mod))


def _gradients(fields: Sequence[Expr], wrt: Wrt, has_aux: bool) -> Expr:
    value, gradients = fields[0], _picked(fields[1], wrt)
    if not has_aux:
        return gradients
    assert isinstance(value.ty, TupleType)
    parts = value.fields if isinstance(value, Tuple) else _projected(value, len(value.ty.fields))
    return Tuple((gradients, *parts[1:]))


def _projected(value: Expr, count: int) -> tuple[Expr, ...]:
    return tuple(TupleGetItem(value, n) for n in range(count))


def _picked(gradients: Expr, wrt: Wrt) -> Expr:
    assert isinstance(gradients, Tuple)
    return gradients.fields[0] if is_one(wrt) else gradients

"""Forward mode: products of the Jacobian with vectors."""

from __future__ import annotations

from legato.autodiff.program import Program, Wrt, as_module, cleaned, like, main_of, names_of, unrolled
from legato.transform.tangent import Tangent

__all__ = ["jvp"]


def jvp(f: Program, wrt: Wrt = None) -> Program:
    """The program that gives (value, tangent): what `f` gives, and how it moves when its parameters do.

    f:   a Module (its @main is meant), a Function, or a decorated function; what comes back is a Module, or a Function
         for a Function.
    wrt: the parameters that move, by name or position; None: all that hold floats. The new program takes their
         tangents, in this order and of their types, after its parameters: `dx` for `x`.

    The tangent has the type of the value, a tensor or a tuple of tensors; what holds no floats has zeros. CompileError
    for a parameter without floats; UnsupportedError for an operator without a rule.
    """
    mod = as_module(f)
    return like(f, cleaned(unrolled(Tangent(names_of(main_of(mod), wrt))(unrolled(mod)))))

"""The definition of the language: evaluates programs with the operators' NumPy references.

    value = array | tuple of values | Closure | Data (a constructor applied) | Ref

A machine with an explicit stack: one frame per active call, each with a list of work to do and a stack of values. A
call in tail position replaces its frame, so loops written as recursion run in constant space, and nothing here
recurses on the program. Evaluation is strict, left to right. A node that is used twice within one activation is
computed once; its value is dropped after its last use.

In float64 mode every float in the program is a float64: constants and arguments are widened, and attributes that name
a float dtype (of cast, zeros, …) name float64. It tells rounding from error when compiled results are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.base.errors import RunError
from legato.interp.machine import Machine, Observer
from legato.interp.values import Closure, Data, Ref, Value, as_value, evaluate_op
from legato.ir.expr import Function
from legato.ir.module import Module

__all__ = ["Closure", "Data", "Observer", "Ref", "Value", "evaluate", "evaluate_op"]


def evaluate(
    module: Module,
    args: Sequence[Value] = (),
    name: str = "main",
    *,
    float64: bool = False,
    observe: Observer | None = None,
) -> Value:
    """The value of function `name` of `module` on `args`.

    Arguments are arrays (or what NumPy takes as one) and tuples of them; they are checked against the parameters'
    types. `observe(node, value)` is told of every node that is computed. RunError for arguments that do not fit, a
    failed match or cast, or a dim equality that does not hold.
    """
    func = module[name]
    if not isinstance(func, Function):
        raise RunError(f"@{name} is a loop program; tir.interp runs those")
    machine = Machine(module, float64, observe)
    return machine.run(Closure(func), [machine.widen(as_value(a)) for a in args], f"@{name}")

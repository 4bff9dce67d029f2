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

from legato.interp.machine import Observer, evaluate
from legato.interp.values import Closure, Data, Ref, Value, evaluate_op

__all__ = ["Closure", "Data", "Observer", "Ref", "Value", "evaluate", "evaluate_op"]

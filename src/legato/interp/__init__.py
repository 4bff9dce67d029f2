"""The definition of the language: evaluates programs with the operators' NumPy references.

    value = array | tuple of values | Closure | Data (a constructor applied) | Ref

To read in this order:

    values       what programs compute
    rules        the meaning of every kind of expression, one rule each: the definition
    operators    what operators allow, by their type relations
    calls        application: operators, constructors, functions, loop programs
    patterns     whether a value fits a pattern
    dims         the values of dims: bound by the types of arguments, results and casts
    constraints  equalities of dims, checked when they have values
    activation   one call of a function: its variables, and nodes that are used again
    arguments    whether a program is given what its parameters' types say
    context      what all activations share
    machine      runs the rules without recursion

Evaluation is strict, left to right. A node that is used several times within one activation is computed once. A call in
tail position keeps nothing of the activation that it ends, so loops written as recursion run in constant space.

In float64 mode every float in the program is a float64: constants and arguments are widened, and attributes that name
a float dtype (of cast, zeros, …) name float64. It tells rounding from error when compiled results are compared.
"""

from __future__ import annotations

from legato.interp.context import Observer
from legato.interp.machine import evaluate
from legato.interp.values import Closure, Data, Ref, Value, evaluate_op

__all__ = ["Closure", "Data", "Observer", "Ref", "Value", "evaluate", "evaluate_op"]

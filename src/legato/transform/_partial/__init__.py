"""The partial evaluator that `transform.partial_evaluate` runs.

To read in this order:

    values      what is known of what a program computes
    scope       activations: what variables, dims and type variables stand for
    store       what cells are known to hold
    code        the program that is written, and how it becomes expressions
    conform     types, where the original program states them
    patterns    whether a value fits a pattern
    evaluate    one rule for every kind of expression
    calls       which calls are followed
    special     specialisations of functions
    attempt     fuel, and what is learned of loops
"""

from __future__ import annotations

from legato.transform._partial.attempt import Attempt, Lessons, OutOfFuel, entries

__all__ = ["Attempt", "Lessons", "OutOfFuel", "entries"]

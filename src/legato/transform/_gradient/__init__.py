"""Differentiation, which `transform.gradient` runs.

To read in this order:

    prepared     what a module is before it is differentiated
    wanted       what it is differentiated by
    cotangents   what belongs to a value, and is nothing where it is zero
    rules        the rules of operators, applied
    straight     straight-line code
    first_order  functions that are straight-line code
    dual_types   the types of programs whose tensors have companions
    nodes        what a variable has become
    runs         straight-line code between calls and branches
    modes        reverse and forward mode: what companions are, and what closes a run
    lift         one function of any kind
    boundary     data that the program takes and gives
    marked       functions with a gradient of their own
    general      whole programs
"""

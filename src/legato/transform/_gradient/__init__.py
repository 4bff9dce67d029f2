"""Differentiation, which `transform.gradient` runs.

To read in this order:

    cotangents   what belongs to a value, and is nothing where it is zero
    rules        the rules of operators, applied
    straight     straight-line code
    first_order  functions that are straight-line code
"""

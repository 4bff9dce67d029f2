"""Modules as JSON: everything that a module holds, with types, spans and sharing. Version 1.

    {"legato": "module", "version": 1,
     "sources": [name, …],              the texts and models that spans point into
     "spans":   [[source, line, column, end line, end column], …]
     "dims":    [dim, …],
     "types":   [type, …],
     "arrays":  [[dtype, [extent, …], "base64 of the little-endian bytes, row-major"], …]
                                        or [dtype, [extent, …], {"tensor": name}]: it lies in the side file
                                        or ["string", [extent, …], {"strings": [string, …]}]
     "data":    [{"name", "kind", "extern", "variables": [type, …],
                  "constructors": [[name, [type, …], span or null], …]}, …],
     "nodes":   [node, …],
     "functions": [{"global": node, "body": node} or {"global": node, "program": "the text of a tensor program"}, …],
     "attrs": {name: value, …}, "constants": {name: array, …}}

Whatever is named by a number is an entry of the table of that name, and entries refer to earlier entries only. So a
node that is used twice is one entry, and a dim that occurs in several types and functions is one variable.

    dim   = ["int", n] | ["bool", b] | ["var", name, lo or null, hi or null] | [operator, dim, dim]
          | ["select", dim, dim, dim]
    type  = ["tensor", [dim, …], dtype] | ["tuple", [type, …]] | ["fn", [type, …], type, [binder, …]] | ["ref", type]
          | ["variable", name, kind] | ["data", data] | ["call", type, [type, …]] | ["shape", [dim, …] or null]
          | ["hole"]
    binder, argument = {"type": type} | {"dim": dim}
    node  = {"node": kind, …}           see `json_nodes`; "ty" and "span" where it has them
    value = null | true | false | int | float | string | [value, …] (a tuple) | {"map": {name: value, …}}
          | {"float": "nan" | "inf" | "-inf"} | {"dtype": dtype} | {"dim": dim} | {"type": type} | {"array": array}
          | {"constraint": [dim, dim, what, span or null]}

Two variables (nodes, dims) with equal names are not the same; a "var" node says by a number which variable it is, since
a variable may occur with different types and spans.
"""

from __future__ import annotations

from typing import Final

from legato.arith.expr import Op

__all__ = [
    "DIM_OPERATORS",
    "FORMAT",
    "MAX_DIM",
    "MAX_NESTING",
    "MAX_RANK",
    "MAX_TOTAL",
    "MAX_TYPE",
    "VERSION",
]

FORMAT: Final = "module"
VERSION: Final = 1
MAX_NESTING: Final = 100  # of types and attribute values
MAX_TYPE: Final = 1 << 16  # types and dims inside a type, each counted as often as it occurs
MAX_DIM: Final = 1 << 14  # the same for a dim
MAX_TOTAL: Final = 1 << 23  # of all types and dims of a module
MAX_RANK: Final = 64
DIM_OPERATORS: Final = {op.value: op for op in Op if op is not Op.DIV}

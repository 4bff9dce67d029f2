"""The kinds of nodes in JSON, as data: what `json_save` writes and `json_load` reads.

Each kind lists its fields in the order in which the node's class takes them:

    node, node?   the number of a node, or null              nodes     a list of them
    var           the number of a "var" node                 vars      a list of them
    type, type?   the number of a type, or null              dims      a list of numbers of dims
    array         the number of an array                     index     a number that is not negative
    text          a string                                   flag      true or false
    binders       a list of {"type": …} and {"dim": …}       attrs     an object of attribute values
    bindings      a list of [var, node]                      clauses   a list of [pattern, node]

A pattern is a list in which every part stands before its own parts: ["_"], ["var", node], ["tuple", number of parts],
["constructor", data, tag, number of parts].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from legato.ir.expr import (
    Call,
    Constant,
    Dataflow,
    Expr,
    Function,
    If,
    Let,
    Match,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Shape,
    Tuple,
    TupleGetItem,
)

__all__ = ["CLASSES", "FIELDS", "KINDS"]

# Kinds whose node is the class called with these fields. Others ("var", "global", "op", "constructor") are leaves that
# are looked up by their names.
FIELDS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "constant": (("data", "array"),),
    "function": (("params", "vars"), ("body", "node"), ("ret_type", "type?"), ("type_params", "binders"),
                 ("attrs", "attrs")),
    "call": (("op", "node"), ("args", "nodes"), ("attrs", "record"), ("type_args", "binders")),
    "let": (("var", "var"), ("value", "node"), ("body", "node")),
    "if": (("cond", "node"), ("then", "node"), ("orelse", "node")),
    "match": (("data", "node"), ("clauses", "clauses"), ("complete", "flag")),
    "tuple": (("fields", "nodes"),),
    "get": (("value", "node"), ("index", "index")),
    "ref": (("value", "node"),),
    "ref_read": (("ref", "node"),),
    "ref_write": (("ref", "node"), ("value", "node")),
    "match_cast": (("value", "node"), ("target", "type")),
    "dataflow": (("bindings", "bindings"), ("outputs", "nodes")),
    "shape": (("dims", "dims"),),
}  # fmt: skip
CLASSES: Final[Mapping[str, type[Expr]]] = {
    "constant": Constant, "function": Function, "call": Call, "let": Let, "if": If, "match": Match, "tuple": Tuple,
    "get": TupleGetItem, "ref": RefCreate, "ref_read": RefRead, "ref_write": RefWrite, "match_cast": MatchCast,
    "dataflow": Dataflow, "shape": Shape,
}  # fmt: skip
KINDS: Final[Mapping[type[Expr], str]] = {cls: kind for kind, cls in CLASSES.items()}

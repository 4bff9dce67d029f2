"""Which features of the language a program uses."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from legato.ir.module import Module
from legato.ir.op import Op
from legato.relay.analysis.variables import is_atomic

__all__ = ["Feature", "detect_feature"]


class Feature(IntEnum):
    """A feature of the language."""

    fVar = 0
    fGlobalVar = 1
    fConstant = 2
    fTuple = 3
    fTupleGetItem = 4
    fFunction = 5
    fOp = 6
    fCall = 7
    fLet = 8
    fIf = 9
    fRefCreate = 10
    fRefRead = 11
    fRefWrite = 12
    fConstructor = 13
    fMatch = 14
    fGraph = 15  # something but an atom is used in several places
    fLetRec = 16  # a let whose value refers to its own variable


_OF_KIND: Final[dict[type, Feature]] = {
    Var: Feature.fVar,
    GlobalVar: Feature.fGlobalVar,
    Constant: Feature.fConstant,
    Tuple: Feature.fTuple,
    TupleGetItem: Feature.fTupleGetItem,
    Function: Feature.fFunction,
    Op: Feature.fOp,
    Call: Feature.fCall,
    Let: Feature.fLet,
    If: Feature.fIf,
    RefCreate: Feature.fRefCreate,
    RefRead: Feature.fRefRead,
    RefWrite: Feature.fRefWrite,
    Constructor: Feature.fConstructor,
    Match: Feature.fMatch,
}


def detect_feature(a: Any, b: Any = None) -> set[Feature]:
    """The features that an expression or a module uses, or (given both) either of them.

    The bodies of primitive functions are not looked into: they count as operators do.
    """
    found: set[Feature] = set()
    for part in (a, b):
        module = getattr(part, "module", part)
        if isinstance(module, Module):
            for _, func in module.graph_functions():
                found |= _features(func)
        elif part is not None:
            found |= _features(part)
    return found


def _features(root: Expr) -> set[Feature]:
    found: set[Feature] = set()
    seen: set[int] = set()
    open_lets: set[Var] = set()  # lets whose values are being looked at
    stack: list[Expr | tuple[Var]] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            open_lets.remove(node[0])
            continue
        if isinstance(node, Var) and node in open_lets:
            found.add(Feature.fLetRec)
        if id(node) in seen:
            if not is_atomic(node):
                found.add(Feature.fGraph)
            continue
        seen.add(id(node))
        if type(node) in _OF_KIND:
            found.add(_OF_KIND[type(node)])
        if isinstance(node, Let):
            found.add(Feature.fVar)
            open_lets.add(node.var)
            stack += [node.body, (node.var,), node.value]
        elif not (isinstance(node, Function) and node.attrs.get("Primitive")):
            stack += reversed(node.children())
    return found

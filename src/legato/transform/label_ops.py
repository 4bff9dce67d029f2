"""Functions say what they are: a hash of their structure, and the layouts in the attributes of the calls inside.

    fn (%x: Tensor[(1, 3, 8, 8), float32], Primitive=1) { nn.max_pool2d(%x) }
        =>
    fn (%x: Tensor[(1, 3, 8, 8), float32], Primitive=1, hash="2f0c…", layout="NCHW") { nn.max_pool2d(%x) }

So that functions of several programs, and of several runs, can be told to be the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.node import post_order, transform
from legato.ir.equal import structural_hash
from legato.ir.expr import Call, Expr, Function
from legato.ir.module import Module
from legato.ir.visit import free_vars
from legato.transform.pass_ import FunctionPass

__all__ = ["LabelOps"]

_HASH: Final = "hash"


@dataclass(frozen=True, slots=True)
class LabelOps(FunctionPass):
    """Module → module whose functions, local ones too, have the attribute hash, and those whose names say "layout".

    Functions that hold values have none, as what they are depends on these. Of layouts that differ the first counts.
    """

    name = "label-ops"

    def function(self, func: Function, mod: Module) -> Function:
        made = transform(func, _labelled)  # type: ignore[type-var, arg-type]  # functions become functions
        assert isinstance(made, Function)
        return made


def _labelled(node: Expr) -> Expr | None:
    if not isinstance(node, Function) or free_vars(node):
        return None
    layouts = _layouts(node.body)
    own = {key: value for key, value in node.attrs.items() if key != _HASH and key not in layouts}
    label = f"{structural_hash(replace(node, attrs=own)) % 2**64:016x}"
    attrs = {**node.attrs, _HASH: label, **layouts}
    return None if attrs == dict(node.attrs) else replace(node, attrs=attrs)


def _layouts(body: Expr) -> Mapping[str, str]:
    """The attributes of calls, those in functions inside aside, that name layouts."""
    found: dict[str, str] = {}
    for node in post_order([body], lambda n: not isinstance(n, Function)):
        if isinstance(node, Call) and node.attrs is not None:
            for field in fields(node.attrs):
                value = getattr(node.attrs, field.name)
                if "layout" in field.name and isinstance(value, str) and value:
                    found.setdefault(field.name, value)
    return found

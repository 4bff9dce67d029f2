"""Pickling: a module as its JSON, which a reader checks, with large arrays and operators of one's own beside it."""

from __future__ import annotations

import copyreg
from collections.abc import Mapping
from typing import Any

import numpy as np

from legato.base.node import post_order
from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ops._table import table

__all__ = ["install"]

Array = np.ndarray[Any, Any]


def install() -> None:
    """Tells `pickle` how modules, functions that name no others, and operators are written."""
    copyreg.pickle(Module, _module_parts)
    copyreg.pickle(Function, _function_parts)
    copyreg.pickle(Op, _op_parts)


def _module_parts(module: Module) -> tuple[Any, ...]:
    from legato.ir.json_save import save_json  # on use: most programs are never pickled

    tensors: dict[str, Array] = {}
    text = save_json(module, tensors=tensors)
    roots: list[Expr] = [f for _, f in module.graph_functions()]
    own = {op.name: op for op in post_order(roots) if isinstance(op, Op) and table().get(op.name) is not op}
    return _module, (text, tensors, own)


def _module(text: str, tensors: Mapping[str, Array], own: Mapping[str, Op]) -> Module:
    from legato.ir.json_load import load_json

    return load_json(text, ops={**table(), **own}, tensors=tensors)


def _function_parts(func: Function) -> tuple[Any, ...]:
    return _main, (Module.from_expr(func),)


def _main(module: Module) -> Function:
    func = module["main"]
    assert isinstance(func, Function)
    return func


def _op_parts(op: Op) -> Any:
    """An operator of the package by its name, another as what it consists of."""
    return (_op, (op.name,)) if table().get(op.name) is op else op.__reduce_ex__(2)


def _op(name: str) -> Op:
    return table()[name]

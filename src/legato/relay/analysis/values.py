"""What a program computes on its way: an expression in it as a program of its own, what functions take and give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from legato.base.errors import CompileError
from legato.base.node import post_order
from legato.ir.expr import Call, Expr, Function, GlobalVar, Tuple, TupleGetItem, tuple_of
from legato.runtime.ndarray import wrapped

__all__ = ["extract_intermdeiate_expr", "extract_intermediate_expr", "get_calibration_data"]


def extract_intermediate_expr(mod: Any, expr_id: int) -> Any:
    """A module whose @main computes one of the values in @main of `mod`: calls, tuples and their parts have numbers, in
    the order in which they are computed, from 0.

    CompileError for a number that none has, and for a value that is computed from variables inside functions.
    """
    func = _main(mod)
    found = [n for n in post_order([func.body]) if isinstance(n, Call | Tuple | TupleGetItem)]
    if not 0 <= expr_id < len(found):
        raise CompileError(f"@main has no expression {expr_id}", hint=f"it has {len(found)}")
    return mod.from_expr(found[expr_id], type_defs=mod.type_definitions)


extract_intermdeiate_expr = extract_intermediate_expr  # as the original spells it


def get_calibration_data(mod: Any, data: Mapping[str, Any]) -> dict[GlobalVar, dict[str, list[Any]]]:
    """What the functions for external code generators (with the attribute Compiler) take and give when @main runs on
    `data`, by name: `{function: {"inputs": […], "outputs": […]}}`, of its last call.

    The interpreter runs the module. CompileError where an argument of @main is not among `data`.
    """
    from legato.infer.infer import infer  # with the interpreter: the other analyses need neither
    from legato.interp import evaluate

    module = infer(mod.module)
    main = _main(module)
    missing = [p.name for p in main.params if p.name not in data]
    if missing:
        raise CompileError(f"no data for {', '.join(missing)}", hint="data has an array for each parameter of @main")
    probes: dict[int, GlobalVar] = {}
    functions = dict(module.functions)
    for gv, func in module.graph_functions():
        if "Compiler" in func.attrs:
            probe = tuple_of((*func.params, func.body))  # what the function takes and gives, side by side
            probes[id(probe)] = gv
            functions[gv] = replace(func, body=TupleGetItem(probe, len(func.params), ty=func.body.ty))
    found: dict[GlobalVar, dict[str, list[Any]]] = {}

    def observe(node: Expr, value: Any) -> None:
        if id(node) in probes:
            found[probes[id(node)]] = {"inputs": _arrays(value[:-1]), "outputs": _arrays(value[-1:])}

    evaluate(module.with_functions(functions), [data[p.name] for p in main.params], observe=observe)
    return found


def _main(mod: Any) -> Function:
    main = mod["main"]
    if not isinstance(main, Function):
        raise CompileError("@main is a loop program")
    return main


def _arrays(values: Iterable[Any]) -> list[Any]:
    """Values in a row, tuples taken apart."""
    found = []
    for value in values:
        found += _arrays(value) if isinstance(value, tuple) else [wrapped(value)]
    return found

"""Modules and functions as scripts: `parse(show(m))` is alpha-equal to `m`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import numpy as np

from legato.infer.infer import infer, infer_function
from legato.ir._dims import free_dims
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.types import TypeData
from legato.script.modules.print_graph import Known, KnownType, show_graph
from legato.script.modules.print_lines import Lines, Names, is_identifier, quoted
from legato.script.modules.print_scalars import tuple_text
from legato.script.modules.print_tensor import show_tensor
from legato.script.modules.print_values import Arrays, Values
from legato.tir.stmt import Func

__all__ = ["show"]

_HEAD = "# from legato.script import ir as I, relax as R, tir as T"


def show(program: Module | Func | Function, constants: MutableMapping[str, np.ndarray[Any, Any]] | None = None) -> str:
    """A module, or a function of it, as a script that `legato.script.parse` reads back.

    constants: where arrays of more than 16 elements go, by the names that the script has for them.
    UnsupportedError for what scripts cannot hold; `str(program)` is the text of any.
    """
    lines = Lines()
    arrays = Arrays(constants)
    if isinstance(program, Function):
        show_graph("main", infer_function(program), lines, Known({}, {}), arrays)
    elif isinstance(program, Func):
        show_tensor(program, lines)
    else:
        _module(infer(program), lines, arrays)
    return "\n".join([_HEAD, "", *lines.lines]) + "\n"


def _module(module: Module, lines: Lines, arrays: Arrays) -> None:
    names = Names()
    known = Known(
        {gv.name: _name(gv.name, "f", names) for gv in module.functions},
        {header.name: _known_type(data, names) for header, data in module.types.items()},
    )
    lines.add("@I.ir_module")
    lines.add("class Module:")
    lines.depth = 1
    if module.attrs:
        lines.add(f"I.module_attrs({Values(names, arrays).value(dict(module.attrs))})")
    if module.constants:
        held = [f"{quoted(key)}: {arrays.constant(np.asarray(data))}" for key, data in module.constants.items()]
        lines.add(f"I.module_constants({{{', '.join(held)}}})")
    for data in known.types.values():
        _data_type(data, lines, Values(Names(), arrays))
    is_first = not (module.attrs or module.constants or module.types)
    for gv, func in module.functions.items():
        if not is_first:
            lines.lines.append("")
        is_first = False
        if isinstance(func, Function):
            show_graph(gv.name, func, lines, known, arrays)
        else:
            show_tensor(func, lines, known.functions[gv.name])
    if is_first:
        lines.add("pass")


def _name(name: str, prefix: str, names: Names) -> str:
    """The name in the script of something that is called `name`."""
    return names.new(name if is_identifier(name) else f"{prefix}{name}")


def _known_type(data: TypeData, names: Names) -> KnownType:
    own = Names()
    return KnownType(
        data, _name(data.header.name, "t", names), {c.name: _name(c.name, "c", own) for c in data.constructors}
    )


def _data_type(known: KnownType, lines: Lines, values: Values) -> None:
    """`List = R.data_type({"Nil": (), …}, …)`: types name dims and other data types by their texts."""
    data, written = known.data, known.constructors
    values.bound.update(d for c in data.constructors for t in c.inputs for d in free_dims(t))
    held = []
    for c in data.constructors:
        held.append(f'"{written[c.name]}": {tuple_text([values.type(t, in_head=True) for t in c.inputs])}')
    given = [f"{{{', '.join(held)}}}"]
    given += [values.parameters(data.type_vars)] if data.type_vars else []
    given += [] if known.name == data.header.name else [f"name={quoted(data.header.name)}"]
    odd = {python: name for name, python in written.items() if python != name}
    given += [f"names={odd!r}"] if odd else []
    given += [f"bounds={values.bounds!r}"] if values.bounds else []
    lines.listed(f"{known.name} = R.data_type", [*given, *(["extern=True"] if data.extern else [])], "")

"""Modules and functions as scripts: `parse(show(m))` is alpha-equal to `m`."""

from __future__ import annotations

from legato.base.errors import UnsupportedError
from legato.infer.infer import infer
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.script.modules.print_graph import show_graph
from legato.script.modules.print_lines import Lines, Names, is_identifier
from legato.script.modules.print_tensor import show_tensor
from legato.tir.stmt import Func

__all__ = ["show"]

_HEAD = "# from legato.script import ir as I, relax as R, tir as T"


def show(program: Module | Func | Function) -> str:
    """A module, or a function of it, as a script that `legato.script.parse` reads back.

    UnsupportedError for what scripts cannot hold; `str(program)` is the text of any.
    """
    lines = Lines()
    if isinstance(program, Function):
        show_graph("main", program, lines, {})
    elif isinstance(program, Func):
        show_tensor(program, lines)
    else:
        lines = _module(program)
    return "\n".join([_HEAD, "", *lines.lines]) + "\n"


def _module(module: Module) -> Lines:
    hint = "str(module) is the text of any program"
    if module.types or module.constants or module.attrs:
        raise UnsupportedError("a script has no data types, named arrays, or attributes of a module", hint=hint)
    module = infer(module)
    names = Names()
    globals_ = {gv.name: gv.name if is_identifier(gv.name) else names.new(f"f{gv.name}") for gv in module.functions}
    lines = Lines()
    lines.add("@I.ir_module")
    lines.add("class Module:")
    lines.depth = 1
    for n, (gv, func) in enumerate(module.functions.items()):
        if n:
            lines.lines.append("")
        if isinstance(func, Function):
            show_graph(gv.name, func, lines, globals_)
        else:
            show_tensor(func, lines, globals_[gv.name])
    if not module.functions:
        lines.add("pass")
    return lines

"""The files of the library as typed modules, and what a module uses of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Final

from legato.base.errors import CompileError
from legato.infer.infer import infer
from legato.ir.clauses import Pattern, PatternConstructor
from legato.ir.expr import Constructor, Expr, Function, GlobalVar, Match
from legato.ir.module import GlobalFunc, Module
from legato.ir.scope import binders, post_order
from legato.ir.types import GlobalTypeVar, Type, TypeData, walk
from legato.ops import table

__all__ = ["LIBRARIES", "library", "link"]

LIBRARIES: Final = ("prelude", "nat", "gradient", "core", "sequence")
Name = GlobalVar | GlobalTypeVar


@cache
def library(name: str = "prelude") -> Module:
    """The typed module of library file `name`, with what it uses of the prelude.

    The same module every time. CompileError for a name that is not in `LIBRARIES`.
    """
    if name not in LIBRARIES:
        raise CompileError(f"there is no library {name!r}", hint=f"there are {', '.join(LIBRARIES)}")
    from importlib.resources import files  # with the parser: most models name nothing of a library

    from legato.ir import parser

    around = None if name == "prelude" else library()
    text = files(__package__).joinpath(f"{name}.relay").read_text(encoding="utf-8")
    module = parser.parse(text, source=f"{name}.relay", ops=table(), module=around)
    return infer(module if around is None else link(module, around))


def link(module: Module, library: Module) -> Module:
    """`module` with the functions and data types of `library` that it names, and those that they name in turn.

    What is named is what has the identity of a name of the library; the same object where nothing is missing.
    CompileError where `module` has another definition by the same name.
    """
    functions: dict[GlobalVar, GlobalFunc] = {}
    types: dict[GlobalTypeVar, TypeData] = {}
    wanted = [name for f in module.functions.values() for name in _named(f)]
    wanted += [name for data in module.types.values() for name in _named_by(data)]
    while wanted:
        name = wanted.pop()
        if isinstance(name, GlobalVar):
            if name in library.functions and name not in module.functions and name not in functions:
                functions[name] = library.functions[name]
                wanted += _named(functions[name])
        elif name in library.types and name not in module.types and name not in types:
            types[name] = library.types[name]
            wanted += _named_by(types[name])
    if not functions and not types:
        return module
    _require_new(module, [*functions, *types])
    ordered = {gv: f for gv, f in library.functions.items() if gv in functions}
    known = {t: data for t, data in library.types.items() if t in types}
    return replace(module, functions={**module.functions, **ordered}, types={**module.types, **known})


def _require_new(module: Module, names: list[Name]) -> None:
    taken = {f"@{gv.name}" for gv in module.functions} | {f"type {t.name}" for t in module.types}
    for name in names:
        shown = f"@{name.name}" if isinstance(name, GlobalVar) else f"type {name.name}"
        if shown in taken:
            raise CompileError(
                f"the library's {shown} is needed, but the module has one of its own",
                hint="rename it, or define what uses the library's",
            )


def _named(func: GlobalFunc) -> Iterator[Name]:
    """The functions and data types that a function names: callees, constructors, patterns and types."""
    if not isinstance(func, Function):
        return
    for node in post_order(func):
        if isinstance(node, GlobalVar):
            yield node
        elif isinstance(node, Constructor):
            yield node.belongs_to
        elif isinstance(node, Match):
            for clause in node.clauses:
                yield from _matched(clause.pattern)
        for ty in _types(node):
            yield from (part for part in walk(ty) if isinstance(part, GlobalTypeVar))


def _matched(pattern: Pattern) -> Iterator[Name]:
    stack = [pattern]
    while stack:
        top = stack.pop()
        if isinstance(top, PatternConstructor):
            yield top.constructor.belongs_to
        stack += top.children()


def _types(node: Expr) -> Iterator[Type]:
    """The types that are written at a node: its own, those of the variables that it binds, of results and arguments."""
    if node.ty is not None:
        yield node.ty
    yield from (var.ty for scope in binders(node) for var in scope if var.ty is not None)
    if isinstance(node, Function) and node.ret_type is not None:
        yield node.ret_type
    for part in (*getattr(node, "type_args", ()), getattr(node, "target", None)):
        if isinstance(part, Type):
            yield part


def _named_by(data: TypeData) -> Iterator[Name]:
    for con in data.constructors:
        for ty in con.inputs:
            yield from (part for part in walk(ty) if isinstance(part, GlobalTypeVar))

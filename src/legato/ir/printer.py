"""Modules, functions, expressions and types as text; the grammar is in `ir.parser`, which reads it back.

Printing is linear in the size of the program and never recurses on its depth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from legato.base.errors import CompileError
from legato.ir._doc import Block, layout
from legato.ir._metadata import INLINE_BYTES, Metadata
from legato.ir._names import bare, sigil
from legato.ir._print_exprs import Context, ExprPrinter
from legato.ir._print_types import TypePrinter, type_name
from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.ir.types import Type, TypeData
from legato.tir.printer import show as show_tir

__all__ = ["VERSION", "show", "show_type", "show_with_lines", "show_with_tensors"]

VERSION = "0.0.5"
Array = np.ndarray[Any, Any]


def show(
    x: Module | Expr,
    *,
    metadata: bool = True,
    types: bool = False,
    spans: bool = False,
    annotate: Callable[[Expr], str] | None = None,
    inline: int | None = INLINE_BYTES,
) -> str:
    """`x` as text; the same text for the same program.

    metadata: with the `#[metadata]` section, without which text that refers to constants cannot be read back.
    types, spans: with the type, the span of every node that is not a mere name, as comments.
    annotate: gives a further comment for such a node, or "".
    inline: constants of more bytes are only named: text with such can be read with the constants beside it (see
        `show_with_tensors`, `files.save_text`). None: every constant is in the text.
    """
    return _show(x, Context(Metadata(inline), types=types, spans=spans, annotate=annotate), metadata)


def show_with_tensors(module: Module) -> tuple[str, dict[str, Array]]:
    """The text of a module, and the large constants that it names."""
    context = Context()
    return _show(module, context, metadata=True), context.metadata.tensors()


def show_with_lines(module: Module) -> tuple[str, dict[int, int]]:
    """The text of a module without its metadata, and the line, from 0, where each function and each node that computes
    begins, by id."""
    seen: list[int] = []

    def mark(node: Expr) -> str:
        seen.append(id(node))
        return f"\0{len(seen) - 1}\0"  # which no name or string has in text

    marked = _show(module, Context(mark=mark), metadata=False)
    found: dict[int, int] = {}
    plain: list[str] = []
    for number, line in enumerate(marked.split("\n")):
        pieces = line.split("\0")
        found.update((seen[int(piece)], number) for piece in pieces[1::2])
        plain.append("".join(pieces[::2]))
    return "\n".join(plain), found


def show_type(ty: Type) -> str:
    """A type as text."""
    return TypePrinter().type(ty)


def _show(x: Module | Expr, context: Context, metadata: bool) -> str:
    if isinstance(x, Module):
        text = _module(x, context)
    elif isinstance(x, Function):
        text = layout(ExprPrinter(x, context).function("fn ")) + "\n"
    else:
        text = layout(ExprPrinter(x, context).statements()) + "\n"
    section = context.metadata.section() if metadata else ""
    if section:
        return f"{text}\n{section}"
    return text if isinstance(x, Module) else text.removesuffix("\n")


def _module(module: Module, context: Context) -> str:
    constructors = Counter(c.name for data in module.types.values() for c in data.constructors)
    context.constructors = frozenset(constructors)
    context.ambiguous = frozenset(name for name, count in constructors.items() if count > 1)
    context.type_names = frozenset(gtv.name for gtv in module.types)
    parts = [_type_data(data, context) for data in module.types.values()]
    parts += _facts(module, context.metadata)
    for gv, func in module.functions.items():
        if isinstance(func, Function):
            parts.append(layout(ExprPrinter(func, context).function(f"def {sigil('@', gv.name)}")))
        else:
            parts.append(show_tir(func).removesuffix("\n"))
    return "\n\n".join([f'#[version = "{VERSION}"]', *parts]) + "\n"


def _facts(module: Module, metadata: Metadata) -> list[str]:
    """The attributes and named constants of a module."""
    parts = []
    if module.attrs:
        parts.append(f"attributes({', '.join(TypePrinter().attrs(module.attrs, metadata, 'the module'))})")
    for name, data in module.constants.items():
        if not isinstance(data, np.ndarray):
            raise CompileError(f"constant {name} of the module is a {type(data).__name__}, not an array")
        parts.append(f"constant {sigil('@', name)} = {metadata.refer(data, data)}")
    return parts


def _type_data(data: TypeData, context: Context) -> str:
    types = TypePrinter(context.type_names)
    head = f"type {type_name(data.header.name)}{types.binders(data.type_vars)}"
    if data.extern:
        return f"extern {head}"
    block = Block()
    for c in data.constructors:
        inputs = f"({', '.join(map(types.type, c.inputs))})" if c.inputs else ""
        block.lines.append([f"{bare(c.name)}{inputs},"])
    return layout([f"{head} ", block])

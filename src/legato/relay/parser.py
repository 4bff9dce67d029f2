"""Text to modules and expressions."""

from __future__ import annotations

from typing import Any

from legato import prelude
from legato.base.errors import UnsupportedError
from legato.infer.infer import infer
from legato.ir import parser
from legato.ir.expr import Expr
from legato.ops import table
from legato.relay.module import IRModule

__all__ = ["fromtext", "parse", "parse_expr"]


def parse(
    source: str, source_name: str = "from_string", init_module: IRModule | None = None, init_meta_table: Any = None
) -> IRModule:
    """The typed module of a text that begins with `#[version = "0.0.5"]`; names of the prelude may be used.

    `init_module` has functions and data types that the text may use; they are part of the result. ParseError or
    TypeCheckError with the place.
    """
    if init_meta_table:
        raise UnsupportedError("a table of metadata cannot be given", hint="constants are in the text's own metadata")
    if init_module is None:
        return IRModule(infer(prelude.parse(source, source=source_name, ops=table())))
    known = init_module.module
    found = IRModule(parser.parse(source, source=source_name, ops=table(), module=known))
    result = init_module.clone()
    result.update(found)
    return IRModule(infer(result.module))


fromtext = parse


def parse_expr(source: str) -> Expr:
    """The expression that a text describes, without types."""
    return parser.parse_expr(source, ops=table())

"""Text to modules and expressions."""

from __future__ import annotations

from typing import Any

from legato import prelude
from legato.base.arrays import as_array
from legato.base.errors import ParseError, quoting
from legato.infer.infer import infer_text
from legato.ir import parser
from legato.ir.expr import Constant, Expr, constant
from legato.ops import table
from legato.relay.module import IRModule

__all__ = ["fromtext", "parse", "parse_expr"]


def parse(
    source: str, source_name: str = "from_string", init_module: IRModule | None = None, init_meta_table: Any = None
) -> IRModule:
    """The typed module of a text that begins with `#[version = "0.0.5"]`; names of the prelude may be used.

    `init_module` has functions and data types that the text may use; they are part of the result. `init_meta_table` has
    the values of `meta[key][i]` for a text without metadata: arrays or constants, under "relay.Constant". ParseError or
    TypeCheckError with the place.
    """
    metadata = {key: [_array(v) for v in values] for key, values in (init_meta_table or {}).items()}
    if init_module is None:
        with quoting(source, source_name):
            return IRModule(infer_text(prelude.parse(source, source=source_name, ops=table(), metadata=metadata)))
    known = init_module.module
    found = IRModule(parser.parse(source, source=source_name, ops=table(), module=known, metadata=metadata))
    result = init_module.clone()
    result.update(found)
    with quoting(source, source_name):
        return IRModule(infer_text(result.module))


def _array(value: Any) -> Any:
    """An array that nobody writes to; of a constant, its own."""
    return constant(
        value.data if isinstance(value, Constant) else as_array(value, "an entry of metadata", ParseError)
    ).data


fromtext = parse


def parse_expr(source: str) -> Expr:
    """The expression that a text describes, without types."""
    return parser.parse_expr(source, ops=table())

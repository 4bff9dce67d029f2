"""Constants as they lie in memory: strings are numbers in the program's table of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from legato.base.strings import is_text
from legato.ir import expr as ir
from legato.runtime.strings import table_of

__all__ = ["numbered"]


def numbered(constants: Mapping[str, ir.Constant]) -> tuple[tuple[str, ...], list[tuple[str, np.ndarray]]]:
    """The strings in constants, and the arrays of all, by name; () where no constant is of strings."""
    texts = {name: node.data for name, node in constants.items() if is_text(node.data)}
    if not texts:
        return (), [(name, node.data) for name, node in constants.items()]
    table, arrays = table_of(texts.values())
    numbers = dict(zip(texts, arrays, strict=True))
    return table, [(name, numbers.get(name, node.data)) for name, node in constants.items()]

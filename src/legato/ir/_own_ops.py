"""The operators that every module may use, whatever else it is read with: those that the compiler itself makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.base.errors import TypeCheckError
from legato.ir import sugar
from legato.ir.call_tir import CALL_TIR
from legato.ir.devices import PLACING
from legato.ir.op import Op
from legato.ir.packed import OUTSIDE
from legato.ir.tensor_to_shape import TENSOR_TO_SHAPE
from legato.ir.updates import UPDATES
from legato.ir.views import VIEWS

__all__ = ["Ops", "op_table", "operator_named"]

Ops = Mapping[str, Op] | Sequence[Op]


def op_table(ops: Ops) -> dict[str, Op]:
    """`ops` by name, and the compiler's own where no other is called so."""
    own = {op.name: op for op in (CALL_TIR, TENSOR_TO_SHAPE, *OUTSIDE, *PLACING, *UPDATES, *VIEWS)}
    return own | (dict(ops) if isinstance(ops, Mapping) else {op.name: op for op in ops})


def operator_named(name: str) -> Op:
    """The operator, or the compiler's own, that has this very name; TypeCheckError if there is none."""
    found = sugar.operators().get(name) or op_table({}).get(name)
    if found is None:
        from difflib import get_close_matches  # only for mistakes

        close = get_close_matches(name, list(sugar.operators()), 3)
        raise TypeCheckError(
            f"no operator is called {name!r}", hint=f"did you mean {', '.join(close)}?" if close else None
        )
    return found

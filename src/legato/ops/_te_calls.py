"""Calls of functions that make tensor expressions: as operators that are given by loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from legato.base.errors import TypeCheckError
from legato.ir.expr import Expr
from legato.ops.call_te import call_te, portions
from legato.te.readback import Stages
from legato.te.traced import traced

if TYPE_CHECKING:
    from legato.infer.builder import Builder
    from legato.te.tensor import Tensor

__all__ = ["te_call"]


def te_call(b: Builder, function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]) -> Expr:
    """What `function` gives for tensors in place of the expressions among its arguments; a tuple of several results.

    It is a call of `call_te` for each part that is scheduled alone. TypeCheckError where the result is no tensor.
    """
    name = getattr(function, "__name__", "te").strip("<>")
    given, inputs, outputs = traced(function, args, keywords, name)
    found = portions(Stages(name, tuple(inputs), tuple(outputs), ()))
    if isinstance(found, str):
        raise TypeCheckError(f"{name}: {found}", span=b.span)
    known: dict[Tensor, Expr] = dict(zip(inputs, given, strict=True))
    for portion in found:
        made = b.call(call_te, *(known[t] for t in portion.part.inputs), program=portion.text, dims=portion.dims)
        results = portion.part.outputs
        known |= zip(
            results, [made] if len(results) == 1 else [b.get(made, n) for n in range(len(results))], strict=True
        )
    return known[outputs[0]] if len(outputs) == 1 else b.tuple_([known[t] for t in outputs])

"""What calls of an operator become, as functions of the user's (`_op_attrs`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from legato.base.errors import TypeCheckError
from legato.infer.infer import infer
from legato.ir.expr import Call, Expr, Function
from legato.ir.op import Op
from legato.ir.types import TupleType, Type
from legato.relay._op_attrs import LEGALIZE, Rule, rules_of
from legato.relay.expr_functor import MixedModeMutator
from legato.relay.module import IRModule

__all__ = ["Attributes", "checked", "legalized", "tensors"]


class Attributes(Mapping[str, Any]):
    """The attributes of a call, by name: `attrs["units"]`, `attrs.units`, `{**attrs, "units": 8}`."""

    def __init__(self, record: Any) -> None:
        self._entries = {} if record is None else {f.name: getattr(record, f.name) for f in fields(record)}

    def __getitem__(self, name: str) -> Any:
        return self._entries[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._entries:
            raise AttributeError(f"there is no attribute {name}; there are {', '.join(self._entries) or 'none'}")
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def legalized(mod: IRModule) -> IRModule:
    """The typed module with every call as the current rules want it, operands before their users."""
    module = infer(mod.module)
    rules = rules_of(LEGALIZE)
    functions = {gv: _Rewriter(rules).visit(f) for gv, f in module.functions.items() if isinstance(f, Function)}
    return IRModule(infer(module.with_functions({**module.functions, **functions})))


class _Rewriter(MixedModeMutator):
    def __init__(self, rules: Mapping[str, Rule]) -> None:
        super().__init__()
        self._rules = rules

    def rewrite_call(self, pre: Call, post: Call) -> Any:
        rule = self._rules.get(pre.op.name) if isinstance(pre.op, Op) else None
        if rule is None:
            return post
        new = rule(Attributes(pre.attrs), list(post.args), [*(a.checked_type for a in pre.args), pre.checked_type])
        return post if new is None else checked(pre, LEGALIZE, new)


def checked(call: Call, key: str, new: Any) -> Expr:
    """What a rule gave for a call; TypeCheckError where that is no expression."""
    assert isinstance(call.op, Op)
    if not isinstance(new, Expr):
        rule = f"{key} of {call.op.name}"
        raise TypeCheckError(f"{rule} gave a {type(new).__name__}, not an expression", span=call.span)
    return new


def tensors(ty: Type) -> tuple[Type, ...]:
    """The tensors of a tuple, or the one that is none."""
    return ty.fields if isinstance(ty, TupleType) else (ty,)

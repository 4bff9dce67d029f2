"""What calls of an operator become, as a function of the user's that holds for a time.

def widen(attrs, inputs, types):
    if types[0].dtype == "float16":
        return relay.cast(relay.exp(relay.cast(inputs[0], "float32")), "float16")

with TempOpAttr("exp", "FTVMLegalize", widen):
    mod = relay.transform.Legalize()(mod)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, Token
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final, Self

from legato.base.errors import CompileError, TypeCheckError
from legato.infer.infer import infer
from legato.ir.expr import Call, Expr, Function
from legato.ir.op import Op
from legato.ir.types import TupleType, Type
from legato.relay.expr_functor import MixedModeMutator
from legato.relay.module import IRModule
from legato.relay.op.op import get

__all__ = ["ALTER", "LEGALIZE", "Attributes", "TempOpAttr", "rewritten"]

LEGALIZE: Final = "FTVMLegalize"
ALTER: Final = "FTVMAlterOpLayout"

Rule = Callable[..., Any]
_rules: ContextVar[Mapping[tuple[str, str], Rule | None]] = ContextVar(
    "legato.relay.TempOpAttr", default=MappingProxyType({})
)


class TempOpAttr:
    """A context in which calls of an operator have a rule: `with TempOpAttr("nn.dense", "FTVMLegalize", rule): …`.

    attr_key is "FTVMLegalize", for `transform.Legalize`: rule(attrs, inputs, types), where types are those of the
    inputs and of the result; or "FTVMAlterOpLayout", for `transform.AlterOpLayout`: rule(attrs, inputs, tinfos,
    out_type), where tinfos are the tensor types of the inputs, one for each field of a tuple. A rule gives the
    expression that takes the call's place, or None to leave the call as it is. `attrs` is a mapping, whose entries
    are attributes, too. No rule (None) hides that of a context around this one. CompileError for another key,
    TypeCheckError for an operator that does not exist.
    """

    def __init__(self, op_name: str, attr_key: str, attr_value: Rule | None) -> None:
        if attr_key not in (LEGALIZE, ALTER):
            hint = f"{LEGALIZE} and {ALTER} can; all else is in the operator's record"
            raise CompileError(f"{attr_key} of an operator cannot be set", hint=hint)
        self._key = get(op_name).name, attr_key
        self._rule = attr_value
        self._tokens: list[Token[Mapping[tuple[str, str], Rule | None]]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_rules.set({**_rules.get(), self._key: self._rule}))
        return self

    def __exit__(self, *error: object) -> None:
        _rules.reset(self._tokens.pop())


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


def rewritten(mod: IRModule, key: str) -> IRModule:
    """The typed module with every call as the current rules called `key` want it, operands before their users."""
    module = infer(mod.module)
    rules = {name: rule for (name, kind), rule in _rules.get().items() if kind == key and rule is not None}
    functions = {gv: _Rewriter(rules, key).visit(f) for gv, f in module.functions.items() if isinstance(f, Function)}
    return IRModule(infer(module.with_functions({**module.functions, **functions})))


class _Rewriter(MixedModeMutator):
    def __init__(self, rules: Mapping[str, Rule], key: str) -> None:
        super().__init__()
        self._rules, self._key = rules, key

    def rewrite_call(self, pre: Call, post: Call) -> Any:
        rule = self._rules.get(pre.op.name) if isinstance(pre.op, Op) else None
        if rule is None:
            return post
        types, result = [a.checked_type for a in pre.args], pre.checked_type
        attrs, inputs = Attributes(pre.attrs), list(post.args)
        if self._key == LEGALIZE:
            new = rule(attrs, inputs, [*types, result])
        else:
            new = rule(attrs, inputs, [t for ty in types for t in _tensors(ty)], result)
        return post if new is None else self._checked(pre, new)

    def _checked(self, pre: Call, new: Any) -> Expr:
        assert isinstance(pre.op, Op)
        rule = f"{self._key} of {pre.op.name}"
        if not isinstance(new, Expr):
            raise TypeCheckError(f"{rule} gave a {type(new).__name__}, not an expression", span=pre.span)
        if self._key == ALTER and new.ty is not None and new.ty != pre.ty:
            hint = "types stay logical here: bring the result back into the old layout, by relay.transpose for one"
            lines = (f"got:    {new.ty}", f"wanted: {pre.ty}")
            raise TypeCheckError(f"{rule} changes the type of the result", span=pre.span, details=lines, hint=hint)
        return new


def _tensors(ty: Type) -> tuple[Type, ...]:
    return ty.fields if isinstance(ty, TupleType) else (ty,)

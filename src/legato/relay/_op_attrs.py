"""What users say of operators: rules that hold for a time (`TempOpAttr`), or from now on (`register_…`).

def widen(attrs, inputs, types):
    if types[0].dtype == "float16":
        return relay.cast(relay.exp(relay.cast(inputs[0], "float32")), "float16")

with TempOpAttr("exp", "FTVMLegalize", widen):
    mod = relay.transform.Legalize()(mod)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from threading import Lock
from types import MappingProxyType
from typing import Any, Final, Self

from legato.base.errors import CompileError
from legato.relay._op_table import get

__all__ = ["ALTER", "CONVERT", "INFER", "LEGALIZE", "MIXED", "Rule", "TempOpAttr", "register_alter_op_layout",
           "register_convert_op_layout", "register_infer_correct_layout", "register_legalize",
           "register_mixed_precision_conversion", "rules_of"]  # fmt: skip

LEGALIZE: Final = "FTVMLegalize"
ALTER: Final = "FTVMAlterOpLayout"
CONVERT: Final = "FTVMConvertOpLayout"
INFER: Final = "FInferCorrectLayout"
MIXED: Final = "FTVMMixedPrecisionConversionType"
KEYS: Final = (LEGALIZE, ALTER, CONVERT, INFER, MIXED)

Rule = Callable[..., Any]
Key = tuple[str, str]
_temporary: ContextVar[Mapping[Key, Rule | None]] = ContextVar("legato.relay.TempOpAttr", default=MappingProxyType({}))
_registered: dict[Key, tuple[int, Rule]] = {}
_lock = Lock()


class TempOpAttr:
    """A context in which calls of an operator have a rule: `with TempOpAttr("nn.dense", "FTVMLegalize", rule): …`.

    attr_key, and the rule that it wants:
    "FTVMLegalize", for `transform.Legalize`: rule(attrs, inputs, types), types being those of inputs and result;
    "FTVMAlterOpLayout", for `transform.AlterOpLayout`: rule(attrs, inputs, tinfos, out_type), tinfos being the tensor
    types of the inputs, one for each field of a tuple;
    "FTVMConvertOpLayout", for `transform.ConvertLayout`: rule(attrs, inputs, tinfos, desired_layouts);
    "FInferCorrectLayout", for the last two: see `transform.InferCorrectLayoutOutput`;
    "FTVMMixedPrecisionConversionType": see `op.register_mixed_precision_conversion`.
    The first three give the expression that takes the call's place, or None to leave the call as it is. `attrs` is a
    mapping, whose entries are attributes, too. No rule (None) hides that of a context around this one, or one that is
    registered. CompileError for another key, TypeCheckError for an operator that does not exist.
    """

    def __init__(self, op_name: str, attr_key: str, attr_value: Rule | None) -> None:
        if attr_key not in KEYS:
            hint = f"{', '.join(KEYS[:-1])} and {KEYS[-1]} can; all else is in the operator's record"
            raise CompileError(f"{attr_key} of an operator cannot be set", hint=hint)
        self._key = get(op_name).name, attr_key
        self._rule = attr_value
        self._tokens: list[Token[Mapping[Key, Rule | None]]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_temporary.set({**_temporary.get(), self._key: self._rule}))
        return self

    def __exit__(self, *error: object) -> None:
        _temporary.reset(self._tokens.pop())


def rules_of(key: str) -> dict[str, Rule]:
    """The rules that hold now, by operator."""
    with _lock:
        found: dict[str, Rule | None] = {name: rule for (name, kind), (_, rule) in _registered.items() if kind == key}
    found |= {name: rule for (name, kind), rule in _temporary.get().items() if kind == key}
    return {name: rule for name, rule in found.items() if rule is not None}


def register_legalize(op_name: str, legal_op: Rule | None = None, level: int = 10) -> Any:
    """The rule of an operator for `transform.Legalize`; without one, a decorator for it. Of several, the one of the
    highest level holds, the last of these."""
    return _register(op_name, LEGALIZE, legal_op, level)


def register_alter_op_layout(op_name: str, alter_layout: Rule | None = None, level: int = 10) -> Any:
    """As `register_legalize`, for `transform.AlterOpLayout`."""
    return _register(op_name, ALTER, alter_layout, level)


def register_convert_op_layout(op_name: str, convert_layout: Rule | None = None, level: int = 10) -> Any:
    """As `register_legalize`, for `transform.ConvertLayout`."""
    return _register(op_name, CONVERT, convert_layout, level)


def register_infer_correct_layout(op_name: str, infer_layout: Rule | None = None, level: int = 10) -> Any:
    """As `register_legalize`: how an operator takes operands in other layouts."""
    return _register(op_name, INFER, infer_layout, level)


def register_mixed_precision_conversion(op_name: str, func: Rule | None = None, level: int = 10) -> Any:
    """As `register_legalize`, for `transform.ToMixedPrecision`: func(call, type) -> [category, the dtype to compute in,
    the dtype of the result], where categories are those of `transform.mixed_precision`."""
    return _register(op_name, MIXED, func, level)


def _register(op_name: str, key: str, rule: Rule | None, level: int) -> Any:
    name = get(op_name).name

    def register(given: Rule) -> Rule:
        with _lock:
            if level >= _registered.get((name, key), (level, given))[0]:
                _registered[name, key] = level, given
        return given

    return register if rule is None else register(rule)

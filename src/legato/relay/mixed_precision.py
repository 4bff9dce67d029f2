"""Mixed precision: `transform.ToMixedPrecision`, its lists of operators, and rules of one's own.

An operator computes in 16 bits always, never, or where its operands are in 16 bits already (it follows).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

from legato.base.dtype import DType
from legato.base.dtype import dtype as as_dtype
from legato.base.errors import CompileError, UnsupportedError
from legato.ir.expr import Call
from legato.relay._op_attrs import MIXED, rules_of
from legato.relay._passes import ModulePass, Pass, PassContext, PassInfo
from legato.relay.module import IRModule
from legato.transform._mixed_lists import ALWAYS, FOLLOW, FREE, NEVER
from legato.transform.infer_types import InferTypes
from legato.transform.mixed_precision import NARROW, Category, listed, mixed

__all__ = ["DEFAULT_ALWAYS_LIST", "DEFAULT_FOLLOW_LIST", "DEFAULT_NEVER_LIST", "MIXED_PRECISION_ALWAYS",
           "MIXED_PRECISION_FOLLOW", "MIXED_PRECISION_NEVER", "ToMixedPrecision"]  # fmt: skip

MIXED_PRECISION_ALWAYS: Final = int(Category.ALWAYS)
MIXED_PRECISION_FOLLOW: Final = int(Category.FOLLOW)
MIXED_PRECISION_NEVER: Final = int(Category.NEVER)
DEFAULT_ALWAYS_LIST: Final = sorted(ALWAYS)
DEFAULT_FOLLOW_LIST: Final = sorted(FOLLOW)
DEFAULT_NEVER_LIST: Final = sorted(NEVER)

_KNOWN: Final = ALWAYS | FOLLOW | NEVER | FREE


def ToMixedPrecision(mixed_precision_type: str = "float16", missing_op_mode: int = 1) -> Pass:
    """Computes in "float16" or "bfloat16" where that is said to be safe; sums of products are formed in float32.

    Operators that are in no list and have no rule stay in float32: an error in mode 0, a warning in mode 1, as it is in
    mode 2. Results stay in 16 bits, unless "relay.ToMixedPrecision.keep_orig_output_dtype" of the context is true; what
    other functions, branches, closures and cells hand on keeps its dtype. UnsupportedError for another type,
    CompileError for another mode.
    """
    if missing_op_mode not in (0, 1, 2):
        raise CompileError(f"missing_op_mode is {missing_op_mode!r}, wanted 0, 1 or 2")
    if mixed_precision_type not in NARROW:
        hint = f"use {' or '.join(NARROW)}"
        raise UnsupportedError(f"mixed precision of {mixed_precision_type} is not supported", hint=hint)
    dtype = NARROW[mixed_precision_type]

    def run(mod: IRModule, context: PassContext) -> IRModule:
        rule = _Rules(dtype, strict=missing_op_mode == 0)
        keeps_output = context.option("relay.ToMixedPrecision.keep_orig_output_dtype", False)
        made = mixed(InferTypes()(mod.module), dtype, rule, keeps_output)
        if missing_op_mode == 1 and rule.missing:
            names = ", ".join(sorted(rule.missing))
            warnings.warn(f"in no list of mixed precision, so in float32: {names}", stacklevel=2)
        return IRModule(made)

    return ModulePass(run, PassInfo(0, "ToMixedPrecision"))


class _Rules:
    """What calls do: by the user's rules, or by the lists. `missing` are operators that neither knows."""

    def __init__(self, dtype: DType, strict: bool) -> None:
        self.dtype, self.strict = dtype, strict
        self.own: Mapping[str, Any] = rules_of(MIXED)
        self.missing: set[str] = set()

    def __call__(self, call: Call) -> tuple[Category, DType, DType]:
        name = getattr(call.op, "name", "")
        rule = self.own.get(name)
        if rule is not None:
            return _checked(name, rule(call, self.dtype.name), call)
        if name not in _KNOWN:
            self.missing.add(name)
        return listed(self.dtype, self.strict, call)


def _checked(name: str, given: Any, call: Call) -> tuple[Category, DType, DType]:
    is_list = isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 3
    if not is_list or given[0] not in tuple(Category):
        hint = "give [MIXED_PRECISION_ALWAYS, …_FOLLOW or …_NEVER, the dtype to compute in, the dtype of the result]"
        raise CompileError(f"the rule of {name} for mixed precision gave {given!r}", span=call.span, hint=hint)
    return Category(given[0]), as_dtype(given[1]), as_dtype(given[2])

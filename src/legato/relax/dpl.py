"""Patterns of dataflow under Relax's names: `from legato.relax.dpl import is_op, rewrite_call, wildcard`.

    x, w = wildcard(), wildcard()
    pattern = is_op("relax.nn.relu")(is_op("relax.matmul")(x, w))
    assert pattern.match(expr, relax.analysis.get_var2val(func))
    new = rewrite_call(pattern, lambda call, found: relax.op.nn.gelu(found[x]), func)

Patterns are those of `legato.patterns`. `is_op` takes the operators that are one operator of the language here, with
the same operands; what Relax's others become, such as `relax.linear`, is matched by its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from legato import patterns
from legato.base.errors import CompileError, UnsupportedError
from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.patterns.build import is_constant as is_const
from legato.patterns.build import is_expr, is_tuple, is_tuple_get_item, is_var, wildcard
from legato.patterns.effects import unused_global
from legato.patterns.pattern import AltPattern as OrPattern
from legato.patterns.pattern import (
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    ExprPattern,
    FunctionPattern,
    Pattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
)
from legato.script.modules.operators import OPERATORS
from legato.script.modules.spelling import SPELT
from legato.transform.pass_ import run
from legato.transform.to_dataflow import ToDataflow
from legato.transform.to_graph import ToGraph

__all__ = ["AttrPattern", "CallPattern", "ConstantPattern", "DFPattern", "DataTypePattern", "ExprPattern",
           "FunctionPattern", "OrPattern", "ShapePattern", "TupleGetItemPattern", "TuplePattern", "TypePattern",
           "VarPattern", "WildcardPattern", "is_const", "is_dfv", "is_expr", "is_op", "is_tuple", "is_tuple_get_item",
           "is_var", "rewrite_call", "wildcard"]  # fmt: skip

DFPattern = Pattern
is_dfv = is_var  # a variable of a dataflow block is a variable

_PREFIX: Final = "relax."
_OPERATORS: Final[Mapping[str, str]] = {  # by Relax's names: operators that these alone stand for, operands in order
    names[0][0]: op
    for op, names in SPELT.items()
    if len(names) == 1 and not any(isinstance(how, int) for how in names[0][1].values())
}


def is_op(name: str) -> ExprPattern:
    """The operator `name`, as `relax.nn.relu`; of the language, without that prefix. UnsupportedError for one that is
    something else here, CompileError for one that there is not."""
    if not name.startswith(_PREFIX):
        return patterns.is_op(name)
    short = name.removeprefix(_PREFIX)
    if short in _OPERATORS:
        return patterns.is_op(_OPERATORS[short])
    if short in OPERATORS:
        hint = "print a call, and match what it is made of"
        raise UnsupportedError(f"{name} is not one operator of the language with the same operands", hint=hint)
    raise CompileError(f"there is no operator {name}")


def rewrite_call(
    pattern: Pattern, rewriter: Callable[[Expr, dict[Pattern, Expr]], Expr], func: Function, mod: Any = None
) -> Function:
    """`func`, of `mod`, with what matches replaced by what `rewriter(call, {part: expression})` gives, until nothing
    changes; the call itself: nothing. Patterns see through variables, and a value that is used elsewhere stays there.

    The result has dataflow blocks.
    """
    given = Module() if mod is None else getattr(mod, "module", mod)
    name = next((gv for gv, f in given.functions.items() if f is func), None) or unused_global(given.functions)
    module = given.with_function(name, func)

    def build(old: Expr, now: Expr, found: patterns.Match) -> Expr:
        return rewriter(now, {part: es[0] for part, es in found.found.items() if es})

    graph = run(module, [ToGraph()])
    before = graph[name]
    assert isinstance(before, Function)
    after = patterns.rewrite(patterns.Callback(pattern, build, name="rewrite_call", shared=True), before, graph)
    if after is before:
        return func
    assert isinstance(after, Function)
    result = run(graph.with_function(name, after), [ToDataflow()])[name]
    assert isinstance(result, Function)
    return result


_NOT_HERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("PatternContext", "rewrite_bindings", "DFConstraint", "SameShapeConstraint", "AndPattern", "NotPattern",
         "UnorderedTuplePattern", "PrimArrPattern", "RuntimeDepShapePattern", "PatternMatchingRewriter",
         "make_fused_bias_activation_pattern", "make_residual_block_pattern", "is_gv", "GlobalVarPattern",
         "is_call_tir", "is_call_dps_packed", "is_call_packed", "ExternFuncPattern", "is_shape"),
        "not yet",
    ),
    "DataflowVarPattern": "a variable of a dataflow block is a variable: VarPattern",
    "StructInfoPattern": "a struct info is a type: TypePattern",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    why = _NOT_HERE.get(name)
    raise AttributeError(f"relax.dpl has no {name}" + (f": {why}" if why else ""))

"""Relay as its users know it: `from legato import relay`.

    x = relay.var("x", shape=(1, 784))
    y = relay.nn.relu(relay.nn.dense(x, relay.var("w", shape=(128, 784))))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(y))
    print(mod["main"].ret_type)

Nodes, types and passes are Legato's own; this package gives them Relay's names, constructors and defaults, and adds
what belongs to that way of writing programs: visitors, ScopeBuilder, modules that can be changed. What differs from the
original is said where it does, and in docs/migration.md. Operators are names of this package too: `relay.add`.
"""

from __future__ import annotations

import sys
import types
import typing
from importlib import import_module

from legato.base import compiler as _compiler  # noqa: F401  # a MissingError where its packages are not
from legato.relay import (
    adt,
    analysis,
    base,
    expr,
    expr_functor,
    loops,
    module,
    op,
    param_dict,
    scope_builder,
    ty,
    type_functor,
)
from legato.relay._passes import (
    FunctionPass,
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    function_pass,
    module_pass,
)
from legato.relay.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
)
from legato.relay.analysis import Feature
from legato.relay.base import SourceName, Span, astext, pretty_print
from legato.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
    bind,
    const,
    var,
)
from legato.relay.expr_functor import ExprFunctor, ExprMutator, ExprVisitor, MixedModeMutator, MixedModeVisitor
from legato.relay.loops import while_loop
from legato.relay.module import IRModule
from legato.relay.op import (
    Op,
    _functions,
    algorithm,
    annotation,
    broadcast_to_like,
    cast_like,
    collapse_sum_like,
    device_copy,
    get,
    image,
    logsumexp,
    matrix_set_diag,
    mean_std,
    mean_variance,
    nn,
    random,
    reduce,
    reshape_like,
    reverse_reshape,
    slice_like,
    std,
    stft,
    strided_set,
    tensor,
    trilu,
    variance,
    vision,
)
from legato.relay.param_dict import load_param_dict, save_param_dict
from legato.relay.scope_builder import ScopeBuilder
from legato.relay.serial import load_json, save_json
from legato.relay.structure import assert_structural_equal, structural_equal, structural_hash
from legato.relay.ty import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Kind,
    RefType,
    RelayRefType,
    ShapeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeData,
    TypeKind,
    TypeRelation,
    TypeVar,
    scalar_type,
)
from legato.relay.type_functor import (
    PatternFunctor,
    PatternMutator,
    PatternVisitor,
    TypeFunctor,
    TypeMutator,
    TypeVisitor,
)

if typing.TYPE_CHECKING:
    from legato.relay import parser, transform
    from legato.relay.parser import fromtext, parse, parse_expr
    from legato.relay.transform import Sequential
    from legato.script import ScriptFunction

__all__ = [
    "Any", "Call", "Clause", "Constant", "Constructor", "Expr", "ExprFunctor", "ExprMutator", "ExprVisitor",
    "Feature", "FuncType", "Function", "FunctionPass", "GlobalTypeVar", "GlobalVar", "IRModule", "If",
    "IncompleteType", "Kind", "Let", "Match", "MixedModeMutator", "MixedModeVisitor", "ModulePass", "Op", "Pass",
    "PassContext", "PassInfo", "Pattern", "PatternConstructor", "PatternFunctor", "PatternMutator", "PatternTuple",
    "PatternVar", "PatternVisitor", "PatternWildcard", "RefCreate", "RefRead", "RefType", "RefWrite", "RelayExpr",
    "RelayRefType", "ScopeBuilder", "Sequential", "ShapeVar", "SourceName", "Span", "TensorType", "Tuple",
    "TupleGetItem", "TupleType", "TupleWrapper", "Type", "TypeCall", "TypeConstraint", "TypeData", "TypeFunctor",
    "TypeKind", "TypeMutator", "TypeRelation", "TypeVar", "TypeVisitor", "Var", "adt", "algorithm", "analysis",
    "annotation", "assert_structural_equal", "astext", "base", "bind", "broadcast_to_like", "cast_like",
    "collapse_sum_like", "const", "device_copy", "expr", "expr_functor", "fromtext", "function_pass",
    "get", "image", "load_json", "load_param_dict", "logsumexp", "loops", "matrix_set_diag", "mean_std",
    "mean_variance", "module", "module_pass", "nn", "op", "param_dict", "parse", "parse_expr", "parser",
    "pretty_print", "random", "reduce", "reshape_like", "reverse_reshape", "save_json", "save_param_dict",
    "scalar_type", "scope_builder", "slice_like", "std", "stft", "strided_set", "structural_equal",
    "structural_hash", "tensor", "transform", "trilu", "ty", "type_functor", "var", "variance", "vision",
    "while_loop",
]  # fmt: skip

_ON_USE: typing.Final = {
    "get_global_func": "_external", "register_func": "_external",
    "ScriptFunction": "decorators", "ScriptModel": "decorators", "Sequential": "transform", "Tensor": "decorators",
    "backend": "", "build": "build_module", "build_config": "build_module", "build_module": "",
    "create_executor": "build_module",
    "dataflow_pattern": "", "data_dep_optimization": "", "decorators": "",
    "VirtualDevice": "devices", "devices": "",
    "frontend": "", "instrument": "", "ir": "", "tir": "",
    "fromtext": "parser", "optimize": "build_module", "parse": "parser", "parse_expr": "parser", "parser": "",
    "prelude": "", "qnn": "", "relay": "decorators", "relay_model": "decorators", "testing": "", "transform": "",
    "vm": "",
}  # fmt: skip


def _on_use() -> tuple[typing.Callable[[str], typing.Any], typing.Callable[[], list[str]]]:
    operator, listed = _functions.namespace("", globals())

    def get(name: str) -> typing.Any:
        where = _ON_USE.get(name)
        if where is None:
            return operator(name)
        found = import_module(f"legato.relay.{where or name}")
        return getattr(found, name) if where else found

    return get, lambda: sorted({*listed(), *_ON_USE})


__getattr__, __dir__ = _on_use()


class _Decorator(types.ModuleType):
    """This package, which can be written above a function: `@relay` makes a program of it (`relay.decorators`)."""

    def __call__(self, function: typing.Callable[..., typing.Any]) -> ScriptFunction:
        from legato.script import relay  # not with the package

        return relay(function)


sys.modules[__name__].__class__ = _Decorator

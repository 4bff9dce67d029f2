"""What every kind of expression means: one rule each, in the order of the grammar in `ir.expr`.

A leaf's rule gives its value. Every other rule is a generator: it yields an expression to be given its value, and
returns its own, or a `Tail`: "my value is the value of this expression". So a rule reads like a recursive definition,
and the machine runs it without recursion.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

from legato.base.errors import RunError
from legato.interp.activation import Activation
from legato.interp.calls import Tail, apply
from legato.interp.constraints import learn_and_check
from legato.interp.context import Context
from legato.interp.dims import dim_value, fit
from legato.interp.patterns import bind
from legato.interp.values import Closure, Data, Ref, Value
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
)
from legato.ir.op import Op

__all__ = ["LEAVES", "RULES", "Rule", "Steps"]

Steps = Generator[Expr, Value, Value | Tail]
Rule = Callable[[Context, Activation, Any], Steps]

# ------------------------------------------------------------------ leaves


def var(context: Context, env: Activation, node: Var) -> Value:
    """What the nearest function, let or pattern around bound it to."""
    return env.variable(node)


def global_var(context: Context, env: Activation, node: GlobalVar) -> Value:
    """A function of the module, which has no activation around it."""
    func = context.module[node]
    return Closure(func) if isinstance(func, Function) else func


def constant(context: Context, env: Activation, node: Constant) -> Value:
    """Its array."""
    return context.constant(node)


def itself(context: Context, env: Activation, node: Op | Constructor) -> Value:
    """An operator or constructor is a value; a call applies it."""
    return node


def function(context: Context, env: Activation, node: Function) -> Value:
    """The function together with this activation, whose variables it may read whenever it is called."""
    return Closure(node, env)


def shape(context: Context, env: Activation, node: Shape) -> Value:
    """A tuple of numbers."""
    return tuple(dim_value(d, env.dims) for d in node.dims)


# ------------------------------------------------------------------ the other kinds


def call(context: Context, env: Activation, node: Call) -> Steps:
    """The callee, then the arguments from left to right, then the application. Evaluation is strict."""
    callee = node.op if isinstance(node.op, Op) else (yield node.op)
    args = []
    for arg in node.args:
        args.append((yield arg))
    return apply(context, env, node, callee, args)


def let(context: Context, env: Activation, node: Let) -> Steps:
    """The value, once; then the body. A function may call itself: it finds the variable when it is called."""
    env.vars[node.var] = yield node.value
    return Tail(node.body, env)


def if_(context: Context, env: Activation, node: If) -> Steps:
    """The condition, then one of the branches."""
    condition = yield node.cond
    return Tail(node.then if condition else node.orelse, env)


def match(context: Context, env: Activation, node: Match) -> Steps:
    """The body of the first clause whose pattern fits, with what its variables stand for and their dims."""
    value = yield node.data
    for clause in node.clauses:
        bound = bind(clause.pattern, value)
        if bound is not None:
            env.vars.update(bound)
            for variable, part in bound.items():
                learn_and_check(env, variable.ty, part)
            return Tail(clause.body, env)
    shown = value.constructor.name if isinstance(value, Data) else type(value).__name__
    where = "" if node.span is None else f" at {node.span}"
    raise RunError(f"no clause of match{where} fits the value {shown}")


def tuple_(context: Context, env: Activation, node: Tuple) -> Steps:
    """The fields from left to right."""
    fields = []
    for field in node.fields:
        fields.append((yield field))
    return tuple(fields)


def tuple_get_item(context: Context, env: Activation, node: TupleGetItem) -> Steps:
    """One field."""
    fields = yield node.value
    if not isinstance(fields, tuple) or node.index >= len(fields):
        raise RunError(f"field {node.index} of a {type(fields).__name__}, which has none such")
    return fields[node.index]


def ref_create(context: Context, env: Activation, node: RefCreate) -> Steps:
    """A cell of its own, each time."""
    return Ref((yield node.value))


def ref_read(context: Context, env: Activation, node: RefRead) -> Steps:
    """What the cell holds now."""
    return _cell((yield node.ref)).value


def ref_write(context: Context, env: Activation, node: RefWrite) -> Steps:
    """Changes what the cell holds; the unit value."""
    cell = _cell((yield node.ref))
    cell.value = yield node.value
    return ()


def _cell(value: Value) -> Ref:
    if not isinstance(value, Ref):
        raise RunError(f"a {type(value).__name__} is read or written as a cell")
    return value


def match_cast(context: Context, env: Activation, node: MatchCast) -> Steps:
    """The value, which must have the target type; dims that are new there get their values."""
    value = yield node.value
    fit(env.dims, node.target, value, "match_cast", float64=context.float64)
    return value


def dataflow(context: Context, env: Activation, node: Dataflow) -> Steps:
    """The bindings in order; the tuple of the outputs."""
    for variable, value in node.bindings:
        env.vars[variable] = yield value
    outputs = []
    for output in node.outputs:
        outputs.append((yield output))
    return tuple(outputs)


LEAVES: Final[Mapping[type[Expr], Callable[[Context, Activation, Any], Value]]] = {
    Var: var,
    GlobalVar: global_var,
    Constant: constant,
    Op: itself,
    Constructor: itself,
    Function: function,
    Shape: shape,
}
RULES: Final[Mapping[type[Expr], Rule]] = {
    Call: call,
    Let: let,
    If: if_,
    Match: match,
    Tuple: tuple_,
    TupleGetItem: tuple_get_item,
    RefCreate: ref_create,
    RefRead: ref_read,
    RefWrite: ref_write,
    MatchCast: match_cast,
    Dataflow: dataflow,
}

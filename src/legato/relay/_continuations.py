"""Passes to continuation-passing style and back."""

from __future__ import annotations

from dataclasses import replace

from legato.base.errors import CompileError, UnsupportedError
from legato.base.node import post_order, transform
from legato.infer.infer import infer
from legato.ir.expr import Expr, Function, GlobalVar
from legato.ir.module import Module
from legato.relay._passes import Pass
from legato.relay._steps import of_steps
from legato.relay.module import IRModule
from legato.transform._closures import Names
from legato.transform._cps import answer_of, direct, gives_answer
from legato.transform.to_cps import ToCPS as To
from legato.transform.un_cps import UnCPS as Un

__all__ = ["ToCPS", "UnCPS", "to_cps", "un_cps"]


def ToCPS() -> Pass:
    """Functions take what is to be done with their result as their last argument; @main does so, too."""
    return of_steps("ToCPS", 1, (To(whole=True),))


def UnCPS() -> Pass:
    """Functions that take what is to be done with their result give it; they call what they were, @f_cps."""
    return of_steps("UnCPS", 1, (Un(),))


def to_cps(func: Function, mod: IRModule | None = None) -> Function:
    """`func`, which may name functions of `mod`, in continuation-passing style; `mod` gets these so, as @f_cps.

    UnsupportedError where data types hold functions: `ToCPS` changes these types, which other functions share.
    """
    before = Module() if mod is None else mod.module
    own = next((gv for gv, f in before.functions.items() if f is func), None)
    var = GlobalVar(Names(before).new("function")) if own is None else own
    made = To(whole=True)(infer(before.with_function(var, func)))
    if made.types != before.types:
        raise UnsupportedError("a data type of the module holds functions", span=func.span,
                               hint="run transform.ToCPS() on the module")  # fmt: skip
    result = made.functions[var]
    assert isinstance(result, Function)
    names, callees = Names(before), _callees(made, result)
    inner: dict[Expr, GlobalVar] = {
        gv: GlobalVar(names.new(f"{gv.name}_cps")) for gv in callees if answer_of(made.functions[gv])
    }

    def renamed(func: Function) -> Function:
        return replace(func, body=transform(func.body, inner.get))

    if mod is not None:
        added = {inner[gv]: renamed(f) for gv, f in made.graph_functions() if gv in inner}
        mod.module = infer(before.with_functions({**before.functions, **added}))
    return renamed(result)


def _callees(mod: Module, func: Function) -> list[GlobalVar]:
    """The functions of a module that a function may call, those that these call included."""
    from legato.lower.supported import reachable  # on use: nothing else here needs lowering

    named = {node.name for node in post_order([func.body]) if isinstance(node, GlobalVar)}
    return list(reachable(mod, *named).functions)


def un_cps(func: Function) -> Function:
    """The function that calls `func` with a continuation that gives what it takes. CompileError for a function that
    takes none, or whose result is a function."""
    if not gives_answer(func):
        raise CompileError(
            "the function takes no continuation whose answer may be the result",
            span=func.span,
            hint="give it types; the answer is its last type parameter",
        )
    return direct(func, func)

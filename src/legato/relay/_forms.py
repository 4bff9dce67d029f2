"""Passes over the structure of programs: normal forms, functions, what is unused, expressions without a module."""

from __future__ import annotations

from typing import Final

from legato.infer.infer import infer
from legato.ir.expr import Expr, Function, GlobalVar
from legato.ir.visit import free_vars
from legato.relay._passes import Pass
from legato.relay._steps import of_steps
from legato.relay.module import IRModule
from legato.transform._closures import Names
from legato.transform.defunctionalize import Defunctionalize
from legato.transform.defuse import Defuse
from legato.transform.eliminate_dead import EliminateDead
from legato.transform.eta_expand import EtaExpand as Expand
from legato.transform.expand_calls import ExpandCalls
from legato.transform.fold_constant import FoldConstant
from legato.transform.inline_marked import InlineMarked
from legato.transform.inline_primitives import InlinePrimitives as Primitives
from legato.transform.lambda_lift import LambdaLift as Lift
from legato.transform.partial_evaluate import PartialEvaluate as Evaluate
from legato.transform.pass_ import Pass as Step
from legato.transform.restore_reshapes import RestoreReshapes
from legato.transform.to_a_normal import ToANormal
from legato.transform.to_basic_block import ToBasicBlock

__all__ = ["DeadCodeElimination", "Defunctionalization", "DefuseOps", "DynamicToStatic",
           "EtaExpand", "FoldConstantExpr", "Inline", "InlinePrimitives", "LambdaLift",
           "PartialEvaluate", "RemoveStandaloneReshapes", "ToANormalFormExpr",
           "ToBasicBlockNormalForm"]  # fmt: skip

_RESHAPES: Final = frozenset({"reshape", "squeeze", "expand_dims", "nn.batch_flatten"})  # give elements another shape


def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> Pass:
    """Let-bound values that nothing uses are gone, unless they have effects (with `ignore_impurity`, in any case).

    inline_once: values that one place uses are written there, but not into functions that may be called more often.
    """
    return of_steps("DeadCodeElimination", 1, (EliminateDead(inline_once, ignore_impurity),))


def PartialEvaluate() -> Pass:
    """What is known when the program is compiled is computed: calls, choices, data, cells.

    What is computed for nothing stays, for DeadCodeElimination. (Relay's left the cells as well, and took
    `ignore_impurity` to be rid of them.)
    """
    return of_steps("PartialEvaluate", 1, (Evaluate(),))


def LambdaLift() -> Pass:
    """Local functions become functions of the module."""
    return of_steps("LambdaLift", 1, (Lift(),))


def Inline() -> Pass:
    """Functions with the attribute Inline are written in place of their calls, and gone; recursive ones stay."""
    return of_steps("InlineGlobals", 1, (InlineMarked(),))


def InlinePrimitives() -> Pass:
    """Groups of operators that have names, of variables or in the module, are written where they are called."""
    return of_steps("InlinePrimitives", 1, (Primitives(),))


def EtaExpand(expand_constructor: bool = False, expand_global_var: bool = False) -> Pass:
    """Constructors that are values, or functions of the module that are, are written out as functions."""
    return of_steps("EtaExpand", 1, (Expand(expand_constructor, expand_global_var),))


def DefuseOps() -> Pass:
    """Groups that FuseOps made become their operators again."""
    return of_steps("DefuseOps", 3, (Defuse(),))


def RemoveStandaloneReshapes() -> Pass:
    """Reshapes that are groups of their own, or calls of tensor programs, are plain ones, which move nothing.

    (The original's left them out of graphs of lowered calls. Here types carry shapes: the reshape stays, as a view.)
    """
    return of_steps("RemoveStandaloneReshapes", 0, (Defuse(only=_RESHAPES), RestoreReshapes()))


def DynamicToStatic() -> Pass:
    """Operators that take shapes as tensors become those that have them as attributes, where inference knows these."""
    return of_steps("DynamicToStatic", 2, (ExpandCalls(known=True),))


def Defunctionalization(func: Function, mod: IRModule) -> Function:
    """`func`, a function of first order and without type parameters, with values of data types for functions.

    `mod` gets these data types, and the functions that apply them. UnsupportedError where @main takes or gives
    functions.
    """
    before = mod.module
    own = next((gv for gv, f in before.functions.items() if f is func), None)
    var = GlobalVar(Names(before).new("main")) if own is None else own
    new = Defunctionalize()(infer(before.with_function(var, func)))
    made = new.functions[var]
    assert isinstance(made, Function)
    if own is None:
        new = new.with_functions({gv: f for gv, f in new.functions.items() if gv != var})
    mod.module = new
    return made


def ToBasicBlockNormalForm() -> Pass:
    """Values that several blocks use (bodies, branches, clauses) are bound to variables; the rest is as it was."""
    return of_steps("ToBasicBlockNormalForm", 1, (ToBasicBlock(),))


def ToANormalFormExpr(e: Expr) -> Expr:
    """`e` in A-normal form, with types; its variables have annotations."""
    return _changed(e, IRModule(), ToANormal())


def FoldConstantExpr(expr: Expr, mod: IRModule, fold_qnn: bool = False) -> Expr:
    """`expr`, which may name functions of `mod`, with types and with what depends on constants alone computed."""
    return _changed(expr, mod, FoldConstant(quantised=fold_qnn))


def _changed(expr: Expr, mod: IRModule, step: Step) -> Expr:
    """What `step` makes of an expression, which may name functions of `mod`."""
    func = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
    var = GlobalVar(Names(mod.module).new("expression"))
    made = step(infer(mod.module.with_function(var, func))).functions[var]
    assert isinstance(made, Function)
    return made if isinstance(expr, Function) else made.body

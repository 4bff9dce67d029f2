"""Differentiation by Relay's names: a function, and passes. `legato.grad` and its kin say more (docs/gradients.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from legato.autodiff.program import cleaned, main_of, unrolled, with_result
from legato.base.errors import CompileError, UnsupportedError
from legato.base.kinds import require
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.expr import Expr, Function, GlobalVar, Tuple, Var, tuple_of
from legato.ir.module import Module
from legato.ir.types import TensorType, walk
from legato.ir.visit import nodes
from legato.relay._passes import ModulePass, Pass, PassContext, PassInfo
from legato.relay._steps import of_steps
from legato.relay.module import IRModule
from legato.transform._external import is_own
from legato.transform._gradient.cotangents import made as as_expr
from legato.transform._gradient.dual_types import holds_floats
from legato.transform._gradient.first_order import is_straight_line
from legato.transform._gradient.nodes import is_data
from legato.transform.gradient import Gradient
from legato.transform.to_a_normal import ToANormal

__all__ = ["FirstOrderGradient", "LazyGradientInit", "gradient"]

MODES = ("higher_order", "first_order")


def gradient(expr: Function | GlobalVar, mod: IRModule | None = None, mode: str = "higher_order") -> Function:
    """The function fn (x…) -> (f(x…), (dx…)): the value, and a gradient for every parameter.

    The cotangent of the value is ones. Parameters without floats have zeros for gradients; those with data of the
    module have data.

    expr: a function, or the name of one of `mod`. mod: what `expr` may call; it takes the functions that the new one
    calls beside them. mode: "first_order" takes straight-line code alone: operators, tuples and lets; "higher_order"
    the whole language. What comes back of both is the same for the same code, and can be differentiated again.

    UnsupportedError for what a mode does not take, and for a function that needs a module where `mod` is None.
    """
    if mode not in MODES:
        raise CompileError(f"there is no mode {mode!r}", hint=f"there are {', '.join(MODES)}")
    require(mod is None or isinstance(mod, IRModule), mod, "gradient: mod", "an IRModule, or None")
    held = Module({}) if mod is None else mod.module
    made = _differentiated(_with_main(held, expr), mode)
    main = made.var("main")
    others = {gv: f for gv, f in made.functions.items() if gv != main}
    if mod is None and (others or made.types):
        raise UnsupportedError("the gradient of this function calls functions of its own", span=main_of(made).span,
                               hint="give it a module, which takes them: gradient(f, mod)")  # fmt: skip
    func = main_of(made)
    if mod is not None:
        mod.module = replace(held, functions={**held.functions, **others}, types={**held.types, **made.types})
    return func


def _with_main(mod: Module, expr: Function | GlobalVar) -> Module:
    """The module whose @main is `expr`."""
    func = mod[expr] if isinstance(expr, GlobalVar) else expr
    if not isinstance(func, Function):
        raise CompileError(f"gradient takes a function or the name of one, got {type(expr).__name__}")
    if "main" not in mod:
        return mod.with_function(GlobalVar("main"), func)
    main = mod.var("main")
    if func is not mod[main] and any(node == main for f in (func, *_others(mod)) for node in nodes(f)):
        raise UnsupportedError("a function beside @main that calls it cannot be differentiated", span=func.span,
                               hint="put what both need into a function of its own")  # fmt: skip
    return mod.with_function(main, func)


def _others(mod: Module) -> Sequence[Function]:
    return [f for gv, f in mod.graph_functions() if gv.name != "main"]


def _differentiated(mod: Module, mode: str) -> Module:
    """The module whose @main gives (its value, (gradients…))."""
    mod = ToANormal()(infer(mod))
    main = main_of(mod)
    if mode == "first_order" and not is_straight_line(main):
        raise UnsupportedError("first-order gradients are those of operators, tuples and lets", span=main.span,
                               hint='use mode="higher_order", or partial evaluation first')  # fmt: skip

    def whole(fields: Sequence[Expr]) -> Expr:
        assert isinstance(fields[1], Tuple)
        known, b = iter(fields[1].fields), Builder()

        def every() -> Expr:
            found = [next(known) if holds_floats(p.ty, mod) else _zeros(b, p) for p in main.params]
            return tuple_of([fields[0], tuple_of(found)])

        return b.body(every)

    return cleaned(unrolled(with_result(Gradient()(unrolled(mod)), whole)))


def _zeros(b: Builder, param: Var) -> Expr:
    """The gradient of a parameter without floats."""
    if not is_data(param.ty) or any(isinstance(t, TensorType) and t.dtype.is_string for t in walk(param.checked_type)):
        raise UnsupportedError(f"the parameter {param.name!r} has type {param.ty}, of which there are no zeros",
                               span=param.span, hint="legato.grad gives the gradients of floats alone")  # fmt: skip
    return as_expr(b, None, param)


def FirstOrderGradient() -> Pass:
    """Every function of straight-line code gives (its value, the gradients of its parameters), on its own.

    UnsupportedError for a function that has branches, or calls others.
    """

    def run(mod: IRModule, context: PassContext) -> IRModule:
        module = infer(mod.module)
        for gv, func in module.graph_functions():
            if is_own(func):
                made = _differentiated(Module.from_expr(func), MODES[1])
                module = module.with_function(gv, main_of(made))
        return IRModule(infer(module))

    return ModulePass(run, PassInfo(0, "FirstOrderGradient"))


def LazyGradientInit() -> Pass:
    """Types for everything, and no more: gradients here have no tensors of zeros and ones to put off. What is zero is
    left out while a program is differentiated, and ones are numbers where they are used."""
    return of_steps("LazyGradientInit", 0, ())

"""Reverse-mode differentiation.

    def @main(%x: float32) -> float32 {        def @main(%x: float32) -> (float32, (float32,)) {
      %x * %x                              =>    let %y = multiply(%x, %x);
    }                                            …; (%y, (%dx,))
                                               }

The result of the new @main is the value of the old one and the gradients of the parameters that `wrt` names.
"""

from __future__ import annotations

from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.expr import Function, GlobalVar, Tuple, Var, tuple_of
from legato.ir.let import chain, lets
from legato.ir.module import Module
from legato.ir.types import TupleType, Type
from legato.transform._call_graph import callees, reachable_from
from legato.transform._closures import Names
from legato.transform._gradient import general
from legato.transform._gradient.cotangents import is_continuous
from legato.transform._gradient.dual_types import holds_floats
from legato.transform._gradient.first_order import is_straight_line, reverse
from legato.transform._gradient.marked import REMAT, Marked
from legato.transform._gradient.nodes import is_data
from legato.transform.pass_ import Pass
from legato.transform.to_a_normal import ToANormal

__all__ = ["Gradient"]


@dataclass(frozen=True, slots=True)
class Gradient(Pass):
    """Module → typed module whose @main gives (its value, the gradients of its parameters).

    Functions with the attribute Gradient="NAME" have a gradient of their own, the function @NAME, which takes their
    arguments and the cotangent of their result; with Remat=1 nothing inside of them is kept for the backward pass.

    wrt:    names of the parameters whose gradients are wanted, in this order; (): all that hold floats.
    aux:    the result is a tuple, and its first field is differentiated; the others are only passed on.
    seeded: @main takes the cotangent of what is differentiated as its last parameter, `dy`; otherwise it is ones.
    """

    name = "gradient"
    keeps_meaning = False
    wrt: tuple[str, ...] = ()
    aux: bool = False
    seeded: bool = False

    def __call__(self, mod: Module) -> Module:
        return infer(self._made(ToANormal()(infer(mod))))

    def _made(self, mod: Module) -> Module:
        """The module, not typed throughout; `mod` is in A-normal form."""
        marked = Marked(mod, _backward)
        mod = marked.module
        main = mod["main"]
        assert isinstance(main, Function)
        output = _output(main, self.aux)
        wrt = _parameters(main, self.wrt, mod)
        seed = Var("dy", ty=output) if self.seeded else None
        if is_straight_line(main) and all(is_data(p.ty) for p in wrt):
            made = mod.with_function(mod.var("main"), reverse(main, wrt, seed, self.aux))
        else:
            made = general.reverse(mod, wrt, seed, self.aux)
        return marked.restored(made)


def _backward(mod: Module, gv: GlobalVar) -> tuple[Module, GlobalVar]:
    """`mod` with a function that gives the gradients of all arguments of `gv`, a function of it, from these arguments
    and the cotangent of its result: what is in between is computed again."""
    func = mod[gv]
    assert isinstance(func, Function)
    inside = reachable_from([gv], callees(mod)) - {gv}
    others = {g: f for g, f in mod.functions.items() if g in inside}
    main, name = GlobalVar("main"), GlobalVar(Names(mod).new(f"{gv.name}_backward"))
    plain = func.without_attr(REMAT)
    made = Gradient(seeded=True)._made(replace(mod, functions={**others, main: plain}))
    found = made[main]
    assert isinstance(found, Function)
    functions = {**mod.functions, **made.functions, name: _all_gradients(plain, found)}
    del functions[main]
    return replace(mod, functions=functions, types=made.types), name


def _all_gradients(func: Function, made: Function) -> Function:
    """What was `made` of `func`, with the gradients alone for its result, and zeros for parameters without floats."""
    bindings, result = chain(made.body)
    assert isinstance(result, Tuple)
    gradients = result.fields[1]
    assert isinstance(gradients, Tuple)
    b, found = Builder(), iter(gradients.fields)
    with b.bindings() as zeros:
        every = [next(found) if is_continuous(p.ty) else b.let("zero", b.zeros_like(p)) for p in func.params]
    return replace(made, body=lets([*bindings, *zeros], tuple_of(every)), ret_type=None, ty=None)


def _output(main: Function, has_aux: bool) -> Type:
    """The type of what is differentiated. CompileError if it holds no floats."""
    ty = main.body.ty
    if has_aux:
        if not isinstance(ty, TupleType) or not ty.fields:
            raise CompileError(f"the result has type {ty}, wanted a tuple", span=main.span,
                               hint="its first field is differentiated, the others are passed on")  # fmt: skip
        ty = ty.fields[0]
    if not is_continuous(ty):
        raise CompileError(f"what is differentiated has type {ty}, wanted floats", span=main.span)
    assert ty is not None
    return ty


def _parameters(main: Function, names: tuple[str, ...], mod: Module) -> list[Var]:
    """The parameters that gradients are wanted of. CompileError for a name that is none, or one without floats."""
    by_name = {p.name: p for p in main.params}
    if not names:
        return [p for p in main.params if holds_floats(p.ty, mod)]
    for name in names:
        if name not in by_name:
            raise CompileError(
                f"there is no parameter {name!r}", span=main.span, hint=f"there are {', '.join(by_name)}"
            )
        if not holds_floats(by_name[name].ty, mod):
            raise CompileError(
                f"the parameter {name!r} has type {by_name[name].ty}, which has no gradient", span=main.span
            )
    return [by_name[name] for name in names]

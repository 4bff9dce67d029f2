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
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.expr import Function, GlobalVar, Tuple, Var, tuple_of
from legato.ir.let import chain, lets
from legato.ir.module import Module
from legato.transform._call_graph import callees, reachable_from
from legato.transform._closures import Names
from legato.transform._gradient import general
from legato.transform._gradient.cotangents import is_continuous
from legato.transform._gradient.first_order import is_straight_line, reverse
from legato.transform._gradient.marked import REMAT, Marked, merged
from legato.transform._gradient.nodes import is_data
from legato.transform._gradient.prepared import prepared
from legato.transform._gradient.wanted import fresh, output_type, parameters, require_tensors
from legato.transform.pass_ import Pass

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
        return infer(self._made(prepared(mod)))

    def _made(self, mod: Module) -> Module:
        """The module, not typed throughout; `mod` is in A-normal form."""
        marked = Marked(mod, _backward)
        mod = marked.module
        main = mod["main"]
        assert isinstance(main, Function)
        output = output_type(main, self.aux)
        require_tensors(output, main)
        wrt = parameters(main, self.wrt, mod)
        seed = Var(fresh(["dy"], main)[0], ty=output) if self.seeded else None
        if is_straight_line(main) and all(map(is_data, (output, *(p.ty for p in wrt)))):
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
    return merged(mod, made, {name: _all_gradients(plain, found)}), name


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

"""Reverse-mode differentiation.

    def @main(%x: float32) -> float32 {        def @main(%x: float32) -> (float32, (float32,)) {
      %x * %x                              =>    let %y = multiply(%x, %x);
    }                                            …; (%y, (%dx,))
                                               }

The result of the new @main is the value of the old one and the gradients of the parameters that `wrt` names.
"""

from __future__ import annotations

from legato.base.dataclass import dataclass
from legato.infer.infer import infer
from legato.ir.expr import Function, Var
from legato.ir.module import Module
from legato.transform._gradient import general
from legato.transform._gradient.first_order import is_straight_line, reverse
from legato.transform._gradient.nodes import is_data
from legato.transform._gradient.wanted import fresh, output_type, parameters
from legato.transform.pass_ import Pass
from legato.transform.to_a_normal import ToANormal

__all__ = ["Gradient"]


@dataclass(frozen=True, slots=True)
class Gradient(Pass):
    """Module → typed module whose @main gives (its value, the gradients of its parameters).

    wrt:    names of the parameters whose gradients are wanted, in this order; (): all that hold floats.
    aux:    the result is a tuple, and its first field is differentiated; the others are only passed on.
    seeded: @main takes the cotangent of what is differentiated as its last parameter, `dy`; otherwise it is ones.
    """

    name = "gradient"
    wrt: tuple[str, ...] = ()
    aux: bool = False
    seeded: bool = False

    def __call__(self, mod: Module) -> Module:
        mod = ToANormal()(infer(mod))
        main = mod["main"]
        assert isinstance(main, Function)
        output = output_type(main, self.aux)
        wrt = parameters(main, self.wrt, mod)
        seed = Var(fresh(["dy"], main)[0], ty=output) if self.seeded else None
        if not is_straight_line(main) or not all(is_data(p.ty) for p in wrt):
            return infer(general.reverse(mod, wrt, seed, self.aux))
        return infer(mod.with_functions({**mod.functions, mod.var("main"): reverse(main, wrt, seed, self.aux)}))

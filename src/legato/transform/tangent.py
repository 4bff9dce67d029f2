"""Forward-mode differentiation.

    def @main(%x: float32) -> float32 {        def @main(%x: float32, %dx: float32) -> (float32, float32) {
      %x * %x                              =>    let %y = multiply(%x, %x);
    }                                            …; (%y, %dy)
                                               }

The new @main takes a tangent of each parameter that `wrt` names, after the parameters; its result is the value of the
old one and the tangent of that value: the Jacobian times the tangents.
"""

from __future__ import annotations

from legato.base.dataclass import dataclass
from legato.infer.infer import infer
from legato.ir.expr import Function, Var
from legato.ir.module import Module
from legato.transform._gradient import general
from legato.transform._gradient.first_order import forward, is_straight_line
from legato.transform._gradient.nodes import is_data
from legato.transform._gradient.wanted import fresh, output_type, parameters
from legato.transform.pass_ import Pass
from legato.transform.to_a_normal import ToANormal

__all__ = ["Tangent"]


@dataclass(frozen=True, slots=True)
class Tangent(Pass):
    """Module → typed module whose @main gives (its value, the tangent of its value).

    wrt: names of the parameters that have tangents, in this order; (): all that hold floats.
    """

    name = "tangent"
    wrt: tuple[str, ...] = ()

    def __call__(self, mod: Module) -> Module:
        mod = ToANormal()(infer(mod))
        main = mod["main"]
        assert isinstance(main, Function)
        output_type(main, has_aux=False)
        wrt = parameters(main, self.wrt, mod)
        names = fresh([f"d{p.name}" for p in wrt], main)
        moves = [Var(name, ty=p.ty) for name, p in zip(names, wrt, strict=True)]
        if not is_straight_line(main) or not all(is_data(p.ty) for p in wrt):
            return infer(general.forward(mod, wrt, moves))
        return infer(mod.with_functions({**mod.functions, mod.var("main"): forward(main, wrt, moves)}))

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
from legato.base.errors import UnsupportedError
from legato.infer.infer import infer
from legato.ir.expr import Function, Var
from legato.ir.module import Module
from legato.transform._call_graph import callees, reachable_from
from legato.transform._gradient import general
from legato.transform._gradient.first_order import forward, is_straight_line
from legato.transform._gradient.marked import GRADIENT
from legato.transform._gradient.nodes import is_data
from legato.transform._gradient.prepared import prepared
from legato.transform._gradient.wanted import fresh, output_type, parameters
from legato.transform.pass_ import Pass

__all__ = ["Tangent"]


@dataclass(frozen=True, slots=True)
class Tangent(Pass):
    """Module → typed module whose @main gives (its value, the tangent of its value).

    wrt: names of the parameters that have tangents, in this order; (): all that hold floats.
    """

    name = "tangent"
    keeps_meaning = False
    wrt: tuple[str, ...] = ()

    def __call__(self, mod: Module) -> Module:
        mod = prepared(mod)
        _require_no_own_gradients(mod)
        main = mod["main"]
        assert isinstance(main, Function)
        output_type(main, has_aux=False)
        wrt = parameters(main, self.wrt, mod)
        names = fresh([f"d{p.name}" for p in wrt], main)
        moves = [Var(name, ty=p.ty) for name, p in zip(names, wrt, strict=True)]
        if not is_straight_line(main) or not all(is_data(p.ty) for p in wrt):
            return infer(general.forward(mod, wrt, moves))
        return infer(mod.with_functions({**mod.functions, mod.var("main"): forward(main, wrt, moves)}))


def _require_no_own_gradients(mod: Module) -> None:
    """UnsupportedError if @main reaches a function with a gradient of its own, which says nothing of tangents."""
    for gv in reachable_from([mod.var("main")], callees(mod)):
        func = mod[gv]
        if isinstance(func, Function) and func.attrs.get(GRADIENT):
            raise UnsupportedError(f"@{gv.name} has a gradient of its own: there is no forward mode through it",
                                   span=func.span, hint="use reverse mode (vjp, grad)")  # fmt: skip

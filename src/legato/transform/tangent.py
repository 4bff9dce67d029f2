"""Forward-mode differentiation.

    def @main(%x: float32) -> float32 {        def @main(%x: float32, %dx: float32) -> (float32, float32) {
      %x * %x                              =>    let %y = multiply(%x, %x);
    }                                            …; (%y, %dy)
                                               }

The new @main takes a tangent of each parameter that `wrt` names, after the parameters; its result is the value of the
old one and the tangent of that value: the Jacobian times the tangents.
"""

from __future__ import annotations

from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.expr import Expr, Function, GlobalVar, Tuple, Var
from legato.ir.let import chain, lets
from legato.ir.module import Module
from legato.ir.types import TensorType, TupleType, Type
from legato.ops._gradients import extents
from legato.transform._call_graph import callees
from legato.transform._closures import Names
from legato.transform._gradient import general
from legato.transform._gradient.first_order import forward, is_straight_line
from legato.transform._gradient.marked import Marked, merged, reached
from legato.transform._gradient.nodes import is_data
from legato.transform._gradient.prepared import prepared
from legato.transform._gradient.wanted import fresh, moving, output_type
from legato.transform.gradient import Gradient
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
        marked = Marked(prepared(mod), transposed=_transposed)
        mod = marked.module
        main = mod["main"]
        assert isinstance(main, Function)
        output_type(main, has_aux=False)
        wrt = moving(main, self.wrt, mod)
        names = fresh([f"d{p.name}" for p in wrt], main)
        moves = [Var(name, ty=p.ty) for name, p in zip(names, wrt, strict=True)]
        if is_straight_line(main) and is_data(main.body.ty):
            made = mod.with_function(mod.var("main"), forward(main, wrt, moves))
        else:
            made = general.forward(mod, wrt, moves)
        return infer(marked.restored(made))


def _transposed(mod: Module, gv: GlobalVar) -> tuple[Module, GlobalVar]:
    """`mod` with the transpose of a gradient @gv(x…, dy) → (dx…), linear in dy: the function (x…, dz) → what is to dy
    as dz is to (dx…)."""
    func = mod[gv]
    assert isinstance(func, Function)
    inside = reached(mod, (*callees(mod)[gv],))
    others = {g: f for g, f in mod.functions.items() if g in inside}
    main, name = GlobalVar("main"), GlobalVar(Names(mod).new(f"{gv.name}_transposed"))
    dy = func.params[-1]
    made = Gradient((dy.name,), seeded=True)(replace(mod, functions={**others, main: func}))
    found = made[main]
    assert isinstance(found, Function)
    *params, dy, seed = found.params
    bindings, result = chain(found.body)
    assert isinstance(result, Tuple)
    assert isinstance(result.fields[1], Tuple)
    b = Builder()
    with b.bindings() as bound:
        b.let(dy, _zeros(b, dy.ty))  # whatever it is: the gradient is linear in it
    body = lets([*bound, *bindings], result.fields[1].fields[0])
    transpose = Function((*params, seed), body, None, found.type_params)
    return infer(merged(mod, made, {name: transpose})), name


def _zeros(b: Builder, ty: Type | None) -> Expr:
    if isinstance(ty, TupleType):
        return b.tuple_([_zeros(b, t) for t in ty.fields])
    assert isinstance(ty, TensorType)
    return b.zeros(shape=extents(ty.shape), dtype=ty.dtype.name)

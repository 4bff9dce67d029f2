"""Partial evaluation: what is known when the program is compiled is computed then.

    let %power = fn (%n: int32, %x: float32) -> float32 {
      if (%n == 0) { 1f } else { %x * %power(%n - 1, %x) }
    };                                                            =>      multiply(%x, multiply(%x, multiply(%x, 1f)))
    %power(3, %x)

Tuples, data, functions and cells are followed as well as tensors. The result is in A-normal form, with the effects of
the program in their order; what is computed for nothing stays (`EliminateDead`). Functions that nothing calls any more
disappear.
"""

from __future__ import annotations

from typing import Final

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.infer.infer import infer
from legato.ir.contents import body_nodes
from legato.ir.equal import alpha_equal
from legato.ir.expr import Function, GlobalVar
from legato.ir.module import GlobalFunc, Module
from legato.transform._partial import Attempt, Lessons, OutOfFuel, entries
from legato.transform.lambda_lift import lifted
from legato.transform.pass_ import Pass
from legato.transform.to_a_normal import ToANormal

__all__ = ["PartialEvaluate"]

MAX_ATTEMPTS: Final = 24
MAX_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class PartialEvaluate(Pass):
    """Module → module in which what is known has been computed.

    fuel: the nodes of functions that may be evaluated in place of calls, or specialised, so that the program grows by
    no more than these. A function for which it is not enough is called as it is, not unrolled in part.
    """

    name = "partial-evaluate"
    fuel: int = 20_000

    def check_options(self) -> None:
        if self.fuel < 0:
            raise CompileError(f"fuel is {self.fuel}, wanted a number of nodes")

    def __call__(self, mod: Module) -> Module:
        fuel = self.fuel
        for _ in range(MAX_ROUNDS if any(True for _ in mod.graph_functions()) else 0):
            new, fuel, has_loops = _evaluated(mod, fuel)
            if new is mod:
                break
            mod = new
            if not has_loops:
                break
        return mod


def _evaluated(mod: Module, fuel: int) -> tuple[Module, int, bool]:
    """The module with what is known computed, the same object where nothing changed; the fuel that is left; whether
    there are loops, in which more may be known now: what calls itself by way of others may do so no more."""
    normal, lessons = ToANormal()(mod), Lessons()
    found, left = _functions(normal, fuel, lessons)
    local = lessons.local_loops(normal)
    outer = ToANormal()(lifted(normal, local)) if local else normal
    grown = _size(outer) - _size(normal)
    if outer is not normal and grown <= fuel:  # specialisations are functions of the module
        normal, lessons = outer, Lessons()
        found, left = _functions(normal, fuel - grown, lessons)
    kept = {gv: found.get(gv, f) for gv, f in mod.functions.items() if gv in found or not isinstance(f, Function)}
    made = {gv: _old(mod.functions.get(gv), gv, f) for gv, f in {**kept, **found}.items()}
    new = mod if mod.with_functions(made) is mod else infer(normal.with_functions(made))
    return new, left, bool(lessons.loops)


def _size(mod: Module) -> int:
    return sum(len(body_nodes(func)) for _, func in mod.graph_functions())


def _old(old: GlobalFunc | None, gv: GlobalVar, new: GlobalFunc) -> GlobalFunc:
    """`old`, where the function of that name is the same."""
    if isinstance(old, Function) and isinstance(new, Function) and alpha_equal(Module({gv: old}), Module({gv: new})):
        return old
    return new


def _functions(mod: Module, fuel: int, lessons: Lessons) -> tuple[dict[GlobalVar, Function], int]:
    """What the last attempt gives, which has nothing to learn any more, and the fuel that it leaves; where they do not
    come to an end, the last that had the fuel, or else the program without calls that are followed."""
    roots = entries(mod)
    found: tuple[dict[GlobalVar, Function], int] | None = None
    for _ in range(MAX_ATTEMPTS):
        before, attempt = dict(lessons.loops), Attempt(mod, fuel, lessons)
        try:
            found = attempt.run(roots), attempt.fuel
        except OutOfFuel as error:
            lessons.blame(error)
            continue
        if lessons.loops == before:
            return found
    return found or (Attempt(mod, 0, lessons.without_calls(mod)).run(roots), 0)

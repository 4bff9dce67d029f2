"""Flat matches take the clause that the nested ones take, with the same variables, on every way to it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.interp import Data, evaluate
from legato.interp.values import Value
from legato.ir.expr import Function, Match
from legato.ir.module import Module
from legato.ir.scope import post_order
from legato.transform.flatten_match import FlattenMatch, is_flat
from tests.programs.choices import Choices
from tests.programs.settings import examples
from tests.programs.values import same

HEADER = """#[version = "0.0.5"]
type T { A, B(int32), C(T, int32), D(T, T), E(List[T]), F((int32, T), Option[T]) }
def @t(%t: T) -> int32 {
  match (%t) {
    A => 1, B(%n) => %n, C(%t, %n) => @t(%t) * 3 + %n, D(%a, %b) => @t(%a) - 2 * @t(%b), E(%l) => @l(%l),
    F(%p, Some(%t)) => %p.0 + @t(%p.1) * 5 + @t(%t), F(%p, None) => %p.0 * 7 + @t(%p.1)
  }
}
def @l(%l: List[T]) -> int32 { match (%l) { Cons(%t, %r) => @t(%t) + 11 * @l(%r), Nil => 13 } }
"""
CONSTRUCTORS = {
    "T": {"A": (), "B": ("int",), "C": ("T", "int"), "D": ("T", "T"), "E": ("L",), "F": (("int", "T"), "O")},
    "L": {"Nil": (), "Cons": ("T", "L")},
    "O": {"None": (), "Some": ("T",)},
}
PATTERNS = {
    "T": [("C", ("T", "int")), ("D", ("T", "T"))],
    "L": [("Nil", ()), ("Cons", ("T", "L"))],
    "O": [("Some", ("T",))],
}
SCRUTINEE = ("T", "int", "L", ("T", "O"))
MEASURE = {"T": "@t({})", "int": "{}", "L": "@l({})", "O": "(match ({}) {{ Some(%z) => @t(%z), None => 17 }})"}


class Drawn:
    """Patterns, clauses and values, as they are drawn."""

    def __init__(self, choose: Choices) -> None:
        self.choose = choose
        self.bound: list[str] = []  # what a clause makes of each of its variables

    def pattern(self, ty: object, depth: int = 3) -> str:
        """A pattern for values of type `ty`."""
        kind = 2 if ty == SCRUTINEE else self.choose.below(4)
        if kind == 0:
            return "_"
        if kind == 1 or ty == "int" or not depth:
            name = f"%v{len(self.bound)}"
            self.bound.append(measure(ty, name))
            return name
        if isinstance(ty, tuple):
            return f"({', '.join(self.pattern(t, depth - 1) for t in ty)})"
        name, fields = self.choose.one_of(PATTERNS[str(ty)])
        return f"{name}({', '.join(self.pattern(t, depth - 1) for t in fields)})" if fields else name

    def clause(self, number: int) -> str:
        """A clause whose value tells its number and its variables apart, too long to be copied now and then."""
        self.bound.clear()
        pattern = self.pattern(SCRUTINEE)
        value = str(number)
        for part in self.bound:
            value = f"({value} * {self.choose.one_of([3, 7])} + {part})"
        return f"{pattern} => {value}"

    def value(self, ty: object, module: Module, depth: int = 4) -> Value:
        """A value of type `ty`."""
        if isinstance(ty, tuple):
            return tuple(self.value(t, module, depth) for t in ty)
        if ty == "int":
            return np.array(self.choose.below(5), np.int32)
        made = CONSTRUCTORS[str(ty)]
        name = self.choose.one_of([*made] if depth else [n for n, f in made.items() if not f])
        fields = tuple(self.value(t, module, depth - 1) for t in made[name])
        return Data(next(c for d in module.types.values() for c in d.constructors if c.name == name), fields)


def measure(ty: object, name: str) -> str:
    """A number that tells values of type `ty` apart."""
    if isinstance(ty, tuple):
        return "(" + " - 2 * ".join(measure(t, f"{name}.{n}") for n, t in enumerate(ty)) + ")"
    return MEASURE[str(ty)].format(name)


@examples(60)
@given(st.data())
def test_nested_matches_mean_what_they_meant(data: st.DataObject) -> None:
    drawn = Drawn(Choices(data.draw))
    clauses = ", ".join(drawn.clause(n) for n in range(1, 3 + drawn.choose.below(5)))
    text = f"def @main(%t: (T, int32, List[T], (T, Option[T]))) -> int32 {{ match (%t) {{ {clauses}, _ => 0 - 1 }} }}"
    module = legato.parse(HEADER + text)
    flat = FlattenMatch()(module)
    main = flat["main"]
    assert isinstance(main, Function)
    assert all(is_flat(node) for node in post_order(main.body) if isinstance(node, Match))
    for _ in range(5):
        value = drawn.value(SCRUTINEE, module)
        assert same(evaluate(flat, [value]), evaluate(module, [value]))


def test_variables_of_a_clause_on_two_ways() -> None:
    """The ways to the second clause meet its variables in different orders."""
    balance = """#[version = "0.0.5"]
type Color { R, Bk }
type RB { E, T(Color, RB, int32, RB) }
def @main(%c: Color, %l: RB, %x: int32, %r: RB) -> RB {
  match ((%c, %l, %x, %r)) {
    (Bk, T(R, T(R, %a, %x1, %b), %y, %c1), %z, %d) => T(R, T(Bk, %a, %x1, %b), %y, T(Bk, %c1, %z, %d)),
    (Bk, T(R, %a, %x1, T(R, %b, %y, %c1)), %z, %d) => T(R, T(Bk, %a, %x1, %b), %y, T(Bk, %c1, %z, %d)),
    (%c2, %a, %x1, %b) => T(%c2, %a, %x1, %b)
  }
}"""
    module = legato.parse(balance)
    con = {c.name: c for d in module.types.values() for c in d.constructors}
    red, black, empty = (Data(con[name], ()) for name in ("R", "Bk", "E"))
    one, two, three = (np.array(n, np.int32) for n in (1, 2, 3))
    left = Data(con["T"], (red, empty, one, Data(con["T"], (red, empty, two, empty))))
    args = [black, left, three, empty]
    assert same(evaluate(FlattenMatch()(module), args), evaluate(module, args))

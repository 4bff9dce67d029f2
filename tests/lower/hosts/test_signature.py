"""Values of data types into and out of compiled programs, and shapes that are values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import RunError, UnsupportedError
from legato.interp import evaluate
from legato.interp.values import Data
from legato.ir.expr import Constructor
from legato.ir.module import Module
from tests.lower.hosts.programs import leaked
from tests.lower.test_programs import compiled, floats, int32
from tests.programs.values import same

TYPES = """#[version = "0.0.5"]
    type List[A] { Cons(A, List[A]), Nil }
    type Tree { Leaf((Tensor[(3,), float32], int32)), Node(Tree, bool, Tree), None }
"""
REVERSE = """
    def @rev(%l: List[Tensor[(n, 2), float32]], %to: List[Tensor[(n, 2), float32]])
        -> List[Tensor[(n, 2), float32]] {
      match (%l) { Nil => %to, Cons(%h, %t) => @rev(%t, Cons(%h, %to)) }
    }
    def @main(%l: List[Tensor[(n, 2), float32]], %x: Tensor[(n, 2), float32]) { (@rev(%l, Cons(%x, Nil)), %l, %x) }"""
TURN = """
    def @turn(%t: Tree) -> Tree {
      match (%t) {
        Leaf(%p) => Leaf((negative(%p.0), add(%p.1, 1))),
        Node(%a, %c, %b) => Node(@turn(%b), logical_not(%c), @turn(%a)),
        None => None
      }
    }
    def @main(%t: Tree) { (@turn(%t), @turn(@turn(%t))) }"""


def constructor(mod: Module, name: str) -> Constructor:
    """The constructor of this name."""
    return next(c for data in mod.types.values() for c in data.constructors if c.name == name)


def made(mod: Module, *items: Any) -> Data:
    """A list."""
    found = Data(constructor(mod, "Nil"), ())
    for item in reversed(items):
        found = Data(constructor(mod, "Cons"), (item, found))
    return found


def agrees(got: Any, wanted: Any) -> bool:
    """Whether compiled and interpreted values are the same; constructors are those of an executable, or of a module."""
    if isinstance(wanted, Data):
        fields = zip(got.fields, wanted.fields, strict=True)
        return got.constructor.name == wanted.constructor.name and all(agrees(g, w) for g, w in fields)
    if isinstance(wanted, tuple):
        return len(got) == len(wanted) and all(map(agrees, got, wanted))
    return same(np.asarray(got), np.asarray(wanted, np.int64 if isinstance(wanted, int) else None))


@pytest.mark.parametrize("length", [0, 1, 5])
def test_lists_of_tensors_of_any_size(length: int) -> None:
    mod = legato.parse(TYPES + REVERSE)
    exe = legato.compile(mod)
    for n in (1, 4):
        args = made(mod, *(floats(n, 2) for _ in range(length))), floats(n, 2)
        assert agrees(exe(*args), evaluate(mod, args))
    assert leaked(exe) == 0


def test_trees_with_scalars_and_tuples() -> None:
    mod = legato.parse(TYPES + TURN)
    leaf, node, none = (constructor(mod, name) for name in ("Leaf", "Node", "None"))
    tree = Data(leaf, ((floats(3), int32(4)),))
    for flag in (True, False):
        tree = Data(node, (tree, np.asarray(flag), Data(node, (tree, np.asarray(True), Data(none, ())))))
    exe = legato.compile(mod)
    assert agrees(exe(tree), evaluate(mod, [tree]))
    assert leaked(exe) == 0


def test_a_list_of_another_size_is_refused() -> None:
    mod = legato.parse(TYPES + REVERSE)
    with pytest.raises(RunError, match="wrong shape or dtype"):
        legato.compile(mod)(made(mod, floats(3, 2)), floats(4, 2))


def test_shapes_are_tuples_of_dims() -> None:
    exe = compiled("""
    def @f(%x: Tensor[(n, m), float32]) { (shape[m, n + 1], sum(%x)) }
    def @main(%x: Tensor[(n, 2), float32]) { (@f(%x), shape[n, 7]) }""")
    (found, _), own = exe(floats(3, 2))
    assert (tuple(map(int, found)), tuple(map(int, own))) == ((2, 4), (3, 7))


def test_references_stay_inside() -> None:
    with pytest.raises(UnsupportedError) as error:
        compiled("def @main(%x: float32) { ref(%x) }")
    assert str(error.value).splitlines() == [
        "unsupported: @main takes or gives a value of type ref(float32), "
        "which compiled code cannot pass to or from Python",
        "  hint: read references inside, and let @main take and give what they hold",
    ]


@pytest.mark.parametrize("inside", ["(A, A)", "Box[A]", "P[A]"])
def test_types_that_grow_inside_themselves(inside: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        compiled(f"""
    type Box[A] {{ Box(A) }}
    type P[A] {{ Leaf(A), Node(P[{inside}]) }}
    def @main(%p: P[int32]) {{ match (%p) {{ Leaf(%x) => %x, Node(_) => 1 }} }}""")
    assert str(error.value).splitlines() == [
        "unsupported: values of @main are of endless types: those inside P[int32] grow from one to the next",
        "  hint: let the fields of a data type be of this type itself, with the same arguments",
    ]
